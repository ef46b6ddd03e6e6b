"""How long questions about a large cluster take: a generated dump of 5,000 nodes and 30,000 pods.

    python benchmarks/answers.py                                  every part
    python benchmarks/answers.py what-if --nodes 500 --pods 3000  one part, a smaller cluster
    python benchmarks/answers.py --write dump.json                write the dump and stop, for the command line
    python benchmarks/answers.py --table                          every question as a command, at both sizes of the docs
    python benchmarks/answers.py --table drain shrink --nodes 500 --pods 3000   some of them, at one size

The cluster has three zones and three pools; a DaemonSet, and 200 Deployments of very different size, of which a third spreads
over the zones, a tenth chooses a pool, a twentieth keeps its pods on different nodes, and two fifths have a budget.
Some 55 % of cpu is requested, so that two zones can hold the pods of three. The same arguments give the same cluster.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mooring.answers.capacity.capacity import capacity
from mooring.answers.explain.explain import explain_pod
from mooring.answers.plan.plan import plan
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.answers.what_if.question import what_if
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.kit.process import relax_collector

JsonObject = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
POOL = "cloud.google.com/gke-nodepool"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("eu-1a", "eu-1b", "eu-1c")
POOLS = {"general": (16, 64), "memory": (16, 128), "large": (64, 256)}
"""CPUs and GiB of a node."""
SHARES = (*("general",) * 14, *("memory",) * 4, *("large",) * 2)
"""Of twenty nodes in a row, which pool each is in."""
CPU_MILLI = (100, 250, 500, 500, 1000, 1000, 2000, 4000)
GIB_PER_CPU = (1, 2, 4, 4)
TEMPLATES = 200
FILL = 0.55
"""The share of the cpu that is requested in the end."""


# ---- the cluster


@dataclass(slots=True)
class FreeNode:
    """A node while pods are laid on it."""

    name: str
    zone: str
    pool: str
    cpu_milli: int
    memory_mib: int
    apps: set[str] = field(default_factory=set)
    """What it has of those that want different nodes."""


@dataclass(frozen=True, slots=True)
class App:
    """A Deployment: how its pods look, and how many there are."""

    name: str
    namespace: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    pool: str
    spreads: bool
    is_apart: bool
    budget: JsonObject | None
    priority: int


def cluster_of(nodes: int = 5000, pods: int = 30_000, seed: int = 1) -> list[JsonObject]:
    """The objects of a dump; every node has one pod of the DaemonSet, which counts as one of the pods."""
    dice = random.Random(seed)
    free = [*_nodes(nodes)]
    objects: list[JsonObject] = [_node(each) for each in free]
    objects += [_daemon_set(), *(_daemon(each) for each in free)]
    total_milli = sum(each.cpu_milli for each in free) * FILL
    apps = [*_apps(dice, pods - nodes, total_milli)]
    for app in apps:
        objects += _workload(app)
        objects += _pods(app, free)
    objects += [{"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(name)} for name in _namespaces(apps)]
    return objects


def loaded_cluster(nodes: int = 5000, pods: int = 30_000, seed: int = 1) -> LoadedCluster:
    """The cluster as a question takes it."""
    return load(cluster_of(nodes, pods, seed))


def _nodes(number: int) -> Iterator[FreeNode]:
    for i in range(number):
        pool = SHARES[i // len(ZONES) % len(SHARES)]
        cpus, gib = POOLS[pool]
        yield FreeNode(f"node-{i:05d}", ZONES[i % len(ZONES)], pool, cpus * 1000, gib * 1024)


def _apps(dice: random.Random, pods: int, total_milli: float) -> Iterator[App]:
    """Deployments whose sizes fall as in a power law, with requests that fill the cluster as far as wanted."""
    weights = [1 / (1 + rank) ** 0.7 for rank in range(TEMPLATES)]
    sizes = [max(1, round(pods * weight / sum(weights))) for weight in weights]
    sizes[0] += pods - sum(sizes)
    drawn = [(dice.choice(CPU_MILLI), dice.choice(GIB_PER_CPU)) for _ in sizes]
    scale = total_milli / sum(size * cpu for size, (cpu, _) in zip(sizes, drawn, strict=True))
    for rank, (size, (cpu, gib)) in enumerate(zip(sizes, drawn, strict=True)):
        cpu_milli = min(8000, max(10, round(cpu * scale / 10) * 10))
        budget = dice.choice(({"maxUnavailable": "10%"}, {"minAvailable": "80%"})) if dice.random() < 0.4 else None
        yield App(
            f"app-{rank:03d}",
            f"team-{rank % 20:02d}",
            size,
            cpu_milli,
            max(64, cpu_milli * gib * 1024 // 1000 // 2),
            dice.choice([*POOLS]) if dice.random() < 0.1 else "",
            dice.random() < 1 / 3,
            dice.random() < 0.05 and size < 200,
            budget,
            dice.choice((0, 0, 0, 100, 1000)),
        )


def _pods(app: App, free: Sequence[FreeNode]) -> Iterator[JsonObject]:
    """The pods of a Deployment, zone after zone, each on the next node with room. One without room is pending."""
    starts = {zone: [each for each in free if each.zone == zone and app.pool in ("", each.pool)] for zone in ZONES}
    walks = {zone: cycle(nodes) for zone, nodes in starts.items()}
    for zone in ZONES:  # so that not all Deployments begin with the same nodes
        for _ in range(hash_of(app.name) % max(1, len(starts[zone]))):
            next(walks[zone])
    for number in range(app.replicas):
        zone = ZONES[number % len(ZONES)]
        yield _pod(app, number, _next_with_room(app, walks[zone], len(starts[zone])))


def hash_of(text: str) -> int:
    """A number for a text that is the same in every process."""
    return sum((i + 1) * 7919 * ord(letter) for i, letter in enumerate(text))


def _next_with_room(app: App, walk: Iterator[FreeNode], limit: int) -> str:
    for _ in range(limit):
        node = next(walk)
        if node.cpu_milli < app.cpu_milli or node.memory_mib < app.memory_mib:
            continue
        if app.is_apart and app.name in node.apps:
            continue
        node.cpu_milli -= app.cpu_milli
        node.memory_mib -= app.memory_mib
        node.apps.add(app.name)
        return node.name
    return ""


# ---- objects as an API server returns them


def _meta(name: str, namespace: str = "", **more: Any) -> JsonObject:
    uid = f"uid-{namespace}-{name}"
    meta = {"name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", **more}
    return {**meta, "namespace": namespace} if namespace else meta


def _node(node: FreeNode) -> JsonObject:
    room = {"cpu": str(node.cpu_milli // 1000), "memory": f"{node.memory_mib}Mi", "pods": "110"}
    labels = {HOSTNAME: node.name, ZONE: node.zone, POOL: node.pool}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": _meta(node.name, labels=labels), "status": status}


def _daemon_set() -> JsonObject:
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": _agent()}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _meta("agent", "kube-system"), "spec": spec}


def _agent() -> JsonObject:
    return {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [_container(100, 128)]}}


def _daemon(node: FreeNode) -> JsonObject:
    node.cpu_milli -= 100
    node.memory_mib -= 128
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {**_agent()["spec"], "affinity": {"nodeAffinity": required}, "tolerations": [{"operator": "Exists"}]}
    owner = _owner("apps/v1", "DaemonSet", "agent", "kube-system")
    meta = _meta(f"agent-{node.name}", "kube-system", labels={"app": "agent"}, ownerReferences=[owner])
    return _running(meta, spec, node.name)


def _owner(version: str, kind: str, name: str, namespace: str) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{namespace}-{name}", "controller": True}


def _container(cpu_milli: int, memory_mib: int) -> JsonObject:
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    return {"name": "main", "image": "registry.example/main:1", "resources": {"requests": requests}}


def _workload(app: App) -> Iterator[JsonObject]:
    selector = {"matchLabels": {"app": app.name}}
    spec = {"replicas": app.replicas, "selector": selector, "template": _template(app)}
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(app.name, app.namespace), "spec": spec}
    owner = _owner("apps/v1", "Deployment", app.name, app.namespace)
    meta = _meta(f"{app.name}-rs", app.namespace, ownerReferences=[owner])
    yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    if app.budget is not None:
        budget = {"selector": selector, **app.budget}
        meta = _meta(f"{app.name}-budget", app.namespace)
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget}


def _template(app: App) -> JsonObject:
    spec: JsonObject = {"containers": [_container(app.cpu_milli, app.memory_mib)], "schedulerName": "default-scheduler"}
    selector = {"matchLabels": {"app": app.name}}
    if app.pool:
        spec["nodeSelector"] = {POOL: app.pool}
    if app.spreads:
        rule = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [rule]
    if app.is_apart:
        term = {"topologyKey": HOSTNAME, "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"labels": {"app": app.name}}, "spec": spec}


def _pod(app: App, number: int, node: str) -> JsonObject:
    owner = _owner("apps/v1", "ReplicaSet", f"{app.name}-rs", app.namespace)
    meta = _meta(f"{app.name}-{number:05d}", app.namespace, labels={"app": app.name}, ownerReferences=[owner])
    return _running(meta, {**_template(app)["spec"], "priority": app.priority}, node)


def _running(meta: JsonObject, spec: JsonObject, node: str) -> JsonObject:
    if not node:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "nodeName": node}, "status": status}


def _namespaces(apps: Sequence[App]) -> list[str]:
    return ["kube-system", *sorted({app.namespace for app in apps})]


# ---- questions


def ask_what_if(cluster: LoadedCluster) -> str:
    """A zone is drained."""
    return what_if(cluster, [("drain", f"{ZONE}={ZONES[0]}")]).summary()[1]


def ask_explain(cluster: LoadedCluster) -> str:
    """A pod that fits on no node of the pool that it selects: the reasons, and the search for what would place it."""
    pod = a_pod("16", "32Gi")
    pod["spec"]["nodeSelector"] = {POOL: "general"}
    asked = replace(cluster, objects=[*cluster.objects, *load([pod]).objects])
    answer = explain_pod(Counterfactual(asked), asked.pod("large", "default"))
    return f"{len(answer.reasons)} reasons, {len(answer.cures)} cures"


def ask_capacity(cluster: LoadedCluster) -> str:
    """How many more pods of a plain shape fit."""
    answer = capacity(cluster, a_pod("500m", "1Gi"))
    return f"{answer.fits} more fit"


def ask_shrink(cluster: LoadedCluster) -> str:
    """Which nodes can go."""
    return plan(cluster, shrink=True).summary()[1]


def a_pod(cpu: str, memory: str) -> JsonObject:
    requests = {"cpu": cpu, "memory": memory}
    containers = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": containers}}


PARTS: dict[str, Callable[[LoadedCluster], str]] = {
    "explain": ask_explain,
    "capacity": ask_capacity,
    "what-if": ask_what_if,
    "shrink": ask_shrink,
}


# ---- questions as commands: loading and all, in a process of their own

SIZES = ((5000, 30_000), (20_000, 200_000))
LIMIT_S = 400
"""A command that takes longer is ended, and its row says so."""
PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}
    ],
}
COMMANDS = {
    "explain": "explain default/large --no-cures --from {large}",
    "cures": "explain default/large --from {large}",
    "capacity": "capacity {plain}",
    "preempt": "capacity {urgent} --preempt",
    "drain": f"what-if --drain {ZONE}={ZONES[0]}",
    "delete": "what-if --delete node/node-00010",
    "scale": "what-if --scale deployment/team-02/app-042=1000",
    "offer": "plan --offer {offers} --apply {pending}",
    "shrink": "plan --shrink",
    "compare": "compare default {packed} --processes 1 --from {pending}",
    "simulate": "simulate --from {pending}",
}


def command_files() -> dict[str, Any]:
    """The objects that commands name, by name of the file."""
    large, urgent = a_pod("16", "32Gi"), a_pod("2", "4Gi")
    large["metadata"]["namespace"] = "default"
    large["spec"]["nodeSelector"] = {POOL: "general"}
    urgent["spec"]["priority"] = 2000
    items = [a_pod(str(cpus), f"{2 * cpus}Gi") for cpus in (16, 20, 24, 30, 32, 40, 48, 50) * 38]
    for i, pod in enumerate(items[:300]):
        pod["metadata"] = {"name": f"wide-{i:03d}", "namespace": "default"}
        pod["spec"]["nodeSelector"] = {"pool": "new"} if i % 3 else {POOL: "large"}
    pending = {"apiVersion": "v1", "kind": "List", "items": items[:300]}
    offers = [_offer(cpus, price) for cpus, price in ((16, 0.6), (32, 1.2), (64, 2.3), (96, 3.3))]
    named = {"large": large, "plain": a_pod("500m", "1Gi"), "urgent": urgent, "pending": pending}
    return {**named, "offers": {"offers": offers}, "packed": PACKED}


def _offer(cpus: int, price: float) -> JsonObject:
    labels = {"pool": "new", **({POOL: "large"} if cpus > 64 else {})}
    room = {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "110"}
    return {
        "name": f"n{cpus}",
        "price": price,
        "node": {"metadata": {"labels": labels}, "status": {"allocatable": room}},
    }


def print_table(names: Sequence[str], sizes: Sequence[tuple[int, int]]) -> None:
    """Print a row for each question and size: CPU seconds and peak memory of its process."""
    print("| nodes | pods | question | CPU s | MiB |\n|---:|---:|---|---:|---:|")
    with TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{name}.json") for name in command_files()}
        for name, held in command_files().items():
            files[name].write_text(json.dumps(held))
        for nodes, pods in sizes:
            dump = Path(folder, "dump.json")
            dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster_of(nodes, pods)}))
            for name in names or COMMANDS:
                cpu_s, mib, told = _measured([*COMMANDS[name].format(**files).split(), "--from", str(dump)])
                print(f"| {nodes:,} | {pods:,} | {name} | {cpu_s:.1f}{told} | {mib:,.0f} |", flush=True)


def _measured(arguments: Sequence[str]) -> tuple[float, float, str]:
    """CPU seconds and MiB of a command, and a word if it did not answer."""
    program = str(Path(sys.executable).with_name("mooring"))
    child = subprocess.Popen(
        ["timeout", str(LIMIT_S), program, *arguments, "-o", "json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # 1: not everything fits
    told = "" if child.returncode in (0, 1) else f" (exit status {child.returncode})"
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {**PARTS, **COMMANDS}
    parser.add_argument("parts", nargs="*", choices=[[], *parts], metavar="PART", help=", ".join(parts))
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--table", action="store_true", help="ask by commands, and print CPU seconds and MiB")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--write", metavar="FILE")
    options = parser.parse_args()
    if options.table:
        print_table(options.parts, SIZES if options.nodes is None else [(options.nodes, options.pods)])
        return
    options.nodes = options.nodes or 5000
    if options.write:
        dump = {"apiVersion": "v1", "kind": "List", "items": cluster_of(options.nodes, options.pods)}
        Path(options.write).write_text(json.dumps(dump))
        return
    cluster = loaded_cluster(options.nodes, options.pods)
    relax_collector()
    for part in options.parts or PARTS:
        for _ in range(options.runs):
            begin, begin_cpu = time.perf_counter(), time.process_time()
            told = PARTS[part](cluster)
            took, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
            print(json.dumps({"part": part, "seconds": round(took, 3), "cpuSeconds": round(cpu, 3), "told": told}))


if __name__ == "__main__":
    main()
