"""Nodes that autoscalers can add: NodePools of Karpenter, and node groups of cluster-autoscaler.

A NodePool says which instance types, zones and capacity types it allows, and what its nodes have. A node group has a
number of nodes from the flags of cluster-autoscaler, and a node as its template.

The flag `--nodes=MIN:MAX:NAME` stands in the command of its Deployment. The template is a Node of the file, or of the
cluster, whose name, label or annotation has the name of the group: clouds label nodes in this way, and the kwok
provider of cluster-autoscaler annotates them. A Node of the file that no flag names is a group of its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.inputs.offers.instance_types import (
    CAPACITY_TYPE,
    DEFAULT_PODS,
    MAX_VARIANTS,
    NODE_POOL,
    OS,
    ZONE,
    InstanceType,
    OfferedNode,
    PoolLimits,
    amount_of,
    offer_name,
)

KWOK_GROUP = "cluster-autoscaler.kwok.nodegroup/name"
"""The annotation with which the kwok provider of cluster-autoscaler says to which group a node belongs."""
KWOK_MOST = "cluster-autoscaler.kwok.nodegroup/max-count"
"""The annotation of a template with which it says how many nodes the group may have."""
_FLAG = re.compile(r"--nodes[= ](\S+)")
_SIZES = re.compile(r"(\d{1,6}):(\d{1,6}):(\S+)")
_OWN_LABELS = ("kubernetes.io/hostname",)


@dataclass(frozen=True, slots=True)
class AutoscalerGroup:
    """A group that cluster-autoscaler may let grow."""

    name: str
    most: int
    file: str


def node_groups(written: Mapping[str, Any], file: str, problems: list[Problem]) -> list[AutoscalerGroup]:
    """The groups that the containers of a Deployment or Pod name in their flags."""
    found: list[AutoscalerGroup] = []
    for text in _FLAG.findall("\n".join(_words(written))):
        sizes = _SIZES.fullmatch(text)
        if sizes is None or int(sizes[1]) > int(sizes[2]):
            problems.append(Problem("--nodes", show(text), "MIN:MAX:NAME", file=file))
        else:
            found.append(AutoscalerGroup(sizes[3].rstrip("/").rpartition("/")[2], int(sizes[2]), file))
    return found


def _words(written: Mapping[str, Any]) -> Iterator[str]:
    """The words of the commands of all containers."""
    spec = written.get("spec")
    inside = spec.get("template", {}).get("spec") if isinstance(spec, Mapping) and "template" in spec else spec
    containers = inside.get("containers") if isinstance(inside, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        for part in ("command", "args"):
            words = container.get(part) if isinstance(container, Mapping) else None
            yield from (str(word) for word in (words if isinstance(words, list) else ()))


def group_offers(
    groups: Sequence[AutoscalerGroup],
    templates: Sequence[tuple[str, Mapping[str, Any]]],
    nodes: Sequence[Mapping[str, Any]],
    problems: list[Problem],
) -> Iterator[OfferedNode]:
    """A node for each group. `templates` are the Nodes of files, with the file; `nodes` those of the cluster."""
    named = {group.name for group in groups}
    for group in groups:
        found = next((each for each in templates if belongs_to(each[1], group.name)), None)
        here = [node for node in nodes if belongs_to(node, group.name)]
        if found is None and not here:
            told = "no node has this name, or a label or an annotation with it: add a Node as a template"
            problems.append(Problem(f"--nodes ({group.name})", told, file=group.file))
            continue
        yield _offer(group.name, found[1] if found else here[0], max(group.most - len(here), 0), group.file)
    for file, template in templates:
        if not any(belongs_to(template, name) for name in named):
            annotations = _map(template, "metadata", "annotations")
            name = str(annotations.get(KWOK_GROUP) or _map(template, "metadata").get("name") or "")
            yield _offer(name, template, _size(annotations, name, nodes), file)


def belongs_to(node: Mapping[str, Any], group: str) -> bool:
    """Whether a node is one of the group."""
    metadata = _map(node, "metadata")
    texts = {
        key: text
        for part in ("labels", "annotations")
        for key, text in _map(metadata, part).items()
        if key not in _OWN_LABELS
    }
    return metadata.get("name") == group or group in texts.values()


def _size(annotations: Mapping[str, Any], group: str, nodes: Iterable[Mapping[str, Any]]) -> int | None:
    """How many more nodes the annotations of a template allow; None: they do not say."""
    written = str(annotations.get(KWOK_MOST, ""))
    return max(int(written) - sum(belongs_to(node, group) for node in nodes), 0) if written.isdecimal() else None


def _offer(name: str, node: Mapping[str, Any], limit: int | None, file: str) -> OfferedNode:
    metadata, status = _map(node, "metadata"), _map(node, "status")
    capacity = _map(status, "capacity") or _map(status, "allocatable")
    allocatable = {"pods": DEFAULT_PODS, **(_map(status, "allocatable") or capacity)}
    taints = _map(node, "spec").get("taints") or []
    return OfferedNode(
        offer_name(name),
        None,
        {key: text for key, text in _map(metadata, "labels").items() if key not in _OWN_LABELS},
        capacity,
        allocatable,
        taints if isinstance(taints, list) else (),
        _map(metadata, "annotations"),
        None,
        limit,
        file,
        f"node group {name}",
    )


def _map(written: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The map at a path; empty if there is none."""
    found: Any = written
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


