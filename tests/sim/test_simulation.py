"""Simulations: the order of the queue, second attempts, what takes room, how it ends, what is noted and explained."""

from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config as configuration
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.plain import PlainPlugin
from mooring.framework.contract.points import (
    BindPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    Wait,
)
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.inputs.input_errors import InputError, NoSuchPod
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.decision import NoFit, Placement
from mooring.sim import simulation as simulation_module
from mooring.sim.results import Fate, NodeUse, Report, SimulatedEviction
from mooring.sim.simulation import Simulation
from mooring.state.scheduler_assembly import all_plugins

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DEFAULT = "default-scheduler"


def pending(name: str, **rest: Any) -> Pod:
    return a_pod(name, schedulerName=DEFAULT, **rest)


def a_simulation(
    *items: KubeObject, plugin: type[Plugin] | type[PlainPlugin] | None = None, **config: Any
) -> Simulation:
    registry = all_plugins()
    if plugin is not None:
        registry.register(plugin)
        config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}]}
    return Simulation(items, configuration.from_object(HEADER | config), registry)


def run(*items: KubeObject, **config: Any) -> Report:
    return a_simulation(*items, **config).run()


def nodes_of(report: Report) -> dict[str, str]:
    return {result.pod.name: result.node for result in report.pods}


# ---- The order of attempts


def test_pods_are_attempted_by_priority_then_by_age_then_as_they_stand() -> None:
    def created(year: int) -> dict[str, str]:
        return {"creationTimestamp": f"{year}-01-01T00:00:00Z"}

    report = run(
        a_node("n"),
        pending("young", metadata=created(2026)),
        pending("old", metadata=created(2020)),
        pending("urgent", priority=10, metadata=created(2030)),
        pending("fresh-1"),
        pending("fresh-2"),
    )
    assert [result.pod.name for result in report.pods] == ["urgent", "fresh-1", "fresh-2", "old", "young"]


def test_a_pod_whose_partner_is_placed_later_is_tried_again() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [a_node(name, labels={"zone": name}) for name in ("a", "b")]
    follower = pending("follower", affinity=affinity, priority=10)
    leader = pending("leader", labels={"app": "leader"}, nodeSelector={"zone": "b"})
    report = run(*nodes, follower, leader)
    assert nodes_of(report) == {"follower": "b", "leader": "b"}
    assert not report.pending


def test_pods_that_fit_nowhere_are_not_tried_for_ever() -> None:
    told: list[tuple[int, int]] = []
    simulation = a_simulation(a_node("n", cpu="2"), pending("big-1", cpu="9"), pending("big-2", cpu="9"), pending("p"))
    report = simulation.run(on_progress=lambda done, total: told.append((done, total)))
    assert [result.pod.name for result in report.pending] == ["big-1", "big-2"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [result.attempts for result in report.pods] == [1, 1, 1], "nothing that happened could help them"


def test_each_attempt_sees_the_placements_before_it() -> None:
    report = run(a_node("a", cpu="2"), a_node("b", cpu="2"), *(pending(f"p-{i}", cpu="1500m") for i in range(3)))
    assert nodes_of(report) == {"p-0": "a", "p-1": "b", "p-2": ""}


# ---- What takes room


def test_finished_pods_take_no_room_and_are_noted() -> None:
    done = [
        a_pod(phase, cpu="4", nodeName="n", status={"phase": phase}, host_ports=[80])
        for phase in ("Succeeded", "Failed")
    ]
    report = run(a_node("n", cpu="4", pods=1), *done, pending("p", cpu="4", host_ports=[80]))
    assert nodes_of(report) == {"p": "n"}
    assert report.notes == ["2 finished pods left out: finished pods use no resources"]


def test_running_pods_take_room() -> None:
    report = run(a_node("n", cpu="4"), a_pod("old", cpu="3", nodeName="n"), pending("p", cpu="2"))
    assert report.pending[0].message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    ), "as the condition PodScheduled has it"


def test_the_use_of_a_node_counts_old_and_new_pods() -> None:
    node = a_node("n", cpu="4", memory="8Gi", pods=9, allocatable={"example.com/gpu": 2})
    gpu = {"example.com/gpu": 1}
    report = run(node, a_pod("old", cpu="1", nodeName="n"), pending("new", cpu="500m", memory="1Gi", requests=gpu))
    amounts = {
        "cpu": (1500, 4000),
        "memory": (1 << 30, 8 << 30),
        "ephemeral-storage": (0, 0),
        "example.com/gpu": (1, 2),
    }
    assert report.nodes == [NodeUse("n", 2, 9, 1, amounts)]


