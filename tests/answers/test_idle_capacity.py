"""Idle capacity: what is requested, what is in use, and how much of the rest pods can get, counted by hand."""

from typing import Any

from build import a_node, a_pod
from mooring.answers.explain.unused_capacity import IdleCapacity, idle_capacity, idle_table
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.real_use import InUse

GI = 1 << 30
WHO: dict[str, Any] = {"schedulerName": "default-scheduler"}
NODES = [a_node(name, cpu="4", memory="8Gi") for name in ("full", "empty", "unknown")]
PODS = [
    *(a_pod(f"p{i}", cpu="1", memory="1Gi", nodeName="full", **WHO) for i in range(3)),
    a_pod("hidden", cpu="1", memory="1Gi", nodeName="unknown", **WHO),
]
USE = {"default/p0": InUse(500, GI), "default/p1": InUse(500, GI), "default/gone": InUse(9_000, GI)}


def test_idle_capacity_is_what_is_not_in_use_and_partly_out_of_reach() -> None:
    """`full` has 4 cpu, 3 of them requested, 1 in use: 3 are idle, and pods get 1 of them. `empty` has 4 idle, all within
    reach. Nothing is known of the pod on `unknown`. So 2 of 7 cpu are out of reach. Of 16 Gi, 2 are in use: 6 are idle on
    `full`, where pods get 5, and 8 on `empty`. By requests everything that is free is usable."""
    found = idle_capacity(LoadedCluster([*NODES, *PODS], configuration.default()), USE)
    assert found == [
        IdleCapacity("cpu", 2, 8000, 3000, 1000, 0.0, 2 / 7),
        IdleCapacity("memory", 2, 16 * GI, 3 * GI, 2 * GI, 0.0, 1 / 14),
    ]
    assert idle_table(found).rows == [
        ("cpu", "8", "3", "1", "0.0%", "28.6%"),
        ("memory", "16Gi", "3Gi", "2Gi", "0.0%", "7.1%"),
    ]


def test_a_cluster_without_pods_has_idle_capacity_and_no_fragmentation() -> None:
    cpu, _ = idle_capacity(LoadedCluster([NODES[1]], configuration.default()), USE)
    assert cpu == IdleCapacity("cpu", 1, 4000, 0, 0, None, None)
    assert idle_table([cpu]).rows == [("cpu", "4", "0", "0", "-", "-")]