@dataclass(frozen=True, slots=True)
class PoolRequirement:
    """A requirement for a label of nodes."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def allows(self, text: str | None) -> bool:
        """Whether a label may have this value; None: the node does not have the label."""
        if self.operator in ("DoesNotExist", "NotIn"):
            return text is None or (self.operator == "NotIn" and text not in self.values)
        if text is None or self.operator == "Exists":
            return text is not None
        if self.operator == "In":
            return text in self.values
        try:
            number, bound = int(text), int(self.values[0])
        except ValueError:
            return False
        return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[
            self.operator
        ]


@dataclass(frozen=True, slots=True)
class KarpenterPool:
    """The part of a NodePool that says which nodes it may have."""

    name: str
    requirements: Sequence[PoolRequirement]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    limits: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] | None = None
    """The resources that its nodes have, as its status says; None: there is no status."""
    weight: int = 0
    file: str = ""

    def offers(self, types: Iterable[InstanceType], used: Mapping[str, int], notes: list[str]) -> Iterator[OfferedNode]:
        """A node for each offering that the pool allows. `used` is what nodes of the pool have; a status knows better."""
        known = used if self.used is None else self.used
        limits = PoolLimits(
            self.name, {key: max(most - known.get(key, 0), 0) for key, most in self.limits.items()}, self.weight
        )
        types = [*types]
        given = self._given(types, notes)
        for kind in types:
            for offering in kind.offerings:
                labels = {**self.labels, **kind.labels, **offering.labels, NODE_POOL: self.name}
                for more in given:
                    whole = {**labels, **more}
                    if all(each.allows(whole.get(each.key)) for each in self.requirements):
                        yield self._offer(kind, offering.price, whole, more, limits)

    def _offer(
        self,
        kind: InstanceType,
        price: float | None,
        labels: Mapping[str, str],
        more: Mapping[str, str],
        limits: PoolLimits,
    ) -> OfferedNode:
        os_name = labels.get(OS, "")
        parts = (labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, ""), "" if os_name == "linux" else os_name)
        return OfferedNode(
            offer_name(self.name, kind.name, *parts, *more.values()),
            price,
            labels,
            kind.capacity,
            kind.allocatable,
            self.taints,
            self.annotations,
            limits,
            limits.nodes(kind.capacity),
            self.file or kind.file,
            f"NodePool {self.name}, instance type {kind.name}",
        )

    def _given(self, types: Sequence[InstanceType], notes: list[str]) -> list[dict[str, str]]:
        """Labels that no type and no offering has, and that nodes get because requirements name their values."""
        said = {*self.labels, NODE_POOL}
        for kind in types:
            said.update(kind.labels)
            said.update(*(offering.labels for offering in kind.offerings))
        asked = [each for each in self.requirements if each.operator == "In" and each.key not in said and each.values]
        notes += [
            f"NodePool {self.name}: no instance type says {each.key}: its nodes have {' or '.join(each.values)}"
            for each in asked
            if types
        ]
        choices = [[(each.key, text) for text in each.values] for each in asked]
        return [dict(each) for each in product(*choices)][:MAX_VARIANTS]


def node_pool(written: Mapping[str, Any], file: str, problems: list[Problem]) -> KarpenterPool | None:
    """Read a NodePool of v1 or v1beta1. None after a problem was noted."""
    metadata, spec = _map(written, "metadata"), _map(written, "spec")
    template = _map(spec, "template")
    inside, name = _map(template, "spec"), str(metadata.get("name") or "")
    faults: list[Problem] = []
    if not name:
        faults.append(Problem("metadata.name", show(metadata.get("name")), "the name of the pool"))
    requirements = [*_requirements(inside.get("requirements") or [], "spec.template.spec.requirements", faults)]
    taints = inside.get("taints") or []
    if not isinstance(taints, list) or not all(isinstance(taint, Mapping) for taint in taints):
        faults.append(Problem("spec.template.spec.taints", show(taints), "a list of taints"))
    limits = _amounts(spec.get("limits") or {}, "spec.limits", faults)
    status = _map(written, "status").get("resources")
    used = None if status is None else _amounts(status, "status.resources", faults)
    weight = spec.get("weight") or 0
    if not isinstance(weight, int) or not 0 <= weight <= 100:
        faults.append(Problem("spec.weight", show(weight), "from 1 to 100"))
    if faults:
        problems += [fault.at(f"NodePool {name}".strip(), file) for fault in faults]
        return None
    own = _map(template, "metadata")
    labels = _texts(own, "labels")
    # A requirement with one value is a label of every node.
    labels |= {each.key: each.values[0] for each in requirements if each.operator == "In" and len(each.values) == 1}
    return KarpenterPool(name, requirements, labels, _texts(own, "annotations"), taints, limits, used, weight, file)


def _texts(written: Mapping[str, Any], name: str) -> dict[str, str]:
    return {str(key): str(text) for key, text in _map(written, name).items()}


def _requirements(written: Any, path: str, faults: list[Problem]) -> Iterator[PoolRequirement]:
    for number, each in enumerate(written if isinstance(written, list) else [written]):
        entry = each if isinstance(each, Mapping) else {}
        key, operator, values = entry.get("key"), entry.get("operator"), entry.get("values") or []
        place = f"{path}[{number}]"
        if not isinstance(key, str) or not key:
            faults.append(Problem(f"{place}.key", show(key), "a label"))
        elif operator not in _OPERATORS:
            faults.append(Problem(f"{place}.operator", show(operator), ", ".join(_OPERATORS)))
        elif not isinstance(values, list) or (operator not in ("Exists", "DoesNotExist") and not values):
            faults.append(Problem(f"{place}.values", show(values), "a list with at least one value"))
        else:
            yield PoolRequirement(key, operator, tuple(str(text) for text in values))


def _amounts(written: Any, path: str, faults: list[Problem]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, quantity in (written if isinstance(written, Mapping) else {}).items():
        amount = amount_of(str(name), quantity)
        if amount is None:
            faults.append(Problem(f"{path}[{name}]", show(quantity), "a quantity"))
        else:
            found[str(name)] = amount
    return found


def amounts_in_use(pools: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """By pool: what its nodes have together, from the pool and the capacity of each node; `nodes` counts them."""
    found: dict[str, dict[str, int]] = {}
    for pool, capacity in pools:
        total = found.setdefault(pool, {})
        total["nodes"] = total.get("nodes", 0) + 1
        for name, quantity in capacity.items():
            total[name] = total.get(name, 0) + (amount_of(name, quantity) or 0)
    return found
