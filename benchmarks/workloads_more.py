"""Throughput scenarios beside those of tests/conformance/workloads.py, in the same form.

usage: workloads_more.py selectors|exclusive|exclusions NODES PLACED PENDING
       workloads_more.py preemption|preemptors|gangs|gang-racks|group-preemption|whole-groups NODES PLACED PENDING
       workloads_more.py requests|diverse NODES PLACED PENDING TEMPLATES

selectors: each pod is an application of its own, and by turns it spreads over zones, as it likes or strictly, or avoids
itself on a host, as it likes or strictly.
exclusive: the pods of 400 tenants, none of which shares a node with another.
exclusions: each pod is an application of its own, and prefers hosts and zones without pods of other applications.
preemption: nodes of 4 CPUs that are full of pods with 900m, and pods of a higher priority that ask for 3 CPUs.
preemptors: the same nodes with pods of ten priorities and of 400 applications; each pod that makes others leave has
requests and a priority of its own and, by turns, a node affinity, an anti-affinity or a spread of its own.
gangs: pods of 1 CPU in pod groups of 8 that go together, on nodes of 4 CPUs with pods of 900m.
gang-racks: the same, and each group goes to one rack of 40 nodes.
group-preemption: the nodes of preemption, and groups of 8 pods of 1 CPU with a higher priority that preempt as one.
whole-groups: the same, and the pods that leave are in groups of 8 that leave as one.
requests, diverse: those of tests/conformance/workloads.py, with so many templates that come in turn.
"""

import json
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

CORPUS_WRITER = Path(__file__).parent.parent / "tests" / "conformance" / "workloads.py"

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}
APPLICATIONS = TENANTS = 400
RACK = "example.com/rack"
RACK_NODES = 40
GANG = 8
GANG_GATES = "GenericWorkload=true"
RACK_GATES = f"{GANG_GATES},TopologyAwareWorkloadScheduling=true"


def a_node(index: int) -> dict[str, Any]:
    name = f"node-{index:05d}"
    labels = {HOST: name, ZONE: f"zone{index % 3 + 1}", RACK: f"rack-{index // RACK_NODES:04d}"}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    status = {"capacity": CAPACITY, "allocatable": CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def a_pod(
    name: str, namespace: str, cpu: str, memory: str = "500Mi", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "pause", "image": "registry.example/pause:3.10", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": labels} if labels else metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


Pods = Callable[[int], dict[str, Any]]
"""The i-th pod that runs, without its node, or the i-th that is pending."""


def own_application(name: str, i: int) -> dict[str, Any]:
    """A pod that no other selector means: thousands of tallies, each of them asked for once or twice."""
    labels = {"app": f"app-{i}"}
    return a_pod(name, "sched-1", "100m", labels=labels, **_about_itself(i, {"matchLabels": labels}))


def _about_itself(i: int, mine: dict[str, Any]) -> dict[str, Any]:
    if i % 4 == 3:
        return _own_anti_affinity(i, mine)
    if i % 4 == 2:
        return _preferred_anti_affinity(mine, {HOST: 100})
    spread = _own_spread(i, mine)
    if i % 4 == 0:
        spread["topologySpreadConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway"
    return spread


def exclusive_pod(name: str, i: int) -> dict[str, Any]:
    """A pod whose terms concern the pods of all other tenants."""
    tenant = f"tenant-{i % TENANTS}"
    others = [
        {"key": "tenant", "operator": "Exists"},
        {"key": "tenant", "operator": "NotIn", "values": [tenant]},
    ]
    return a_pod(
        name, "sched-1", "100m", labels={"tenant": tenant}, **_own_anti_affinity(i, {"matchExpressions": others})
    )


def own_exclusion(name: str, i: int) -> dict[str, Any]:
    """A pod whose terms concern all pods but itself, and no other pod has the same terms."""
    others = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"app-{i}"]}]}
    avoided = _preferred_anti_affinity(others, {ZONE: 50, HOST: 51})
    return a_pod(name, "sched-1", "100m", labels={"app": f"app-{i}"}, **avoided)


def _preferred_anti_affinity(selector: dict[str, Any], weights: dict[str, int]) -> dict[str, Any]:
    """With a term for each topology key."""
    terms = [
        {"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": key}}
        for key, weight in weights.items()
    ]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def a_low_pod(i: int) -> dict[str, Any]:
    return a_pod(f"init-{i:05d}", "sched-0", "900m")


def a_preemptor(i: int) -> dict[str, Any]:
    return a_pod(f"new-{i:05d}", "sched-1", "3", priority=1000)


def own_low_pod(i: int) -> dict[str, Any]:
    """One of four that fill a node: 850m to 1 CPU, priority 0 to 9."""
    labels = {"app": f"app-{i * 7 % APPLICATIONS}"}
    return a_pod(
        f"init-{i:05d}", "sched-1", f"{850 + i * 53 % 150}m", f"{200 + i * 31 % 700}Mi", labels, priority=i * 3 % 10
    )


def own_preemptor(i: int) -> dict[str, Any]:
    """1 to 3 CPUs and a priority of 100 to 999; of eight pods three have more of their own."""
    app = f"app-{i % APPLICATIONS}"
    requests = f"{1000 + i * 37 % 2000}m", f"{64 + i * 53 % 1900}Mi"
    own = a_pod(f"new-{i:05d}", "sched-1", *requests, labels={"app": app}, priority=100 + i * 271 % 900)
    own["spec"] |= (_own_zone, _own_anti_affinity, _own_spread, *(_nothing,) * 5)[i % 8](
        i, {"matchLabels": {"app": app}}
    )
    return own


