"""What explain says about pods whose scheduler has told in a snapshot when they are tried again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mooring
from build import a_node, a_pod
from mooring.answers.explain.explain import queue_waits
from mooring.answers.explain.explanation import PodExplanation
from mooring.framework import config
from mooring.framework.contract.points import PermitPlugin, Wait
from mooring.model.meta import KubeObject
from mooring.queue.queue_record import PermitRecord, QueueRecord, WaitingPodRecord, read_record
from mooring.serve.cache_debugger import snapshot
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.state.scheduler_assembly import all_plugins

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/explain.v1.json").read_text())


class Hold(PermitPlugin):
    """Lets pods wait for a minute."""

    name = "Hold"

    def permit(self, cycle: Any, node_name: str) -> Wait:
        return Wait(60)


def a_snapshot(objects: Sequence[KubeObject], later: Sequence[KubeObject] = (), **profile: Any) -> dict[str, Any]:
    """What a scheduler knows after it tried all pods once, and the objects of `later` came."""
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings = config.from_object({**header, "profiles": [profile]})
    registry = all_plugins()
    registry.register(Hold)
    simulated = SimulatedCluster(objects, settings, registry)
    for pod in simulated.pending:
        simulated.driver.create(pod)
    while simulated.driver.attempt_once() is not None:
        pass
    for item in later:
        simulated.driver.create(item)
    return snapshot(simulated.scheduler, settings)


def explained(written: dict[str, Any], pod: str) -> PodExplanation:
    answer = mooring.load(written, plugins=[Hold]).explain(pod)
    jsonschema.validate(answer.to_dict(), SCHEMA)
    assert isinstance(answer, PodExplanation)
    return answer


def test_a_pod_in_backoff_says_when_it_ends() -> None:
    written = a_snapshot(
        [a_node("small", cpu="1"), a_pod("web", cpu="2", schedulerName="default-scheduler")], [a_node("large", cpu="4")]
    )
    record = next(item for item in written["items"] if item["kind"] == "QueueRecord")
    assert [*record["pods"]] == [
        {"pod": "default/web", "place": "backoff", "attempts": 1, "backoffUntil": "2026-02-01T00:00:02Z"}
    ]
    answer = explained(written, "web")
    assert answer.summary()[0] == "default/web is pending, but would go to large now: the only node that takes it"
    assert answer.waits_for == [
        "the end of its backoff until 2026-02-01T00:00:02Z, after 1 attempt",
        "its next attempt: nothing keeps it from a node any more",
    ]


def test_a_pod_that_waits_on_permit_says_for_which_plugin_and_until_when() -> None:
    enabled = {"permit": {"enabled": [{"name": "Hold"}]}}
    answer = explained(
        a_snapshot([a_node("n"), a_pod("web", cpu="1", schedulerName="default-scheduler")], plugins=enabled), "web"
    )
    assert answer.summary() == [
        "default/web is pending: it has room on n",
        "It waits for the Permit plugin Hold (at most until 2026-02-01T00:01:00Z)",
    ]
    assert (answer.to_dict()["reserved"], answer.to_dict()["placed"], answer.node) == (True, False, "n")


def test_a_pod_that_is_unschedulable_waits_for_events_only() -> None:
    answer = explained(
        a_snapshot([a_node("small", cpu="1"), a_pod("web", cpu="2", schedulerName="default-scheduler")]), "web"
    )
    assert [text.partition(":")[0] for text in answer.waits_for] == ["one of these events"]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (WaitingPodRecord(pod="p", place="active"), ["its turn in the active queue"]),
        (WaitingPodRecord(pod="p", place="gated"), []),
        (WaitingPodRecord(pod="p", place="backoff", attempts=3), ["the end of its backoff, after 3 attempts"]),
        (
            WaitingPodRecord(pod="p", place="permit", permits=(PermitRecord(plugin="A"), PermitRecord(plugin="B"))),
            ["the Permit plugins A, B"],
        ),
    ],
    ids=["active", "gated", "a backoff without an end", "two plugins"],
)
def test_other_places_in_the_queue(record: WaitingPodRecord, told: list[str]) -> None:
    assert queue_waits(record) == told


def test_a_record_may_leave_out_when_it_was_taken() -> None:
    assert read_record({"apiVersion": "mooring.dev/v1", "kind": "QueueRecord"}) == QueueRecord(taken_at="", pods=())


def test_a_record_of_another_form_is_refused() -> None:
    with pytest.raises(mooring.InputError, match="does not have the form that `mooring snapshot` writes; remove it"):
        mooring.load({"apiVersion": "mooring.dev/v1", "kind": "QueueRecord", "pods": [{"pod": 7}]})


def test_a_record_tells_its_pods_apart() -> None:
    first, second = WaitingPodRecord("default/a"), WaitingPodRecord("default/b")
    record = QueueRecord("", (first, second))
    assert [record.of(f"default/{name}") for name in "abc"] == [first, second, None]


def test_a_record_that_says_little_is_read_with_nothing_in_its_other_fields() -> None:
    record = read_record({"pods": [{"pod": "default/a", "permits": [{"plugin": "Hold"}]}, {"pod": "default/b"}]})
    assert record is not None and record.taken_at == ""
    first, second = record.pods
    assert (first.place, first.attempts, first.backoff_until, first.node) == ("", 0, "", "")
    assert first.permits == (PermitRecord("Hold", ""),) and second.permits == ()
    assert (record.of("default/b"), record.of("default/c")) == (second, None)
    assert read_record({"pods": [{"place": "active"}]}) is None, "a pod without a name"
