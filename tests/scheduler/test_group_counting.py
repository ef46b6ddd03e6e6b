"""The short way to the best placement: the same outcome as a trial in every one of them, from slots."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import GangWorld, a_member
from how_many import examples
from mooring.framework.attempts.slots import slots_by_demand
from mooring.framework.contract.points import ResourceDemand
from mooring.scheduler.groups import group_placements as placements_module
from mooring.scheduler.ties import by_seed, lowest_name
from racks import RACK_GATES, a_rack_group


def no_short_way(*_: object) -> None:
    """In the place of `count_candidates`: only trials tell."""


nodes = st.tuples(st.sampled_from(["r1", "r2", "r3", None]), st.integers(0, 5), st.integers(1, 4), st.booleans())
"""Rack, CPUs, pods that it may have, and whether a taint keeps pods away."""
running = st.tuples(st.integers(0, 7), st.integers(1, 3))
"""Which node, and CPUs."""
cpus = st.sampled_from(["500m", "1", "2"])
gangs = st.tuples(
    st.one_of(st.tuples(st.integers(1, 5), cpus).map(lambda a: [a[1]] * a[0]), st.lists(cpus, min_size=1, max_size=5)),
    st.integers(0, 5),
)
"""CPUs of each member, of one shape or of several, and minCount (0: a basic group)."""


def a_world(listed: list[Any], busy: list[Any], is_seeded: bool, promised: Sequence[Any] = ()) -> GangWorld:
    """`promised` pods are nominated to nodes, and are not tried."""
    world = GangWorld(RACK_GATES)
    world.core.options = replace(world.core.options, tie_break=by_seed if is_seeded else lowest_name)
    for index, (rack, cpu, pods, is_tainted) in enumerate(listed):
        labels = {} if rack is None else {"rack": rack}
        taints = ["a=b:NoSchedule"] if is_tainted else []
        world.driver.create(a_node(f"n{index}", cpu=str(cpu), pods=pods, labels=labels, taints=taints))
    for index, (place, cpu) in enumerate(busy):
        node = f"n{place % len(listed)}"
        metadata = {"uid": f"uid-old-{index}"}
        world.driver.create(a_pod(f"old-{index}", cpu=str(cpu), nodeName=node, metadata=metadata))
    for index, (place, cpu) in enumerate(promised):
        about = {"status": {"nominatedNodeName": f"n{place % len(listed)}"}, "schedulingGates": [{"name": "gate"}]}
        world.pod(f"promised-{index}", cpu=str(cpu), **about)
        assert world.core.queue.nominations.node_of(f"uid-promised-{index}") == f"n{place % len(listed)}"
    world.settle()
    return world


def play(world: GangWorld, wanted: list[Any]) -> list[object]:
    """Gangs come one after another. What is seen after each."""
    seen: list[object] = []
    for index, (members, minimum) in enumerate(wanted):
        group = f"g{index}"
        world.driver.create(a_rack_group(group, minimum or None))
        for number, cpu in enumerate(members):
            world.driver.create(a_member(f"{group}-{number}", group, cpu=cpu))
        world.settle()
        said = [world.said(f"{group}-{i}") for i in range(len(members))]
        seen.append((world.where(), said, world.group_says(group), world.held_milli()))
    return seen


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(nodes, min_size=1, max_size=8),
    st.lists(running, max_size=4),
    st.lists(gangs, min_size=1, max_size=3),
    st.booleans(),
    st.lists(running, max_size=2),
)
def test_the_short_way_ends_where_all_trials_end(
    listed: list[Any], busy: list[Any], wanted: list[Any], is_seeded: bool, promised: list[Any]
) -> None:
    short = play(a_world(listed, busy, is_seeded, promised), wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placements_module, "count_candidates", no_short_way)
        assert play(a_world(listed, busy, is_seeded, promised), wanted) == short


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(nodes, min_size=1, max_size=8),
    st.lists(running, max_size=4),
    st.lists(gangs, min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_gangs_go_whole_and_into_one_rack_and_hold_nothing_else(
    listed: list[Any], busy: list[Any], wanted: list[Any], late: int
) -> None:
    world = a_world(listed, busy, is_seeded=True)
    play(world, wanted)
    for index in range(len(wanted)):
        world.members(*(f"g{index}-late-{i}" for i in range(late)), group=f"g{index}", cpu="500m")
    world.wait(12)
    where = world.where()
    for index, (_, minimum) in enumerate(wanted):
        placed = [node for name, node in where.items() if name.startswith(f"g{index}-")]
        assert not placed or len(placed) >= minimum
        assert len({listed[int(node[1:])][0] for node in placed}) <= 1
        assert None not in {listed[int(node[1:])][0] for node in placed}
    assert world.core.cache.assumed_count == 0
    assert sum(world.held_milli().values()) == sum(
        pod.shape.request["cpu"] for pod in world.driver.pods() if pod.spec.node_name
    )


def count_trials(world: GangWorld, patch: pytest.MonkeyPatch) -> list[object]:
    """The trials from now on."""
    tried: list[object] = []
    try_members = vars(placements_module)["try_members"]

    def counting(core: Any, *more: Any) -> Any:
        if core is world.core:  # trials of PodGroupPostFilter have a core that reports nothing
            tried.append(more)
        return (yield from try_members(core, *more))

    patch.setattr(placements_module, "try_members", counting)
    return tried


TWO_RACKS = [("r1", 4, 8, False), ("r1", 4, 8, False), ("r2", 4, 8, False), ("r3", 1, 8, False)]
PODS: dict[str, tuple[dict[str, Any], int]] = {
    "members of one shape take one trial": ({}, 1),
    "an anti-affinity takes a trial in each": (
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            },
            "labels": {"a": "b"},
        },
        3,
    ),
    "a port of the node takes a trial in each": ({"host_ports": [80]}, 3),
}


@pytest.mark.parametrize(("more", "expected"), PODS.values(), ids=PODS.keys())
def test_how_many_trials_a_gang_takes(more: dict[str, Any], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(TWO_RACKS, [], is_seeded=False)
    tried = count_trials(world, monkeypatch)
    world.driver.create(a_rack_group(min_count=2))
    world.members("a", "b", **more)
    assert len(tried) == expected
    assert set(world.where()) == {"a", "b"}


SIX_RACKS = [(f"r{i}", 4 if i != 5 else 2, 8, False) for i in range(6)]
MIXED: dict[str, tuple[list[str], int, str]] = {
    "a leader and workers take one trial": (["2", "1", "1"], 1, "r0"),
    "... where racks that are too small promise nothing": (["3", "1"], 1, "r0"),
    "promises that are not kept take a trial each": (["1", "2", "2", "1"], 5, ""),
}


@pytest.mark.parametrize(("cpus", "expected", "rack"), MIXED.values(), ids=MIXED.keys())
def test_how_many_trials_members_of_several_shapes_take(
    cpus: list[str], expected: int, rack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(SIX_RACKS, [], is_seeded=False)
    tried = count_trials(world, monkeypatch)
    world.driver.create(a_rack_group(min_count=len(cpus)))
    for number, cpu in enumerate(cpus):
        world.driver.create(a_member(f"m{number}", cpu=cpu))
    world.settle()
    assert len(tried) == expected
    assert {SIX_RACKS[int(node[1:])][0] for node in world.where().values()} == ({rack} if rack else set())


def test_a_gang_that_fits_nowhere_takes_one_trial_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(TWO_RACKS, [], is_seeded=False)
    tried = count_trials(world, monkeypatch)
    world.driver.create(a_rack_group(min_count=2))
    world.members("a", "b", cpu="5")
    assert len(tried) == 1
    status = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
    text = f"pod group is unschedulable, 0/3 placements are available, first placement status: {status}"
    preemption = "pod group preemption: No preemption victims found for incoming preemptor"
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "Unschedulable", f"{text}, {preemption}")]


def fails(*_: object) -> bool:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("point", "method"),
    [
        ("placement_feasibles", "enough_members"),
        ("placement_scores", "grows_with_pods"),
        ("reserves", "has_binding_work"),
    ],
)
def test_a_plugin_that_fails_when_members_are_counted_is_asked_in_trials(
    point: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(TWO_RACKS, [], is_seeded=False)
    tried = count_trials(world, monkeypatch)
    profile = world.core.runners["default-scheduler"].profile
    monkeypatch.setattr(getattr(profile, point)[0], method, fails)
    world.driver.create(a_rack_group(min_count=2))
    world.members("a", "b")
    assert len(tried) == 3
    assert set(world.where()) == {"a", "b"}


amounts = st.integers(0, 9)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4), st.integers(0, 4), st.booleans())
def test_slots_are_as_many_as_fit_one_by_one(rows: list[tuple[int, int]], amount: int, is_waived: bool) -> None:
    def fits(has: int, requested: int) -> bool:
        return (is_waived and not has) or amount <= has - requested

    def walk(has: int, requested: int) -> int:
        taken = 0
        while taken < 20 and fits(has, requested + taken * amount):
            taken += 1
        return taken

    there, held = (np.array([list(map(operator.itemgetter(i), rows))], np.int64) for i in (0, 1))
    waived = np.array([[True]]) if is_waived else None
    slots = slots_by_demand(there, held, ResourceDemand(slice(0, 1), np.array([[amount]], np.int64), waived))
    passing = [place for place, row in enumerate(rows) if fits(*row)]
    assert np.minimum(slots, 20)[passing].tolist() == [walk(*rows[place]) for place in passing]
