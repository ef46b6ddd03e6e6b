"""How plans are judged: which pods nodes can help, and what happens when the scheduler leaves pods that a trial placed."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from written import Written, a_node, a_pod

from mooring.answers.plan import additions
from mooring.answers.plan.judge import Verdict, can_be_scheduled, judge, pending_in
from mooring.answers.plan.plan import Plan, plan
from mooring.inputs.loaded_cluster import LoadedCluster, load

Steps = Sequence[Sequence[tuple[Any, Sequence[str]]]]


def an_offer(name: str = "m", cpu: str = "4", price: float = 1.0, labels: dict[str, str] | None = None) -> Written:
    return {"name": name, "price": price, "node": a_node("template", cpu, "64Gi", labels=labels)}


def added(answer: Plan) -> list[tuple[int, str, int, int]]:
    return [(each.step, each.offer.name, len(each.names), each.pods) for each in answer.added]


# ---- pods that no node can help


def test_a_pod_of_another_scheduler_gets_no_node() -> None:
    answer = plan(load([a_pod("p", schedulerName="other"), a_pod("q")]), [an_offer()])
    assert (added(answer), list(answer.pending)) == ([(1, "m", 1, 1)], ["default/p"])
    assert (answer.at_first, answer.placed_now, answer.pending_at_once) == (2, 0, 1)


def test_a_pod_that_ends_is_not_pending() -> None:
    ending = a_pod("p")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = plan(load([ending]), [an_offer()])
    assert (answer.at_first, added(answer), dict(answer.pending)) == (0, [], {})


def test_without_offers_it_is_told_what_is_pending() -> None:
    answer = plan(load([a_node("n", "1"), a_pod("a"), a_pod("b"), a_pod("c", "9")]))
    assert (answer.at_first, answer.placed_now, answer.pending_at_once) == (3, 1, 2)
    assert (answer.lower_bound, answer.cost, answer.has_offers, answer.shrinks) == (0.0, 0, False, False)
    assert list(answer.pending) == ["default/b", "default/c"]
    assert answer.pending["default/b"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_pods_stay_pending_for_the_reason_of_the_scheduler_or_of_the_offers() -> None:
    limited = {**an_offer(), "limit": 1}
    answer = plan(load([a_pod("a", "4"), a_pod("b", "4"), a_pod("giant", "9")]), [limited])
    assert answer.pending["default/giant"] == "no offer can take it: Insufficient cpu"
    assert answer.pending["default/b"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (answer.lower_bound, answer.cost) == (1.0, 1.0), "of the pods that are placed"


@pytest.mark.parametrize(
    ("is_placed", "is_waiting", "is_pending", "can_be_helped"),
    [(False, False, True, True), (True, False, False, True), (True, True, True, False), (False, True, True, False)],
    ids=["nowhere", "about to be bound", "on a node where it waits for others", "waiting without a node"],
)
def test_a_pod_that_waits_on_its_node_is_pending_and_no_other_node_helps_it(
    is_placed: bool, is_waiting: bool, is_pending: bool, can_be_helped: bool
) -> None:
    """A Permit plugin may let a pod wait on the node that was found for it."""
    (pod,) = load([a_pod("p")]).pending()
    scheduler = SimpleNamespace(
        placed=lambda pod_id: "n" if is_placed and pod_id == pod.id else None,
        waiting={pod.id: "its permits"} if is_waiting else {},
        queued=lambda key: None,
    )
    cluster: Any = SimpleNamespace(
        pods=lambda: [pod], simulated=SimpleNamespace(scheduler=scheduler, runner=lambda pod: "a profile")
    )
    assert pending_in(cluster) == ([pod] if is_pending else [])
    assert can_be_scheduled(cluster, pod) is can_be_helped


def test_budgets_and_what_they_count_are_no_matter_to_a_verdict() -> None:
    """Nobody is preempted in a plan, so that nobody asks how many pods a budget spares."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "w"}}},
    }
    pods = [a_pod(f"p{i}", "3", labels={"app": "w"}) for i in range(2)]
    answer = plan(load([a_node("n"), a_pod("r", "3", node="n", labels={"app": "w"}), budget, *pods]), [an_offer()])
    assert (added(answer), answer.fits) == ([(1, "m", 2, 2)], True)


