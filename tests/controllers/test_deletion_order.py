"""Which of two pods goes first, one reason at a time."""

from typing import Any

import pytest

from cluster_api import START_NS
from mooring.controllers.workloads.owned_pods import first_to_go
from mooring.kit.clock import NS_PER_S, in_seconds

Json = dict[str, Any]
NOW_NS = START_NS + 100_000 * NS_PER_S


def a_pod(
    uid: str = "m", node: str = "n1", phase: str = "Running", ready_s: int | None = 1000, age_s: int = 1000, **more: Any
) -> Json:
    """`ready_s`: since how many seconds it is ready; None: it is not."""
    ready = [] if ready_s is None else [_ready(in_seconds(NOW_NS - ready_s * NS_PER_S))]
    return {
        "metadata": {
            "uid": uid,
            "creationTimestamp": in_seconds(NOW_NS - age_s * NS_PER_S),
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": more.get("cost", "0")},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": ready,
            "containerStatuses": [{"restartCount": more.get("restarts", 0)}],
        },
    }


def _ready(since: str) -> Json:
    return {"type": "Ready", "status": "True", "lastTransitionTime": since}


PAIRS: dict[str, tuple[Json, Json]] = {
    "one without a node, even if it is dear": (a_pod(node="", cost="9"), a_pod()),
    "one that waits, even if it is dear": (a_pod(phase="Pending", cost="9"), a_pod()),
    "one that is not ready, even if it is dear": (a_pod(ready_s=None, cost="9"), a_pod(ready_s=1)),
    "a cheap one, even if it is ready for longer": (a_pod(cost="-5", ready_s=9000), a_pod()),
    "one that is ready for a shorter time, even if it is older": (a_pod(ready_s=10, age_s=9000), a_pod()),
    "one that was restarted, even if it is older": (a_pod(restarts=3, age_s=9000), a_pod()),
    "the newer one": (a_pod(age_s=100), a_pod(age_s=10_000)),
}


@pytest.mark.parametrize(("goes", "stays"), PAIRS.values(), ids=PAIRS.keys())
def test_the_first_to_go(goes: Json, stays: Json) -> None:
    """The uid, which decides last, speaks for the other."""
    goes["metadata"]["uid"], stays["metadata"]["uid"] = "z", "a"
    assert first_to_go([stays, goes], 1, NOW_NS) == [goes]
    assert first_to_go([goes, stays], 1, NOW_NS) == [goes]


def test_one_of_a_crowd_goes_before_one_that_is_alone() -> None:
    alone, first, second = a_pod("a", "n1"), a_pod("y", "n2"), a_pod("z", "n2")
    assert first_to_go([alone, first, second], 2, NOW_NS) == [first, second]


def test_times_that_hardly_differ_count_as_equal() -> None:
    older, newer = a_pod("a", ready_s=1010), a_pod("z", ready_s=1000)
    assert first_to_go([newer, older], 1, NOW_NS) == [older]
