"""`plan` with shrink: which nodes can go, in which order, and that no drain breaks a disruption budget."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.shrink import ShrinkOptions
from mooring.answers.trial import drain_search, drain_trials
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.drain_trials import NodeDrain
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.simulation import Simulation


def written(item: KubeObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


def owned(name: str, node: str, cpu: str = "1", app: str = "web", kind: str = "ReplicaSet", **rest: Any) -> Pod:
    """A pod that its controller would create again."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": f"uid-{app}", "controller": True}
    return a_pod(
        name, cpu=cpu, image="i", nodeName=node, labels={"app": app}, metadata={"ownerReferences": [owner]}, **rest
    )


def a_budget(app: str, **spec: Any) -> dict[str, Any]:
    selector = {"selector": {"matchLabels": {"app": app}}}
    metadata = {"name": f"keep-{app}", "namespace": "default"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {**selector, **spec},
    }


def a_loaded(*items: KubeObject | dict[str, Any]) -> LoadedCluster:
    return load([written(item) if isinstance(item, KubeObject) else item for item in items])


def shrunk(*items: KubeObject | dict[str, Any]) -> Plan:
    return plan(a_loaded(*items), shrink=True)


def removed(answer: Plan) -> list[str]:
    return [step.node for step in answer.removed]


def reasons(answer: Plan) -> dict[str, str]:
    return {each.node: each.reason for each in answer.kept}


THREE = (a_node("a", cpu="4"), a_node("b", cpu="4"), a_node("c", cpu="4"))


def test_the_least_used_nodes_go_first_and_their_pods_move() -> None:
    answer = shrunk(*THREE, owned("x", "a", "2"), owned("y", "b", "1"), owned("z", "c", "1"))
    assert removed(answer) == ["b", "c"]
    moves = [(step.node, pod.key, pod.node) for step in answer.removed for pod in step.moved]
    assert moves[0] == ("b", "default/y", "c")
    assert [pod.node for pod in answer.removed[-1].moved] == ["a", "a"]
    assert answer.summary() == [
        "No pod is pending: nothing has to be added.",
        "2 nodes can go, one after the other, with everything still placed.",
    ]
    assert answer.content()["remove"][0]["moved"] == [{"pod": "default/y", "to": "c"}]


def test_an_empty_node_goes_without_moves() -> None:
    answer = shrunk(*THREE[:2], owned("x", "a", "4"))
    assert [(step.node, list(step.moved)) for step in answer.removed] == [("b", [])]
    assert reasons(answer)["a"].startswith("default/x would be pending: 0/1 nodes are available: ")


def test_pods_without_a_controller_keep_their_node() -> None:
    answer = shrunk(*THREE[:2], a_pod("alone", cpu="1", image="i", nodeName="a"), owned("x", "b", "3"))
    assert (removed(answer), reasons(answer)["a"]) == (["b"], "no controller would replace default/alone")


def test_daemon_pods_end_with_their_node() -> None:
    answer = shrunk(*THREE[:2], owned("d", "b", "1", "agent", "DaemonSet"), owned("x", "a", "4"))
    assert [(step.node, step.daemons) for step in answer.removed] == [("b", 1)]


def test_a_budget_that_lets_nothing_go_keeps_the_node() -> None:
    answer = shrunk(*THREE[:2], owned("x", "a", "1"), owned("y", "b", "2"), a_budget("web", maxUnavailable=0))
    assert removed(answer) == []
    assert reasons(answer)["a"] == "PodDisruptionBudget keep-web protects default/x: needs 2 healthy pods and has 2"


def test_a_drain_that_has_to_be_taken_back_changes_nothing() -> None:
    """A budget lets neither of the two pods of the first node go; afterwards the other node is emptied onto it."""
    guarded = [owned(f"g{i}", "a", "1", "db") for i in range(2)]
    answer = shrunk(*THREE[:2], *guarded, owned("x", "b", "2"), a_budget("db", minAvailable=2))
    assert removed(answer) == ["b"]
    assert "protects default/g0" in reasons(answer)["a"]


def test_a_cordoned_node_stays_cordoned_if_it_has_to_stay() -> None:
    cordoned = a_node("a", cpu="4", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])
    answer = shrunk(cordoned, a_node("b", cpu="4"), owned("x", "a", "3"), owned("y", "b", "2"))
    assert removed(answer) == []


def test_the_search_says_when_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_search, "MAX_IN_VAIN", 1)
    answer = shrunk(*THREE, *(owned(f"p{name}", name, "4") for name in "abc"))
    assert (removed(answer), answer.is_complete, answer.content()["searchedAll"]) == ([], False, False)
    assert answer.summary()[-1] == "No node can go; the search ended early, and more time (--seconds) may find more."


