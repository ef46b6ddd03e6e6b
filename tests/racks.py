"""A cluster with racks and zones for pod groups with topology constraints; `gangs.py` has the world itself."""

from collections.abc import Mapping
from typing import Any

import msgspec

from build import a_node
from gangs import GROUP_GATES, GangWorld, a_group
from mooring.framework.profile.registry import Registry
from mooring.model.workloads import PodGroup

RACK_GATES = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True}
NEW = 100
"""The priority of members."""


def a_rack_group(name: str = "gang", min_count: int | None = None, key: str | None = "rack", **spec: Any) -> PodGroup:
    """Its pods go to nodes with one value of the label `key`; None: there is no such constraint."""
    group = msgspec.to_builtins(a_group(name, min_count, **spec))
    if key is not None:
        group["spec"]["schedulingConstraints"] = {"topology": [{"key": key}]}
    return msgspec.convert(group, PodGroup)


class RackWorld(GangWorld):
    """Nodes have two CPUs, unless said otherwise."""

    def __init__(self, gates: Mapping[str, bool] | None = None, registry: Registry | None = None) -> None:
        super().__init__(RACK_GATES if gates is None else gates, registry)

    def racks(self, cpu: str = "2", zone: str = "z1", **counts: int) -> None:
        """So many nodes in each rack: `r1=2` are the nodes r1-1 and r1-2."""
        for rack, count in counts.items():
            for number in range(1, count + 1):
                self.driver.create(a_node(f"{rack}-{number}", cpu=cpu, labels={"rack": rack, "zone": zone}))
        self.settle()

    def rack_group(
        self, name: str = "gang", min_count: int | None = None, key: str | None = "rack", **spec: Any
    ) -> None:
        self.driver.create(a_rack_group(name, min_count, key, **spec))
        self.settle()

    def running(self, name: str, node: str, cpu: str = "1", **more: Any) -> None:
        self.pod(name, cpu=cpu, nodeName=node, **more)

    def racks_of(self, *names: str) -> set[str]:
        """The racks of those of these pods that have a node."""
        where = self.where()
        return {where[name].partition("-")[0] for name in names if name in where}
