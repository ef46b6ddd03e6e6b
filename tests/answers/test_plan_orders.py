"""Orders of pods and nodes that a plan is tried in, and plans that hold in all of them."""

import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from plan_trials import Case
from test_plan import steps_of
from written import Written, a_node, a_pod

import mooring
from how_many import IS_SOAK, some_of
from mooring.answers.plan.demand import demand_of
from mooring.answers.plan.judge import patient
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.orders import OrderTrials, arrival_orders, spare_orders
from mooring.answers.plan.plan import plan
from mooring.answers.plan.trials import NodeTrials, OfferedNodes, TrialPlacer
from mooring.answers.plan.walks import SETTLED, TOGETHER, ArrivalOrder
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.simulation import Simulation

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from plan_orders import a_case, left_in_order, optimum


def an_offer(cpu: str, price: float = 1.0) -> dict[str, object]:
    return {"name": f"m{cpu}", "price": price, "node": a_node("template", cpu, "64Gi")}


# ---- the orders


def test_nodes_of_a_step_come_together_or_one_by_one_in_the_order_of_the_seed() -> None:
    steps = [(2, 1), (0, 1)]
    assert [*ArrivalOrder((), 1).arrivals(steps)] == [(step, SETTLED) for step in steps]
    nodes = [node for node, _ in ArrivalOrder((), 1, SETTLED).arrivals(steps)]
    assert (sorted(nodes[:3]), nodes[3:]) == ([(0, 1), (1, 0), (1, 0)], [(0, 1)])
    firsts = {next(ArrivalOrder((), seed, SETTLED).arrivals(steps)) for seed in range(20)}
    assert firsts == {((0, 1), SETTLED), ((1, 0), SETTLED)}


@pytest.mark.parametrize("has_table", [True, False])
def test_a_pod_that_the_first_node_refuses_may_lose_its_place_on_the_second_one(has_table: bool) -> None:
    """By hand. 4 small pods of 1 CPU fit on p (4 CPUs), and large (2 CPUs, of higher priority) goes to g alone (2 CPUs).
    With both nodes there, or if g comes first, large takes g; if g comes when p is full, large alone waits for it.
    If g comes after three attempts, large has been refused and p has two small pods: the third one goes to g, which then
    has half of its cpu left where p would have a quarter."""
    large = a_pod("large", "2", "0", priority=10, nodeSelector={"pool": "g"})
    loaded = load([large, *(a_pod(f"small-{i}", "1", "0") for i in range(4))])
    nodes = {
        pool: {**a_node(pool, cpu), "metadata": {"labels": {"pool": pool}}} for pool, cpu in (("p", "4"), ("g", "2"))
    }
    written = [{"name": pool, "price": 1.0, "node": node} for pool, node in nodes.items()]
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(each) for each in read_offers(written, loaded)])
    pods = trials.queued([item for item in loaded.objects if isinstance(item, Pod)])
    orders = OrderTrials(trials, demand_of(trials, pods), pods)
    assert orders.has_table
    if not has_table:
        orders.drop_table()
    failed = [order for order in orders.orders if orders.left_in(order, [(1, 1)]).pods]
    assert failed and {order.pace for order in failed} == {3}
    assert not (orders.failure([(1, 1)], 0) is None and orders.confirms([(1, 1)], 0))
    steps = [(1, 0), (0, 1)]
    assert orders.failure(steps, 0) is None and orders.confirms(steps, 0), "g in a step of its own"


def test_the_next_node_of_a_step_comes_after_some_attempts_and_the_next_step_when_all_is_settled() -> None:
    attempted = [most for _, most in ArrivalOrder((), 1, 3).arrivals([(2, 1), (0, 1)])]
    assert attempted == [3, 3, SETTLED, SETTLED]


@pytest.mark.parametrize("seed", [None, 7])
def test_nodes_of_a_step_come_one_by_one_in_an_order_that_is_the_same_every_time(seed: int | None) -> None:
    order = ArrivalOrder((), seed, SETTLED)
    arrivals = [tuple(order.arrivals([(4, 4)])) for _ in range(4)]
    assert sorted(arrivals[0]) == [((0, 1), SETTLED)] * 4 + [((1, 0), SETTLED)] * 4
    assert arrivals[0] != tuple(sorted(arrivals[0])) and {*arrivals} == {arrivals[0]}


