"""`plan`: the nodes that are added are enough and no dearer than they need be, as the scheduler itself finds."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import IS_SOAK, costly_examples
from mooring.answers.plan.judge import patient
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.programs import SolverMissing
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.simulation import Simulation

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from plan_set import a_case

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/schemas/plan.v1.json").read_text())
ZONE = "topology.kubernetes.io/zone"


def written(item: KubeObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


def a_loaded(*items: KubeObject | dict[str, Any]) -> LoadedCluster:
    return load([written(item) if isinstance(item, KubeObject) else item for item in items])


def pod(name: str, cpu: str = "1", **rest: Any) -> Pod:
    return a_pod(name, cpu=cpu, image="i", **rest)


def offer(name: str, price: float, cpu: str = "4", zone: str = "", **rest: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110", **rest.pop("more", {})}
    node: dict[str, Any] = {"status": {"allocatable": allocatable}, "spec": rest.pop("spec", {})}
    if zone:
        node["metadata"] = {"labels": {ZONE: zone}}
    return {"name": name, "price": price, "node": node, **rest}


def ask(loaded: LoadedCluster, offers: Any = None, **rest: Any) -> Plan:
    """The answer, which has the form that the schema says."""
    answer = plan(loaded, offers, **rest)
    import_module("jsonschema").validate(answer.to_dict(), SCHEMA)
    json.dumps(answer.to_dict())
    return answer


def added(answer: Plan) -> dict[str, int]:
    """How many nodes of each offer, in all steps."""
    found: Counter[str] = Counter()
    for each in answer.added:
        found[each.offer.name] += len(each.names)
    return dict(found)


# ---- what is added


def test_the_cheapest_nodes_are_added() -> None:
    loaded = a_loaded(a_node("full", cpu="1"), *(pod(f"p{i}", "3") for i in range(3)))
    answer = ask(loaded, [offer("small", 1.0, "4"), offer("large", 2.5, "16")])
    assert (added(answer), answer.cost, answer.lower_bound) == ({"large": 1}, 2.5, 2.5)
    assert answer.summary() == [
        "3 pending pods: 0 fit on the present nodes, 3 on 1 new node.",
        "The new nodes cost 2.5; no plan for these pods costs less than 2.5 (0.0% above).",
        "They hold in all 1048 orders of pods and nodes that were tried.",
    ]


def test_what_fits_on_present_nodes_goes_there() -> None:
    loaded = a_loaded(a_node("half", cpu="4"), *(pod(f"p{i}", "3") for i in range(2)))
    answer = ask(loaded, [offer("small", 1.0, "4")])
    assert (answer.at_first, answer.placed_now, added(answer)) == (2, 1, {"small": 1})


def test_nothing_is_added_if_everything_fits() -> None:
    answer = ask(a_loaded(a_node("n"), pod("p")), [offer("small", 1.0)])
    assert (added(answer), answer.cost, answer.fits) == ({}, 0, True)
    assert answer.summary() == ["1 pending pod: 1 fit on the present nodes."]
    assert ask(a_loaded(a_node("n")), [offer("small", 1.0)]).summary() == [
        "No pod is pending: nothing has to be added."
    ]


def test_a_cluster_without_nodes_gets_its_first() -> None:
    assert added(ask(a_loaded(pod("p", "3")), [offer("small", 1.0)])) == {"small": 1}


def test_limits_are_kept_and_what_is_left_is_told() -> None:
    loaded = a_loaded(*(pod(f"p{i}", "4") for i in range(3)))
    answer = ask(loaded, [offer("small", 1.0, "4", limit=2)])
    assert (added(answer), len(answer.pending), answer.fits) == ({"small": 2}, 1, False)
    (reason,) = answer.pending.values()
    assert reason.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_what_no_offer_can_take_is_listed_with_the_reasons() -> None:
    tainted = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    offers = [offer("small", 1.0), offer("tainted", 1.0, "64", spec=tainted)]
    answer = ask(a_loaded(pod("giant", "32"), pod("p", "1")), offers)
    assert added(answer) == {"small": 1}
    assert dict(answer.pending) == {
        "default/giant": "no offer can take it: 1 of them: Insufficient cpu; 1 of them: node(s) had untolerated taint(s)"
    }


def test_gated_pods_are_listed_and_get_no_node() -> None:
    gated = pod("gated", schedulingGates=[{"name": "wait"}])
    answer = ask(a_loaded(gated), [offer("small", 1.0)])
    assert (added(answer), list(answer.pending), answer.fits) == ({}, ["default/gated"], False)


def test_nobody_is_preempted_for_the_plan() -> None:
    loaded = a_loaded(a_node("n", cpu="4"), pod("low", "4", nodeName="n"), pod("high", "4", priority=1000))
    assert added(ask(loaded, [offer("small", 1.0)])) == {"small": 1}


def test_zones_of_selectors_and_spreads_are_bought() -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "w"}}}]
    pods = [pod(f"p{i}", "2", labels={"app": "w"}, topologySpreadConstraints=spread) for i in range(6)]
    nodes = [a_node(f"n{zone}", cpu="1", labels={ZONE: zone}) for zone in "abc"]
    offers = [offer(f"in-{zone}", price, "4", zone) for zone, price in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    assert added(ask(a_loaded(*nodes, *pods), offers)) == {"in-a": 1, "in-b": 1, "in-c": 1}


def test_a_zone_with_too_many_pods_keeps_them() -> None:
    """Other zones need not catch up: the bound counts the pods that are pending, not those that would make zones equal."""
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "w"}}}]
    running = [pod(f"r{i}", labels={"app": "w"}, nodeName="na") for i in range(5)]
    nodes = [a_node("na", cpu="8", labels={ZONE: "a"}), a_node("nb", cpu="0", labels={ZONE: "b"})]
    waiting = pod("p", labels={"app": "w"}, topologySpreadConstraints=spread)
    answer = ask(a_loaded(*nodes, *running, waiting), [offer("in-a", 0.5, zone="a"), offer("in-b", 1.0, zone="b")])
    assert (added(answer), answer.lower_bound) == ({"in-b": 1}, 1.0)


def small_and_large() -> LoadedCluster:
    """Eight small pods come first, which a scheduler spreads over all nodes, and then one that needs a node of its own."""
    return a_loaded(*(pod(f"a{i}", "1") for i in range(8)), pod("large", "8"))


def test_nodes_come_in_steps_where_spread_pods_would_leave_no_room() -> None:
    answer = ask(small_and_large(), [offer("node", 1.0, "8")])
    assert (added(answer), answer.steps, answer.lower_bound) == ({"node": 2}, 2, 2.0)
    assert answer.summary()[:2] == [
        "Add the nodes in 2 steps, in this order: each step when the pods of the step before are placed.",
        "Added all at once, 1 pod would stay pending.",
    ]
    assert (answer.to_dict()["fitsAtOnce"], answer.to_dict()["pendingAtOnce"]) == (False, 1)
    assert answer.tables()[0].rows == [(1, "node", 1, "1", "1", 8), (2, "node", 1, "1", "1", 1)]
    assert [each["nodes"] for each in answer.to_dict()["add"]] == [["node-1"], ["node-2"]]


def test_nodes_that_come_at_once_are_asked_for() -> None:
    """As many nodes as it takes until one stays empty for the large pod."""
    answer = ask(small_and_large(), [offer("node", 1.0, "8")], at_once=True)
    assert (added(answer), answer.steps, answer.fits, answer.fits_at_once) == ({"node": 9}, 1, True, True)
    assert answer.summary()[0].startswith("9 pending pods: ")


def test_there_are_no_steps_if_they_save_little() -> None:
    """Two nodes in steps, or one large node at once, which costs 1 % more."""
    offers = [offer("node", 1.0, "8"), offer("large", 2.02, "16")]
    assert added(ask(small_and_large(), offers)) == {"large": 1}
    dearer = ask(small_and_large(), [offer("node", 1.0, "8"), offer("large", 2.05, "16")])
    assert (added(dearer), dearer.steps) == ({"node": 2}, 2)


def test_a_plan_that_leaves_pods_says_how_many_are_left_at_once() -> None:
    loaded = a_loaded(*(pod(f"a{i}", "1") for i in range(8)), pod("large", "8"), pod("giant", "99"))
    answer = ask(loaded, [offer("node", 1.0, "8")])
    assert (set(answer.pending), answer.steps, answer.pending_at_once) == ({"default/giant"}, 2, 2)


def test_an_offer_without_the_label_of_a_spread_constraint_takes_no_such_pod() -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "w"}}}]
    pods = [pod(f"p{i}", "2", labels={"app": "w"}, topologySpreadConstraints=spread) for i in range(2)]
    answer = ask(a_loaded(*pods), [offer("cheap", 1.0), offer("in-a", 3.0, zone="a")])
    assert added(answer) == {"in-a": 1}
    only = ask(a_loaded(*pods), [offer("cheap", 1.0)])
    assert only.pending["default/p0"] == f"no offer can take it: node(s) lack the label {ZONE} of a spread constraint"


def test_pods_that_keep_apart_get_a_node_each() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"p{i}", labels={"app": "w"}, affinity=rule) for i in range(3)]
    answer = ask(a_loaded(*pods), [offer("small", 1.0), offer("large", 2.0, "64")])
    assert (added(answer), answer.lower_bound) == ({"small": 3}, 3.0)


def a_daemon_set(cpu: str) -> dict[str, Any]:
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": written(pod("x", cpu))["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}


def test_daemon_sets_take_their_room_on_new_nodes() -> None:
    loaded = a_loaded(a_node("n", cpu="1"), a_daemon_set("1"), *(pod(f"p{i}", "2") for i in range(2)))
    answer = ask(loaded, [offer("small", 1.0, "4")])
    assert added(answer) == {"small": 2}
    assert [each.pods for each in answer.added] == [2]


def test_an_offer_may_be_like_a_node_of_the_cluster() -> None:
    daemon = pod("agent-1", "3", nodeName="n", metadata={"ownerReferences": [OWNED]})
    loaded = a_loaded(a_node("n", cpu="4", labels={"pool": "x"}), daemon, pod("p", "2", nodeSelector={"pool": "x"}))
    answer = ask(loaded, [{"name": "more", "price": 1, "like": "n"}])
    assert dict(answer.pending) == {"default/p": "no offer can take it: Insufficient cpu"}
    fits = a_loaded(a_node("n", cpu="4", labels={"pool": "x"}), daemon, *PENDING_IN_POOL)
    assert added(ask(fits, [{"name": "more", "price": 1, "like": "n"}])) == {"more": 1}


OWNED = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
PENDING_IN_POOL = [pod(f"p{i}", "1", nodeSelector={"pool": "x"}) for i in range(2)]


def test_names_of_new_nodes_are_free() -> None:
    loaded = a_loaded(a_node("small-1", cpu="0"), pod("p", "4"))
    assert [each.names for each in ask(loaded, [offer("small", 1.0)]).added] == [["small-2"]]


def test_what_is_applied_counts() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": written(pod("x", "3"))["spec"]}
    deployment["spec"] = {"replicas": 4, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    answer = ask(a_loaded(a_node("n", cpu="4")), [offer("small", 1.0)], apply=[deployment])
    assert (answer.at_first, answer.placed_now, added(answer)) == (4, 1, {"small": 3})


def test_the_pods_of_the_busiest_moment_count() -> None:
    arrivals = [
        {"at": 0, "run": 100, "count": 2, "cpu": "4", "name": "early"},
        {"at": 50, "run": 10, "count": 3, "cpu": "4", "name": "rush"},
        {"at": 60, "run": 10, "count": 1, "cpu": "4", "name": "late"},
    ]
    answer = ask(a_loaded(a_node("n", cpu="4")), [offer("small", 1.0)], arrivals=arrivals)
    assert (answer.at_first, added(answer)) == (5, {"small": 4})


def test_scipy_is_needed_only_if_nodes_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(SolverMissing, match=r"^mooring plan needs SciPy: pip install 'mooring\[plan\]'$"):
        plan(a_loaded(pod("p")), [offer("small", 1.0)])
    assert plan(a_loaded(a_node("n")), shrink=True).fits


# ---- the same, whatever the cluster

requests = st.sampled_from(["500m", "1", "2", "3"])
zones = st.sampled_from(["", "a", "b"])


def place_all(loaded: LoadedCluster, *steps: Sequence[KubeObject]) -> set[str]:
    """The pods that stay pending if pods come first and nodes afterwards, step by step, by the simulation of `mooring
    simulate`."""
    objects: Sequence[KubeObject] = loaded.objects
    for nodes in ((), *steps):
        simulation = Simulation([*objects, *nodes], loaded.config, loaded.registry, ties=loaded.ties)
        pending = {result.pod.key for result in simulation.run().pending}
        objects = simulation.objects()
    return pending


def steps_of(answer: Plan) -> list[list[KubeObject]]:
    """The new nodes of each step."""
    return [
        [item for each in answer.added if each.step == step for name in each.names for item in each.offer.node(name)]
        for step in range(1, answer.steps + 1)
    ]


@pytest.mark.slow
@settings(max_examples=costly_examples(40), deadline=None)
@given(
    nodes=st.lists(st.tuples(st.sampled_from(["1", "4"]), zones), max_size=3),
    pods=st.lists(st.tuples(requests, zones, st.integers(0, 1), st.booleans()), min_size=1, max_size=8),
    prices=st.tuples(*[st.sampled_from([0.5, 1.0, 1.7, 3.0])] * 2),
    limit=st.sampled_from([None, 1, 3]),
    at_once=st.booleans(),
)
def test_a_plan_always_fits_and_none_is_below_the_bound(
    nodes: list[tuple[str, str]],
    pods: list[tuple[str, str, int, bool]],
    prices: tuple[float, float],
    limit: int | None,
    at_once: bool,
) -> None:
    items: list[KubeObject] = [
        a_node(f"n{i}", cpu=cpu, labels={ZONE: zone} if zone else {}) for i, (cpu, zone) in enumerate(nodes)
    ]
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**rule, "labelSelector": {"matchLabels": {"app": "w"}}}]
    for i, (cpu, zone, priority, is_spread) in enumerate(pods):
        more: dict[str, Any] = {"topologySpreadConstraints": spread} if is_spread else {}
        selector = {ZONE: zone} if zone else {}
        items.append(pod(f"p{i}", cpu, labels={"app": "w"}, priority=priority, nodeSelector=selector, **more))
    loaded = a_loaded(*items)
    offers = [
        offer("x", prices[0], "4", "a", **({} if limit is None else {"limit": limit})),
        offer("y", prices[1], "5", "b"),
    ]
    answer = ask(loaded, offers, at_once=at_once)
    assert not at_once or answer.steps <= 1
    chosen = {each.name: each for each in read_offers(offers, loaded)}
    waiting = patient(loaded)
    assert place_all(waiting, *steps_of(answer)) == set(answer.pending)
    assert len(place_all(waiting, [item for step in steps_of(answer) for item in step])) == answer.pending_at_once
    assert all(number <= chosen[name].limit for name, number in added(answer).items())
    assert answer.cost >= answer.lower_bound - 1e-9
    if not answer.pending:
        for counts in product(range(3), repeat=2):
            cost = counts[0] * prices[0] + counts[1] * prices[1]
            if cost < answer.lower_bound - 1e-6:
                pairs = zip(("x", "y"), counts, strict=True)
                few = [item for name, n in pairs for i in range(n) for item in chosen[name].node(f"{name}-{i + 1}")]
                assert place_all(waiting, few)


# ---- the set of benchmarks


@pytest.mark.parametrize("seed", [3, pytest.param(7, marks=pytest.mark.soak), pytest.param(10, marks=pytest.mark.soak)])
def test_plans_of_the_generated_set_are_near_the_lower_bound(seed: int) -> None:
    objects, offers = a_case(seed, pending=80 if IS_SOAK else 25)
    loaded = load(objects)
    answer = ask(loaded, offers)
    assert 0 < answer.cost <= 1.1 * answer.lower_bound
    assert place_all(patient(loaded), *steps_of(answer)) == set(answer.pending)


# ---- offers


def problems_of(offers: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_offers(offers, a_loaded(a_node("node-1")))
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("offers", "problem"),
    [
        ([], "there is no offer in it; write at least one"),
        (7, "Invalid value: 7: must be a list of offers, or one under `offers:`"),
        ([7], "offers[0]: Invalid value: 7: must be an object with `name`, `price` and `node` or `like`"),
        ([{**offer("a", 1), "prize": 2}], "offers[0].prize: unknown field; did you mean price?"),
        ([{**offer("a", 1), "price": -1}], "offers[0].price: Invalid value: -1.0: must be a number above 0"),
        ([{**offer("a", 1), "price": None}], "offers[0].price: Required value: a number: what one node costs"),
        ([{**offer("a", 1), "limit": -1}], "offers[0].limit: Invalid value: -1: must be from 0 to 100000"),
        ([offer("a", 1), offer("a", 1)], 'offers[1].name: "a" names another offer too; write another name'),
        ([{"name": "a", "price": 1}], "offers[0]: `node` or `like`, and not both: write one of them"),
        (
            [{"name": "a", "price": 1, "like": "node-2"}],
            'offers[0].like: no node "node-2" among 1 nodes; did you mean node-1?',
        ),
        (
            [{"name": "a", "price": 1, "node": {"status": {"allocatable": {"cpu": "x", "pods": 1}}}}],
            "offers[0].node.status.allocatable.cpu: ",
        ),
        (
            [{"name": "a", "price": 1, "node": {"spec": {"taint": []}, "status": {"allocatable": {"pods": 1}}}}],
            "offers[0].node.spec.taint: unknown field; did you mean taints?",
        ),
        (
            [{"name": "a", "price": 1, "node": {"status": {"allocatable": {"cpu": "1"}}}}],
            "offers[0].node.status.allocatable: it has no `pods`, so that no pod would fit; write how many may run there",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_offers_that_cannot_be_used_are_refused(offers: Any, problem: str) -> None:
    assert any(each.startswith(problem) for each in problems_of(offers)), problems_of(offers)


def test_problems_of_a_file_have_lines(tmp_path: Path) -> None:
    path = tmp_path / "offers.yaml"
    path.write_text(
        "offers:\n- name: a\n  price: cheap\n- name: B!\n  price: 1\n  node: {status: {capacity: {pods: 1}}}\n"
    )
    found = problems_of(str(path))
    assert found[0].startswith(f"{path}:3: offers[0].price: ")
    assert found[1].startswith(f"{path}:4: offers[1].name: ")
    assert problems_of(str(tmp_path / "none")) == [f"{tmp_path / 'none'}: cannot be read: No such file or directory"]
