"""The measure of fragmentation and the score of each policy, against plain loops over pods and GPUs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from gpu_sharing import FGD, BestFit, DotProd, GpuClustering, GpuPacking
from gpu_sharing.devices import GpuDevices
from gpu_sharing.fragmentation import Fragmentation
from gpu_sharing.requests import NO_GPU, WHOLE, GpuRequest
from gpu_sharing.score import GpuScore
from gpu_sharing.typical_pods import TypicalPod, read_workload, typical_pods
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from mooring.plugin import Handle

MODELS = ["", "T4", "V100"]


class PlainNode(NamedTuple):
    cpu: int
    free: tuple[int, ...]
    model: int = 0
    kinds: int = 0

    def numbers(self, width: int) -> list[int]:
        """The row of the matrix."""
        free = self.free
        facts = [sum(free), free.count(WHOLE), max(free, default=0), self.model, self.kinds, len(free)]
        return [*facts, *free, *[0] * (width - len(free))]


def columns(nodes: Sequence[PlainNode]) -> tuple[Any, Any]:
    width = max(len(node.free) for node in nodes)
    return np.array([node.cpu for node in nodes]), np.array([node.numbers(width) for node in nodes])


# ---- plain loops


def fragmented(node: PlainNode, pods: Sequence[TypicalPod]) -> int:
    """Free GPU of a node that typical pods cannot use, summed over the pods."""
    total = 0
    for pod in pods:
        fitting = [room for room in node.free if room >= pod.request.milli]
        models = pod.request.models
        is_right = not models or MODELS[node.model] in models
        if pod.request.count and is_right and node.cpu >= pod.cpu_milli and len(fitting) >= pod.request.count:
            total += pod.weight * (sum(node.free) - sum(fitting))
        else:
            total += pod.weight * sum(node.free)
    return total


def placed(node: PlainNode, cpu: int, request: GpuRequest, first: int | None = None) -> PlainNode:
    """The node with a pod on it: a share on the GPU `first`, other pods on the first GPUs without pods."""
    free = list(node.free)
    if first is not None:
        free[first] -= request.milli
    else:
        for index in [index for index, room in enumerate(free) if room == WHOLE][: request.count]:
            free[index] -= request.milli
    return node._replace(cpu=node.cpu - cpu, free=tuple(free))


def fgd_scores(node: PlainNode, pods: Sequence[TypicalPod], cpu: int, request: GpuRequest) -> list[int]:
    """The score of each GPU with room for a share, or the one score for another pod."""
    weight = sum(pod.weight for pod in pods)
    fitting: list[int | None] = [None]
    if request.count and request.is_share:
        fitting = [index for index, room in enumerate(node.free) if room >= request.milli]
    changes = [fragmented(node, pods) - fragmented(placed(node, cpu, request, index), pods) for index in fitting]
    return [int(100 * (1 / (1 + math.exp(-change / weight / WHOLE)))) for change in changes]


def packing_score(node: PlainNode, request: GpuRequest) -> int:
    if not request.count:
        return 0
    empty = node.free.count(WHOLE)
    if empty == len(node.free):
        return max(33 - empty, empty)
    used = [room for room in sorted(node.free) if room >= request.milli][: request.count]
    if WHOLE in used:
        return max(50 - used.count(WHOLE), 33)
    return max(100 - sum(room * 100 // WHOLE for room in used) // 10, 50)


def clustering_score(node: PlainNode, request: GpuRequest) -> int:
    if not request.count:
        return 0
    by_room = 25 * (8000 - sum(node.free)) // 8000
    if node.kinds & request.kind:
        return by_room + (75 if node.kinds == request.kind else 50)
    return by_room + (0 if node.kinds else 25)


def best_fit_score(node: PlainNode, cpu: int, request: GpuRequest) -> int:
    left = (node.cpu - cpu) / 128000 * 0.5 + (sum(node.free) - request.total) / 8000 * 0.5
    return int((1 - left) * 100)


def dot_product_score(node: PlainNode, cpu: int, request: GpuRequest) -> int:
    product = node.cpu / 128000 * (cpu / 128000) + sum(node.free) / 8000 * (request.total / 8000)
    return int(100 * (1 - product / 2))


# ---- any nodes, any pods

rooms = st.sampled_from([0, 100, 250, 500, 600, 1000, 1000])
nodes = st.lists(
    st.builds(
        PlainNode,
        st.integers(0, 16).map(lambda cpu: 8000 * cpu),
        st.lists(rooms, min_size=1, max_size=4).map(tuple),
        st.integers(0, 2),
        st.sampled_from([0, 1, 2, 3, 4]),
    ),
    min_size=1,
    max_size=4,
)
models = st.sets(st.sampled_from(MODELS[1:])).map(frozenset)
requests = st.one_of(
    st.just(NO_GPU),
    st.builds(GpuRequest, st.sampled_from([100, 400, 500, 1000]), st.just(1), models),
    st.builds(GpuRequest, st.just(WHOLE), st.integers(2, 4), models),
)
cpus = st.integers(0, 6).map(lambda cpu: 8000 * cpu)
typical = st.lists(st.builds(TypicalPod, cpus, requests, st.integers(1, 9)), min_size=1, max_size=6)


@settings(max_examples=examples(100))
@given(nodes=nodes, pods=typical)
def test_fragmentation_is_that_of_plain_loops(nodes: list[PlainNode], pods: list[TypicalPod]) -> None:
    measure = Fragmentation(pods, MODELS)
    free_cpu, gpus = columns(nodes)
    found = measure.weight * gpus[:, 0] - measure.usable(free_cpu, gpus)
    assert found.tolist() == [fragmented(node, pods) for node in nodes]


def a_policy(policy: type[GpuScore], pods: Sequence[TypicalPod] = ()) -> GpuScore:
    handle = Handle()
    devices = GpuDevices.shared(handle.services)
    for model in MODELS:
        devices.model_code(model)
    listed = [
        {
            "cpuMilli": pod.cpu_milli,
            "gpuMilli": pod.request.milli,
            "gpuCount": pod.request.count,
            "models": sorted(pod.request.models),
            "weight": pod.weight,
        }
        for pod in pods
    ]
    return policy({"typicalPods": listed}, handle)


@settings(max_examples=examples(100))
@given(nodes=nodes, pods=typical, cpu=cpus, request=requests)
def test_each_policy_rates_nodes_as_plain_loops_do(
    nodes: list[PlainNode], pods: list[TypicalPod], cpu: int, request: GpuRequest
) -> None:
    def has_room(node: PlainNode) -> bool:
        return node.cpu >= cpu and sum(room >= request.milli for room in node.free) >= request.count

    fitting = [node for node in nodes if has_room(node)]
    if not fitting:
        return
    expected: dict[Any, list[int]] = {
        FGD: [max(fgd_scores(node, pods, cpu, request)) for node in fitting],
        GpuPacking: [packing_score(node, request) for node in fitting],
        GpuClustering: [clustering_score(node, request) for node in fitting],
        BestFit: [best_fit_score(node, cpu, request) for node in fitting],
        DotProd: [dot_product_score(node, cpu, request) for node in fitting],
    }
    found = {}
    for policy in expected:
        free_cpu, gpus = columns(nodes)
        rates = a_policy(policy, pods).rate(free_cpu, gpus, cpu, request)
        scores = np.clip(rates, 0, 100).astype(np.int64).tolist()
        found[policy] = [score for score, node in zip(scores, nodes, strict=True) if has_room(node)]
    assert found == expected


# ---- by hand


def test_the_example_of_the_module_counted_by_hand() -> None:
    """Two GPUs with 500 and 1000 free, and 8 free CPUs."""
    node = PlainNode(8000, (500, 1000))
    free_cpu, gpus = columns([node])
    share = TypicalPod(4000, GpuRequest(600, 1), 3)
    assert [Fragmentation([share], MODELS).usable(free_cpu, gpus)[0]] == [3 * 1000]
    large = TypicalPod(16000, GpuRequest(600, 1), 1)
    both = Fragmentation([share, large], MODELS)
    assert both.weight == 4
    assert both.weight * 1500 - both.usable(free_cpu, gpus)[0] == 3 * 500 + 1 * 1500


@pytest.mark.parametrize(
    ("request_", "cpu", "fragmented_for_it"),
    [
        pytest.param(NO_GPU, 1000, 1700, id="a pod without GPU can use no GPU"),
        pytest.param(GpuRequest(1000, 1), 9000, 1700, id="too little CPU: none can be used"),
        pytest.param(GpuRequest(1000, 1), 1000, 700, id="a whole GPU: the parts of two others are lost"),
        pytest.param(GpuRequest(1000, 2), 1000, 1700, id="two GPUs: only one is empty"),
        pytest.param(GpuRequest(300, 1), 1000, 200, id="a share: only the GPU with less is lost"),
        pytest.param(GpuRequest(300, 1, frozenset({"V100"})), 1000, 1700, id="another model"),
    ],
)
def test_what_is_fragmented_for_one_pod(request_: GpuRequest, cpu: int, fragmented_for_it: int) -> None:
    free_cpu, gpus = columns([PlainNode(8000, (1000, 500, 200), model=1)])
    measure = Fragmentation([TypicalPod(cpu, request_, 1)], MODELS)
    assert 1700 - measure.usable(free_cpu, gpus)[0] == fragmented_for_it


def test_typical_pods_cover_most_pods_the_most_frequent_first() -> None:
    small, large, rare = (1000, GpuRequest(500, 1)), (8000, GpuRequest(1000, 1)), (2000, NO_GPU)
    pods = [*[small] * 10, *[large] * 10, rare]
    assert typical_pods(pods, 90) == [TypicalPod(*large, 10), TypicalPod(*small, 10)]
    assert typical_pods(pods, 96)[2:] == [TypicalPod(*rare, 1)]


def test_a_workload_is_read_from_a_file(tmp_path: Any) -> None:
    path = tmp_path / "workload.csv"
    path.write_text("name,cpu_milli,num_gpu,gpu_milli,gpu_spec\na,4000,1,500,T4|V100\nb,8000,4,1000,\nc,1000,0,0,\n")
    share = GpuRequest(500, 1, frozenset({"T4", "V100"}))
    assert read_workload(str(path)) == [(4000, share), (8000, GpuRequest(1000, 4)), (1000, NO_GPU)]
    with pytest.raises(ValueError, match="workload: Invalid value: 'nowhere.csv'"):
        read_workload("nowhere.csv")
    with pytest.raises(ValueError, match="typicalPods: Required value"):
        FGD(None, Handle())
