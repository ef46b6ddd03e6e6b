"""Preemption for whole pod groups: who leaves, what is said about it, and what waits.

The table has the cases of upstream's integration test, in our words.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from gangs import GROUP_GATES, GangWorld, a_member
from mooring.framework.contract.group_points import GroupFitError, GroupSearch, PodsLeave
from mooring.framework.contract.intents import Call, Evict, Intent, PatchStatus, Write
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.scheduler.inputs import EvictionAnswered

TOGETHER: dict[str, Any] = {"disruptionMode": {"all": {}}}


DEVICES = "deallocation and deletion of ResourceClaims completed"


@dataclass
class Case:
    """Pods are (cpu, priority) by name; those of a group are in `in_group`."""

    nodes: dict[str, str]
    groups: dict[str, dict[str, Any]]
    low: dict[str, tuple[str, int]]
    high: dict[str, tuple[str, int]]
    leave: set[str]
    placed: set[str]
    on: dict[str, str] = field(default_factory=dict)
    low_group: str = ""
    high_group: str = "pg1"
    protected: set[str] = field(default_factory=set)


ONE = {"n1": "3"}
LOWS = {"low-1": ("1", 10), "low-2": ("1", 10), "low-3": ("1", 10)}
HIGHS = {"high-1": ("1", 100), "high-2": ("1", 100), "high-3": ("1", 100)}
CASES = {
    "all pods of a node leave for a gang": Case(
        ONE, {"pg1": {"priority": 100, "min_count": 3}}, LOWS, HIGHS, set(LOWS), set(HIGHS)
    ),
    "all pods of a node leave for a group with the basic policy": Case(
        ONE, {"pg1": {"priority": 100}}, LOWS, HIGHS, set(LOWS), set(HIGHS)
    ),
    "only as many leave as have to": Case(
        {"n1": "2", "n2": "2"},
        {"pg1": {"priority": 100, "min_count": 3}},
        {"low-1": ("2", 10), "low-2": ("1", 10)},
        HIGHS,
        {"low-1"},
        {*HIGHS, "low-2"},
        {"low-1": "n1", "low-2": "n2"},
    ),
    "pods of a disruption budget come back first": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 2}},
        LOWS,
        {"high-1": ("500m", 100), "high-2": ("500m", 100)},
        {"low-3"},
        {"high-1", "high-2"},
        protected={"low-1", "low-2"},
    ),
    "victims on several nodes": Case(
        {"n1": "2", "n2": "2"},
        {"pg1": {"priority": 100, "min_count": 4}},
        {**LOWS, "low-4": ("1", 10)},
        {**HIGHS, "high-4": ("1", 100)},
        {*LOWS, "low-4"},
        {*HIGHS, "high-4"},
        {"low-1": "n1", "low-2": "n1", "low-3": "n2", "low-4": "n2"},
    ),
    "no pod leaves for a gang that would not fit": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 3}},
        {"mid-1": ("1", 500), "low-1": ("1", 10), "low-2": ("1", 10)},
        HIGHS,
        set(),
        {"mid-1", "low-1", "low-2"},
    ),
    "the least important leave": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 2}},
        {"mid-1": ("1", 50), "low-1": ("1", 10), "low-2": ("1", 10)},
        {"high-1": ("1", 100), "high-2": ("1", 100)},
        {"low-1", "low-2"},
        {"high-1", "high-2", "mid-1"},
    ),
    "a gang leaves as one, though one pod would do": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 1}, "pg2": {"priority": 10, "min_count": 3, **TOGETHER}},
        LOWS,
        {"high-1": ("1", 100)},
        set(LOWS),
        {"high-1"},
        low_group="pg2",
    ),
    "a group with the basic policy leaves as one": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 1}, "pg2": {"priority": 10, **TOGETHER}},
        LOWS,
        {"high-1": ("1", 100)},
        set(LOWS),
        {"high-1"},
        low_group="pg2",
    ),
    "priorities of groups count, not those of their pods": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 1}, "pg2": {"priority": 10, "min_count": 3, **TOGETHER}},
        {"low-1": ("1", 1000), "low-2": ("1", 1000), "low-3": ("1", 1000)},
        {"high-1": ("1", 100)},
        set(LOWS),
        {"high-1"},
        {"low-1": "n1", "low-2": "n1", "low-3": "n1"},
        low_group="pg2",
    ),
    "a group is not preempted by one of lower priority, whatever the priority of its pods": Case(
        ONE,
        {"pg1": {"priority": 50, "min_count": 1}, "pg2": {"priority": 100, "min_count": 3, **TOGETHER}},
        LOWS,
        {"high-1": ("1", 50)},
        set(),
        set(LOWS),
        {"low-1": "n1", "low-2": "n1", "low-3": "n1"},
        low_group="pg2",
    ),
    "members of a group may leave alone": Case(
        ONE,
        {"pg1": {"priority": 100, "min_count": 1}, "pg2": {"priority": 10, "min_count": 3}},
        LOWS,
        {"high-1": ("1", 100)},
        {"low-3"},
        {"high-1"},
        low_group="pg2",
    ),
    "a pod without a group evicts single pods of groups": Case(
        ONE,
        {"pg1": {"priority": 10, "min_count": 1}},
        LOWS,
        {"high-1": ("1", 100)},
        {"low-3"},
        {"high-1", "low-1", "low-2"},
        low_group="pg1",
        high_group="",
    ),
    "v1.37, 12.4: a pod without a group evicts a whole group on all nodes": Case(
        {"n1": "1", "n2": "1"},
        {"pg1": {"priority": 10, "min_count": 2, **TOGETHER}},
        {"low-1": ("1", 10), "low-2": ("1", 10)},
        {"high-1": ("1", 100)},
        {"low-1", "low-2"},
        {"high-1"},
        low_group="pg1",
        high_group="",
    ),
}


class PreemptionWorld(GangWorld):
    """A world that remembers who was evicted."""

    def __init__(self, gates: dict[str, bool] | None = None) -> None:
        super().__init__(GROUP_GATES if gates is None else gates)
        self.evicted: list[str] = []
        self.driver.on_evicted = lambda victim, preemptor: self.evicted.append(victim.name)

    def groups(self, groups: dict[str, dict[str, Any]]) -> None:
        for name, more in groups.items():
            self.group(name, uid=f"uid-{name}", **more)

    def create(self, pods: dict[str, tuple[str, int]], group: str, **more: dict[str, Any]) -> None:
        """All of them come before any is tried."""
        for name, (cpu, priority) in pods.items():
            about = {"cpu": cpu, "priority": priority, **more.get(name, {})}
            alone: dict[str, Any] = {"schedulerName": "default-scheduler", "metadata": {"uid": f"uid-{name}"}}
            self.driver.create(a_member(name, group, **about) if group else a_pod(name, **alone, **about))
        self.settle()

    def preempted(self) -> dict[str, str]:
        """The events about victims."""
        return {event.pod.name: event.note for event in self.driver.events if event.reason == "Preempted"}

    def intents(self) -> list[Intent]:
        """What one attempt wants to be done; none of it is."""
        found: list[Intent] = []
        self.scheduler.attempt()
        self.scheduler.carry_out(found.append)
        return found


def staged(case: Case, gates: dict[str, bool] | None = None) -> PreemptionWorld:
    """The world of a case, before the preemptors come."""
    world = PreemptionWorld(gates)
    for name, cpu in case.nodes.items():
        world.node(name, cpu)
    world.groups(case.groups)
    if case.protected:
        world.driver.create(a_budget())
    more: dict[str, dict[str, Any]] = {name: {"nodeName": node} for name, node in case.on.items()}
    for name in case.protected:
        more.setdefault(name, {})["labels"] = {"app": "foo"}
    world.create(case.low, case.low_group, **more)
    assert set(world.where()) == set(case.low)
    return world


def a_budget(allowed: int = 0) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": "foo"}}
    written = {
        "metadata": {"name": "foo", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(written, PodDisruptionBudget)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_leaves(case: Case) -> None:
    world = staged(case)
    world.create(case.high, case.high_group)
    world.wait(40)
    assert set(world.evicted) == case.leave
    assert set(world.where()) == case.placed | (set(case.low) - case.leave)
    if not case.high_group:
        # Upstream names the node that the preemptor gets, also for members of a group that leave other nodes.
        note = f"Preempted by pod uid-high-1 on node {world.where()['high-1']}"
        assert world.preempted() == dict.fromkeys(case.leave, note)
        return
    assert world.preempted() == dict.fromkeys(case.leave, "Preempted by podgroup uid-pg1 on node cluster")
    told = [event for event in world.driver.events if event.reason == "Preempted"]
    assert all(event.related is not None and event.related.uid == "uid-pg1" for event in told)


def test_what_is_written_when_room_was_found() -> None:
    case = CASES["only as many leave as have to"]
    world = staged(case)
    for name, (cpu, priority) in case.high.items():
        world.driver.create(a_member(name, "pg1", cpu=cpu, priority=priority))
    intents = world.intents()
    (evict,) = [intent for intent in intents if isinstance(intent, Evict)]
    assert evict.victim.name == "low-1"
    assert evict.condition.type == "DisruptionTarget"
    assert evict.condition.reason == "PreemptionByScheduler"
    assert evict.condition.message == "default-scheduler: preempting to accommodate a higher priority podgroup"
    statuses = {i.pod.name: i for i in intents if isinstance(i, PatchStatus)}
    said = {name: (i.condition.message if i.condition else None, i.nominated_node_name) for name, i in statuses.items()}
    too_few = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
    found = f"{too_few}, pod group preemption: found a placement for podgroup, preempting 1 victims"
    assert {name: message for name, (message, _) in said.items()} == {
        "high-1": found,
        "high-2": "0/2 nodes are available: 2 Insufficient cpu.",
        "high-3": too_few,
    }
    assert sorted(node or "" for _, node in said.values()) == ["n1", "n1", "n2"]
    (status,) = [intent for intent in intents if isinstance(intent, Write)]
    assert isinstance(status.body, dict)
    (condition,) = status.body["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        *("False", "Unschedulable"),
        found,
    )
    assert world.counted("podgroup_schedule_attempts_total")[("waiting_on_preemption", "default-scheduler")] == 1


def test_the_group_waits_at_the_gate_until_all_evictions_are_answered() -> None:
    case = CASES["all pods of a node leave for a gang"]
    world = staged(case)
    for name, (cpu, priority) in case.high.items():
        world.driver.create(a_member(name, "pg1", cpu=cpu, priority=priority))
    evictions = [intent for intent in world.intents() if isinstance(intent, Evict)]
    assert {eviction.victim.name for eviction in evictions} == case.leave
    assert {eviction.preemptor.name for eviction in evictions} == {"high-1"}
    for eviction in evictions[:-1]:
        world.driver.delete("Pod", eviction.victim.key)
        world.scheduler.handle(EvictionAnswered(eviction.victim, eviction.preemptor))
    world.wait(2)
    assert world.place("high-2") == "gated"
    assert world.gate("high-2") == "waiting for the preemption for this pod group to be finished"
    world.driver.create(a_member("high-4", "pg1", cpu="1", priority=100))
    assert world.place("high-4") == "gated"
    world.driver.delete("Pod", evictions[-1].victim.key)
    world.scheduler.handle(EvictionAnswered(evictions[-1].victim, evictions[-1].preemptor))
    world.wait(15)
    assert sorted(world.where()) == ["high-1", "high-2", "high-3"]


def test_an_eviction_that_fails_lets_the_group_try_again_at_once() -> None:
    case = CASES["a gang leaves as one, though one pod would do"]
    world = staged(case)
    for name in ("high-1", "high-2"):
        world.driver.create(a_member(name, "pg1", cpu="1", priority=100))
    evictions = [intent for intent in world.intents() if isinstance(intent, Evict)]
    for eviction in evictions:
        world.scheduler.handle(EvictionAnswered(eviction.victim, eviction.preemptor, "the server is out"))
    assert {world.place(name) for name in ("high-1", "high-2")} == {"active"}


@pytest.mark.parametrize(
    ("group", "member", "said"),
    [
        (
            {"priority": 100},
            {"preemptionPolicy": "Never"},
            f"minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {DEVICES}, "
            "pod group preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            {"priority": 10},
            {},
            "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, "
            "pod group preemption: No preemption victims found for incoming preemptor",
        ),
        (
            {"priority": 100, "min_count": 2},
            {},
            f"minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, {DEVICES}, "
            "pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining",
        ),
    ],
    ids=["Never", "no victims", "no room"],
)
def test_why_no_room_can_be_made(group: dict[str, Any], member: dict[str, Any], said: str) -> None:
    world = PreemptionWorld()
    world.node("n1", "1")
    world.groups({"pg1": group})
    world.create({"low": ("1", 10)}, "")
    for name in ("high-1", "high-2"):
        world.driver.create(a_member(name, "pg1", cpu="1", priority=group["priority"], **member))
    world.settle()
    assert world.evicted == []
    assert world.group_says("pg1") == [("PodGroupInitiallyScheduled", "False", "Unschedulable", said)]


def test_v137_14_3_a_group_waits_for_victims_that_are_terminating_on_its_nominated_nodes() -> None:
    world = PreemptionWorld()
    world.node("n1", "1")
    world.groups({"pg1": {"priority": 100}})
    leaving = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    about: dict[str, Any] = {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [leaving]},
    }
    world.driver.create(a_pod("low", cpu="1", nodeName="n1", **about))
    world.driver.create(a_pod("other", cpu="0", nodeName="n1", metadata={"uid": "uid-other"}))
    world.create({"high-1": ("1", 100)}, "pg1", **{"high-1": {"status": {"nominatedNodeName": "n1"}}})
    assert world.evicted == []
    ((_, status, _, message),) = world.group_says("pg1")
    assert (status, (message or "").rpartition(", ")[2]) == (
        "False",
        "pod group preemption: ongoing preemption on nominated nodes",
    )
    assert world.core.queue.nominations.node_of("uid-high-1") == "n1"
    # Nothing was searched: only the attempt counts.
    assert world.counted("workload_preemption_attempts_total") == {("Success",): 1}
    assert world.metrics.registry.histogram("scheduler_workload_preemption_victims").series().count == 0


def test_v137_14_6_zero_victims_are_a_success() -> None:
    """All units come back: the group fits beside them now, though it did not before."""
    world = PreemptionWorld()
    world.node("n1", "2")
    world.groups({"pg1": {"priority": 100, "min_count": 1}})
    world.create({"low": ("1", 10)}, "")
    world.create({"high-1": ("1", 100)}, "pg1")
    assert (world.evicted, sorted(world.where())) == ([], ["high-1", "low"])


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_v137_14_2_with_the_gate_the_policy_of_the_group_counts(policy: str) -> None:
    world = PreemptionWorld({**GROUP_GATES, "PodGroupPreemptionPolicy": True})
    world.node("n1", "1")
    world.groups({"pg1": {"priority": 100, "preemptionPolicy": policy}})
    world.create({"low": ("1", 10)}, "")
    world.create({"high-1": ("1", 100)}, "pg1", **{"high-1": {"preemptionPolicy": policy}})
    world.wait(5)
    assert sorted(world.where()) == (["low"] if policy == "Never" else ["high-1"])


def test_v137_13_5_a_profile_without_plugins_adds_an_empty_reason() -> None:
    world = PreemptionWorld()
    world.core.runners["default-scheduler"].profile.pod_group_post_filters = ()
    world.node("n1", "1")
    world.groups({"pg1": {"priority": 100}})
    world.create({"low": ("1", 10)}, "")
    world.create({"high-1": ("1", 100)}, "pg1")
    assert world.group_says("pg1")[0][3] == "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, "


def test_a_search_that_raises_fails_the_group_and_puts_all_pods_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(self: DefaultPreemption, failure: GroupFitError) -> GroupSearch:
        yield PodsLeave(priority=1000)
        raise ValueError("oh no")

    monkeypatch.setattr(DefaultPreemption, "pod_group_post_filter", bad)
    world = staged(CASES["all pods of a node leave for a gang"])
    before = [pod.name for pod in world.core.cluster.nodes.pods()]
    world.create(HIGHS, "pg1")
    text = (
        'error in "DefaultPreemption" PodGroupPostFilter plugins: '
        'running PodGroupPostFilter plugin "DefaultPreemption": ValueError: oh no'
    )
    ((_, status, reason, message),) = world.group_says("pg1")
    assert (status, reason) == ("False", "SchedulerError")
    assert {(world.said(name) or "")[: len(text)] for name in HIGHS} == {(message or "")[: len(text)]} == {text}
    assert [pod.name for pod in world.core.cluster.nodes.pods()] == before
    assert world.held_milli() == {"n1": 3000}


def test_victims_that_are_terminating_are_not_evicted_again() -> None:
    case = CASES["all pods of a node leave for a gang"]
    world = staged(case)
    for name in case.low:
        pod = world.driver.objects["Pod", f"default/{name}"]
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        world.driver.update(msgspec.structs.replace(pod, metadata=metadata))
    world.create(case.high, "pg1")
    assert world.evicted == []
    assert (world.group_says("pg1")[0][3] or "").endswith("found a placement for podgroup, preempting 3 victims")


def test_extenders_have_their_say_without_the_victims() -> None:
    """An extender that rejects a node keeps the victims there safe."""
    extender = {"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter", "weight": 1}
    world = GangWorld(GROUP_GATES, extenders=[extender])
    evicted: list[str] = []
    world.driver.on_evicted = lambda victim, preemptor: evicted.append(victim.name)
    calls: list[Call] = []

    def answer(call: Call) -> Any:
        calls.append(call)
        items = [node for node in call.body["Nodes"]["items"] if node.name != "n2"]
        return {"NodeNames": None, "Nodes": {"items": items}, "FailedNodes": {"n2": "not this one"}}

    world.driver.extender = answer
    for name in ("n1", "n2"):
        world.node(name, "1")
        world.driver.create(a_pod(f"low-{name}", cpu="1", nodeName=name, metadata={"uid": f"uid-low-{name}"}))
    world.group("pg1", uid="uid-pg1", priority=100)
    world.members("high", group="pg1", priority=100)
    world.wait(5)
    assert evicted == ["low-n1"]
    assert world.where()["high"] == "n1"
    assert len(calls) == 2  # v1.37, 14.5: the group is tried once without its victims


# ---- more facts of upstream's integration test


def four_nodes(cpu: str = "1", count: int = 4) -> PreemptionWorld:
    world = PreemptionWorld()
    for number in range(1, count + 1):
        world.driver.create(a_node(f"n{number}", cpu=cpu, labels={"kubernetes.io/hostname": f"n{number}"}))
    return world


def test_v137_14_as_many_members_go_as_fit_without_more_important_pods() -> None:
    world = four_nodes()
    world.groups({"pg": {"priority": 100, "min_count": 1}})
    priorities = {"p1": 10, "p2": 10, "p3": 200, "p4": 200}
    on = {name: {"nodeName": f"n{name[1]}"} for name in priorities}
    world.create({name: ("1", priority) for name, priority in priorities.items()}, "", **on)
    world.create(dict.fromkeys(("a", "b", "c"), ("1", 100)), "pg")
    world.wait(20)
    assert (set(world.where()), set(world.evicted)) == ({"a", "b", "p3", "p4"}, {"p1", "p2"})
    assert world.place("c") == "backoff"


def test_v137_14_a_whole_group_leaves_for_a_part_of_another() -> None:
    world = four_nodes()
    world.groups(
        {"v": {"priority": 50, "min_count": 2, **TOGETHER}, "w": {"priority": 200, "min_count": 2, **TOGETHER}}
    )
    for group, names, priority in (("v", ("v1", "v2"), 50), ("w", ("v3", "v4"), 200)):
        on = {name: {"nodeName": f"n{name[1]}"} for name in names}
        world.create(dict.fromkeys(names, ("1", priority)), group, **on)
    world.groups({"pg": {"priority": 100, "min_count": 1, **TOGETHER}})
    world.create(dict.fromkeys(("a", "b", "c"), ("1", 100)), "pg")
    world.wait(20)
    assert (set(world.where()), set(world.evicted)) == ({"a", "b", "v3", "v4"}, {"v1", "v2"})


@pytest.mark.parametrize("rule", ["ports", "anti-affinity"])
def test_v137_14_a_pod_that_leaves_room_enough_leaves_if_members_cannot_be_beside_it(rule: str) -> None:
    world = four_nodes("2", 2)
    world.groups({"pg": {"priority": 100, "min_count": 2}})
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    about: dict[str, Any] = {"host_ports": (8080,)} if rule == "ports" else apart
    theirs: dict[str, Any] = {"host_ports": (8080,)} if rule == "ports" else {"labels": {"app": "initial"}}
    world.create({"initial": ("250m", 10)}, "", initial={"nodeName": "n1", **theirs})
    members = ("a", "b")
    world.create(dict.fromkeys(members, ("1500m", 100)), "pg", **dict.fromkeys(members, about))
    world.wait(20)
    assert (set(world.where()), world.evicted) == ({"a", "b"}, ["initial"])


@pytest.mark.parametrize("minimum", [2, None])
def test_v137_14_members_that_fit_go_before_preemption_makes_room_for_the_others(minimum: int | None) -> None:
    world = PreemptionWorld()
    world.node("n1", "4")
    world.groups({"pg": {"priority": 100, "min_count": minimum}})
    world.create({"old-1": ("1", 100), "old-2": ("1", 100)}, "pg")
    world.create({"low": ("1", 10)}, "")
    for name in ("high-1", "high-2"):
        world.driver.create(a_member(name, "pg", cpu="1", priority=100))
        world.clock.advance_ns(1)
    intents = world.intents()
    assert [type(intent).__name__ for intent in intents if type(intent).__name__ in ("Bind", "Evict")] == ["Bind"]
    assert [type(intent).__name__ for intent in world.intents() if isinstance(intent, Evict)] == ["Evict"], "at once"


def test_v137_20_4_preemption_by_pods_is_counted_with_groups() -> None:
    """Disrupted groups are not counted for pods, as upstream."""
    world = PreemptionWorld()
    world.node("n1", "2")
    world.driver.create(a_budget())
    world.group("low", priority=1, uid="uid-low")
    world.members("low", group="low", priority=1, cpu="2", labels={"app": "foo"})
    world.pod("high", cpu="2", priority=10)
    world.pod("never", cpu="2", priority=10, preemptionPolicy="Never")
    world.wait(5)
    assert world.where() == {"high": "n1"}
    registry = world.metrics.registry
    searches = registry.histogram("scheduler_preemption_evaluation_duration_seconds")
    counts = {labels: series.count for labels, series in searches.items()}
    assert counts == {("pod", "Success"): 1, ("pod", "Unschedulable"): 1}
    assert world.counted("preemption_pdb_violations_total") == {("pod",): 1}
    assert dict(registry.histogram("scheduler_preemption_workload_disruptions").items()) == {}
    assert registry.histogram("scheduler_preemption_execution_duration_seconds").series("pod", "success").count == 1


def test_v137_14_3_nominations_stay_while_victims_are_leaving_though_a_better_node_is_free() -> None:
    world = PreemptionWorld()
    for node in ("n1", "n2", "n3"):
        world.node(node, "1")
    leaving = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    about: dict[str, Any] = {"status": {"conditions": [leaving]}}
    world.driver.create(a_pod("important", cpu="1", nodeName="n1", priority=100, metadata={"uid": "uid-important"}))
    for node in ("n2", "n3"):
        metadata = {"uid": f"uid-{node}", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        world.driver.create(a_pod(f"low-{node}", cpu="1", nodeName=node, priority=10, metadata=metadata, **about))
    world.groups({"pg1": {"priority": 50, "min_count": 2}})
    nominated = {"high-1": "n2", "high-2": "n3"}
    more: dict[str, Any] = {name: {"status": {"nominatedNodeName": node}} for name, node in nominated.items()}
    world.create({"high-1": ("1", 50), "high-2": ("1", 50)}, "pg1", **more)
    world.delete("important")
    world.wait(10)
    assert world.evicted == []
    assert not {"high-1", "high-2"} & set(world.where())
    assert {name: world.core.queue.nominations.node_of(f"uid-{name}") for name in nominated} == nominated
    for node in ("n2", "n3"):
        world.delete(f"low-{node}")
    world.wait(20)
    assert {"high-1", "high-2"} <= set(world.where())
