"""Generated clusters with pending pods and offers of nodes: the set on which `mooring plan` and `capacity` are measured.

    python benchmarks/plan_set.py                          the set: gap to the lower bound and time of each case
    python benchmarks/plan_set.py --cases 5 --pending 80   a part of it
    python benchmarks/plan_set.py --large                  5,000 nodes, 30,000 pods, 20 offers: capacity and plan

A case follows from its seed alone. Requests are as in public traces: more small ones than large ones, memory from 1 to 6 GiB
for each cpu, many pods of few templates. They have classes: most are small (50m to 500m), many of some cpus, some of 6 to
16 cpus, and one template in twelve requests 24 or 40 cpus: half or most of a machine, and more than small machines have. Some
pods want a zone, spread over zones or nodes, prefer to keep apart, or request 1 to 8 accelerators. Offers are the machine
types of a cloud: sizes from 4 to 96 cpus in families with 2, 4 or 8 GiB for each cpu, a price about proportional to the
size, some with a limit, some with accelerators and a taint.
"""

import argparse
import json
import random
import time
from typing import Any

from mooring.answers.capacity.capacity import capacity
from mooring.answers.plan.plan import plan
from mooring.inputs.loaded_cluster import load

ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"


def a_case(
    seed: int, nodes: int = 6, templates: int = 20, pending: int = 400, offers: int = 14, full: float = 0.9
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The objects of a cluster, and offers in the form of the file of `mooring plan`."""
    chance = random.Random(seed)
    shapes = [_template(chance, i) for i in range(templates)]
    machines = [_node(chance, i) for i in range(nodes)]
    running = [pod for node in machines for pod in _fill(chance, node, full)]
    waiting = [
        _pod(f"pending-{i}", shapes[min(int(chance.paretovariate(0.8)) - 1, templates - 1)]) for i in range(pending)
    ]
    return [*machines, *running, *waiting], _offers(chance, offers)


CPU_MILLI = ((50, 100, 250, 500), (1000, 1500, 2000, 4000), (6000, 8000, 12000, 16000), (24000, 40000))
"""By class of pods: what they request."""
CLASSES = (0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3)
"""Of twelve templates, the class of each."""


def _template(chance: random.Random, number: int) -> dict[str, Any]:
    cpu = chance.choice(CPU_MILLI[chance.choice(CLASSES)])
    memory = int(cpu * chance.choice((1, 1, 2, 2, 4, 4, 6)) * 1.024)
    labels = {"app": f"app-{number}"}
    requests: dict[str, str] = {"cpu": f"{cpu}m", "memory": f"{max(memory, 64)}Mi"}
    spec: dict[str, Any] = {}
    kind = chance.random()
    if kind < 0.1 and cpu <= 8000:
        requests[GPU] = str(chance.choice((1, 1, 2, 4, 8)))
        spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    elif kind < 0.25:
        spec["nodeSelector"] = {ZONE: chance.choice(ZONES)}
    elif kind < 0.35:
        spec["topologySpreadConstraints"] = [_spread(ZONE, 2, labels)]
    elif kind < 0.4:
        spec["topologySpreadConstraints"] = [_spread(HOSTNAME, 4, labels)]
    elif kind < 0.45 and cpu >= 1000:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
            }
        }
    spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
    return {"metadata": {"labels": labels}, "spec": spec}


def _spread(key: str, skew: int, labels: dict[str, str]) -> dict[str, Any]:
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {**rule, "labelSelector": {"matchLabels": labels}}


def _pod(name: str, template: dict[str, Any], node: str = "") -> dict[str, Any]:
    metadata = {**template["metadata"], "name": name, "namespace": "default"}
    spec = {**template["spec"], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _node(chance: random.Random, number: int) -> dict[str, Any]:
    cpu, per_cpu = chance.choice((8, 16, 32)), chance.choice((2, 4, 8))
    zone = ZONES[number % len(ZONES)]
    name = f"node-{number:05}"
    return _machine(name, cpu, cpu * per_cpu, {ZONE: zone, HOSTNAME: name, "pool": f"p{per_cpu}"})


def _machine(name: str, cpu: int, memory_gi: int, labels: dict[str, str], gpus: int = 0) -> dict[str, Any]:
    """As of a cloud: the kubelet and the system keep a part of the machine for themselves."""
    allocatable = {"cpu": f"{cpu * 1000 - 80}m", "memory": f"{memory_gi * 1024 * 92 // 100}Mi", "pods": "110"}
    spec: dict[str, Any] = {}
    if gpus:
        allocatable[GPU] = str(gpus)
        spec["taints"] = [{"key": GPU, "effect": "NoSchedule"}]
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def _fill(chance: random.Random, node: dict[str, Any], full: float) -> list[dict[str, Any]]:
    """Pods on a node until their cpu requests reach that share."""
    milli = int(node["status"]["allocatable"]["cpu"].removesuffix("m"))
    memory_mi = int(node["status"]["allocatable"]["memory"].removesuffix("Mi"))
    pods: list[dict[str, Any]] = []
    used = 0
    while used < full * milli and len(pods) < 40:
        cpu = min(chance.choice((500, 1000, 2000, 4000, 8000)), milli - used)
        app = f"running-{chance.randrange(20)}"
        requests = {"cpu": f"{cpu}m", "memory": f"{memory_mi * cpu * 8 // milli // 10}Mi"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        name, where = f"{node['metadata']['name']}-{len(pods)}", node["metadata"]["name"]
        pods.append(_pod(name, {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}, where))
        used += cpu
    return pods


def _offers(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """Two machines in every zone without a limit, so that nearly all pods fit, two with accelerators, and others."""
    found = [_offer(f"m4-16-{zone}", 16, 4, zone) for zone in ZONES] + [
        _offer(f"m8-64-{zone}", 64, 8, zone) for zone in ZONES
    ]
    for i in range(len(found), number):
        per_cpu, zone = chance.choice((2, 4, 8)), ZONES[i % len(ZONES)]
        gpus = {6: 8, 7: chance.choice((1, 4))}.get(i, 0)
        cpu = chance.choice((32, 48, 64, 96) if gpus else (4, 8, 16, 32, 48, 64, 96))
        name = f"m{per_cpu}-{cpu}{f'-g{gpus}' if gpus else ''}-{zone}-{i}"
        offer = _offer(name, cpu, per_cpu, zone, gpus, chance.uniform(0.9, 1.1))
        if not gpus and chance.random() < 0.3:
            offer["limit"] = chance.randint(1, 5)
        found.append(offer)
    return found


def _offer(name: str, cpu: int, per_cpu: int, zone: str, gpus: int = 0, dearness: float = 1.0) -> dict[str, Any]:
    price = (cpu * 0.03 + cpu * per_cpu * 0.004 + gpus * 0.9) * dearness
    node = _machine("", cpu, cpu * per_cpu, {ZONE: zone, "offer": name}, gpus)
    del node["metadata"]["name"]
    return {"name": name, "price": round(price, 4), "node": node}


def a_large_case(seed: int = 1, full: float = 1.0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """5,000 nodes with some 30,000 pods, 3,000 of them pending, and 20 offers."""
    return a_case(seed, nodes=5000, templates=60, pending=3000, offers=20, full=full)


# ---- measuring


def measure(objects: list[dict[str, Any]], offers: list[dict[str, Any]], at_once: bool = False) -> dict[str, Any]:
    """The plan of a case: cost, bound, and the CPU seconds after loading."""
    loaded = load(objects)
    begin_s = time.process_time()
    answer = plan(loaded, offers, at_once=at_once)
    took_s = time.process_time() - begin_s
    gap = answer.cost / answer.lower_bound - 1 if answer.lower_bound else 0.0
    return {
        "pending": answer.at_first,
        "placedNow": answer.placed_now,
        "newNodes": sum(len(each.names) for each in answer.added),
        "steps": answer.steps,
        "left": len(answer.pending),
        "leftAtOnce": answer.pending_at_once,
        "cost": round(answer.cost, 3),
        "lowerBound": round(answer.lower_bound, 3),
        "gap": round(gap, 4),
        "seconds": round(took_s, 2),
    }


def measure_capacity(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """How long `capacity` takes after loading, for a pod that is counted at once and for one that is placed one by one."""
    loaded = load(objects)
    labels = {"app": "counted"}
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    plain = _pod("counted", {"metadata": {"labels": labels}, "spec": {"containers": [container]}})
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread = {**plain["spec"], "topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": labels}}]}
    found = {}
    for name, pod in (("at once", plain), ("one by one", {**plain, "spec": spread})):
        begin_s = time.process_time()
        answer = capacity(loaded, pod)
        found[name] = {"fits": answer.fits, "seconds": round(time.process_time() - begin_s, 2)}
    return found


def _pods(objects: list[dict[str, Any]]) -> dict[str, int]:
    pods = [each for each in objects if each["kind"] == "Pod"]
    pending = sum(not each["spec"].get("nodeName") for each in pods)
    return {"running": len(pods) - pending, "pending": pending}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--pending", type=int, default=400)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--at-once", action="store_true", help="plans whose nodes all come at once")
    options = parser.parse_args()
    if options.large:
        roomy, _ = a_large_case(full=0.8)
        objects, offers = a_large_case()
        print(json.dumps({"pods": _pods(roomy), "capacity": measure_capacity(roomy)}), flush=True)
        print(json.dumps({"pods": _pods(objects), "plan": measure(objects, offers, options.at_once)}))
        return
    found = []
    for seed in range(options.cases):
        found.append(measure(*a_case(seed, pending=options.pending), options.at_once))
        print(json.dumps({"seed": seed, **found[-1]}), flush=True)
    cost, bound = sum(each["cost"] for each in found), sum(each["lowerBound"] for each in found)
    gaps, took_s = [each["gap"] for each in found], sum(each["seconds"] for each in found)
    mean = round(sum(gaps) / len(gaps), 4)
    summary = {"cases": len(found), "gapOfAll": round(cost / bound - 1, 4), "worstGap": max(gaps), "meanGap": mean}
    print(json.dumps({**summary, "seconds": round(took_s, 1)}))


if __name__ == "__main__":
    main()
