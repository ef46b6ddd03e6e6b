"""Sentences of cures, read and carried out on plain manifests by code that knows nothing of the search, place the pod."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import pytest
from cure_reader import Misleading, Written, carried_out
from random_pending import a_cluster

import mooring
from how_many import IS_SOAK, costly_examples

PARTS = 2 if IS_SOAK else 1
"""In how many parts the random pods are judged, so that they can run beside each other."""
FULL = 1000
"""How many pending pods are judged in `make soak`."""
WITHOUT_CURE = 0.05
"""The largest share of pending pods for which no cure is found."""


def outcome_of(objects: list[Written]) -> tuple[str, set[str]]:
    """The node that the pod gets in a simulation of these manifests, and which of these pods are evicted for it."""
    answer = mooring.load(objects).simulate().to_dict()
    (pod,) = [each for each in answer["pods"] if each["name"] == "wanted"]
    there = {item["metadata"]["name"] for item in objects if item["kind"] == "Pod"}
    evicted = [each for each in answer["preempted"] if each["for"] == "default/wanted" and each["name"] in there]
    return pod.get("node", ""), {f"{each['namespace']}/{each['name']}" for each in evicted}


def pending_clusters(part: int) -> Iterator[list[Written]]:
    """Clusters whose pod stays pending, from a sequence of seeds that no other part has."""
    for seed in count(part, PARTS):
        objects = a_cluster(seed)
        if not outcome_of(objects)[0]:
            yield objects


@dataclass
class Verdict:
    """The result for many pods."""

    pods: int = 0
    cures: int = 0
    without: list[int] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)


def judge(objects: list[Written], verdict: Verdict) -> None:
    explanation = mooring.load(objects).explain("default/wanted").to_dict()
    cures: list[dict[str, Any]] = explanation["cures"]
    if not cures:
        verdict.without.append(verdict.pods)
    verdict.pods += 1
    for cure in cures:
        verdict.cures += 1
        verdict.kinds[cure["kind"]] = verdict.kinds.get(cure["kind"], 0) + 1
        fault = fault_of(cure, objects)
        if fault:
            verdict.false.append(f"{cure['change']}: {fault}")


def fault_of(cure: dict[str, Any], objects: list[Written]) -> str:
    """Why a person who follows the sentence is disappointed; empty if not.

    The scheduler evicts the pods that the cure foretells. Without them the pod gets a node, and nobody else is evicted: so
    it is no matter whether controllers bring back a pod that stands in its way again.
    """
    try:
        after = carried_out(cure["change"], objects, "default/wanted")
        foretold = {pod for pod in cure["victims"] if _has_pod(after, pod)}
        evicted = outcome_of(after)[1]
        node, more = outcome_of([item for item in after if not (item["kind"] == "Pod" and _key(item) in foretold)])
    except (Misleading, mooring.InputError) as error:
        return str(error)
    if evicted != foretold or more:
        return f"evicts {sorted(evicted | more)}, not {sorted(foretold)}"
    return "" if node else "the pod is still pending"


def _key(item: Written) -> str:
    return f"{item['metadata'].get('namespace', 'default')}/{item['metadata']['name']}"


def _has_pod(objects: list[Written], key: str) -> bool:
    return any(item["kind"] == "Pod" and _key(item) == key for item in objects)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_sentence_that_is_carried_out_places_the_pod(part: int) -> None:
    verdict = Verdict()
    for objects in islice(pending_clusters(part), costly_examples(FULL) // PARTS):
        judge(objects, verdict)
    assert verdict.false == []
    assert len(verdict.without) <= WITHOUT_CURE * verdict.pods
    assert len(verdict.kinds) > 10, "the clusters are in trouble of many kinds"


# ---- the reader itself: it is not fooled by sentences that say less than they do


def a_written_node(**labels: str) -> Written:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    metadata = {"name": "n", "labels": {"kubernetes.io/hostname": "n", **labels}}
    status = {"allocatable": room, "capacity": dict(room)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def a_written_pod(name: str, cpu: str = "1", **spec: Any) -> Written:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def terms(*lines: tuple[str, str]) -> Written:
    listed = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in lines]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}


PORTS: dict[str, Any] = {"ports": [{"containerPort": 80, "hostPort": 80}], "hostNetwork": True}
PENDING = "the pod is still pending"
LESS_THAN_ENOUGH: dict[str, tuple[str, list[Written], str]] = {
    "one of two terms": (
        "drop the required node affinity disk In [ssd]",
        [a_written_node(), a_written_pod("wanted", affinity=terms(("disk", "ssd"), ("pool", "gpu")))],
        PENDING,
    ),
    "a port of the network of the node": (
        "do without hostPort 80",
        [a_written_node(), a_written_pod("other", nodeName="n", **PORTS), a_written_pod("wanted", **PORTS)],
        PENDING,
    ),
    "a class that never preempts": (
        "raise the priority from 0 to 1 (PriorityClass never has 500)",
        [
            a_written_node(),
            a_written_pod("other", "4", nodeName="n"),
            a_written_pod("wanted"),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "never"},
                "value": 500,
                "preemptionPolicy": "Never",
            },
        ],
        "evicts [], not ['default/other']",
    ),
    "a pod that is not there": (
        "remove default/other from m",
        [a_written_node(), a_written_pod("other", "4", nodeName="n"), a_written_pod("wanted")],
        "default/other is not on m",
    ),
    "another amount": (
        "lower the cpu request of container c from 9 to 4",
        [a_written_node(), a_written_pod("wanted", "8")],
        "c requests 8, not 9",
    ),
    "no sentence at all": (
        "hope for the best",
        [a_written_node(), a_written_pod("wanted", "8")],
        "nobody understands: hope for the best",
    ),
}


@pytest.mark.parametrize(("change", "objects", "fault"), LESS_THAN_ENOUGH.values(), ids=LESS_THAN_ENOUGH.keys())
def test_a_sentence_that_says_less_than_it_should_is_noticed(change: str, objects: list[Written], fault: str) -> None:
    victims = ["default/other"] if change.startswith("raise") else []
    assert fault_of({"change": change, "victims": victims}, objects) == fault


def test_a_sentence_that_says_enough_is_believed() -> None:
    objects = [
        a_written_node(disk="hdd"),
        a_written_pod("wanted", "8", affinity=terms(("disk", "ssd"), ("pool", "gpu"))),
    ]
    change = "drop the whole of the required node affinity, and lower the cpu request of container c from 8 to 4"
    assert fault_of({"change": change, "victims": []}, objects) == ""


def test_a_described_node_is_not_changed_after_it_was_added() -> None:
    """The pod wants a node by a name that no node has, and contradicts itself about a label of it."""
    affinity = terms(("disk", "tape"))
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    term["matchExpressions"].append({"key": "disk", "operator": "Exists"})
    term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]
    verdict = Verdict()
    judge([a_written_pod("wanted", affinity=affinity, nodeSelector={"disk": "ssd"})], verdict)
    assert (verdict.false, verdict.kinds) == ([], {"describe-node+drop-affinity": 1})
