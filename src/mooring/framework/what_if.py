"""What-ifs: the filters of an attempt asked again with other pods on nodes.

Two forms. A *batch* changes many nodes at once; it serves when every filter that has a say reads nothing of pods but
sums. *One node* changes a single node and serves always: plugins whose state counts pods over the whole cluster are
told of each pod that comes or goes (PreFilterExtensions).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nominated import Load, NominatedLoad
from mooring.cluster.table import NodeTable
from mooring.framework.attempt import Attempt, AttemptError, Verdicts, ask_filter
from mooring.framework.cycle import Cycle, CycleState
from mooring.framework.memo import PASSED
from mooring.framework.points import PreFilterExtensions, Reads
from mooring.framework.status import Rejection
from mooring.model.pod import Pod

RowArray = NDArray[np.intp]


def is_batchable(attempt: Attempt) -> bool:
    """Whether no filter that has a say looks at more of the pods on nodes than sums."""
    return all(attempt.runner.filter_reads[index] <= Reads.TOTALS for index, _ in attempt.active_filters())


def leave_room(attempt: Attempt, verdicts: Verdicts, nominated: NominatedLoad) -> None:
    """Where pods are nominated that this one must leave room for, a node has to pass with them and without them.

    Parity: where it fails with them, that verdict stands, not the one without them.
    """
    load = nominated.load_beside(attempt.cycle.pod)
    rows = np.flatnonzero((load.pod_count[: len(verdicts.first)] > 0) & (verdicts.first >= 0))
    if not len(rows):
        return
    crowded = verdicts_with(attempt, rows, load, nominated)
    refused = crowded.first != PASSED
    if not refused.any():
        return
    verdicts.first = verdicts.first.copy()
    verdicts.first[rows[refused]] = crowded.first[refused]
    for index, codes in crowded.codes.items():
        everywhere = verdicts.codes.get(index)
        if everywhere is None:
            kept = attempt.kept_codes(index)
            everywhere = np.zeros(len(verdicts.first), np.int64) if kept is None else kept[: len(verdicts.first)].copy()
        everywhere[rows[refused]] = codes[refused]
        verdicts.codes[index] = everywhere


def verdicts_with(attempt: Attempt, rows: RowArray, load: Load, nominated: NominatedLoad) -> Verdicts:
    """The verdicts of these rows with the pods on them that are nominated there."""
    if is_batchable(attempt):
        nodes = attempt.cycle.nodes.sketch()
        _lay(nodes, load)
        return ask_again(attempt, attempt.cycle.on(nodes, attempt.cycle.state), rows)
    nodes = attempt.cycle.nodes.sketch()
    first = np.full(len(rows), PASSED, np.int8)
    codes: dict[int, NDArray[np.int64]] = {}
    for i, row in enumerate(rows.tolist()):
        one = OneNode(attempt, nodes, row)
        for pod in nominated.beside(attempt.cycle.pod, nodes.names[row]):
            one.add(pod)
        found = one.ask()
        first[i] = found.first[0]
        for index, code in found.codes.items():
            codes.setdefault(index, np.zeros(len(rows), np.int64))[i] = code[0]
    return Verdicts(first, codes)


def ask_again(attempt: Attempt, cycle: Cycle, rows: RowArray) -> Verdicts:
    """The verdicts of these rows in a what-if, aligned with `rows`. What reads only nodes is not asked again."""
    first = np.full(len(rows), PASSED, np.int8)
    verdicts = Verdicts(first)
    for index, plugin in attempt.active_filters():
        still_in = first == PASSED
        if not still_in.any():
            break
        if attempt.runner.filter_reads[index] <= Reads.NODE:
            kept = attempt.kept_codes(index)
            codes = None if kept is None else kept[rows] * still_in
        else:
            asked = rows if still_in.all() else rows[still_in]
            answer = ask_filter(plugin, cycle, asked, len(asked))
            codes = None if answer is None else np.zeros(len(rows), np.int64)
            if codes is not None:
                codes[still_in] = answer
        if codes is not None and codes.any():
            verdicts.codes[index] = codes
            first[codes != 0] = index
    return verdicts


class OneNode:
    """A what-if about the pods of one row, in a sketch of the table that nobody else reads that row of."""

    def __init__(self, attempt: Attempt, nodes: NodeTable, row: int) -> None:
        self._attempt = attempt
        self._nodes = nodes
        self._row = row
        self._rows = np.array([row], np.intp)
        self._state = attempt.cycle.state.clone()
        self._extensions = attempt.extensions()

    def add(self, pod: Pod) -> None:
        self._nodes.hold(pod, self._row)
        _tell(self._extensions, self._cycle(self._state), pod, self._row, "AddPod")

    def remove(self, pod: Pod) -> None:
        self._nodes.release(pod, self._row)
        _tell(self._extensions, self._cycle(self._state), pod, self._row, "RemovePod")

    def ask(self) -> Verdicts:
        return ask_again(self._attempt, self._cycle(self._state), self._rows)

    def verdict(self, nominated: Sequence[Pod] = ()) -> Rejection | None:
        """None if the node passes with the nominated pods on it, and without them."""
        if nominated:
            kept = self._state
            self._state = kept.clone()
            for pod in nominated:
                self.add(pod)
            found = self.ask()
            for pod in nominated:
                self._nodes.release(pod, self._row)
            self._state = kept
            if found.first[0] != PASSED:
                return self._rejection(found)
        found = self.ask()
        return None if found.first[0] == PASSED else self._rejection(found)

    def _rejection(self, found: Verdicts) -> Rejection:
        index = int(found.first[0])
        return self._attempt.rejection(index, int(found.codes[index][0]))

    def _cycle(self, state: CycleState) -> Cycle:
        return self._attempt.cycle.on(self._nodes, state)


class Batch:
    """A what-if about the sums of many rows at once, with and without the pods nominated there."""

    def __init__(self, attempt: Attempt, load: Load | None) -> None:
        self._attempt = attempt
        self._plain = attempt.cycle.nodes.sketch()
        self._crowded: NodeTable | None = None
        self._is_crowded = np.zeros(self._plain.capacity, np.bool_)
        if load is not None and load.pod_count.any():
            self._crowded = attempt.cycle.nodes.sketch()
            _lay(self._crowded, load)
            self._is_crowded = load.pod_count > 0

    def shift(self, rows: RowArray, requested: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Add to what is requested on the rows (resources x rows), and to the number of pods there."""
        for nodes in (self._plain, self._crowded):
            if nodes is not None:
                nodes.requested[: len(requested), rows] += requested
                nodes.pod_count[rows] += pods

    def ask(self, rows: RowArray) -> Verdicts:
        """The verdicts of the rows; crowded ones must pass both ways."""
        found = self._ask(self._plain, rows)
        crowded = self._is_crowded[rows]
        if self._crowded is None or not crowded.any():
            return found
        strict = self._ask(self._crowded, rows[crowded])
        refused = np.zeros(len(rows), np.bool_)
        refused[crowded] = strict.first != PASSED
        found.first[refused] = strict.first[strict.first != PASSED]
        for index, codes in strict.codes.items():
            found.codes.setdefault(index, np.zeros(len(rows), np.int64))[refused] = codes[strict.first != PASSED]
        return found

    def _ask(self, nodes: NodeTable, rows: RowArray) -> Verdicts:
        return ask_again(self._attempt, self._attempt.cycle.on(nodes, self._attempt.cycle.state), rows)


def _lay(nodes: NodeTable, load: Load) -> None:
    nodes.requested[: len(load.requested)] += load.requested
    nodes.pod_count += load.pod_count


def _tell(extensions: Sequence[PreFilterExtensions], cycle: Cycle, pod: Pod, row: int, what: str) -> None:
    for plugin in extensions:
        try:
            if what == "AddPod":
                plugin.add_pod(cycle, pod, row)
            else:
                plugin.remove_pod(cycle, pod, row)
        except Exception as fault:
            name = getattr(plugin, "name", type(plugin).__name__)
            raise AttemptError(f'running {what} on PreFilter plugin "{name}": {fault}') from fault
