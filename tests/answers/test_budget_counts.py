"""How many pods disruption budgets let go in a simulation, by the rules of the disruption controller; counted by hand."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from mooring.answers.trial.budget_counts import SEVERAL, BudgetCounts, is_healthy
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget

OWNED = {"app": "web"}


def a_budget(name: str = "keep", namespace: str = "default", allowed: int = 0, **spec: Any) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed, "conditions": [{"type": "DisruptionAllowed", "status": "True"}]}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": OWNED}, **spec},
            "status": status,
        },
        PodDisruptionBudget,
    )


def web(number: int, node: str = "n", ready: str = "", **more: Any) -> Pod:
    status = {"conditions": [{"type": "Ready", "status": ready}]} if ready else {}
    return a_pod(f"web-{number}", labels=OWNED, nodeName=node, status=status, **more)


def of_four(pod: Pod) -> tuple[str, int]:
    return "Deployment default/web", 4


def counts(pods: list[Pod], *budgets: PodDisruptionBudget, scale: Any = of_four) -> BudgetCounts:
    return BudgetCounts(budgets, pods, scale)


READY = [web(0), web(1), web(2)]
"""Three pods of a workload that should have four."""

ALLOWED = {
    "a number that must be available": ({"minAvailable": 2}, 3, 2, 1),
    "as many as there are": ({"minAvailable": 3}, 3, 3, 0),
    "more than there are": ({"minAvailable": 5}, 3, 5, 0),
    "a share that must be available, of the scale, rounded up": ({"minAvailable": "30%"}, 4, 2, 1),
    "a number that may be unavailable, of the scale": ({"maxUnavailable": 2}, 4, 2, 1),
    "a share that may be unavailable": ({"maxUnavailable": "25%"}, 4, 3, 0),
    "all may be unavailable": ({"maxUnavailable": 9}, 4, 0, 3),
    "nothing is said": ({}, 3, 0, 3),
}


@pytest.mark.parametrize(("spec", "expected", "desired", "allowed"), ALLOWED.values(), ids=ALLOWED.keys())
def test_a_budget_allows_so_many_disruptions(spec: dict[str, Any], expected: int, desired: int, allowed: int) -> None:
    (counted,) = counts(READY, a_budget(**spec)).of(READY[0])
    assert counted.needs() == (expected, desired)
    assert (counted.healthy, counted.pods, counted.allowed) == (3, 3, allowed)


def test_a_budget_without_pods_allows_nothing() -> None:
    counted = counts([], a_budget(maxUnavailable=1)).of(READY[0])[0]
    assert (counted.needs(), counted.allowed) == ((0, 0), 0)


def test_pods_without_a_controller_are_not_expected() -> None:
    (counted,) = counts(READY, a_budget(maxUnavailable=1), scale=lambda pod: None).of(READY[0])
    assert (counted.scales, counted.needs(), counted.allowed) == ({}, (0, 0), 0)


@pytest.mark.parametrize(
    ("pod", "healthy"),
    [
        pytest.param(web(0), True, id="on a node, and nothing is known about it"),
        pytest.param(web(0, ready="True"), True, id="ready"),
        pytest.param(web(0, ready="False"), False, id="not ready"),
        pytest.param(web(0, node=""), False, id="without a node"),
        pytest.param(web(0, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, id="being deleted"),
        pytest.param(a_pod("done", nodeName="n", status={"phase": "Succeeded"}), False, id="finished"),
    ],
)
def test_a_pod_counts_as_healthy(pod: Pod, healthy: bool) -> None:
    assert is_healthy(pod) is healthy


def test_a_pod_is_blocked_by_its_budget_with_the_reason() -> None:
    budgets = counts(READY, a_budget(minAvailable=3))
    assert budgets.blocking(READY[0]) == ("keep", "needs 3 healthy pods and has 3")
    assert counts(READY, a_budget(minAvailable=2)).blocking(READY[0]) is None
    assert budgets.blocking(a_pod("other", labels={"app": "db"})) is None
    assert budgets.blocking(a_pod("else", namespace="else", labels=OWNED)) is None


def test_a_pod_of_two_budgets_is_blocked_by_both() -> None:
    budgets = counts(READY, a_budget("one"), a_budget("two"))
    assert budgets.blocking(READY[0]) == ("one, two", SEVERAL)


UNREADY = web(3, ready="False")


@pytest.mark.parametrize(
    ("spec", "lets_go"),
    [
        pytest.param({"minAvailable": 3}, True, id="the budget is met without it"),
        pytest.param({"minAvailable": 4}, False, id="the budget is not met"),
        pytest.param(
            {"minAvailable": 4, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, True, id="the policy lets it go always"
        ),
        pytest.param(
            {"minAvailable": 4, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, False, id="the policy is the default"
        ),
    ],
)
def test_a_pod_that_is_not_ready_goes_if(spec: dict[str, Any], lets_go: bool) -> None:
    budgets = counts([*READY, UNREADY], a_budget(**spec))
    assert budgets.of(UNREADY)[0].lets_go(UNREADY) is lets_go
    assert not budgets.of(READY[0])[0].lets_go(READY[0]), "a healthy pod stays in all these cases"


def test_nothing_that_is_required_is_no_budget_that_is_met() -> None:
    lone = web(0, ready="False")
    (counted,) = counts([lone], a_budget(minAvailable=0)).of(lone)
    assert not counted.lets_go(lone)


def test_pods_that_come_and_leave_change_what_is_published() -> None:
    budgets = counts(READY, a_budget(minAvailable=2, allowed=1))
    assert budgets.take_changed() == [], "the object says already what is allowed"
    budgets.left(READY[0])
    (budget,) = budgets.take_changed()
    assert (budget.name, budget.status.disruptions_allowed) == ("keep", 0)
    budgets.left(UNREADY)
    assert budgets.take_changed() == [], "a pod that is not ready was not counted"
    budgets.came(READY[0])
    assert [each.status.disruptions_allowed for each in budgets.take_changed()] == [1]
    assert budgets.take_changed() == []


def test_a_budget_of_a_manifest_is_published_at_once_and_that_of_a_server_after_changes() -> None:
    new = msgspec.structs.replace(a_budget(minAvailable=2), status=msgspec.convert({}, type(a_budget().status)))
    assert [each.status.disruptions_allowed for each in counts(READY, new).take_changed()] == [1]
    old = a_budget(minAvailable=2)
    assert counts(READY, old).take_changed() == []
    changed = BudgetCounts([old], READY, of_four, are_changed=True).take_changed()
    assert [each.status.disruptions_allowed for each in changed] == [1]


def test_a_budget_whose_selector_is_wrong_is_left_out() -> None:
    wrong = a_budget(selector={"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]})
    assert counts(READY, wrong).of(READY[0]) == []
