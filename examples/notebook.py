"""Questions to a cluster, as one would ask them in a notebook. Run it: python examples/notebook.py"""

from pathlib import Path
from typing import Any

import mooring
from mooring.scheduler.decision import NoFit

HERE = Path(__file__).parent
CLUSTER = HERE / "cluster.yaml"


def a_node(name: str, cpu: str, memory: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def main() -> None:
    report = mooring.simulate(CLUSTER)
    print("Where do the pods go?")
    for result in report.placed:
        print(f"  {result.pod.name:10} {result.node}")

    print("Why is giant pending?")
    why = mooring.simulate(CLUSTER, explain="giant").explanation
    assert why is not None and isinstance(why.decision, NoFit)
    print(f"  {why.decision.message}")

    print("Would a bigger node help?")
    grown = mooring.simulate([CLUSTER, a_node("big-1", cpu="64", memory="256Gi")])
    print(f"  still pending: {[result.pod.name for result in grown.pending]}")

    print("How many nodes stay empty if we pack?")
    for title, config in (("default", None), ("packed", HERE / "packed.yaml")):
        empty = [node.name for node in mooring.simulate(CLUSTER, config).nodes if not node.pods]
        print(f"  {title}: {empty}")


if __name__ == "__main__":
    main()
