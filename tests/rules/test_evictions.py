"""Which pods a drain evicts, and what budgets let go: counted by hand, by upstream's rules."""

from collections.abc import Mapping
from typing import Any

import pytest

from build import a_pod
from mooring.rules.evictions import budget_needs, comes_back, is_drained, lets_unready_go


def owned_by(kind: str) -> Mapping[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "u", "controller": True}
    return {"ownerReferences": [owner]}


PODS: dict[str, tuple[Mapping[str, Any], bool, bool]] = {
    "a pod of a ReplicaSet is drained and comes back": (owned_by("ReplicaSet"), True, True),
    "a pod without a controller is drained and gone": ({}, True, False),
    "a daemon stays": (owned_by("DaemonSet"), False, True),
    "the mirror of a static pod stays": (owned_by("Node"), False, False),
    "so does one that only has the mark": ({"annotations": {"kubernetes.io/config.mirror": "x"}}, False, False),
}


@pytest.mark.parametrize(("metadata", "drained", "back"), PODS.values(), ids=PODS.keys())
def test_pods_of_a_drain(metadata: Mapping[str, Any], drained: bool, back: bool) -> None:
    pod = a_pod("p", nodeName="n", metadata=metadata)
    assert (is_drained(pod), comes_back(pod)) == (drained, back)


def no_scale() -> int:
    raise AssertionError("a number of pods needs no scale")


def test_only_shares_and_max_unavailable_need_the_scale() -> None:
    assert budget_needs(None, 2, 3, no_scale) == (3, 2)
    assert budget_needs(None, None, 3, no_scale) == (3, 0)
    assert budget_needs(None, "50%", 3, lambda: 5) == (5, 3)
    assert budget_needs(1, None, 3, lambda: 5) == (5, 4)
    assert budget_needs("150%", None, 3, lambda: 5) == (5, 0)


def test_what_is_above_the_desired_number_may_go_unless_no_pod_is_expected() -> None:
    assert budget_needs(None, 2, 3, no_scale).allowed(3) == 1
    assert budget_needs(None, 2, 3, no_scale).allowed(1) == 0
    assert budget_needs(None, 0, 0, no_scale).allowed(3) == 0


@pytest.mark.parametrize(
    ("policy", "desired", "healthy", "goes"),
    [(None, 2, 2, True), (None, 2, 1, False), (None, 0, 1, False), ("AlwaysAllow", 2, 0, True), ("Other", 2, 1, False)],
)
def test_pods_that_are_not_ready(policy: str | None, desired: int, healthy: int, goes: bool) -> None:
    assert lets_unready_go(policy, desired, healthy) is goes