def test_the_first_orders_are_that_of_the_queue_and_large_pods_first() -> None:
    case = Case(["1", "3", "2", "1", "3"], (1.0, "8", 10))
    orders = arrival_orders(case.trials, case.demand, case.pods, 8)
    names = [[pod.name for pod in order.pods] for order in orders]
    assert names[:4:2] == [[f"p000{i}" for i in range(5)], ["p0001", "p0004", "p0002", "p0000", "p0003"]]
    assert [order.pace for order in orders[::2]] == [TOGETHER] * 8
    assert [order.pace for order in orders[1::2]] == [SETTLED, 8, 3, 15] * 2
    assert all(sorted(each) == names[0] for each in names), "every pod once"
    assert len({tuple(each) for each in names}) > 5
    spare = spare_orders(case.trials, case.demand, case.pods)
    assert len({order.seed for order in (*orders[::2], *spare)}) == 88


def test_no_order_puts_a_pod_before_one_of_higher_priority() -> None:
    loaded = load([a_pod(f"p{i}", priority=i % 3) for i in range(9)])
    case = Case(["1"], (1.0, "8", 10))
    pods = [item for item in loaded.objects if isinstance(item, Pod)]
    for order in spare_orders(case.trials, demand_of(case.trials, pods), pods):
        priorities = [pod.priority for pod in order.pods]
        assert priorities == sorted(priorities, reverse=True)


def test_with_many_pods_there_are_fewer_orders() -> None:
    case = Case(["1"] * 1500, (1.0, "100", 100))
    assert len(arrival_orders(case.trials, case.demand, case.pods, 8)) == 8
    assert len(spare_orders(case.trials, case.demand, case.pods)) == 4


def test_small_pods_tend_to_come_early_in_three_of_four_spare_orders() -> None:
    """In a plain shuffle of 20 small and 20 large pods, a large one has 10 small ones before it on average; if small
    ones lead by half of the order, 17.5: the chance that one uniform number is below another one plus 0.5 is 7/8."""
    case = Case(["1"] * 20 + ["3"] * 20, (1.0, "8", 40))
    before: dict[bool, list[int]] = {False: [], True: []}
    for order in spare_orders(case.trials, case.demand, case.pods):
        names = [pod.name for pod in order.pods]
        for at, name in enumerate(names):
            if name >= "p0020":
                before[order.seed is not None and order.seed % 4 > 0].append(sum(each < "p0020" for each in names[:at]))
    assert (len(before[False]), len(before[True])) == (20 * 20, 60 * 20)
    assert sum(before[False]) / len(before[False]) == pytest.approx(10, abs=1)
    assert sum(before[True]) / len(before[True]) == pytest.approx(17.5, abs=0.5)


# ---- trials in orders


def left_by_hand(order: ArrivalOrder, steps: Sequence[tuple[int, ...]]) -> int:
    """A plain loop for pods of cpu alone: the node with the largest free share gets the pod, as the scheduler does for one
    kind of node. A pod that is refused goes behind those that were not attempted yet."""
    free: list[int] = []
    waiting = [pod.shape.request["cpu"] for pod in order.pods]
    for step in steps:
        groups = [step[0]] if order.pace == TOGETHER else [1] * step[0]
        for at, number in enumerate(groups, 1):
            free += [8000] * number
            for _ in range(len(waiting) if at == len(groups) else min(order.pace, len(waiting))):
                cpu = waiting.pop(0)
                best = free.index(max(free))
                if free[best] >= cpu:
                    free[best] -= cpu
                else:
                    waiting.append(cpu)
    return len(waiting)


def test_single_nodes_are_confirmed_in_every_shuffle() -> None:
    """Each spare shuffle comes once, half of them with nodes that do not come together: the core decides in all 80."""
    case = Case(["1", "2", "3"], (1.0, "8", 10))
    trials = OrderTrials(case.trials, case.demand, case.pods)
    trials.drop_table()
    before = case.trials.decisions
    assert trials.confirms([(1,)], 0)
    assert case.trials.decisions - before == 80 * 3


