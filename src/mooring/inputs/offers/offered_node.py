"""OfferedNode: a kind of node that can be had, before it is checked like a manifest."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from mooring.api.validation.problem import Problem, show
from mooring.model.quantity import QuantityError, parse, to_amount, to_milli_amount

INSTANCE_TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
CAPACITY_TYPE, NODE_POOL = "karpenter.sh/capacity-type", "karpenter.sh/nodepool"
PRICE = "mooring.dev/price"
"""A label or an annotation of a node: what it costs an hour, as a number."""
DEFAULT_PODS = "110"
"""How many pods a node takes if nothing else is said: the default of kubelets."""

Amounts = Mapping[str, str]
"""Resource -> quantity, as manifests have them."""
_NO_NAME = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The room that all nodes of a pool together may still have. Pools with a higher weight are used first."""

    name: str
    left: Mapping[str, int] = field(default_factory=dict)
    """Resource -> amount, in the units of the node table; `nodes` is a number of nodes. Empty: there is no limit."""
    weight: int = 0

    def nodes(self, capacity: Amounts) -> int | None:
        """How many nodes with this capacity the limits allow; None: any number."""
        most = [
            left if name == "nodes" else left // amount
            for name, left in self.left.items()
            if name == "nodes" or (amount := amount_of(name, capacity.get(name, "0")) or 0)
        ]
        return min(most, default=None)


@dataclass(frozen=True, slots=True)
class OfferedNode:
    """A kind of node: labels, taints and amounts of its nodes, and what one costs an hour."""

    name: str
    price: float | None
    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts
    taints: Sequence[Mapping[str, Any]] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pool: PoolLimits | None = None
    limit: int | None = None
    file: str = ""
    where: str = ""
    """The object or entry of the file, for problems."""

    def manifest(self) -> dict[str, Any]:
        """The node as a manifest has it."""
        return {
            "metadata": {"labels": dict(self.labels), "annotations": dict(self.annotations)},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"allocatable": dict(self.allocatable), "capacity": dict(self.capacity)},
        }

    def problem(self, path: str, found: str, allowed: str = "") -> Problem:
        return Problem(path, found, allowed, self.where, self.file)


def offer_name(*parts: str) -> str:
    """A name for nodes from the names of a pool, an instance type, a zone and so on, without what node names cannot have."""
    return _NO_NAME.sub("-", "-".join(filter(None, parts)).lower()).strip("-.")[:200] or "offer"


def amount_of(resource: str, quantity: object) -> int | None:
    """A quantity in the units of the node table; None if it is none."""
    try:
        parsed = parse(str(quantity))
        return to_milli_amount(parsed) if resource == "cpu" else to_amount(parsed)
    except QuantityError:
        return None


def checked_amounts(written: object, path: str, problems: list[Problem]) -> dict[str, str]:
    """A map of quantities; notes problems of others."""
    if not isinstance(written, Mapping):
        problems.append(Problem(path, show(written), "an object with a quantity for each resource"))
        return {}
    found: dict[str, str] = {}
    for name, quantity in written.items():
        if amount_of(str(name), quantity) is None:
            problems.append(Problem(f"{path}[{name}]", show(quantity), "a quantity, such as 16 or 64Gi"))
        else:
            found[str(name)] = str(quantity)
    return found


def price_of(written: object) -> float | None:
    """A price; None if it is no number from 0."""
    try:
        price = float(written) if isinstance(written, str) else written
    except ValueError:
        return None
    return float(price) if is_price(price) else None


def is_price(written: object) -> TypeGuard[int | float]:
    """Whether plain data is a price: a number from 0."""
    return isinstance(written, int | float) and not isinstance(written, bool) and 0 <= written < 1e15
