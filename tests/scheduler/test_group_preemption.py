"""Preemption for whole pod groups (gate WorkloadAwarePreemption): who leaves, what is said about it, and what waits.

The table has the cases of upstream's integration test of the gate, in our words.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from build import a_pod
from gangs import BOTH_GATES, WITH_PREEMPTION, GangWorld, a_member
from mooring.framework.attempts.fit_errors import GroupFitError, GroupSearch, MovedPods
from mooring.framework.contract.intents import Call, Evict, Intent, PatchStatus, Write
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.scheduler.inputs import EvictionAnswered

TOGETHER = {"disruptionMode": "PodGroup"}


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
    "the same for the basic policy": Case(
        {"n1": "2", "n2": "2"},
        {"pg1": {"priority": 100}},
        {"low-1": ("1", 10), "very-low-1": ("2", 5)},
        HIGHS,
        {"very-low-1"},
        {*HIGHS, "low-1"},
        {"low-1": "n1", "very-low-1": "n2"},
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
        {"high-1": ("1", 100), "high-2": ("1", 100), "high-3": ("1", 100)},
        {"low-1": ("1", 10)},
        {"high-1", "high-2", "high-3"},
        {"low-1"},
        low_group="pg2",
    ),
    "a group of low priority preempts no pod, whatever the priority of its pods": Case(
        ONE,
        {"pg1": {"priority": 10, "min_count": 1}, "pg2": {"priority": 100, "min_count": 3, **TOGETHER}},
        LOWS,
        {"high-1": ("1", 100)},
        set(),
        set(LOWS),
        low_group="pg2",
    ),
    "a pod without a group evicts single pods of groups": Case(
        ONE,
        {"pg1": {"priority": 10, "min_count": 1}},
        {"low-1": ("1", 30), "low-2": ("1", 20), "low-3": ("1", 10)},
        {"high-1": ("1", 100)},
        {"low-3"},
        {"high-1", "low-1", "low-2"},
        low_group="pg1",
        high_group="",
    ),
}


class PreemptionWorld(GangWorld):
    """A world that remembers who was evicted."""

    def __init__(self, gates: dict[str, bool] | None = None) -> None:
        super().__init__(WITH_PREEMPTION if gates is None else gates)
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
        self._settle()

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
    words = "podgroup uid-pg1 on node cluster" if case.high_group else "pod uid-high-1 on node n1"
    assert world.preempted() == dict.fromkeys(case.leave, f"Preempted by {words}")


def test_without_the_gate_members_preempt_one_by_one() -> None:
    case = CASES["a gang leaves as one, though one pod would do"]
    world = staged(case, BOTH_GATES)
    world.create(case.high, case.high_group)
    world.wait(40)
    assert len(world.evicted) == 1
    assert set(world.preempted().values()) == {"Preempted by pod uid-high-1 on node n1"}


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
    no_room = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to workload aware preemption enabled",
        None,
    )
    assert said == {"high-1": ("pod group is unschedulable", "n2"), "high-2": no_room, "high-3": no_room}
    (status,) = [intent for intent in intents if isinstance(intent, Write)]
    assert isinstance(status.body, dict)
    (condition,) = status.body["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        *("False", "Unschedulable"),
        "pod group is unschedulable",
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
        ({"priority": 100}, {"preemptionPolicy": "Never"}, "not eligible due to preemptionPolicy=Never."),
        ({"priority": 10}, {}, "No preemption victims found for incoming preemptor"),
        ({"priority": 100, "min_count": 2}, {}, "pod group is unschedulable"),
        (
            {"priority": 100, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
            {},
            "workload aware preemption is not supported for pod groups with scheduling constraints",
        ),
    ],
    ids=["Never", "no victims", "no room", "constraints"],
)
def test_why_no_room_can_be_made(group: dict[str, Any], member: dict[str, Any], said: str) -> None:
    world = PreemptionWorld()
    world.node("n1", "1")
    world.groups({"pg1": group})
    world.create({"low": ("1", 10)}, "")
    world.create({"high-1": ("1", 100)}, "pg1", **{"high-1": member})
    world.create({"high-2": ("1", 100)}, "pg1")
    assert world.evicted == []
    assert world.group_says("pg1") == [
        ("PodGroupScheduled", "False", "Unschedulable", f"pod group is unschedulable, {said}")
    ]


def test_a_profile_without_the_plugin_says_so() -> None:
    world = PreemptionWorld()
    del world.core.runners["default-scheduler"].profile.plugins["DefaultPreemption"]
    world.node("n1", "1")
    world.groups({"pg1": {"priority": 100}})
    world.create({"low": ("1", 10)}, "")
    world.create({"high-1": ("1", 100)}, "pg1")
    text = "default preemption plugin is not registered, workload aware preemption is disabled"
    assert world.group_says("pg1")[0][3] == f"pod group is unschedulable, {text}"


def test_a_search_that_raises_fails_the_group_and_puts_all_pods_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(self: DefaultPreemption, failure: GroupFitError) -> GroupSearch:
        yield MovedPods(leave=tuple(failure.cluster.nodes.pods()))
        raise ValueError("oh no")

    monkeypatch.setattr(DefaultPreemption, "pod_group_post_filter", bad)
    world = staged(CASES["all pods of a node leave for a gang"])
    before = [pod.name for pod in world.core.cluster.nodes.pods()]
    world.create(HIGHS, "pg1")
    text = 'running PodGroupPostFilter plugin "DefaultPreemption": ValueError: oh no'
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
    assert world.group_says("pg1") == [("PodGroupScheduled", "False", "Unschedulable", "pod group is unschedulable")]


def test_extenders_have_their_say_in_each_trial() -> None:
    """An extender that rejects a node keeps the victims there safe."""
    extender = {"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter", "weight": 1}
    world = GangWorld(WITH_PREEMPTION, extenders=[extender])
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
    assert len(calls) >= 3
