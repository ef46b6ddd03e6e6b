"""The search for victims of pod groups on a fork that is kept, against a plain search: pod by pod on the cluster itself,
where every unit comes back alone and every member is asked about each time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import GROUP_GATES, GangWorld, a_composite, a_group, a_member
from how_many import examples
from mooring.framework.attempts import leave_room
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import GroupFitError, GroupRoom, PodGroupPostFilterPlugin
from mooring.framework.contract.points import Codes, FilterPlugin, ReservePlugin, Rows
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins import in_tree
from mooring.scheduler.decide import deciding
from mooring.scheduler.decision import Placement
from mooring.scheduler.extender_steps import Steps, at_once
from mooring.scheduler.groups import group_attempt, group_post_filter
from mooring.scheduler.groups.group_placements import GroupAttempt
from mooring.scheduler.groups.group_post_filter import GroupPostFilterResult, run_group_post_filters
from mooring.scheduler.groups.trial import Member, give_back, hold_found
from mooring.scheduler.observer import Observer

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GATES = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}


# ---- the plain search


@dataclass
class PlainMembers:
    """Pods of lower priority leave the cluster itself, and come back to it."""

    attempt: GroupAttempt
    away: dict[str, Pod]
    members: Sequence[Member] = ()
    rows: None = None

    @property
    def nodes(self) -> dict[str, str]:
        return {member.entry.key: member.node or "" for member in self.members}

    def reprieve(self, pods: Sequence[Pod]) -> bool:
        nodes, core = self.attempt.core.cluster.nodes, self.attempt.core
        for pod in pods:
            nodes.place(self.away.pop(pod.id), pod.spec.node_name)
        fits = all(self._holds(member) for member in self.members)
        give_back(core, self.members)
        if not fits:
            self.away |= {pod.id: nodes.displace(pod.id) for pod in pods}
        return fits

    def _holds(self, member: Member) -> bool:
        core, runner, node = self.attempt.core, self.attempt.runner, member.node or ""
        within = np.zeros(core.cluster.nodes.height, np.bool_)
        within[core.cluster.nodes.row_book[node]] = True
        options = replace(core.options, within=within, extenders=())
        decision = at_once(deciding(runner, member.entry.pod, core.cluster, options, member.seed, None))
        if isinstance(decision, Placement):
            member.failure = None
            hold_found(core, runner, member, decision)
        holds, member.node = isinstance(decision, Placement) and member.failure is None, node
        return holds


def plain_search(
    attempt: GroupAttempt, plugin: PodGroupPostFilterPlugin, failure: GroupFitError
) -> Steps[GroupRoom | Rejection]:
    cluster = attempt.core.cluster
    order = {row: list(pods) for row, pods in enumerate(cluster.nodes.pods_on)}
    plain = PlainMembers(attempt, {})
    search = plugin.pod_group_post_filter(failure)
    try:
        question = next(search)
        assert question.priority is not None
        for name, row in cluster.nodes.row_book.items():
            assert cluster.nodes.names[row] == name
            for pod in order[row] if cluster.nodes.nodes[row] is not None else ():
                if cluster.group_tree.victim_priority(pod) < question.priority:
                    plain.away[pod.id] = cluster.nodes.displace(pod.id)
        unseen = replace(attempt.core, observer=Observer(), deciding=deciding)
        again = GroupAttempt(unseen, attempt.runner, attempt.root, attempt.entries, attempt.seed)
        results = yield from again.steps()
        again.give_back(results)
        status = results[attempt.root].status
        plain.members = again.successful(attempt.root, results)
        search.send(plain if status.is_success else Rejection((status.message,), status.code))
    except StopIteration as end:
        found: GroupRoom | Rejection = end.value
        return found
    finally:
        for pod in plain.away.values():
            cluster.nodes.place(pod, pod.spec.node_name)
        for row, pods in order.items():
            cluster.nodes.pods_on[row][:] = pods
            cluster.nodes.pod_touches.note(row)
    raise AssertionError("a search asks once")


# ---- what came of searches


Picture = tuple[list[list[str]], list[list[int]], list[int], dict[str, str]]


def picture_of(attempt: GroupAttempt) -> Picture:
    """The node table, and nominations."""
    nodes = attempt.core.cluster.nodes
    return (
        [[pod.id for pod in pods] for pods in nodes.pods_on],
        nodes.amounts.requested[:, : nodes.height].tolist(),
        nodes.pod_count[: nodes.height].tolist(),
        attempt.core.queue.nominations.promised(),
    )


@dataclass
class Found:
    """What all searches of a world found."""

    said: list[tuple[Any, ...]] = field(default_factory=list)

    def watch(self, attempt: GroupAttempt, failure: GroupFitError) -> Steps[GroupPostFilterResult]:
        before = picture_of(attempt)
        result = yield from run_group_post_filters(attempt, failure)
        assert picture_of(attempt) == before
        assert attempt.core.cache.check() == []
        if result.room is None:
            self.said.append((result.refusal.code, result.refusal.message))
        else:
            victims = [pod.name for pod in result.room.victims]
            about = result.room.violations, result.room.disrupted_groups
            self.said.append((result.room.message, dict(result.room.nominated), victims, about))
        return result


@contextmanager
def searching(is_plain: bool) -> Iterator[Found]:
    found = Found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_attempt, "run_group_post_filters", found.watch)
        if is_plain:
            patch.setattr(group_post_filter, "_search", plain_search)
        yield found


# ---- clusters by chance


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _required(kind: str, app: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, key)]}}}


def _spread(app: str) -> dict[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": app}}}]}


RULES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "port": {"host_ports": (8080,)},
    "disk": {"volumes": [{"name": "disk", "awsElasticBlockStore": {"volumeID": "v"}}]},
    "alone on a host": _required("podAntiAffinity", "member", HOST),
    "not beside x in a zone": _required("podAntiAffinity", "x", ZONE),
    "beside x in a zone": _required("podAffinity", "x", ZONE),
    "beside members": _required("podAffinity", "member", ZONE),
    "spread with members": _spread("member"),
    "spread with x": _spread("x"),
}
RULE = st.one_of(st.just("nothing"), st.sampled_from(sorted(RULES)))
CPU = st.sampled_from(["0", "500m", "1", "2"])


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Nodes with low pods, some in groups and under a budget, and gangs that come one after another."""
    nodes = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=4))
    low = st.tuples(
        *(st.integers(0, len(nodes) - 1), CPU, st.integers(0, 2), st.none() | st.integers(0, 2)),
        *(st.sampled_from(["", "", "", "low-a", "low-b"]), st.sampled_from(["x", "member", "other"]), RULE),
    )
    gang = st.tuples(
        *(st.integers(1, 4), CPU, st.integers(1, 3), st.none() | st.integers(1, 4), RULE),
        *(st.booleans(), st.booleans()),
    )
    return {
        "nodes": nodes,
        "pods": draw(st.lists(low, max_size=10)),
        "modes": draw(st.tuples(st.sampled_from(["single", "all"]), st.integers(0, 3))),
        "allowed": draw(st.lists(st.tuples(st.sampled_from(["x", "other"]), st.integers(0, 2)), max_size=2)),
        "gangs": draw(st.lists(gang, min_size=1, max_size=3)),
        "changes": draw(st.lists(st.sampled_from(["relabel", "remove", "mode", "wait", "node"]), max_size=3)),
    }


