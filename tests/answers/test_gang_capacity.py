"""How many more gangs fit: whole gangs only, at once or one after another with the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validate
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group

import mooring
from how_many import examples
from mooring.answers.capacity.capacity import Capacity, capacity
from mooring.answers.capacity.filling import pod_copies
from mooring.answers.capacity.gangs import gang_of, gangs_at_once, gangs_one_by_one
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/capacity.v1.json").read_text())
HOST = "kubernetes.io/hostname"


def cluster(*objects: Written) -> LoadedCluster:
    return load(list(objects), feature_gates=GROUP_GATES)


def counted(loaded: LoadedCluster, pod: Written, **more: Any) -> Capacity:
    answer = capacity(loaded, pod, **more)
    validate(answer.to_dict(), SCHEMA)
    return answer


def with_group(min_count: int, **pod: Any) -> Written:
    own = a_pod("worker", schedulingGroup={"podGroupName": "train"}, **pod)
    return {"apiVersion": "v1", "kind": "List", "items": [a_pod_group("train", min_count), own]}


def test_whole_gangs_are_counted() -> None:
    answer = counted(cluster(a_node("n1", "4"), a_node("n2", "3")), a_pod("worker"), gang=3)
    assert answer.summary() == [
        "Pod default/worker: 2 more gangs of 3 fit: 6 pods on 2 of 2 nodes.",
        "What stops the next gang: 1 of 3 pods fit; 2 nodes: Insufficient cpu (wants 1, largest free 0 on n1).",
    ]
    assert answer.to_dict()["gangs"] == {"size": 3, "fits": 2, "roomForNext": 1}
    assert sum(budget.pods for budget in answer.nodes) == answer.fits == 6
    assert sum(budget.free["cpu"] for budget in answer.nodes) == 1000


def test_a_pod_group_in_the_manifest_says_how_large_the_gang_is() -> None:
    answer = counted(cluster(a_node("n1", "9", "64Gi")), with_group(4))
    assert answer.gangs is not None and (answer.gangs.fits, answer.gangs.room) == (2, 1)


def test_a_size_comes_before_the_minimum_of_the_manifest() -> None:
    answer = counted(cluster(a_node("n1", "9", "64Gi")), with_group(4), gang=9)
    assert answer.gangs is not None and answer.gangs.fits == 1


def test_a_gang_that_does_not_fit_once() -> None:
    answer = counted(cluster(a_node("n1", "4")), a_pod("worker"), gang=8)
    assert answer.fits == 0
    assert answer.summary()[0] == "Pod default/worker: 0 more gangs of 8 fit."


def test_gangs_whose_pods_keep_apart_are_attempted_one_after_another() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "worker"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [a_node(f"n{i}", "8") for i in range(5)]
    answer = counted(cluster(*nodes), a_pod("worker", labels={"app": "worker"}, affinity=apart), gang=2)
    assert answer.gangs is not None and (answer.gangs.fits, answer.gangs.room) == (2, 1)
    assert "didn't match pod anti-affinity rules" in answer.summary()[1]


def test_gangs_that_keep_to_a_rack_are_counted_rack_by_rack() -> None:
    nodes = [a_node(f"n{i}", "3", labels={"rack": f"r{i // 2}"}) for i in range(4)]
    loaded = load(nodes, feature_gates={**GROUP_GATES, "TopologyAwareWorkloadScheduling": True})
    manifest = with_group(4)
    manifest["items"][0]["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    answer = counted(loaded, manifest)
    assert answer.gangs is not None and (answer.gangs.fits, answer.gangs.room) == (2, 2)


def test_pods_of_lower_priority_are_not_evicted_for_gangs() -> None:
    low = a_pod("low", "4", node="n1", priority=-5)
    spread = [{"maxSkew": 5, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    answer = counted(cluster(a_node("n1", "4"), low), a_pod("worker", topologySpreadConstraints=spread), gang=2)
    assert answer.fits == 0


def test_a_limit_ends_the_count_with_whole_gangs() -> None:
    answer = counted(cluster(a_node("n1", "100", "100Gi")), a_pod("worker"), gang=4, most=10)
    assert (answer.fits, answer.limit.most) == (8, 10)
    assert answer.summary()[0].startswith("Pod default/worker: at least 2 more gangs of 4 fit: 8 pods")


def test_gangs_need_the_gates_and_pods_of_one_kind() -> None:
    with pytest.raises(InputError, match="the scheduler heeds no gangs; add --feature-gates"):
        capacity(load([a_node("n1")]), a_pod("worker"), gang=2)
    with pytest.raises(InputError, match="a gang has pods of one kind"):
        capacity(cluster(a_node("n1")), a_pod("worker"), mix=[a_pod("other")], gang=2)
    with pytest.raises(ValueError, match="gang: Invalid value: 0"):
        capacity(cluster(a_node("n1")), a_pod("worker"), gang=0)


def test_without_the_gates_a_pod_group_in_the_manifest_changes_nothing() -> None:
    answer = capacity(load([a_node("n1", "9", "64Gi")]), with_group(4))
    assert (answer.fits, answer.gangs) == (9, None)


def test_the_python_call() -> None:
    found = mooring.load([a_node("n1", "6")], feature_gates=GROUP_GATES).capacity(a_pod("worker"), gang=3)
    assert found.gangs is not None and found.gangs.fits == 2


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.data())
def test_at_once_and_one_after_another_count_the_same(data: st.DataObject) -> None:
    nodes = [
        a_node(f"n{i}", data.draw(st.sampled_from(["1", "2", "5"])), cordoned=data.draw(st.integers(0, 4)) == 0)
        for i in range(data.draw(st.integers(1, 4)))
    ]
    loaded = cluster(*nodes)
    (copies,) = pod_copies(loaded, a_pod("worker", data.draw(st.sampled_from(["500m", "1", "2"]))))
    gang = gang_of(loaded, copies, data.draw(st.integers(1, 5)))
    assert gang is not None
    quick, plain = gangs_at_once(loaded, copies, gang, 1000), gangs_one_by_one(loaded, copies, gang, 1000)
    assert quick is not None and quick.count == plain.count
    assert quick.filling.fits == plain.filling.fits == sum(budget.pods for budget in quick.budgets.nodes)