def test_pods_on_unknown_nodes_are_noted() -> None:
    report = run(a_node("n"), *(a_pod(f"p-{i}", nodeName=f"gone-{i}") for i in range(5)))
    assert report.notes == ["5 pods on nodes that are not in the input: gone-0, gone-1, gone-2 and 2 more"]
    assert [node.name for node in report.nodes] == ["n"]


# ---- Making room


def test_a_running_pod_that_has_to_leave_is_gone_and_reported() -> None:
    old = a_pod("old", cpu="3", nodeName="n", priority=0)
    report = run(a_node("n", cpu="4"), old, pending("urgent", cpu="3", priority=9))
    assert nodes_of(report) == {"urgent": "n"}
    assert report.preempted == [SimulatedEviction(old, "n", "default/urgent")]
    assert (report.nodes[0].pods, report.nodes[0].new_pods) == (1, 1)


def test_a_pod_that_was_placed_and_has_to_leave_is_preempted_and_noted() -> None:
    """The follower comes first but needs the leader there; when it is tried again, the filler has taken its room."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    filler = pending("filler", cpu="2", priority=1)
    report = run(
        a_node("n", cpu="4", labels={"zone": "a"}),
        pending("follower", cpu="3", affinity=affinity, priority=9),
        pending("leader", cpu="1", labels={"app": "leader"}, priority=9),
        filler,
    )
    assert {r.pod.name: (r.fate, r.node) for r in report.pods} == {
        "follower": (Fate.SCHEDULED, "n"),
        "leader": (Fate.SCHEDULED, "n"),
        "filler": (Fate.PREEMPTED, ""),
    }
    assert report.preempted == [SimulatedEviction(filler, "n", "default/follower")]
    assert [r.message for r in report.pods if r.pod is filler] == ["preempted by default/follower on n"]
    assert report.pending == [], "it does not wait: it is gone"
    assert report.notes == ["1 preempted pod without a controller gone for good: default/filler"]


def test_a_pod_that_may_not_preempt_says_so() -> None:
    old = a_pod("old", cpu="3", nodeName="n", priority=0)
    report = run(a_node("n", cpu="4"), old, pending("polite", cpu="3", priority=9, preemptionPolicy="Never"))
    assert report.preempted == []
    assert report.pending[0].message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_pod_that_is_still_promised_a_node_says_which() -> None:
    """Its victim is on its way out already, and simulated pods take their time for ever."""
    leaving = a_pod("old", cpu="3", nodeName="n", priority=0, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    (result,) = run(a_node("n", cpu="4"), leaving, pending("urgent", cpu="3", priority=9)).pending
    assert (result.fate, result.nominated) == (Fate.UNSCHEDULABLE, "n")
    assert result.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n, preempting 1 victims"
    )


# ---- From the decision to the node, and back


class Guard(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Does to a pod what its label `guard` says."""

    name = "Guard"

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        return curable("reserved for others") if context.pod.labels.get("guard") == "reserve" else None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        if context.pod.labels.get("guard") == "unreserve":
            raise PluginError("cannot give back")

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        return Wait(30) if context.pod.labels.get("guard") in ("permit", "unreserve") else None

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        if context.pod.labels.get("guard") == "pre-bind":
            raise PluginError("no volume")
        return None

    def post_bind(self, context: SchedulingContext, node_name: str) -> None:
        if context.pod.labels.get("guard") == "post-bind":
            raise PluginError("nobody to tell")

    def events(self) -> list[Registration]:
        return []


TIMEOUT = "0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Guard."


def guarded(name: str, at: str, **rest: Any) -> Pod:
    return pending(name, labels={"guard": at}, **rest)


def test_time_passes_until_a_wait_on_permit_is_over() -> None:
    report = run(a_node("n"), guarded("p", "permit"), plugin=Guard)
    (result,) = report.pending
    assert (result.fate, result.message) == (Fate.UNSCHEDULABLE, TIMEOUT)
    assert report.simulated_s == pytest.approx(30.001)
    assert report.nodes[0].pods == 0, "its room is given back"
    assert report.notes == []


def test_a_pod_that_waits_on_permit_in_the_end_says_for_which_plugin() -> None:
    report = a_simulation(a_node("n"), guarded("p", "permit"), plugin=Guard).run(until_ns=10 * NS_PER_S)
    (result,) = report.pending
    assert (result.fate, result.message) == (Fate.WAITING, "has room on n and waits for Guard")
    assert result.nominated == "n"
    assert report.simulated_s == 10
    assert report.notes == [
        "stopped after 10s of simulated time and 1 attempt; these pods would be attempted again: default/p"
    ]


