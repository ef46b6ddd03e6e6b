"""Plan for the claims that wait for their pod, on each node: bind an existing volume or provision a new one; and the score of
this plan.

A claim can be provisioned on a node if its class has a provisioner, the class allows the node's topology, and the
driver reports enough capacity there (if it reports at all).
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import along_shape, round_half_away
from mooring.cluster.columns.labels import LabelValues
from mooring.cluster.columns.shelf import NONE
from mooring.cluster.nodes.match import match_rule
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, Rows, Scores
from mooring.framework.contract.status import PluginError
from mooring.model.quantity import parse_or, to_amount, to_int
from mooring.model.selectors import LabelRule, Selector, SelectorError, compile_selector
from mooring.model.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyTerm,
)
from mooring.model.volumes import selected_node
from mooring.plugins.volumes.volume_choice import KEPT, ReachMasks, VolumeChoice, choose_volumes
from mooring.rules.claims_and_volumes import can_provision

# ---- Provisioning: topologies that the class allows, and capacity that the driver reports.


Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
MOST_BYTES = (1 << 63) - 1
"""The largest number that a column holds; a quantity may be larger."""


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


class KeyedReports(msgspec.Struct):
    """Reports by value of one label, the usual form: one segment of a topology."""

    values: LabelValues
    reports: Ints
    """For each value the number of its report, in ascending order."""


class ClassReports(msgspec.Struct):
    """Reports of drivers for one storage class, numbered in the order of the names of the CSIStorageCapacity objects."""

    largest: Ints
    """The largest volume that can be made, in bytes."""
    capacities: Ints
    """Capacities of all reports, as amounts, and -1 for `none`."""
    keyed: dict[str, KeyedReports]
    """By label key."""
    others: list[tuple[int, Selector]]
    """Reports whose topology is more than one rule on one label, by number."""

    def first(self, nodes: NodeTable, wanted: int, rows: Rows) -> Ints:
        """For each row the first report, by name, that has room for a volume of this size; `none`, where no report has."""
        is_enough = self.largest >= min(wanted, MOST_BYTES)
        found = np.full(len(nodes.alive[rows]), self.none, np.int64)
        for key, keyed in self.keyed.items():
            column = nodes.labels.column(key)
            codes = keyed.values.codes(column)  # may be new to the column, which gets wider
            enough = is_enough[keyed.reports]
            of_value = np.full(column.width, self.none, np.int64)
            # The first report is written last: it stands where several have the same value.
            of_value[codes[enough][::-1]] = keyed.reports[enough][::-1]
            np.minimum(found, of_value[column.codes[rows]], out=found)
        for number, selector in self.others:
            if is_enough[number]:
                found[match_selector(nodes, selector, rows) & (found > number)] = number
        return found

    @property
    def none(self) -> int:
        return len(self.largest)


class ReportedCapacity:
    """The CSIStorageCapacity objects, arranged so that all nodes can be asked about at once. Rebuilt when one of them
    changes."""

    def __init__(self) -> None:
        self._made_of: tuple[object, int] | None = None
        self._classes: dict[str, ClassReports] = {}

    def has_room(
        self, context: SchedulingContext, claim: PersistentVolumeClaim, storage_class: StorageClass, rows: Rows
    ) -> Mask:
        """Rows on which a volume of the claim's size can be made. True everywhere if the driver does not report
        capacity."""
        count = len(context.nodes.alive[rows])
        if not _asks_for_storage(claim) or not _reports_capacity(context, storage_class):
            return np.ones(count, np.bool_)
        reports = self._of_class(context, storage_class.name)
        if reports is None:
            return np.zeros(count, np.bool_)
        return reports.first(context.nodes, to_int(claim.request_nano), rows) < reports.none

    def there_is(self, context: SchedulingContext, claim: PersistentVolumeClaim, rows: Rows) -> Ints:
        """For each row what the first report that has room for the claim's volume says there is in all; -1: no report has
        room."""
        storage_class = context.cluster.storage.classes.get(claim.class_name)
        reports = self._of_class(context, claim.class_name)
        if storage_class is None or reports is None or not _reports_capacity(context, storage_class):
            return np.full(len(context.nodes.alive[rows]), -1, np.int64)
        first = reports.first(context.nodes, to_int(claim.request_nano), rows)
        return reports.capacities[first]

    def _of_class(self, context: SchedulingContext, name: str) -> ClassReports | None:
        """Reports of CSI drivers for a storage class; None if there is no report. The reports are read again after
        any of them changed."""
        storage = context.cluster.storage
        made_of = (storage, storage.capacity_version)
        if made_of != self._made_of:
            self._made_of = made_of
            self._classes = _by_class(storage.capacities)
        return self._classes.get(name)


def topology_of(capacity: CSIStorageCapacity) -> Selector | None:
    """The nodes that a report is about; None if it names none, or its selector does not compile. Upstream skips such
    reports."""
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


def _reports_capacity(context: SchedulingContext, storage_class: StorageClass) -> bool:
    driver = context.cluster.storage.drivers.get(storage_class.provisioner)
    return driver is not None and bool(driver.spec.storage_capacity)


def _by_class(capacities: dict[str, CSIStorageCapacity]) -> dict[str, ClassReports]:
    """Group the CSIStorageCapacity objects by storage class."""
    usable: dict[str, list[tuple[int, int, Selector]]] = defaultdict(list)
    for _, report in sorted(capacities.items()):
        size, selector = report.largest_volume_bytes, topology_of(report)
        if size is not None and selector is not None:
            capacity = to_amount(parse_or(report.capacity or 0, 0))
            usable[report.storage_class_name].append((min(size, MOST_BYTES), capacity, selector))
    return {name: _index(reports) for name, reports in usable.items()}


def _index(usable: Sequence[tuple[int, int, Selector]]) -> ClassReports:
    """Index reports (size, capacity, topology) by label if the topology is one `In` rule; the others keep their selector."""
    keyed: dict[str, tuple[LabelValues, list[int]]] = defaultdict(lambda: (LabelValues(), []))
    others = []
    for number, (_, _, selector) in enumerate(usable):
        rule = selector.rules[0] if len(selector.rules) == 1 else None
        if rule is not None and rule.operator == "In":
            values, reports = keyed[rule.key]
            values.add(sorted(rule.values))
            reports += [number] * len(rule.values)
        else:
            others.append((number, selector))
    return ClassReports(
        largest=np.array([size for size, _, _ in usable], np.int64),
        capacities=np.array([*(capacity for _, capacity, _ in usable), -1], np.int64),
        keyed={key: KeyedReports(values, np.array(reports, np.int64)) for key, (values, reports) in keyed.items()},
        others=others,
    )


NO_VOLUME, NO_ROOM = 2, 4
"""Codes of rows on which the claims cannot be served; bits beside those of choice.py."""


class PodVolumes(msgspec.Struct):
    """The outcome for the rows asked about, in their order. Filter makes it for all rows, Reserve carries one row out."""

    rows: Rows
    version: int
    """The version of the storage that it was made from: Reserve looks again if anything changed since."""
    codes: Codes
    choices: list[VolumeChoice] = msgspec.field(default_factory=list)
    """Claims that may be served by a volume that is there."""
    settled: list[PersistentVolumeClaim] = msgspec.field(default_factory=list)
    """Claims that have a selected node: a provisioner is at work on them there."""

    def on(self, rows: Rows, height: int) -> "PodVolumes | None":
        """Volumes for some of the rows; None if one was not asked about. What a row has depends on no other."""
        places = np.full(height, -1, np.intp)
        places[self.rows] = np.arange(len(self.codes))
        asked = places[rows]
        if (asked < 0).any():
            return None
        choices = [msgspec.structs.replace(each, by_place=each.ranks[asked], place_of=None) for each in self.choices]
        return PodVolumes(rows, self.version, self.codes[asked], choices, self.settled)

    def bindings(self, index: int) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
        """The existing volumes of a row, each with the claim that would get it."""
        chosen = ((choice.volume(index), choice.claim) for choice in self.choices)
        return [(volume, claim) for volume, claim in chosen if volume is not None]

    def provisions(self, index: int) -> list[PersistentVolumeClaim]:
        """The claims for which a volume would have to be provisioned."""
        unserved = (choice.claim for choice in self.choices if choice.rank_at(index) == NONE)
        return [*self.settled, *unserved]


class PodVolumesFinder(msgspec.Struct):
    """Finds the volumes of pods. Keeps what follows from nodes and from reported capacity from one question to the next."""

    reaches: ReachMasks = msgspec.field(default_factory=ReachMasks)
    reported: ReportedCapacity = msgspec.field(default_factory=ReportedCapacity)

    def find(self, context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows) -> PodVolumes:
        """Upstream's FindPodVolumes for all rows: settled claims tie the pod to their node, the others choose or are
        provisioned."""
        settled = [claim for claim in claims if selected_node(claim) is not None]
        open_claims = [claim for claim in claims if selected_node(claim) is None]
        elsewhere = _rows_elsewhere(context, settled, rows)
        found = PodVolumes(rows, context.cluster.storage.version, np.where(elsewhere, NO_VOLUME, 0), settled=settled)
        if elsewhere.all():
            return found
        found.choices = choose_volumes(context, open_claims, rows, self.reaches)
        for claim in settled:
            self._check(context, found, claim, ~elsewhere, rows)
        for choice in found.choices:
            self._check(context, found, choice.claim, ~elsewhere & (choice.ranks == NONE), rows)
        return found

    def _check(
        self,
        context: SchedulingContext,
        found: PodVolumes,
        claim: PersistentVolumeClaim,
        asked: NDArray[np.bool_],
        rows: Rows,
    ) -> None:
        """Note where a volume cannot be provisioned for a claim; the first reason of a row stands."""
        asked = asked & (found.codes == 0)
        if not asked.any():
            return
        storage_class = _class_of(context, claim)
        if not can_provision(storage_class.provisioner):
            found.codes[asked] = NO_VOLUME
            return
        allowed = match_topologies(context.nodes, storage_class.allowed_topologies, rows)
        has_room = self.reported.has_room(context, claim, storage_class, rows)
        # Upstream checks the topology before the capacity, so its code is written last.
        found.codes[asked & ~has_room] = NO_ROOM
        found.codes[asked & ~allowed] = NO_VOLUME


def _rows_elsewhere(
    context: SchedulingContext, settled: Sequence[PersistentVolumeClaim], rows: Rows
) -> NDArray[np.bool_]:
    """Rows other than the selected node of a settled claim. A selected node that is gone leaves no row."""
    elsewhere = np.zeros(context.nodes.height, np.bool_)
    for claim in settled:
        others = np.ones(context.nodes.height, np.bool_)
        row = context.nodes.row_book.get(selected_node(claim) or "")
        if row is not None:
            others[row] = False
        elsewhere |= others
    found: NDArray[np.bool_] = elsewhere[rows]
    return found


def _class_of(context: SchedulingContext, claim: PersistentVolumeClaim) -> StorageClass:
    """Find the storage class of a claim. Raises PluginError with upstream's text if the claim names none or the class does
    not exist."""
    name = claim.class_name
    if not name:
        raise PluginError(f'no class for claim "{claim.key}"')
    storage_class = context.cluster.storage.classes.get(name)
    if storage_class is None:
        raise PluginError(f'failed to find storage class "{name}"')
    return storage_class


# ---- Scores: how well the volumes of a pod fill what they are taken from, class by class (gate
# StorageCapacityScoring).


def utilization(requested: Ints, capacity: Ints) -> Ints:
    """Percent, rounded down; more than there is counts as all of it.

    | requested | capacity | percent |
    | 30        | 100      | 30      |
    | 120       | 100      | 100     |
    | 1         | 0        | 100     |
    """
    return np.where(requested > capacity, 100, requested * 100 // np.maximum(capacity, 1))


def score_volumes(
    context: SchedulingContext,
    found: PodVolumes,
    reported: ReportedCapacity,
    rows: Rows,
    shape: Sequence[tuple[int, int]],
) -> Scores:
    """By the volumes that exist; on nodes where all have to be provisioned, by the capacity that drivers report.

    Class by class: requested / capacity, mapped along the shape of the profile; a node's score is the mean over the
    classes that count there. Upstream's volumeCapacityScorer.
    """
    count = len(found.codes)
    has_bindings = np.zeros(count, np.bool_)
    for choice in found.choices:
        has_bindings |= choice.ranks != NONE
    static = _bound_by_class(found, count)
    dynamic = {} if has_bindings.all() else _made_by_class(context, found, reported, rows)
    scores, counted = [], []
    for name in sorted({*static, *dynamic}):
        empty = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        bound, made = static.get(name, empty), dynamic.get(name, empty)
        requested = np.where(has_bindings, bound[0], made[0])
        capacity = np.where(has_bindings, bound[1], made[1])
        percent = np.where(capacity == 0, 100, utilization(requested, capacity))
        scores.append(along_shape(percent, shape))
        counted.append(np.where(has_bindings, bound[2], made[2]))
    if not scores:
        return np.zeros(count, np.int64)
    total = (np.array(scores) * np.array(counted)).sum(0)
    return round_half_away(total / np.maximum(np.array(counted).sum(0), 1))


_Sums = dict[str, tuple[Ints, Ints, NDArray[np.bool_]]]
"""Class -> what is requested, what there is, and on which rows the class counts."""


def _bound_by_class(found: PodVolumes, count: int) -> _Sums:
    """Sums over the claims that would get existing volumes."""
    sums: _Sums = {}
    for choice in found.choices:
        name = choice.claim.class_name
        requested, capacity, counts = sums.setdefault(name, _nothing(count))
        ranks = choice.ranks
        is_bound = ranks != NONE
        requested += is_bound * to_amount(choice.claim.request_nano)
        if choice.kept is not None:
            capacity += (ranks == KEPT) * to_amount(choice.kept.capacity_nano)
        is_on_shelf = is_bound & (ranks != KEPT)
        capacity[is_on_shelf] += choice.shelf.amounts[ranks[is_on_shelf]]
        counts |= is_bound
    return sums


def _made_by_class(context: SchedulingContext, found: PodVolumes, reported: ReportedCapacity, rows: Rows) -> _Sums:
    """Sums over the claims that would be provisioned; classes whose drivers report nothing are left out."""
    sums: _Sums = {}
    for claim in [*found.settled, *(choice.claim for choice in found.choices)]:
        there_is = reported.there_is(context, claim, rows)
        requested, capacity, counts = sums.setdefault(claim.class_name, _nothing(len(there_is)))
        is_known = there_is >= 0
        requested += is_known * to_amount(claim.request_nano)
        capacity[is_known] = there_is[is_known]
        counts |= is_known
    return {name: each for name, each in sums.items() if each[2].any()}


def _nothing(count: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    return np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
