"""Sentences of cures, read and carried out on plain manifests by code that knows nothing of the search, place the pod."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import pytest
from cure_reader import Misleading, Written, carried_out
from random_pending import a_cluster

import mooring
from how_many import examples

PARTS = 4
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
    for objects in islice(pending_clusters(part), examples(FULL) // PARTS):
        judge(objects, verdict)
    assert verdict.false == []
    assert len(verdict.without) <= WITHOUT_CURE * verdict.pods
    assert len(verdict.kinds) > 10, "the clusters are in trouble of many kinds"