@pytest.mark.parametrize("has_table", [True, False])
def test_pods_are_left_as_in_a_plain_loop(has_table: bool) -> None:
    case = Case(["1", "1", "1", "1", "1", "1", "1", "1", "8", "5"], (1.0, "8", 10))
    trials = OrderTrials(case.trials, case.demand, case.pods)
    if not has_table:
        trials.drop_table()
    for steps in ([(3,)], [(1,), (1,), (1,)], [(2,), (1,)], [(4,)]):
        expected = [left_by_hand(order, steps) for order in trials.orders]
        tried = some_of(range(len(expected)))
        assert [len(trials.left_in(trials.orders[at], steps).pods) for at in tried] == [expected[at] for at in tried]
        worst = trials.failure(steps, 0)
        assert (worst is None) == (not any(expected))
        assert worst is None or not has_table or len(worst.pods) == max(expected)
    assert case.is_as_before


def test_an_order_in_which_steps_fail_comes_first_afterwards() -> None:
    case = Case(["1"] * 8 + ["8"], (1.0, "8", 10))
    trials = OrderTrials(case.trials, case.demand, case.pods)
    trials.drop_table()
    failing = next(order for order in trials.orders if trials.left_in(order, [(2,)]).pods)
    assert trials.failure([(2,)], 0) is not None
    assert trials.orders[0] is failing
    assert trials.failure([(2,)], 1) is None, "one pod may be left"
    assert trials.failure([(1,), (1,)], 0) is None, "the large pod has a node, or the small ones fill one"


@pytest.mark.parametrize("has_table", [True, False])
def test_an_order_in_which_steps_fail_is_found_among_all_and_tried_first_afterwards(has_table: bool) -> None:
    """The large pod is left if it comes last, in 1 of 31 orders. With a table, 48 orders are tried before the others."""
    case = Case(["30"] + ["1"] * 30, (1.0, "30", 40))
    trials = OrderTrials(case.trials, case.demand, case.pods)
    if not has_table:
        trials.drop_table()
    number, held = trials.number, trials.held([(30,)], 0)
    assert (number, held < number) == (1048 if has_table else 96, True)
    assert not trials.left_in(trials.orders[0], [(30,)]).pods
    if has_table:
        failed = trials.failure([(30,)], 0)
        assert failed is not None and len(failed.pods) == 1
    else:
        assert trials.failure([(30,)], 0) is None and not trials.confirms([(30,)], 0)
        assert trials.failure([(30,)], 0) is not None
    early = trials.orders[: 48 if has_table else 1]
    assert any(trials.left_in(order, [(30,)]).pods for order in early)
    assert (trials.number, trials.held([(30,)], 0)) == (number, held), "no order is lost"
    assert trials.failure([(31,)], 0) is None and trials.confirms([(31,)], 0)


def test_the_order_of_the_cluster_can_be_tried_alone() -> None:
    case = Case(["8"] + ["1"] * 8, (1.0, "8", 10))
    trials = OrderTrials(case.trials, case.demand, case.pods)
    first = trials.first_only()
    assert (first.number, first.failure([(2,)], 0)) == (1, None)
    assert trials.failure([(2,)], 0) is not None


# ---- plans


def pending_after(loaded: LoadedCluster, pods: Sequence[Pod], steps: Sequence[Sequence[KubeObject]], seed: int) -> int:
    objects: Sequence[KubeObject] = [*(item for item in loaded.objects if not isinstance(item, Pod)), *pods]
    for nodes in ((), *steps):
        simulation = Simulation([*objects, *nodes], loaded.config, loaded.registry, ties=seed)
        pending = len(simulation.run().pending)
        objects = simulation.objects()
    return pending


@pytest.mark.parametrize("at_once", [False, True])
def test_a_plan_holds_in_every_order_of_few_pods(at_once: bool) -> None:
    """All 24 orders are simulated. Two nodes of 8 cpu hold the pods in some of them, if they come at once."""
    pods = [*(a_pod(f"p{i}", "2") for i in range(3)), a_pod("large", "8")]
    loaded = patient(load(pods))
    answer = plan(loaded, [an_offer("8")], at_once=at_once)
    steps = steps_of(answer)
    written = [item for item in loaded.objects if isinstance(item, Pod)]
    assert not any(pending_after(loaded, order, steps, seed) for seed, order in enumerate(permutations(written)))
    assert (answer.orders, answer.orders_held, answer.cost_to_hold_in_all) == (1048, 1048, answer.cost)
    assert answer.cost == (2.0 if not at_once else 4.0)


