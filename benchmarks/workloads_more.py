"""Throughput scenarios beside those of tests/conformance/workloads.py, in the same form.

usage: workloads_more.py preemption|diversepreemption NODES PLACED PENDING
       workloads_more.py requests|diverse NODES PLACED PENDING TEMPLATES

preemption:        nodes of 4 CPUs that are full of pods with 900m, and pods of a higher priority that ask for 3 CPUs.
diversepreemption: the same, and each preemptor has requests of its own, of 2.8 to 3.1 CPUs.
requests, diverse: those of tests/conformance/workloads.py, with so many templates that come in turn.
"""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

CORPUS_WRITER = Path(__file__).parent.parent / "tests" / "conformance" / "workloads.py"

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}


def a_node(index: int) -> dict[str, Any]:
    name = f"node-{index:05d}"
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {HOST: name, ZONE: f"zone{index % 3 + 1}"}}
    status = {"capacity": CAPACITY, "allocatable": CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def a_pod(name: str, namespace: str, cpu: str, memory: str = "500Mi", **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "pause", "image": "registry.example/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def preemptor(index: int, is_diverse: bool) -> dict[str, Any]:
    amounts = (f"{2800 + index * 7 % 301}m", f"{500 + index // 301}Mi") if is_diverse else ("3", "500Mi")
    return a_pod(f"new-{index:05d}", "sched-1", *amounts, priority=1000)


def preemption(kind: str, nodes: int, placed: int, pending: int) -> dict[str, Any]:
    """The scenario; pods that run are dealt out to the nodes in turn."""
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("sched-0", "sched-1")
    ]
    objects += [a_node(i) for i in range(nodes)]
    objects += [a_pod(f"init-{i:05d}", "sched-0", "900m", nodeName=f"node-{i % nodes:05d}") for i in range(placed)]
    objects += [preemptor(i, kind == "diversepreemption") for i in range(pending)]
    names = [f"sched-1/new-{i:05d}" for i in range(pending)]
    return {"name": f"{kind}-{nodes}n-{placed}i-{pending}p", "config": None, "objects": objects, "pods": names}


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
    if kind in ("preemption", "diversepreemption") and len(amounts) == 3:
        json.dump(preemption(kind, *amounts), sys.stdout, separators=(",", ":"))
    elif kind in ("requests", "diverse") and len(amounts) == 4 and amounts[3]:
        write_in_turn(kind, *amounts)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
