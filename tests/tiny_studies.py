"""Tiny studies for tests: six nodes, twenty pods that arrive one by one, two configurations."""

from pathlib import Path
from typing import Any

HEADER = {"apiVersion": "mooring.dev/v1", "kind": "Study"}
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n-{i},8000,65536,2,T4\n" for i in range(6))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n" + "".join(
    f"p-{i},{1000 + 500 * (i % 4)},1024,{i % 2},{500 * (i % 2)},,{i * 10},{i * 10 + 300},\n" for i in range(20)
)
PACKED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
FAULTY = """\
import os
from mooring.plugin import PlainPlugin

class Faulty(PlainPlugin):
    name = "Faulty"

    def filter(self, pod, node):
        if pod.name == "p-7":
            {what}
"""


def a_study(folder: Path, **fields: Any) -> dict[str, Any]:
    """A study as a dictionary, with its tables in the folder."""
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS)
    (folder / "packed.yaml").write_text(PACKED)
    until = {"resource": "cpu", "percent": 110}
    return {
        **HEADER,
        "clusters": [{"name": "c", "nodes": str(folder / "nodes.csv"), "format": "openb"}],
        "workloads": [
            {"name": "w", "pods": str(folder / "pods.csv"), "format": "openb", "arrive": "one-by-one", "until": until}
        ],
        "configurations": [{"name": "spread"}, {"name": "packed", "config": str(folder / "packed.yaml")}],
        "seeds": 3,
        "metrics": ["placed", "pending", {"allocated": "cpu"}, {"allocated": "cpu", "at": [50, 100], "column": "at"}],
        **fields,
    }


def a_faulty_plugin(folder: Path, what: str) -> dict[str, Any]:
    """A configuration with a plugin that does something else than to decide about one of the pods."""
    (folder / "faulty.py").write_text(FAULTY.format(what=what))
    (folder / "faulty.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Faulty}]}}}]\n"
    )
    return {"name": "faulty", "config": str(folder / "faulty.yaml"), "plugins": [str(folder / "faulty.py")]}