def test_a_refusal_after_the_decision_leaves_the_pod_pending_with_its_reason() -> None:
    report = run(a_node("n"), guarded("p", "reserve"), plugin=Guard)
    assert report.pending[0].message == "0/1 nodes are available: 1 reserved for others."
    assert report.nodes[0].pods == 0


def test_a_binding_that_fails_again_and_again_ends_with_the_hour() -> None:
    report = run(a_node("n"), guarded("p", "pre-bind"), plugin=Guard)
    (result,) = report.pending
    assert (result.fate, result.message) == (Fate.ERROR, 'running PreBind plugin "Guard": no volume')
    assert result.attempts == pytest.approx(3600 / 10, rel=0.1), "it backs off for ten seconds each time"
    assert report.notes[0].startswith("stopped after 1h0m0s of simulated time and ")


def test_attempts_without_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation_module, "ATTEMPTS_A_POD", 5)
    report = run(a_node("n"), guarded("p", "pre-bind"), pending("q"), plugin=Guard)
    assert sum(result.attempts for result in report.pods) == 10
    assert report.notes[0].endswith(" and 10 attempts; these pods would be attempted again: default/p")


def test_what_plugins_fail_at_beside_the_way_is_noted() -> None:
    pods = [guarded("p", "unreserve"), *(guarded(f"q-{i}", "post-bind") for i in range(6))]
    report = run(a_node("n"), *pods, plugin=Guard)
    assert [result.pod.name for result in report.pending] == ["p"]
    assert report.notes == [
        *(f"PostBind of plugin Guard failed on pod default/q-{i}: nobody to tell" for i in range(5)),
        "... and 2 more faults of this kind",
    ]


class BindsItself(BindPlugin):
    name = "BindsItself"

    def bind(self, context: SchedulingContext, node_name: str) -> None:
        return None


def test_a_pod_that_a_plugin_says_it_has_bound_is_placed() -> None:
    sets = {"bind": {"enabled": [{"name": "BindsItself"}], "disabled": [{"name": "*"}]}}
    registry = all_plugins()
    registry.register(BindsItself)
    config = configuration.from_object({**HEADER, "profiles": [{"plugins": sets}]})
    assert nodes_of(Simulation([a_node("n"), pending("p")], config, registry).run()) == {"p": "n"}