def _nothing(i: int, mine: dict[str, Any]) -> dict[str, Any]:
    return {}


def _own_zone(i: int, mine: dict[str, Any]) -> dict[str, Any]:
    zones = {"key": ZONE, "operator": "In", "values": [f"zone{i % 3 + 1}", f"unused-{i}"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _own_anti_affinity(i: int, mine: dict[str, Any]) -> dict[str, Any]:
    term = {"labelSelector": mine, "topologyKey": HOST}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _own_spread(i: int, mine: dict[str, Any]) -> dict[str, Any]:
    spread = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
    return {"topologySpreadConstraints": [spread]}


def a_gang_pod(i: int) -> dict[str, Any]:
    return a_pod(f"new-{i:05d}", "sched-1", "1", schedulingGroup={"podGroupName": f"gang-{i // GANG:05d}"})


def a_gang(index: int, constraints: dict[str, Any]) -> dict[str, Any]:
    name = f"gang-{index:05d}"
    metadata = {"name": name, "namespace": "sched-1", "uid": f"uid-{name}"}
    spec = {"schedulingPolicy": {"gang": {"minCount": GANG}}, **constraints}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def a_low_member(i: int) -> dict[str, Any]:
    return a_pod(f"init-{i:05d}", "sched-0", "900m", schedulingGroup={"podGroupName": f"low-{i // GANG:05d}"})


def a_high_member(i: int) -> dict[str, Any]:
    group = {"podGroupName": f"gang-{i // GANG:05d}"}
    return a_pod(f"new-{i:05d}", "sched-1", "1", schedulingGroup=group, priority=1000)


def a_low_group(index: int) -> dict[str, Any]:
    """A group that leaves as one."""
    group = a_gang(index, {"disruptionMode": {"all": {}}, "priority": 0})
    group["metadata"] |= {"name": f"low-{index:05d}", "namespace": "sched-0", "uid": f"uid-low-{index:05d}"}
    return group


IN_A_RACK = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
GANGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gangs": (GANG_GATES, {}),
    "gang-racks": (RACK_GATES, IN_A_RACK),
    "group-preemption": (GANG_GATES, {"priority": 1000}),
    "whole-groups": (GANG_GATES, {"priority": 1000}),
}
"""Kind -> the feature gates, and what the pod groups have besides their size."""

KINDS: dict[str, tuple[Pods, Pods]] = {
    "selectors": (
        lambda i: own_application(f"init-{i:05d}", i),
        lambda i: own_application(f"new-{i:05d}", 1_000_000 + i),
    ),
    "exclusive": (lambda i: exclusive_pod(f"init-{i:05d}", i), lambda i: exclusive_pod(f"new-{i:05d}", i)),
    "exclusions": (
        lambda i: own_exclusion(f"init-{i:05d}", i),
        lambda i: own_exclusion(f"new-{i:05d}", 1_000_000 + i),
    ),
    "preemption": (a_low_pod, a_preemptor),
    "preemptors": (own_low_pod, own_preemptor),
    **dict.fromkeys(("gangs", "gang-racks"), (a_low_pod, a_gang_pod)),
    "group-preemption": (a_low_pod, a_high_member),
    "whole-groups": (a_low_member, a_high_member),
}


def scenario(kind: str, nodes: int, placed: int, pending: int) -> dict[str, Any]:
    """The scenario; pods that run are dealt out to the nodes in turn."""
    low, preemptor = KINDS[kind]
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("sched-0", "sched-1")
    ]
    objects += [a_node(i) for i in range(nodes)]
    for i in range(placed):
        pod = low(i)
        pod["spec"]["nodeName"], pod["status"]["phase"] = f"node-{i % nodes:05d}", "Running"
        objects.append(pod)
    gates, constraints = GANGS.get(kind, ("", {}))
    if kind in GANGS:
        objects += [a_gang(index, constraints) for index in range(-(-pending // GANG))]
    if kind == "whole-groups":
        objects += [a_low_group(index) for index in range(-(-placed // GANG))]
    waiting = [preemptor(i) for i in range(pending)]
    names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in waiting]
    title = f"{kind}-{nodes}n-{placed}i-{pending}p"
    written = {"name": title, "config": None, "objects": objects + waiting, "pods": names}
    return {**written, "featureGates": gates} if gates else written


def corpus_writer() -> Any:
    """tests/conformance/workloads.py as a module; a test folder is no package."""
    spec = spec_from_file_location("corpus_workloads", CORPUS_WRITER)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_in_turn(kind: str, nodes: int, placed: int, pending: int, templates: int) -> None:
    """Write a scenario of the corpus' writer whose pods are made from so many templates."""
    corpus = corpus_writer()
    original = corpus.OWN[kind]
    corpus.OWN[kind] = lambda i: original(i % templates)
    corpus.main(kind, nodes, placed, pending)


def main(arguments: list[str]) -> None:
    kind, *texts = arguments or [""]
    if not all(text.isdigit() for text in texts):
        sys.exit(__doc__)
    amounts = [int(text) for text in texts]
    if kind in KINDS and len(amounts) == 3:
        json.dump(scenario(kind, *amounts), sys.stdout, separators=(",", ":"))
    elif kind in ("requests", "diverse") and len(amounts) == 4 and amounts[3]:
        write_in_turn(kind, *amounts)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
