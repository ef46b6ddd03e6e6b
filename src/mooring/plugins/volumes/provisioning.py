"""Where a volume could be made for a claim: topologies that its class allows, and room that its driver reports."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import LabelValues
from mooring.cluster.nodes.match import match_rule
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Rows
from mooring.model.quantity import to_int
from mooring.model.selectors import LabelRule, Selector, SelectorError, compile_selector
from mooring.model.storage import CSIStorageCapacity, PersistentVolumeClaim, StorageClass, TopologyTerm

Mask = NDArray[np.bool_]


def match_topologies(nodes: NodeTable, terms: list[TopologyTerm] | None, rows: Rows) -> Mask:
    """Rows that one of the terms allows; no terms allow all. Parity: an empty term allows none."""
    count = len(nodes.alive[rows])
    if not terms:
        return np.ones(count, np.bool_)
    found = np.zeros(count, np.bool_)
    for term in terms:
        matched = np.full(count, bool(term.match_label_expressions))
        for line in term.match_label_expressions or ():
            matched &= match_rule(nodes, LabelRule(line.key, "In", frozenset(line.values or ())), rows)
        found |= matched
    return found


@dataclass(slots=True)
class KeyedRoom:
    """Room that goes by one value of one label: the values, and how much there is for each."""

    values: LabelValues = field(default_factory=LabelValues)
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True)
class ClassRoom:
    """The room that is reported for one class, in bytes."""

    keyed: dict[str, KeyedRoom] = field(default_factory=dict)
    """By label key."""
    others: list[tuple[Selector, int]] = field(default_factory=list)


class ReportedRoom:
    """What drivers say of the room that is left, made ready to be asked about many nodes at once."""

    def __init__(self) -> None:
        self._made_of: tuple[object, int] | None = None
        self._classes: dict[str, ClassRoom] = {}

    def has_room(
        self, context: SchedulingContext, claim: PersistentVolumeClaim, storage_class: StorageClass, rows: Rows
    ) -> Mask:
        """Rows on which a volume of the claim's size can be made, as far as anybody knows."""
        wanted = to_int(claim.request_nano)
        driver = context.cluster.storage.drivers.get(storage_class.provisioner)
        count = len(context.nodes.alive[rows])
        if not _asks_for_storage(claim) or driver is None or not driver.spec.storage_capacity:
            return np.ones(count, np.bool_)
        room = self._of_class(context, storage_class.name)
        found = np.zeros(count, np.bool_)
        if room is None:
            return found
        for key, keyed in room.keyed.items():
            column = context.nodes.labels.column(key)
            codes = keyed.values.codes(column)
            enough = np.zeros(column.width, np.bool_)
            enough[codes[keyed.sizes >= wanted]] = True
            found |= enough[column.codes[rows]]
        for selector, size in room.others:
            if size >= wanted:
                found |= match_selector(context.nodes, selector, rows)
        return found

    def _of_class(self, context: SchedulingContext, name: str) -> ClassRoom | None:
        storage = context.cluster.storage
        made_of = (storage, storage.capacity_version)
        if made_of != self._made_of:
            self._made_of = made_of
            self._classes = _by_class(storage.capacities)
        return self._classes.get(name)


def topology_of(capacity: CSIStorageCapacity) -> Selector | None:
    """The nodes that room is for; None where none are named, or in a form that cannot be read."""
    try:
        return None if capacity.node_topology is None else compile_selector(capacity.node_topology)
    except SelectorError:
        return None


def match_selector(nodes: NodeTable, selector: Selector, rows: Rows) -> Mask:
    found = np.ones(len(nodes.alive[rows]), np.bool_)
    for rule in selector.rules:
        found &= match_rule(nodes, rule, rows)
    return found


def _asks_for_storage(claim: PersistentVolumeClaim) -> bool:
    return "storage" in ((claim.spec.resources.requests if claim.spec.resources else None) or {})


def _by_class(capacities: dict[str, CSIStorageCapacity]) -> dict[str, ClassRoom]:
    classes: dict[str, ClassRoom] = defaultdict(ClassRoom)
    sizes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for capacity in capacities.values():
        size, selector = capacity.largest_volume_bytes, topology_of(capacity)
        if size is None or selector is None:
            continue
        room = classes[capacity.storage_class_name]
        rule = selector.rules[0] if len(selector.rules) == 1 else None
        if rule is not None and rule.operator == "In":
            room.keyed.setdefault(rule.key, KeyedRoom()).values.add(sorted(rule.values))
            sizes[capacity.storage_class_name, rule.key] += [size] * len(rule.values)
        else:
            room.others.append((selector, size))
    for (name, key), column in sizes.items():
        classes[name].keyed[key].sizes = np.array(column, np.int64)
    return dict(classes)