def test_a_pod_on_its_way_out_is_left_alone() -> None:
    report = run(a_node("n"), pending("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    (result,) = report.pending
    assert (result.fate, result.message) == (Fate.IGNORED, "it is being deleted")


# ---- Results and notes


def test_pods_that_may_not_be_placed_say_why() -> None:
    gated = pending("gated", schedulingGates=[{"name": "wait"}])
    report = run(a_node("n"), gated, a_pod("other", schedulerName="other"))
    assert {result.pod.name: (result.fate, result.message) for result in report.pods} == {
        "gated": (Fate.GATED, "waiting for scheduling gates: [wait]"),
        "other": (Fate.IGNORED, 'no profile has the scheduler name "other"'),
    }


def test_a_cluster_without_nodes_says_so() -> None:
    report = run(pending("p"))
    assert report.pending[0].message == "no nodes available to schedule pods"


class Broken(PlainPlugin):
    name = "Broken"

    def filter(self, pod: Pod, node: Any) -> None:
        raise PluginError("no idea")


def test_a_pod_whose_attempt_failed_is_pending_with_the_error() -> None:
    report = run(a_node("a"), pending("p"), plugin=Broken)
    (result,) = report.pending
    assert (result.fate, result.message) == (Fate.ERROR, 'running "Broken" filter plugin: no idea')


# ---- Objects that contradict each other


def test_pods_that_share_a_uid_are_refused_all_together() -> None:
    pods = [a_pod(name, metadata={"uid": "u"}) for name in ("a", "b", "c")]
    with pytest.raises(InputError) as caught:
        a_simulation(*pods)
    assert [str(problem) for problem in caught.value.problems] == [
        f'Pod default/{name}: metadata.uid: Invalid value: "u", which Pod default/a has: must be a uid of its own, or empty'
        for name in ("b", "c")
    ]


def test_amounts_beyond_64_bits_count_as_the_largest() -> None:
    huge = "9223372036854775807"
    full = a_pod("p", cpu=huge, nodeName="full")
    report = a_simulation(
        a_node("endless", cpu=huge), a_node("full"), full, pending("small", cpu="1"), pending("large", cpu=huge)
    ).run()
    assert nodes_of(report) == {"small": "endless", "large": ""}, "the full node has no room, and the endless one less"


# ---- Explanations


def test_an_explanation_is_the_decision_that_is_made() -> None:
    simulation = a_simulation(a_node("a", cpu="2"), a_node("b", cpu="4"), pending("p", cpu="1"))
    report = simulation.run(explain="p")
    assert report.explanation is not None and isinstance(report.explanation.decision, Placement)
    assert report.explanation.decision.node == nodes_of(report)["p"] == "b"
    assert report.explanation.decision.details is not None
    assert report.explanation.decision.details.totals.keys() == {"a", "b"}
    assert report.explanation.weights["TaintToleration"] == 3


def test_the_last_attempt_is_the_one_explained() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = pending("follower", affinity=affinity, priority=10), pending("leader", labels={"app": "leader"})
    explanation = a_simulation(a_node("n", labels={"zone": "a"}), *pods).run(explain="follower").explanation
    assert explanation is not None and isinstance(explanation.decision, Placement)


def test_explaining_changes_nothing_also_where_the_search_is_partial() -> None:
    """With percentageOfNodesToScore each attempt starts where the one before stopped."""
    items = [*(a_node(f"n-{i:03}") for i in range(200)), *(pending(f"p-{i:02}", cpu="1") for i in range(20))]
    plain = nodes_of(a_simulation(*items, percentageOfNodesToScore=50).run())
    for name in ("p-00", "p-07"):
        report = a_simulation(*items, percentageOfNodesToScore=50).run(explain=name)
        assert nodes_of(report) == plain
        assert report.explanation is not None and isinstance(report.explanation.decision, Placement)
        assert report.explanation.decision.node == plain[name]


def test_a_running_pod_is_explained_as_if_it_had_not_been_placed() -> None:
    old = a_pod("old", cpu="3", nodeName="n", schedulerName=DEFAULT)
    simulation = a_simulation(a_node("n", cpu="4"), a_pod("other", cpu="2", nodeName="n"), old)
    report = simulation.run(explain="old")
    assert report.explanation is not None and isinstance(report.explanation.decision, NoFit)
    assert report.explanation.now_on == "n"
    assert report.nodes[0].pods == 2, "the cluster itself is left as it is"


def test_a_gate_that_fails_holds_the_pod_back_and_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    from mooring.plugins.queue_and_bind import SchedulingGates

    def fail(self: object, pod: Pod) -> None:
        raise PluginError("stuck")

    monkeypatch.setattr(SchedulingGates, "pre_enqueue", fail)
    report = a_simulation(a_node("n"), pending("p")).run(explain="p")
    assert report.explanation is not None
    assert (report.explanation.fate, report.explanation.message) == (Fate.GATED, "stuck")
    assert report.notes == ["PreEnqueue of plugin SchedulingGates failed on pod default/p: stuck"]


def test_a_placement_that_came_to_nothing_is_explained_with_what_became_of_it() -> None:
    explanation = a_simulation(a_node("n"), guarded("p", "permit"), plugin=Guard).run(explain="p").explanation
    assert explanation is not None and isinstance(explanation.decision, Placement)
    assert (explanation.fate, explanation.message) == (Fate.UNSCHEDULABLE, TIMEOUT)


def test_explaining_asks_no_plugin_twice() -> None:
    """What is explained is the decision itself, not one that was made to be explained."""
    asked: list[str] = []

    class Witness(PlainPlugin):
        name = "Witness"

        def filter(self, pod: Pod, node: Any) -> None:
            asked.append(f"{pod.name} on {node.name}")

    items = [a_node("a"), a_node("b"), pending("p"), pending("q")]
    run(*items, plugin=Witness)
    plain = list(asked)
    asked.clear()
    a_simulation(*items, plugin=Witness).run(explain="q")
    assert asked == plain


def test_the_pods_that_left_for_the_explained_one_are_named() -> None:
    old = a_pod("old", cpu="3", nodeName="n", priority=0)
    explanation = a_simulation(a_node("n", cpu="4"), old, pending("urgent", cpu="3", priority=9)).run(explain="urgent")
    assert explanation.explanation is not None
    assert explanation.explanation.victims == ["default/old"]


def test_a_name_that_many_pods_have_is_refused() -> None:
    simulation = a_simulation(*(pending("p", namespace=f"ns-{i}") for i in range(7)))
    with pytest.raises(NoSuchPod, match=r"^'p' could be any of ns-0/p, .*, ns-4/p and 2 more: add its namespace$"):
        simulation.run(explain="p")
    assert simulation.run(explain="ns-3/p").explanation is not None