def test_small_nodes_come_first_where_all_nodes_at_once_do_not_hold() -> None:
    """All 10 orders are simulated, with the nodes of a step together and one by one. If all 5 nodes come at once, small pods
    may take large nodes; if the small nodes come first, each gets a small pod, and the large pods wait for the others."""
    loaded = patient(
        load([*(a_pod(f"p{i}", "2", "0") for i in range(3)), *(a_pod(f"large{i}", "4", "0") for i in range(2))])
    )
    answer = plan(loaded, [an_offer("2"), an_offer("4", 2.1)])
    small, large = steps_of(answer)
    assert ([(each.offer.name, each.count) for each in answer.added], answer.cost) == ([("m2", 3), ("m4", 2)], 7.2)
    pods = [item for item in loaded.objects if isinstance(item, Pod)]
    orders = [*{tuple(pod.shape.request["cpu"] for pod in each): each for each in permutations(pods)}.values()]
    assert len(orders) == 10
    one_by_one = [[item] for step in (small, large) for item in step]
    assert not any(pending_after(loaded, order, (small, large), 0) for order in orders)
    assert not any(pending_after(loaded, order, one_by_one, 0) for order in orders)
    assert any(pending_after(loaded, order, [[*small, *large]], 0) for order in orders)


@pytest.mark.parametrize("seed", [12, 41])
def test_many_nodes_come_in_few_steps(seed: int) -> None:
    """52 nodes and 56, which hold in two steps: in orders that the plan has not seen as well."""
    case = a_case(seed)
    loaded = load(case.objects)
    answer = plan(loaded, case.offers)
    assert (answer.steps, answer.pending) == (2, {})
    assert [left_in_order(loaded, answer, number, number % 2 == 0) for number in range(1000, 1004)] == [0, 0, 0, 0]


def test_pods_that_fit_on_present_nodes_may_change_places() -> None:
    """The node takes a large pod or two small ones: whatever it takes, the others need room."""
    pods = [a_pod("a", "2"), a_pod("b", "2"), a_pod("c", "4")]
    loaded = patient(load([a_node("n", "4"), *pods]))
    answer = plan(loaded, [an_offer("4"), an_offer("2", 0.6)])
    written = [item for item in loaded.objects if isinstance(item, Pod)]
    for order in permutations(written):
        assert pending_after(loaded, order, steps_of(answer), 1) == 0
    assert (answer.placed_now, answer.orders_held) == (2, answer.orders)


