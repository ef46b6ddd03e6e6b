"""The history of a pod: what its events tell, if the source has them."""

import json
from typing import Any

import msgspec

from build import a_node, a_pod
from mooring.answers.explain.explain import explain_pod
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.inputs.loaded_cluster import load


def an_event(pod: str, reason: str, uid: str = "", **fields: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": pod, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": reason.lower(), "namespace": "default"},
        "involvedObject": about,
        "reason": reason,
        **fields,
    }


def history(*events: dict[str, Any]) -> list[tuple[str, str]]:
    objects = [
        {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}
        for item in (a_node("n"), a_pod("web", cpu="100"))
    ]
    loaded = load(json.loads(json.dumps([*objects, *events])))
    return [
        (each.at, each.text) for each in explain_pod(Counterfactual(loaded), loaded.pod("web"), cures=False).history
    ]


def test_events_are_told_in_the_order_of_time() -> None:
    text = "max node group size reached"
    late = an_event("web", "NotTriggerScaleUp", message=text, lastTimestamp="2026-02-01T01:00:00Z")
    early = an_event("web", "FailedScheduling", eventTime="2026-02-01T00:00:00Z", message="0/1 nodes are available")
    assert history(late, early) == [
        ("2026-02-01T00:00:00Z", "FailedScheduling: 0/1 nodes are available"),
        ("2026-02-01T01:00:00Z", "NotTriggerScaleUp: max node group size reached"),
    ]


def test_repeated_events_are_counted() -> None:
    series = {"count": 7, "lastObservedTime": "2026-02-01T02:00:00Z"}
    event = an_event("web", "FailedScheduling", eventTime="2026-02-01T00:00:00Z", series=series)
    assert history(event) == [("2026-02-01T02:00:00Z", "FailedScheduling (7 times since 2026-02-01T00:00:00Z)")]


def test_events_of_other_pods_and_of_an_earlier_pod_of_the_name_are_not_its_history() -> None:
    assert history(an_event("other", "Killed"), an_event("web", "Killed", uid="another-uid")) == []


def test_an_event_that_cannot_be_read_changes_nothing() -> None:
    assert history(an_event("web", "Odd", count="many")) == []