def test_new_nodes_of_the_plan_stay() -> None:
    offers = [{"name": "new", "price": 1, "node": {"status": {"allocatable": {"cpu": "4", "pods": "110"}}}}]
    answer = plan(
        a_loaded(a_node("a", cpu="4"), owned("x", "a", "1"), a_pod("p", cpu="4", image="i")), offers, shrink=True
    )
    assert [each.names for each in answer.added] == [["new-1"]]
    assert removed(answer) == []


# ---- budgets, whatever the cluster

apps = st.sampled_from(["web", "db"])


class Watched:
    """Counts healthy pods of each budget by itself, whenever a pod is lost."""

    def __init__(self, least: dict[str, int]) -> None:
        self.least = least
        self.broken: list[str] = []

    def check(self, cluster: ChangingCluster) -> None:
        for app, least in self.least.items():
            healthy = sum(pod.labels.get("app") == app and bool(pod.spec.node_name) for pod in cluster.pods())
            if healthy < least:
                self.broken.append(f"{app}: {healthy} of {least}")


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(
    nodes=st.lists(st.sampled_from(["2", "4"]), min_size=2, max_size=5),
    pods=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["500m", "1"]), apps), max_size=12),
    slack=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_shrinking_never_breaks_a_budget(
    nodes: list[str], pods: list[tuple[int, str, str]], slack: tuple[int, int]
) -> None:
    items: list[KubeObject | dict[str, Any]] = [a_node(f"n{i}", cpu=cpu) for i, cpu in enumerate(nodes)]
    room = {f"n{i}": int(cpu) * 1000 for i, cpu in enumerate(nodes)}
    numbers: dict[str, int] = {"web": 0, "db": 0}
    for i, (node, cpu, app) in enumerate(pods):
        name, milli = f"n{node % len(nodes)}", 500 if cpu == "500m" else 1000
        if room[name] >= milli:
            room[name] -= milli
            numbers[app] += 1
            items.append(owned(f"p{i}", name, cpu, app))
    least = {app: max(numbers[app] - spare, 0) for app, spare in zip(("web", "db"), slack, strict=True)}
    items += [a_budget(app, minAvailable=number) for app, number in least.items()]
    loaded, watched = a_loaded(*items), Watched(least)
    original = ChangingCluster.lose

    def lose(self: ChangingCluster, pod: Pod, reason: str) -> None:
        original(self, pod, reason)
        watched.check(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChangingCluster, "lose", lose)
        answer = plan(loaded, shrink=True)
    assert watched.broken == []
    assert_all_placed(loaded, removed(answer))


def assert_all_placed(loaded: LoadedCluster, gone: Sequence[str]) -> None:
    """What was on the nodes that went fits on the others, by the simulation of `mooring simulate`."""
    left = [item for item in loaded.objects if not (type(item).__name__ == "Node" and item.name in gone)]
    objects = [_loose(item) if isinstance(item, Pod) and item.spec.node_name in gone else item for item in left]
    assert Simulation(objects, loaded.config, loaded.registry).run().pending == []