def test_nodes_are_added_for_pods_whose_room_on_a_present_node_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the present node takes both pods of 2 CPUs, and one new node the pod of 3; or the present node takes that one,
    and two new nodes of 3 CPUs take a pod each. All orders are simulated. As for many pods, one proposal is repaired."""
    monkeypatch.setattr("mooring.answers.plan.holding.FEW_PODS", 0)
    zone = "topology.kubernetes.io/zone"
    rule = {"maxSkew": 9, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}}]
    web = [a_pod(f"p{i}", "2", "0", labels={"app": "web"}, topologySpreadConstraints=spread) for i in range(2)]
    present = {**a_node("present", "4"), "metadata": {"name": "present", "labels": {zone: "a"}}}
    offer = {"name": "m3", "price": 1.0, "node": {**a_node("template", "3"), "metadata": {"labels": {zone: "a"}}}}
    loaded = patient(load([present, *web, a_pod("large", "3", "0")]))
    answer = plan(loaded, [offer], at_once=True)
    assert (answer.cost, answer.orders_held) == (2.0, answer.orders)
    (nodes,) = steps_of(answer)
    orders = [*permutations([item for item in loaded.objects if isinstance(item, Pod)])]
    assert not any(pending_after(loaded, order, [nodes], 0) for order in orders)
    assert any(pending_after(loaded, order, [nodes[:1]], 0) for order in orders)


def simulated_left(objects: list[Written], count: int) -> int:
    """How many of so many pending pods a simulation leaves pending if all nodes are there from the start."""
    return count - sum("node" in each for each in mooring.load(objects).simulate().to_dict()["pods"])


def test_a_plan_that_needs_the_pods_of_the_present_nodes_placed_first_says_so() -> None:
    """Small pods go to the new node as well if it is there, and leave no room for the large one."""
    small = [a_pod(f"small-{i}", "1") for i in range(6)]
    large = a_pod("z-large", "3500m", nodeSelector={"tier": "silver"})
    node = {**a_node("template", "4", "64Gi", labels={"tier": "silver"})}
    offer = {"name": "silver", "price": 1.0, "node": node}
    present = a_node("present", "8", "64Gi", labels={"tier": "gold"})
    answer = plan(load([present, *small, large]), [offer])
    assert answer.fits and answer.placed_now == 6
    (note,) = [each for each in answer.notes if "placed before" in each]
    new = a_node("silver-1", "4", "64Gi", labels={"tier": "silver"})
    assert simulated_left([present, new, *small, large], 7) == 1
    assert (
        simulated_left(
            [present, *[{**pod, "spec": {**pod["spec"], "nodeName": "present"}} for pod in small], new, large], 1
        )
        == 0
    )
    assert note.startswith("let the pods that fit on the present nodes be placed before you add nodes: ")


def test_pods_that_no_offer_can_take_may_get_the_room_of_others() -> None:
    """The large pod fits on the present node only. If it comes first, four of the six small ones find no room."""
    small = [a_pod(f"a-{i}", "1") for i in range(6)]
    large, present = a_pod("z-large", "4"), a_node("present", "4", "64Gi")
    answer = plan(load([present, *small, large]), [{"name": "new", "price": 1.0, "node": a_node("template", "2")}])
    assert (answer.placed_now, [*answer.pending], answer.steps) == (4, ["default/z-large"], 1)
    (note,) = [each for each in answer.notes if "no offer can take" in each]
    large["spec"]["nodeName"], large["status"] = "present", {"phase": "Running"}
    assert simulated_left([present, a_node("new-1", "2"), *small, large], 6) == 4
    assert note.startswith("pods that no offer can take may get the room of others on the present nodes: in ")


def test_a_plan_that_does_not_need_it_does_not_say_so() -> None:
    offer = {"name": "silver", "price": 1.0, "node": a_node("template", "4", "64Gi")}
    answer = plan(load([a_node("present", "2"), *[a_pod(f"p{i}", "2") for i in range(3)]]), [offer])
    assert answer.fits and answer.placed_now == 1
    assert not any("placed before" in each for each in answer.notes)


def test_nodes_that_hold_in_some_orders_are_told_where_limits_allow_no_others() -> None:
    """Two nodes are all there are. The large pod gets one if it comes first, or if eight small ones come before it."""
    pods = [a_pod("large", "8"), *(a_pod(f"p{i}", "1") for i in range(8))]
    answer = plan(load(pods), [{**an_offer("8"), "limit": 2}], at_once=True)
    assert (answer.fits, answer.cost, answer.cost_to_hold_in_all) == (True, 2.0, None)
    assert 0 < answer.orders_held < answer.orders
    assert "no nodes were found that hold in all" in "\n".join(answer.summary())


@pytest.mark.parametrize("seed", range(60) if IS_SOAK else [2, 10])
def test_generated_plans_hold_in_orders_that_they_have_not_seen(seed: int) -> None:
    case = a_case(seed)
    loaded = load(case.objects)
    answer, at_once = plan(loaded, case.offers), plan(loaded, case.offers, at_once=True)
    best = optimum(case)
    assert best is not None and best - 1e-6 <= answer.cost <= at_once.cost + 1e-9
    chance = Random(seed)
    for _ in range(6 if IS_SOAK else 2):
        for one_by_one in (False, True):
            number = chance.randrange(1000, 1_000_000)
            assert left_in_order(loaded, answer, number, one_by_one) == len(answer.pending)


@pytest.mark.parametrize(
    ("cpus", "offers", "least"),
    [
        (["4"] * 4, [("8", 1.0)], 2.0),
        (["3"] * 4, [("8", 1.0), ("4", 0.4)], 1.6),
        (["5", "5", "3", "3"], [("8", 1.0), ("6", 0.9)], 2.0),
    ],
    ids=["two on each node", "small nodes are cheaper", "one of each on a node"],
)
def test_the_optimum_of_generated_cases_is_that_of_a_count_by_hand(
    cpus: list[str], offers: list[tuple[str, float]], least: float
) -> None:
    from plan_orders import Case as Generated

    pods = [a_pod(f"p{i}", cpu, "128Mi", labels={"t": cpu}) for i, cpu in enumerate(cpus)]
    found = optimum(Generated("plain", pods, [an_offer(cpu, price) for cpu, price in offers]))
    assert found == pytest.approx(least)
