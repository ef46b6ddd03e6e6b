"""Small random clusters for properties of answers."""

from typing import Any

from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

ZONE = "topology.kubernetes.io/zone"


@st.composite
def nodes(draw: st.DrawFn, most: int = 4) -> list[KubeObject]:
    return [
        a_node(
            f"n-{i}",
            cpu=draw(st.sampled_from(["1", "2", "4"])),
            memory=draw(st.sampled_from(["1Gi", "2Gi", "8Gi"])),
            pods=draw(st.sampled_from([2, 110])),
            labels={ZONE: draw(st.sampled_from(["a", "b"])), "kubernetes.io/hostname": f"n-{i}"},
            taints=draw(st.sampled_from([[], [], ["dedicated=db:NoSchedule"]])),
        )
        for i in range(draw(st.integers(1, most)))
    ]


@st.composite
def pods(draw: st.DrawFn, most: int = 8) -> list[Pod]:
    return [a_random_pod(draw, f"p-{i}") for i in range(draw(st.integers(0, most)))]


def a_random_pod(draw: st.DrawFn, name: str) -> Pod:
    spec: dict[str, Any] = {"schedulerName": "default-scheduler", "priority": draw(st.sampled_from([0, 0, 100]))}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if draw(st.integers(0, 4)) == 0:
        spec["nodeSelector"] = {ZONE: "a"}
    if draw(st.integers(0, 4)) == 0:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cpu = draw(st.sampled_from(["100m", "500m", "1", "2"]))
    memory = draw(st.sampled_from(["100Mi", "1Gi"]))
    return a_pod(name, cpu=cpu, memory=memory, labels={"app": draw(st.sampled_from(["x", "y"]))}, **spec)


@st.composite
def clusters(draw: st.DrawFn) -> LoadedCluster:
    """Nodes, and pods that are pending; some of them run already."""
    there, waiting = draw(nodes()), draw(pods())
    placed = [pod.with_node("n-0") if draw(st.integers(0, 3)) == 0 else pod for pod in waiting]
    return LoadedCluster([*there, *placed], configuration.default())
