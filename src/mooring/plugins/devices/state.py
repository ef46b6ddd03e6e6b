"""What one attempt knows of a pod's claims, from PreFilter to the end of the binding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.serving_classes import ServingClasses
from mooring.cluster.nodes.table import NodeTable
from mooring.model.devices import Allocation, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import RequestMapping
from mooring.model.selectors import NodeMatcher
from mooring.plugins.devices.extended import Served, asking, may_be_served, serve

Rows = NDArray[np.intp]


@dataclass(slots=True, eq=False)
class ClaimState:
    """The claims in order; the one for extended resources, if there is one, comes last."""

    claims: list[ResourceClaim] = field(default_factory=list)
    reach: list[NodeMatcher | None] = field(default_factory=list)
    """For each claim the nodes that its allocation can be used on; None: it has none yet, or any node will do."""
    extended: ResourceClaim | None = None
    """The claim for extended resources as it was found or made up in PreFilter."""
    requested: Mapping[str, int] = field(default_factory=dict)
    """What the pod requests, where some of it may be served by devices."""
    unavailable: set[int] = field(default_factory=set)
    """Claims whose allocation stands in the way on some node."""
    allocations: dict[int, Allocation] = field(default_factory=dict)
    """What claims are to get on the node that was chosen."""
    mappings: Sequence[RequestMapping] = ()
    """... and which request of the extended claim then serves which container."""
    node_claim: ResourceClaim | None = None
    """The extended claim as it is to be written for that node."""
    _served: dict[tuple[str, ...], Served] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.claims)

    @property
    def has_user_claims(self) -> bool:
        return len(self.claims) > (self.extended is not None)

    def missing(self) -> list[int]:
        """The claims that have to be allocated, but for the extended one."""
        last = len(self.claims) - (self.extended is not None)
        return [i for i, claim in enumerate(self.claims[:last]) if claim.status.allocation is None]

    def wanted(self, served: Served) -> list[tuple[int, ResourceClaim]]:
        """The claims that have to be allocated on nodes where devices serve this."""
        found = [(index, self.claims[index]) for index in self.missing()]
        if self.extended is not None and served.requests:
            found.append((len(self.claims) - 1, asking(self.extended, served)))
        return found

    def served(self, pod: Pod, resources: Sequence[str], classes: ServingClasses) -> Served:
        key = tuple(resources)
        if key not in self._served:
            self._served[key] = serve(pod, key, classes)
        return self._served[key]


def served_by_devices(
    state: ClaimState, nodes: NodeTable, classes: ServingClasses, rows: Rows
) -> dict[str, NDArray[np.bool_]]:
    """For each requested resource that devices can serve the rows on which they have to: the node has none of it."""
    names = [name for name, amount in state.requested.items() if amount and may_be_served(name)]
    served = {name: nodes.resource(name) for name in sorted(names) if classes.get(name) is not None}
    return {name: nodes.allocatable[index, rows] == 0 for name, index in served.items()}


def lacking(state: ClaimState, nodes: NodeTable, classes: ServingClasses, rows: Rows) -> NDArray[np.bool_]:
    """Rows that do not even know a requested resource that no device serves."""
    unserved = [
        name for name, amount in state.requested.items() if amount and may_be_served(name) and classes.get(name) is None
    ]
    if not unserved:
        return np.zeros(len(rows), np.bool_)
    allocatable = (
        (node.status.allocatable or {}) if node is not None else {} for node in map(nodes.nodes.__getitem__, rows)
    )
    return np.array([not all(name in known for name in unserved) for known in allocatable], np.bool_)