def _loose(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


# ---- the order, and why nodes stay


def alone(name: str, node: str, cpu: str, memory: str = "0") -> Pod:
    return a_pod(name, cpu=cpu, memory=memory, image="i", nodeName=node)


def test_nodes_without_pods_to_move_go_and_the_others_stay() -> None:
    nodes = [a_node(name, cpu="10", memory="10Gi") for name in ("f", "e", "d", "c", "b", "a")]
    pods = [
        alone("pa", "a", "5", "1Gi"),
        alone("pb", "b", "1", "6Gi"),
        alone("pc", "c", "3", "3Gi"),
        alone("pd", "d", "2", "3Gi"),
        alone("pf", "f", "100m"),
    ]
    nothing = a_node("nothing", cpu="0", memory="0")
    told: list[tuple[int, int]] = []
    answer = plan(a_loaded(*nodes, nothing, *pods), shrink=True, tell=lambda *said: told.append(said))
    assert removed(answer) == ["nothing", "e"]
    assert {each.node for each in answer.kept} == {"f", "c", "d", "a", "b"}
    assert told and {total for _, total in told} == {100}
    assert answer.is_complete


def test_some_of_many_pods_without_a_controller_are_named() -> None:
    answer = shrunk(a_node("a"), *(alone(f"p{i}", "a", "100m") for i in range(5)))
    assert reasons(answer) == {
        "a": "no controller would replace default/p0, default/p1, default/p2 and 2 more",
    }


def test_several_pods_that_a_budget_protects_keep_their_node() -> None:
    guarded = [owned(f"g{i}", "a", "1", "db") for i in range(2)]
    answer = shrunk(*THREE[:2], *guarded, owned("x", "b", "2"), a_budget("db", minAvailable=2))
    assert reasons(answer)["a"] == "PodDisruptionBudget keep-db protects default/g0: needs 2 healthy pods and has 2"


def test_a_budget_that_lets_one_pod_after_the_other_go_is_no_hindrance() -> None:
    guarded = [owned(f"g{i}", "a", "1", "db") for i in range(2)]
    answer = shrunk(*THREE[:2], *guarded, owned("x", "b", "3", "db"), a_budget("db", minAvailable=2))
    assert removed(answer) == []
    roomy = shrunk(THREE[0], a_node("b", cpu="8"), *guarded, owned("x", "b", "5", "db"), a_budget("db", minAvailable=2))
    assert removed(roomy) == ["a"]
    assert [(pod.key, pod.node) for pod in roomy.removed[0].moved] == [("default/g0", "b"), ("default/g1", "b")]


def test_a_pod_of_a_scheduler_that_is_not_there_keeps_its_node() -> None:
    answer = shrunk(*THREE[:2], owned("x", "a", schedulerName="other"), owned("y", "b", "4"))
    assert reasons(answer)["a"] == 'default/x would be pending: no profile has the scheduler name "other"'


def test_a_node_whose_pods_fit_nowhere_still_takes_those_of_others() -> None:
    answer = shrunk(a_node("a", cpu="8"), a_node("b", cpu="2"), owned("x", "a", "3"), owned("y", "b", "1"))
    assert removed(answer) == ["b"]
    assert reasons(answer) == {
        "a": "default/x would be pending: 0/1 nodes are available: 1 node(s) were unschedulable."
    }


def test_a_cordoned_node_takes_no_pods_of_others() -> None:
    cordoned = a_node("a", cpu="8", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])
    answer = shrunk(cordoned, a_node("b", cpu="2"), owned("x", "a", "3"), owned("y", "b", "1"))
    assert removed(answer) == []
    assert reasons(answer)["b"] == "default/y would be pending: 0/2 nodes are available: 2 node(s) were unschedulable."


def test_all_pods_of_a_node_need_room_together() -> None:
    pods = [owned(f"x{i}", "a", "1") for i in range(2)]
    answer = shrunk(a_node("a", cpu="8"), a_node("b", cpu="4"), *pods, alone("y", "b", "3"))
    assert reasons(answer)["a"].startswith("default/x1 would be pending: ")


def test_pods_that_wait_for_a_node_hinder_no_drain() -> None:
    answer = shrunk(*THREE[:2], owned("x", "a", "1"), a_pod("giant", cpu="64", image="i"))
    assert removed(answer) == ["b"]
    assert list(answer.pending) == ["default/giant"]


def test_static_pods_end_with_their_node() -> None:
    mirror = a_pod(
        "m", cpu="1", image="i", nodeName="b", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}
    )
    answer = shrunk(*THREE[:2], mirror, owned("d", "b", "1", "agent", "DaemonSet"), owned("x", "a", "4"))
    assert [(step.node, step.daemons, list(step.moved)) for step in answer.removed] == [("b", 2, [])]


def a_volume_for(node: str) -> list[dict[str, Any]]:
    """A claim that is bound to a volume of one node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "storageClassName": "local",
        "claimRef": {"namespace": "default", "name": "data", "uid": "u-data"},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "local",
        "volumeName": "disk",
    }
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "uid": "u-data", **bound},
            "spec": claim,
            "status": {"phase": "Bound"},
        },
    ]


DATA: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def labelled(name: str, cpu: str = "4") -> KubeObject:
    return a_node(name, cpu=cpu, labels={"kubernetes.io/hostname": name})


def test_a_pod_that_its_volume_holds_keeps_its_node_and_the_drain_is_taken_back() -> None:
    answer = shrunk(labelled("a"), labelled("b"), *a_volume_for("a"), owned("x", "a", **DATA), owned("y", "b", "2"))
    assert reasons(answer)["a"].startswith("default/x would be pending: 0/2 nodes are available: ")
    assert removed(answer) == ["b"], "its pod goes to the node whose drain was taken back"


def test_a_drain_that_would_preempt_a_pod_is_taken_back() -> None:
    """The pod with a claim may use both nodes; where it goes, it would take the place of a pod that moves on."""
    claims = a_volume_for("a")
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}]}
    claims[0]["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    high = owned("high", "a", "3", priority=10, **DATA)
    nodes = [labelled("a", "8"), labelled("b"), labelled("c")]
    answer = shrunk(*nodes, *claims, high, owned("low", "b", "3"), alone("z", "c", "500m"))
    assert reasons(answer)["a"].startswith("default/high would be pending: 0/2 nodes are available: ")


# ---- when the search ends


SMALL = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM: dict[str, Any] = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": SMALL}}}]}


def test_drains_that_only_a_simulation_can_judge_are_made_there_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of pods are created anew with them, which a trial does not follow. Here they have no class and stay unbound."""
    pods = [owned(f"p{name}", name, "1", f"app-{name}", **CLAIM) for name in "abc"]
    answer = shrunk(*THREE, *pods)
    assert removed(answer) == []
    assert all("would be pending: " in reason for reason in reasons(answer).values())
    assert (set(reasons(answer)), answer.is_complete) == ({"a", "b", "c"}, True)
    monkeypatch.setattr(drain_trials, "MAX_TAKEN_BACK", 0)
    assert not shrunk(*THREE, *pods).is_complete


