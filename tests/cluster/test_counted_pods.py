"""Fields of pods that count only with their feature gate."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cluster import CountedPods
from mooring.framework import config
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.model.requests import held_requests
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

POD_LEVEL = {"requests": {"cpu": "3"}}
NO_POD_LEVEL = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
CPU = 1_000_000_000
"""In nano-units."""


def a_resized_pod() -> Pod:
    """It asks for three CPUs as a whole, and the kubelet still gives it four."""
    status = {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "4"}}
    return a_pod("p", cpu="1", resources=POD_LEVEL, status=status)


@pytest.mark.parametrize(
    ("gates", "cpus"),
    [
        pytest.param({}, 4, id="the larger of asked and allocated"),
        pytest.param({"InPlacePodLevelResourcesVerticalScaling": False}, 3, id="what the pod asks for as a whole"),
        pytest.param(NO_POD_LEVEL, 1, id="the sum over its containers"),
    ],
)
def test_what_a_resized_pod_holds_depends_on_the_gates(gates: dict[str, bool], cpus: int) -> None:
    assert held_requests(CountedPods(gates).counted(a_resized_pod()))["cpu"] == cpus * CPU


def placed(gates: dict[str, bool], *pods: Pod, nodes: int = 1) -> list[str]:
    """The nodes that pods get, one after the other, each node with four CPUs in a zone of its own."""
    scheduler = build_scheduler(config.default(), VirtualClock(1_000 * NS_PER_S), all_plugins(), gates=gates)
    for i in range(nodes):
        scheduler.handle(ObjectAdded(a_node(f"n{i}", cpu="4", labels={"zone": f"z{i}"})))
    found = []
    for pod in pods:
        scheduler.handle(ObjectAdded(pod))
        scheduler.attempt()
        found += [intent.node_name for intent in scheduler.take_intents() if isinstance(intent, Bind)]
    return found


@pytest.mark.parametrize(("gates", "count"), [({}, 1), (NO_POD_LEVEL, 3)], ids=["on", "off"])
def test_requests_of_a_pod_as_a_whole_fill_a_node_if_the_gate_is_on(gates: dict[str, bool], count: int) -> None:
    pods = [
        a_pod(f"p{i}", cpu="1", resources=POD_LEVEL, schedulerName="default-scheduler", metadata={"uid": f"u{i}"})
        for i in range(3)
    ]
    assert len(placed(gates, *pods)) == count


def a_spread_pod(name: str, release: str) -> Pod:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["release"],
    }
    labels = {"app": "web", "release": release}
    return a_pod(
        name,
        schedulerName="default-scheduler",
        topologySpreadConstraints=[constraint],
        metadata={"uid": name, "labels": labels},
    )


@pytest.mark.parametrize("is_on", [True, False])
def test_label_keys_of_spread_constraints_are_read_with_the_gate_only(is_on: bool) -> None:
    counted = CountedPods({"MatchLabelKeysInPodTopologySpread": is_on}).counted(a_spread_pod("a", "1"))
    assert counted.shape.spread_label_keys == (("release",) if is_on else ())


def test_a_zone_of_another_release_is_full_only_without_the_gate() -> None:
    """Zone z0 has two pods of release 1, z1 has none: the skew of the app is 2, that of release 2 is 0. Only z0 has room
    for the pod."""
    held = [a_spread_pod(name, "1").with_node("n0") for name in ("a", "b")]
    pod = a_spread_pod("c", "2")
    pod.spec.node_selector = {"zone": "z0"}
    for constraint in pod.spec.topology_spread_constraints or ():
        constraint.node_affinity_policy = "Ignore"
    off = {"MatchLabelKeysInPodTopologySpread": False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False}
    assert placed({}, *held, pod, nodes=2) == ["n0"]
    assert placed(off, *held, pod, nodes=2) == []


gate_choices = st.fixed_dictionaries(
    {},
    optional={
        name: st.booleans()
        for name in (
            "DRANodeAllocatableResources",
            "InPlacePodLevelResourcesVerticalScaling",
            "MatchLabelKeysInPodTopologySpread",
            "PodLevelResources",
        )
    },
)


@given(gate_choices, st.sampled_from(["plain", "pod level", "resized", "spread"]))
def test_counting_is_done_once_and_changes_no_pod_in_place(gates: dict[str, bool], kind: str) -> None:
    made: dict[str, Any] = {
        "plain": lambda: a_pod("p", cpu="1"),
        "pod level": lambda: a_pod("p", resources=POD_LEVEL),
        "resized": a_resized_pod,
        "spread": lambda: a_spread_pod("p", "1"),
    }
    pod, counted_pods = made[kind](), CountedPods(gates)
    counted = counted_pods.counted(pod)
    assert counted_pods.counted(counted) is counted
    assert pod == made[kind]()
    if all(DEFAULTS[name] == is_on or (name.startswith("DRA")) for name, is_on in gates.items()):
        assert counted is pod
