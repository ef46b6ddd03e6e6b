"""Numbers that no column holds: what a pod adds it takes away again, and one bad quantity costs a node nothing else."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import CPU, a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.columns.resource_amounts import MAX_SUM, add_exactly
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework import config
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import MAX_INT32, MIN_INT32, int32, int64
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import MAX_AMOUNT
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.scheduler_assembly import build_scheduler

HUGE = [str(1 << 63), "9223372036854775807", "1e400", "1e30", 1 << 200]


def a_placed(i: int, cpu: Any = str(1 << 63), **more: Any) -> Pod:
    return a_pod(f"p{i}", cpu=cpu, metadata={"uid": f"u{i}"}, **more)


# ---- sums


@given(st.lists(st.integers(-(1 << 70), 1 << 70), max_size=12), st.integers(0, 12))
def test_a_cell_shows_the_exact_sum_or_its_limit(changes: list[int], undone: int) -> None:
    matrix, beyond = np.zeros((2, 3), np.int64), dict[tuple[int, int], int]()
    for change in changes:
        add_exactly(matrix, beyond, 1, 2, change)
    for change in changes[:undone]:
        add_exactly(matrix, beyond, 1, 2, -change)
    total = sum(changes[undone:])
    assert int(matrix[1, 2]) == max(-MAX_SUM, min(total, MAX_SUM))
    assert beyond == ({} if abs(total) <= MAX_SUM else {(1, 2): total})
    assert np.count_nonzero(matrix) == (total != 0)


def test_thousands_of_the_largest_pods_do_not_wrap_around_and_leave_nothing_behind() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n", cpu="4"))
    for i in range(1500):
        table.place(a_placed(i, memory="1e40"), "n")
        assert table.amounts.requested[CPU, row] == min((i + 1) * MAX_AMOUNT, MAX_SUM)
    assert check_table(table) == []
    fork = table.fork()
    for i in range(1500):
        table.displace(f"u{i * 7 % 1500}")
    assert check_table(table) == [] and not table.amounts.requested.any() and not table.amounts.scored.any()
    assert check_table(fork) == [] and fork.amounts.requested[CPU, row] == MAX_SUM
    fork.displace("u0")
    assert check_table(fork) == []


def test_a_sketch_takes_off_what_it_laid_on() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n"))
    pods = [a_placed(i) for i in range(400)]
    for pod in pods:
        table.place(pod, "n")
    sketch = table.sketch()
    for pod in pods:
        sketch.release(pod, row)
    assert sketch.amounts.requested[CPU, row] == 0
    sketch.hold(pods[0], row)
    assert sketch.amounts.requested[CPU, row] == MAX_AMOUNT
    assert table.amounts.requested[CPU, row] == MAX_SUM and check_table(table) == []


def test_nominated_pods_of_any_size_and_number_do_not_wrap_around() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n"))
    nominated = NominatedLoad(table)
    asking = a_pod("asking", metadata={"uid": "asking"})
    nominated.promise(a_placed(0), "n")
    nominated.load_beside(asking)
    for i in range(1, 1500):
        nominated.promise(a_placed(i), "n")
    assert nominated.load_beside(asking).requested[CPU, row] == MAX_SUM
    for i in range(1, 1500):
        nominated.withdraw(f"u{i}")
    assert nominated.load_beside(asking).requested[CPU, row] == MAX_AMOUNT


# ---- pods


@pytest.mark.parametrize("cpu", HUGE, ids=lambda cpu: str(cpu)[:12])
def test_a_pod_with_a_huge_request_takes_away_all_that_it_added(cpu: Any) -> None:
    table = NodeTable()
    row = table.put_node(a_node("n", cpu="4"))
    more = {"example.com/gpu": cpu, "ephemeral-storage": cpu}
    table.place(a_pod(cpu="1", memory=cpu, requests=more, metadata={"uid": "u"}), "n")
    assert table.amounts.requested[CPU, row] == 1000 and check_table(table) == []
    table.displace("u")
    assert not table.amounts.requested.any() and not table.amounts.scored.any() and not table.pod_count.any()


def test_a_request_that_is_no_quantity_asks_for_more_than_any_node_has() -> None:
    pod = a_pod(cpu="many", memory="1Gi")
    assert pod.shape.request == {"cpu": MAX_AMOUNT, "memory": 1 << 30}


def test_a_request_below_zero_gives_no_room() -> None:
    table = NodeTable()
    row = table.put_node(a_node("n"))
    table.place(a_pod(cpu="-1e400", memory=str(-(1 << 80))), "n")
    assert not table.amounts.requested[:, row].any() and check_table(table) == []


# ---- nodes


@pytest.mark.parametrize("text", [*HUGE, "-1e400", "many"], ids=lambda text: str(text)[:12])
def test_one_bad_quantity_costs_a_node_neither_its_room_nor_its_labels(text: Any) -> None:
    table = NodeTable()
    row = table.put_node(a_node("n", cpu="4", labels={"zone": "a"}, allocatable={"example.com/gpu": text}))
    column = table.labels.column("zone")
    assert table.amounts.allocatable[CPU, row] == 4000 and table.allowed_pods[row] == 110
    assert column.values[column.codes[row]] == "a" and table.alive[row]
    index = table.amounts.resource("example.com/gpu")
    assert table.amounts.allocatable[index, row] in (0, MAX_AMOUNT)
    assert check_table(table) == []


SIZES = {"an image of any size": 1 << 200, "an image of a size below zero": -(1 << 70)}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
def test_sizes_of_images_are_bounded(size: int) -> None:
    table = NodeTable()
    table.put_node(a_node("n", images={"x:1": size}))
    assert table.images.size_bytes("x:1") == (MAX_AMOUNT if size > 0 else 0)


# ---- integers


def test_integers_are_brought_into_the_range_of_the_api() -> None:
    assert [int32(value) for value in (1 << 70, MAX_INT32, 5, -5, MIN_INT32, -(1 << 70))] == [
        *(MAX_INT32, MAX_INT32, 5, -5, MIN_INT32, MIN_INT32)
    ]
    assert [int64(value) for value in (1 << 70, 5, -(1 << 70))] == [(1 << 63) - 1, 5, -(1 << 63)]


# ---- the scheduler


def a_scheduler(*items: Node | Pod) -> Any:
    scheduler = build_scheduler(config.default(), VirtualClock(1_000 * NS_PER_S))
    for item in items:
        scheduler.handle(ObjectAdded(item))
    return scheduler


def a_pending(name: str, **more: Any) -> Pod:
    return a_pod(
        name, metadata={"uid": f"uid-{name}", "resourceVersion": "1"}, schedulerName="default-scheduler", **more
    )


HOSTILE_SPECS: dict[str, dict[str, Any]] = {
    "a huge priority": {"priority": 1 << 80},
    "a priority far below zero": {"priority": -(1 << 80)},
    "a huge port": {"host_ports": [1 << 80]},
    "a huge maxSkew": {
        "topologySpreadConstraints": [
            {"maxSkew": 1 << 80, "minDomains": 1 << 80, "topologyKey": "zone", "whenUnsatisfiable": when}
            for when in ("DoNotSchedule", "ScheduleAnyway")
        ]
    },
    "huge weights": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1 << 80, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
                ]
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": -(1 << 80), "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
                ]
            },
        }
    },
    "a huge tolerationSeconds": {
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1 << 80}]
    },
}


@pytest.mark.parametrize("case", HOSTILE_SPECS)
def test_a_pod_with_huge_integers_is_decided_on_and_harms_no_other(case: str) -> None:
    nodes = [a_node(f"n{i}", labels={"zone": f"z{i}"}) for i in range(8)]
    scheduler = a_scheduler(*nodes)
    for i in range(3):
        scheduler.handle(ObjectAdded(a_pending(f"hostile{i}", cpu="100m", **HOSTILE_SPECS[case])))
        scheduler.handle(ObjectAdded(a_pending(f"other{i}", cpu="100m")))
    for _ in range(6):
        assert scheduler.attempt() is not None
        assert scheduler.check() == []
    core = scheduler.core
    assert {pod.name for pod in core.cluster.nodes.pods()} >= {"other0", "other1", "other2"}
    assert core.queue.counters.unschedulable["", ""] == 0
    for pod in list(core.pods.values()):
        scheduler.handle(ObjectRemoved(pod))
        assert scheduler.check() == []
    assert not core.cluster.nodes.amounts.requested.any()


def test_a_node_that_is_repaired_gives_back_its_room_and_wakes_the_pods_that_wait() -> None:
    good = a_node("n", cpu="4", labels={"zone": "a"})
    bad = a_node("n", cpu="many", labels={"zone": "a"}, allocatable={"example.com/gpu": "1e400"})
    scheduler = a_scheduler(good)
    pod = a_pending("waits", cpu="2", nodeSelector={"zone": "a"})
    scheduler.handle(ObjectUpdated(good, bad))
    scheduler.handle(ObjectAdded(pod))
    scheduler.attempt()
    assert scheduler.core.queue.where(pod.key) == "unschedulable"
    assert scheduler.check() == []
    scheduler.handle(ObjectUpdated(bad, good))
    assert scheduler.core.queue.where(pod.key) in ("active", "backoff")
    assert scheduler.attempt() is pod
    assert [placed.name for placed in scheduler.core.cluster.nodes.pods()] == ["waits"]
    assert scheduler.check() == []


def test_a_pod_that_was_put_on_a_node_with_a_huge_request_frees_it_when_it_is_deleted() -> None:
    scheduler = a_scheduler(a_node("n", cpu="4"))
    placed = a_pending("huge", cpu="3", memory=str(1 << 63), nodeName="n")
    scheduler.handle(ObjectAdded(placed))
    pod = a_pending("waits", cpu="2")
    scheduler.handle(ObjectAdded(pod))
    scheduler.attempt()
    assert scheduler.core.queue.where(pod.key) == "unschedulable"
    scheduler.handle(ObjectRemoved(placed))
    assert scheduler.attempt() is pod
    nodes = scheduler.core.cluster.nodes
    assert nodes.amounts.requested[CPU, nodes.row_book["n"]] == 2000 and scheduler.check() == []