# ---- daemons


def a_daemon_set(name: str, cpu: str, **spec: Any) -> Written:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {**a_pod("x", cpu)["spec"], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_daemons_run_on_the_offers_that_they_select() -> None:
    """The cheaper offer has 3 cpu left, for one pod of 2; the other has 4, for two."""
    agents = [
        a_daemon_set("agent", "1", nodeSelector={"pool": "x"}),
        a_daemon_set("other", "1", nodeSelector={"pool": "y"}),
    ]
    offers = [an_offer("x", price=1.0, labels={"pool": "x"}), an_offer("z", price=1.5, labels={"pool": "z"})]
    answer = plan(load([*agents, *(a_pod(f"p{i}", "2") for i in range(4))]), offers)
    assert (added(answer), answer.cost, answer.lower_bound) == ([(1, "z", 2, 4)], 3.0, 3.0)


# ---- the scheduler has the last word


class Stubborn:
    """Judges as the scheduler does, and leaves one more pod pending while there are fewer nodes than it wants."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.judged: list[list[int]] = []
        """The nodes of each step, at each time."""

    def __call__(self, loaded: LoadedCluster, steps: Steps) -> Verdict:
        numbers = [sum(len(names) for _, names in step) for step in steps]
        self.judged.append(numbers)
        verdict = judge(loaded, steps)
        held = {} if sum(numbers) >= self.wanted else {"default/p0": "held back"}
        return Verdict({**verdict.pending, **held}, verdict.pods_on, verdict.loaded)


@pytest.fixture
def with_judge(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    def use(judging: Any) -> Any:
        monkeypatch.setattr(additions, "judge", judging)
        return judging

    return use


@pytest.mark.parametrize("at_once", [True, False])
def test_nodes_are_added_until_the_scheduler_places_all(with_judge: Callable[[Any], Any], at_once: bool) -> None:
    judging = with_judge(Stubborn(4))
    answer = plan(load([a_pod(f"p{i}", "2") for i in range(2)]), [an_offer()], at_once=at_once)
    assert judging.judged == [[1], [2], [4]], "one more for the pod that is left, and then two"
    assert (added(answer), dict(answer.pending)) == ([(1, "m", 4, 2)], {})


def test_nodes_that_do_not_help_are_not_added(with_judge: Callable[[Any], Any]) -> None:
    judging = with_judge(Stubborn(1000))
    answer = plan(load([a_pod(f"p{i}", "2") for i in range(2)]), [an_offer()], at_once=True)
    assert judging.judged == [[1], [2], [4], [8], [16], [32]]
    assert (len(answer.added[0].names), dict(answer.pending)) == (1, {"default/p0": "held back"})
    assert (answer.pending_at_once, answer.lower_bound) == (1, 1.0)


def test_no_more_nodes_than_offered_are_judged(with_judge: Callable[[Any], Any]) -> None:
    judging = with_judge(Stubborn(1000))
    plan(load([a_pod(f"p{i}", "2") for i in range(2)]), [{**an_offer(), "limit": 3}], at_once=True)
    assert judging.judged == [[1], [2], [3]]


SMALL_AND_LARGE = [*(a_pod(f"p{i}", "1") for i in range(8)), a_pod("q-large", "8")]
"""In steps, two nodes of 8 cpu hold them; at once, it takes nine."""


def test_steps_are_added_where_the_scheduler_leaves_a_pod(with_judge: Callable[[Any], Any]) -> None:
    """The scheduler loses the last of two steps once. A third one is added for the pod that is left."""
    judged: list[list[int]] = []

    def forgetful(loaded: LoadedCluster, steps: Steps) -> Verdict:
        judged.append([sum(len(names) for _, names in step) for step in steps])
        return judge(loaded, steps[:-1] if len(steps) == 2 else steps)

    with_judge(forgetful)
    answer = plan(load(SMALL_AND_LARGE), [an_offer(cpu="8")])
    assert judged[:2] == [[1, 1], [1, 1, 1]]
    assert (answer.fits, answer.cost, answer.lower_bound) == (True, 3.0, 2.0)
    assert added(answer) == [(1, "m", 1, 8), (2, "m", 1, 1), (3, "m", 1, 0)]
