"""Small generated clusters for which the cheapest nodes are known: how near plans are, and in how many orders they hold.

    python benchmarks/plan_orders.py                 60 clusters: gap to the exact optimum, and plans that 20 shuffles break
    python benchmarks/plan_orders.py --cases 12 --first 100
    python benchmarks/plan_orders.py --at-once

A case follows from its seed alone: up to 60 pods of up to six templates, and two to six offers. Families differ in what keeps
pods apart: nothing, host ports, anti-affinity, taints and selectors, zones, accelerators, limits of offers, DaemonSets.
The optimum is that of an integer program over all ways to fill a node (`optimum`). It lets every pod go where it
suits the program; a scheduler spreads pods, so that no plan may reach it.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from mooring.answers.plan.plan import Plan, plan
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.simulation import Simulation

ZONE, HOSTNAME, GPU = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "nvidia.com/gpu"
Written = dict[str, Any]

FAMILIES = ("plain", "plain", "tight", "limits", "anti", "ports", "taints", "zone", "gpu", "daemon", "useless", "mixed")
MACHINES = (
    (2, 4, 0.075), (4, 8, 0.145), (4, 16, 0.19), (6, 48, 0.37), (8, 16, 0.31), (8, 32, 0.38), (12, 12, 0.4),
    (16, 32, 0.59), (16, 64, 0.68), (32, 128, 1.35),
)  # fmt: skip
"""Cpu, memory in GiB, and a price."""
CPU_MILLI = (250, 500, 1000, 1300, 2000, 3000, 5000, 7000)
MEMORY_MI = (128, 512, 1024, 2048, 3000, 6000, 9000)
TIGHT_MILLI, TIGHT_MI = (1100, 2100, 3400, 3900), (3100, 5200, 4100, 7900)


@dataclass(frozen=True)
class Case:
    """A cluster with pending pods, and offers in the form of the file of `mooring plan`."""

    family: str
    objects: list[Written]
    offers: list[Written]


def a_case(seed: int) -> Case:
    """The first case of this seed whose pods all fit on offered nodes."""
    chance = random.Random(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    while True:
        case = _drawn(chance, family)
        if optimum(case) is not None:
            return case


def _drawn(chance: random.Random, family: str) -> Case:
    templates = [_template(chance, number, family) for number in range(chance.randint(1, 6))]
    weights = [chance.choice((1, 1, 3, 8)) for _ in templates]
    pods = chance.choices(templates, weights, k=chance.randint(10, 60))
    pods.sort(key=lambda pod: str(pod["metadata"]["labels"]["t"]))
    named = [{**pod, "metadata": {**pod["metadata"], "name": f"p{at:02}"}} for at, pod in enumerate(pods)]
    offers = [_offer(chance, number, family) for number in range(chance.randint(2, 6))]
    if family == "useless":
        offers[-1] = _machine_offer("tiny", 0.001, {"cpu": "100m", "memory": "64Mi", "pods": "30"}, {"pool": "y"})
    allocatable = {"cpu": "100m", "memory": "64Mi", "pods": "5"}
    labels = {HOSTNAME: "old", "pool": "x", ZONE: "a"}
    old = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old", "labels": labels}}
    objects = [{**old, "status": {"allocatable": allocatable}}, *named]
    return Case(family, [*objects, *([_daemon_set(chance)] if family in ("daemon", "mixed") else [])], offers)


def _template(chance: random.Random, number: int, family: str) -> Written:
    is_tight = family == "tight"
    cpu, memory = (
        chance.choice(TIGHT_MILLI if is_tight else CPU_MILLI),
        chance.choice(TIGHT_MI if is_tight else MEMORY_MI),
    )
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    labels = {"t": f"t{number}"}
    container: Written = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec: Written = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if family in ("gpu", "mixed") and chance.random() < 0.4:
        requests[GPU] = "1"
        container["resources"]["limits"] = {GPU: "1"}
    if family == "ports" and chance.random() < 0.6:
        port = chance.choice((8080, 9090))
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    if family in ("anti", "mixed") and chance.random() < 0.5:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if family == "zone" and chance.random() < 0.6:
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": labels}}]
    if family in ("taints", "mixed"):
        if chance.random() < 0.3:
            spec["nodeSelector"] = {"pool": "x"}
        if chance.random() < 0.5:
            spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "", "namespace": "default", "labels": labels},
        "spec": spec,
    }


def _offer(chance: random.Random, number: int, family: str) -> Written:
    cpu, memory, price = chance.choice(MACHINES)
    dearness = chance.uniform(0.85, 1.15)
    allocatable = {"cpu": f"{cpu * 1000 - chance.choice((0, 70, 100))}m", "memory": f"{memory}Gi"}
    allocatable["pods"] = chance.choice(("8", "15", "30", "110"))
    labels = {"pool": chance.choice("xy"), ZONE: chance.choice("abc")}
    if family in ("gpu", "mixed") and chance.random() < 0.6:
        gpus = chance.choice((1, 2, 4))
        allocatable[GPU], price = str(gpus), price + 0.55 * gpus
    spec: Written = {}
    if family in ("taints", "mixed") and chance.random() < 0.4:
        spec["taints"] = [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]
        price *= 0.6
    found = _machine_offer(f"o{number}", round(price * dearness, 3), allocatable, labels, spec)
    if family in ("limits", "mixed") and chance.random() < 0.6:
        found["limit"] = chance.randint(1, 3)
    return found


def _machine_offer(
    name: str, price: float, allocatable: dict[str, str], labels: dict[str, str], spec: Written | None = None
) -> Written:
    node = {"metadata": {"labels": labels}, "spec": spec or {}, "status": {"allocatable": allocatable}}
    return {"name": name, "price": price, "node": node}


def _daemon_set(chance: random.Random) -> Written:
    requests = {"cpu": chance.choice(("100m", "300m")), "memory": chance.choice(("64Mi", "256Mi"))}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": {"ds": "x"}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"ds": "x"}}, "template": template},
    }


# ---- the cheapest nodes, read from the written objects alone

MOST_PATTERNS = 60_000


def amount(text: str) -> int:
    """Milli units of a quantity."""
    for suffix, factor in (("Mi", 1000 << 20), ("Gi", 1000 << 30), ("m", 1)):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * factor
    return int(text) * 1000


@dataclass(frozen=True)
class _Kind:
    """Pods of one template."""

    count: int
    needs: dict[str, int]
    """By resource, and by what only one pod of a node may have: a host port, the name of a template that keeps apart."""
    spec: Written
    is_spread: bool


def _kinds(case: Case) -> list[_Kind]:
    grouped: dict[str, list[Written]] = {}
    for item in case.objects:
        if item["kind"] == "Pod":
            grouped.setdefault(item["metadata"]["labels"]["t"], []).append(item)
    found = []
    for name, pods in grouped.items():
        spec = pods[0]["spec"]
        needs = {key: amount(text) for key, text in spec["containers"][0]["resources"]["requests"].items()}
        needs["pods"] = 1000
        for port in spec["containers"][0].get("ports", ()):
            needs[f"port {port['hostPort']}"] = 1
        if "affinity" in spec:
            needs[f"one {name}"] = 1
        found.append(_Kind(len(pods), needs, spec, "topologySpreadConstraints" in spec))
    return found


def _goes_to(kind: _Kind, node: Written) -> bool:
    selected = kind.spec.get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
    return selected and (not node["spec"].get("taints") or "tolerations" in kind.spec)


def _room(case: Case, offer: Written, kinds: Sequence[_Kind]) -> dict[str, int]:
    """What an empty node of an offer has beside its DaemonSet pods."""
    room = {key: amount(text) for key, text in offer["node"]["status"]["allocatable"].items()}
    for item in case.objects:
        if item["kind"] == "DaemonSet":
            requests = item["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
            for key, text in requests.items():
                room[key] -= amount(text)
            room["pods"] -= 1000
    only_one = {key for kind in kinds for key in kind.needs if key.startswith(("port ", "one "))}
    return {**room, **dict.fromkeys(only_one, 1)}


def _patterns(kinds: Sequence[_Kind], room: dict[str, int], usable: Sequence[bool]) -> Iterator[tuple[int, ...]]:
    """All numbers of pods of each kind that fill a node so that no further pod fits."""

    def most(at: int, free: dict[str, int]) -> int:
        kind = kinds[at]
        fits = min((free.get(key, 0) // need for key, need in kind.needs.items() if need), default=kind.count)
        return max(min(fits, kind.count), 0) if usable[at] else 0

    def extend(at: int, chosen: tuple[int, ...], free: dict[str, int]) -> Iterator[tuple[int, ...]]:
        if at == len(kinds):
            if all(chosen[i] == kinds[i].count or not most(i, free) for i in range(at)):
                yield chosen
            return
        for number in range(most(at, free), -1, -1):
            left = {key: have - number * kinds[at].needs.get(key, 0) for key, have in free.items()}
            yield from extend(at + 1, (*chosen, number), left)

    return extend(0, (), room)


def optimum(case: Case) -> float | None:
    """The least cost of nodes that can hold all pods; None if there are none, or too many ways to fill a node.

    Columns: nodes of each pattern; pods of each kind in each zone; for each zone whether a new node is there; and for each
    kind that is spread its lowest and highest count.
    """
    kinds = _kinds(case)
    patterns: list[tuple[int, tuple[int, ...]]] = []
    for number, offer in enumerate(case.offers):
        usable = [_goes_to(kind, offer["node"]) for kind in kinds]
        for pattern in _patterns(kinds, _room(case, offer, kinds), usable):
            patterns.append((number, pattern))
            if len(patterns) > MOST_PATTERNS:
                return None
    return _solved(case, kinds, patterns)


def _solved(case: Case, kinds: Sequence[_Kind], patterns: Sequence[tuple[int, tuple[int, ...]]]) -> float | None:
    zones = ["a", "b", "c"]
    zone_of = [zones.index(offer["node"]["metadata"]["labels"].get(ZONE, "a")) for offer in case.offers]
    first_pods = len(patterns)
    first_zone = first_pods + 3 * len(kinds)
    width = first_zone + 3
    rows: list[tuple[dict[int, float], float, float]] = []
    for i, kind in enumerate(kinds):
        pods = [first_pods + 3 * i + zone for zone in range(3)]
        rows.append((dict.fromkeys(pods, 1.0), kind.count, kind.count))
        for zone in range(3):
            held = {at: float(pattern[i]) for at, (offer, pattern) in enumerate(patterns) if zone_of[offer] == zone}
            rows.append(({**held, pods[zone]: -1.0}, 0, np.inf))
        if kind.is_spread:  # at most 1 more than in any zone that has a node; "a" has the old one, which takes no pod
            for more in range(3):
                for less in range(3):
                    if more != less:
                        terms = {pods[more]: 1.0, pods[less]: -1.0, first_zone + less: 100.0}
                        rows.append((terms, -np.inf, 101))
    for zone in range(3):
        there = {at: 1.0 for at, (offer, _) in enumerate(patterns) if zone_of[offer] == zone}
        rows.append(({**there, first_zone + zone: -200.0}, -np.inf, 0))
    for number, offer in enumerate(case.offers):
        if "limit" in offer:
            of_offer = {at: 1.0 for at, (each, _) in enumerate(patterns) if each == number}
            rows.append((of_offer, 0, offer["limit"]))
    cost, low = np.zeros(width), np.zeros(width)
    cost[:first_pods] = [case.offers[offer]["price"] for offer, _ in patterns]
    high = np.full(width, 100.0)
    high[first_zone:], low[first_zone] = 1, 1
    places = [(at, column) for at, (terms, _, _) in enumerate(rows) for column in terms]
    values = [value for terms, _, _ in rows for value in terms.values()]
    matrix = csr_matrix((values, tuple(zip(*places, strict=True))), (len(rows), width))
    limits = LinearConstraint(matrix, [row[1] for row in rows], [row[2] for row in rows])
    options = {"mip_rel_gap": 0.0, "time_limit": 60.0}
    found = milp(cost, integrality=np.ones(width), bounds=Bounds(low, high), constraints=limits, options=options)
    return float(found.fun) if found.status == 0 else None


# ---- orders that the plan has not seen


def left_in_order(loaded: LoadedCluster, answer: Plan, seed: int, one_by_one: bool) -> int:
    """How many pods stay pending if they come in another order, then the nodes, step by step: by the simulation of
    `mooring simulate`, with ties broken by the seed. `one_by_one`: so come the nodes of a step, in any order."""
    chance = random.Random(seed)
    pods = [item for item in loaded.objects if isinstance(item, Pod)]
    chance.shuffle(pods)
    objects: Sequence[KubeObject] = [*(item for item in loaded.objects if not isinstance(item, Pod)), *pods]
    pending = 0
    for nodes in ((), *_arrivals(answer, chance, one_by_one)):
        simulation = Simulation([*objects, *nodes], loaded.config, loaded.registry, loaded.gates, ties=seed)
        pending = len(simulation.run().pending)
        objects = simulation.objects()
    return pending


def _arrivals(answer: Plan, chance: random.Random, one_by_one: bool) -> Iterator[list[KubeObject]]:
    """The nodes that come together."""
    for step in range(1, answer.steps + 1):
        nodes = [each.offer.node(name) for each in answer.added if each.step == step for name in each.names]
        if one_by_one:
            chance.shuffle(nodes)
            yield from nodes
        else:
            yield [item for node in nodes for item in node]


def measure(seed: int, at_once: bool, shuffles: int) -> dict[str, Any]:
    """The plan of a case: its gap, and the unseen orders that leave pods pending."""
    case = a_case(seed)
    best = optimum(case)
    assert best is not None
    loaded = load(case.objects)
    begin_s = time.process_time()
    answer = plan(loaded, case.offers, at_once=at_once)
    took_s = time.process_time() - begin_s
    broken = [
        (number, one_by_one)
        for number in range(1000, 1000 + shuffles)
        for one_by_one in (False, True)
        if left_in_order(loaded, answer, number, one_by_one) > len(answer.pending)
    ]
    return {
        "seed": seed,
        "family": case.family,
        "pods": answer.at_first,
        "steps": answer.steps,
        "nodes": sum(each.count for each in answer.added),
        "left": len(answer.pending),
        "cost": round(answer.cost, 3),
        "optimum": round(best, 3),
        "gap": round(answer.cost / best - 1, 4),
        "broken": len(broken),
        "cheaper": answer.cheaper.orders_held / answer.orders if answer.cheaper else None,
        "seconds": round(took_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shuffles", type=int, default=20)
    parser.add_argument("--at-once", action="store_true", help="plans whose nodes all come at once")
    options = parser.parse_args()
    found = []
    for seed in range(options.first, options.first + options.cases):
        found.append(measure(seed, options.at_once, options.shuffles))
        print(json.dumps(found[-1]), flush=True)
    gaps, held = [each["gap"] for each in found], sum(not each["broken"] for each in found)
    summary = {"cases": len(found), "held": held, "meanGap": round(sum(gaps) / len(gaps), 4), "worstGap": max(gaps)}
    print(json.dumps({**summary, "seconds": round(sum(each["seconds"] for each in found), 1)}))


if __name__ == "__main__":
    main()