def staged(case: dict[str, Any]) -> GangWorld:
    world = GangWorld(GATES)
    create, (mode, priority) = world.driver.create, case["modes"]
    for name in ("low-a", "low-b"):
        create(a_group(name, uid=f"uid-{name}", disruptionMode={mode: {}}, priority=priority))
    for number, (cpu, zone) in enumerate(case["nodes"]):
        create(a_node(f"n{number}", cpu=str(cpu), pods=6, labels={ZONE: zone, HOST: f"n{number}"}))
    free = [cpu * 1000 for cpu, _ in case["nodes"]]
    for number, (node, cpu, its, second, group, app, rule) in enumerate(case["pods"]):
        free[node] -= {"0": 0, "500m": 500, "1": 1000, "2": 2000}[cpu]
        if free[node] >= 0:
            status = {} if second is None else {"startTime": f"2026-01-01T00:00:{second:02d}Z"}
            about = {"cpu": cpu, "priority": its, "status": status, "labels": {"app": app}, **RULES[rule]}
            named = a_member(f"p{number}", group, nodeName=f"n{node}", **about)
            alone = a_pod(f"p{number}", metadata={"uid": f"uid-p{number}"}, nodeName=f"n{node}", **about)
            create(named if group else alone)
    for number, (app, allowed) in enumerate(case["allowed"]):
        written = {
            "metadata": {"name": f"budget-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
        create(msgspec.convert(written, PodDisruptionBudget))
    world.driver.settle()
    return world


def play(case: dict[str, Any]) -> GangWorld:
    """Gangs come, and after each of them something else changes."""
    world = staged(case)
    for number, (size, cpu, priority, minimum, rule, is_composite, in_a_zone) in enumerate(case["gangs"]):
        more: dict[str, Any] = {"priority": priority}
        if in_a_zone:
            more["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        if is_composite:
            world.driver.create(a_composite(f"tree-{number}", 1, **more))
            more = {"parentCompositePodGroupName": f"tree-{number}"}
        needed = None if minimum is None else min(minimum, size)
        world.driver.create(a_group(f"gang-{number}", needed, uid=f"uid-gang-{number}", **more))
        about = {"cpu": cpu, "priority": priority, "labels": {"app": "member"}, **RULES[rule]}
        world.members(*(f"g{number}m{place}" for place in range(size)), group=f"gang-{number}", **about)
        world.wait(3)
        if number < len(case["changes"]):
            change(world, case["changes"][number])
    world.wait(10)
    return world


def change(world: GangWorld, what: str) -> None:
    running = sorted(pod.name for pod in world.driver.pods() if pod.name.startswith("p"))
    if what == "relabel" and running:
        pod = world.driver.objects["Pod", f"default/{running[0]}"]
        metadata = msgspec.structs.replace(pod.metadata, labels={"app": "x"})
        world.driver.update(msgspec.structs.replace(pod, metadata=metadata))
    elif what == "remove" and running:
        world.delete(running[-1])
    elif what == "mode":
        old = world.driver.objects["PodGroup", "default/low-a"]
        world.driver.update(a_group("low-a", uid=old.uid, disruptionMode={"all": {}}, priority=1))
    elif what == "node":
        world.driver.create(a_node("new", cpu="1", labels={ZONE: "a", HOST: "new"}))
    world.wait(1)


@given(worlds())
@settings(max_examples=examples(300), deadline=None)
def test_searches_on_a_kept_fork_find_what_plain_searches_find(case: dict[str, Any]) -> None:
    with searching(is_plain=False) as found:
        where = play(case).where()
    with searching(is_plain=True) as plain:
        assert (play(case).where(), plain.said) == (where, found.said)


@given(worlds())
@settings(max_examples=examples(300), deadline=None)
def test_rows_with_nominated_pods_are_closed_as_if_each_were_asked_about_alone(case: dict[str, Any]) -> None:
    """The twin puts the nominated pods on each row in turn. Rows are taken together also where there are few."""
    with pytest.MonkeyPatch.context() as patch, searching(is_plain=False) as found:
        patch.setattr(leave_room, "FEW_ROWS", 0)
        where = play(case).where()
    with pytest.MonkeyPatch.context() as patch, searching(is_plain=False) as alone:
        patch.setattr(leave_room, "codes_beside", lambda attempt, nominated: None)
        assert (play(case).where(), alone.said) == (where, found.said)


# ---- plugins that raise


class Failing(FilterPlugin, ReservePlugin):
    """Raises in the call with the number `at`, counted over Filter and Reserve for members."""

    name = "Failing"
    at, calls = 0, 0

    def __init__(self, args: object, handle: object) -> None:
        pass

    def _count(self, context: SchedulingContext) -> None:
        cls = type(self)
        cls.calls += context.pod.group_key is not None
        if cls.calls == cls.at:
            cls.calls += 1
            raise ValueError("oh no")

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        self._count(context)
        return None

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        raise AssertionError("no node is rejected")

    def reserve(self, context: SchedulingContext, node_name: str) -> None:
        self._count(context)

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        pass


@pytest.mark.parametrize("at", range(1, 16))
def test_a_plugin_that_raises_leaves_the_cluster_as_it_was(at: int) -> None:
    """The filter reads the whole cluster, so all units are tried. The group goes later all the same."""
    plugin: type[Failing] = type("Failing", (Failing,), {"at": at})
    registry = in_tree()
    registry.register(plugin)
    world = GangWorld(GROUP_GATES, registry, enabled=["Failing"])
    for number in range(2):
        world.node(f"n{number}", "2")
    for number in range(4):
        world.pod(f"low-{number}", cpu="1")
    world.driver.create(a_group("gang", 2, uid="uid-gang", priority=10))
    with searching(is_plain=False) as found:
        world.members("m0", "m1", priority=10, cpu="1")
        world.wait(60)
    assert found.said
    assert plugin.calls >= at
    assert {"m0", "m1"} <= world.where().keys()