def test_a_search_that_may_make_few_decisions_gives_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [owned(f"p{name}", name, "1") for name in "abc"]
    monkeypatch.setattr(drain_search, "SQUARE_DECISIONS", 9)  # one for three nodes
    answer = shrunk(*THREE, *pods)
    assert (len(answer.removed), answer.is_complete) == (1, False)
    assert answer.summary()[-1] == (
        "1 node can go with everything still placed; the search ended early, and more time (--seconds) may find more."
    )


def test_a_search_may_be_bounded_by_time() -> None:
    answer = plan(a_loaded(*THREE, owned("x", "a", "2")), shrink=ShrinkOptions(seconds=600))
    assert (removed(answer), answer.is_complete) == (["b", "c"], True)


# ---- prices


def priced(name: str, price: str, cpu: str = "4") -> KubeObject:
    return a_node(name, cpu=cpu, labels={"kubernetes.io/hostname": name, "mooring.dev/price": price})


def test_the_nodes_that_go_are_those_that_cost_most() -> None:
    """Either the two small nodes can go or the large one."""
    pods = [owned("x", "a", "2"), owned("y", "b", "2"), owned("z", "c", "4", "big")]
    cheap = [priced("a", "1"), priced("b", "1"), priced("c", "5", "8")]
    answer = shrunk(*cheap, *pods, alone("stays", "a", "100m"), alone("too", "c", "100m"))
    assert (removed(answer), answer.saved) == (["b"], 1.0)
    free = [priced("a", "1", "8"), priced("b", "1", "8"), priced("c", "5", "8")]
    large = shrunk(*free, *pods)
    assert (len(large.removed), large.saved) == (2, 6.0)
    assert large.summary()[-1] == "That saves 6 an hour."
    assert large.content()["saves"] == 6.0


def test_prices_of_a_file_count_before_labels_and_have_to_be_complete() -> None:
    loaded = a_loaded(priced("a", "1"), priced("b", "1"), owned("x", "a", "2"), owned("y", "b", "2"))
    answer = plan(loaded, shrink=ShrinkOptions(prices={"a": 3, "b": 2}))
    assert (removed(answer), answer.saved) == (["a"], 3.0)
    unpriced = a_loaded(*THREE[:2], owned("x", "a"))
    with pytest.raises(InputError, match="no price for 1 node: b"):
        plan(unpriced, shrink=ShrinkOptions(prices={"a": 3}))
    partly = a_loaded(priced("a", "1"), a_node("b", cpu="4"), owned("x", "a"))
    assert plan(partly, shrink=True).saved is None


# ---- cordons and chance


def apart(*names: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*names]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def test_an_answer_says_that_all_nodes_are_to_be_cordoned_first() -> None:
    answer = Plan(
        (), [NodeDrain("a", (), 0), NodeDrain("b", (), 0)], {}, 0.0, 0, 0, 0, shrinks=True, cordons_first=True
    )
    assert answer.summary() == [
        "No pod is pending: nothing has to be added.",
        "Cordon all of the nodes below before you drain the first one.",
        "2 nodes can go, one after the other, with everything still placed.",
    ]
    assert answer.content()["cordonFirst"]


def test_steps_that_depend_on_chance_are_told() -> None:
    """The first pod may go to either of two nodes, and the second one to one of these only."""
    nodes = [labelled("a"), labelled("b", "2"), labelled("c", "2")]
    pods = [owned("x", "a", "1", "free", priority=10), owned("y", "a", "2", "tied", **apart("a", "c"))]
    answer = shrunk(*nodes, *pods, alone("kb", "b", "0"), alone("kc", "c", "0"))
    assert (removed(answer), answer.safe_steps) == (["a"], 0)
    assert answer.chances > 0
    assert answer.summary()[-1] == (
        "From step 1 on, whether everything is placed depends on which of equally good nodes the scheduler takes, and on "
        "the order in which pods come."
    )
