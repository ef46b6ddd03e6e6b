"""What-ifs: the filters of an attempt asked again with other pods on nodes.

Two forms. A *batch* changes many nodes at once; it serves when every filter that has a say reads nothing of pods but
sums. *One node* changes a single node and serves always: plugins whose state counts pods over the whole cluster are
told of each pod that comes or goes (PreFilterExtensions).
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Load, NominatedLoad
from mooring.framework.asking import AttemptError, ask_filter
from mooring.framework.attempt import Attempt, Verdicts
from mooring.framework.context import CycleState, SchedulingContext
from mooring.framework.points import PreFilterExtensions, Reads
from mooring.framework.ranking import PASSED
from mooring.framework.status import Rejection, describe
from mooring.model.pod import Pod

RowArray = NDArray[np.intp]


def is_batchable(attempt: Attempt) -> bool:
    """Whether no filter that has a say looks at more of the pods on nodes than sums."""
    return all(attempt.runner.filter_reads[index] <= Reads.TOTALS for index, _ in attempt.active_filters())


def leave_room(attempt: Attempt, verdicts: Verdicts, nominated: NominatedLoad) -> None:
    """Where pods are nominated that this one must leave room for, a node has to pass with them and without them.

    Parity: where it fails with them, that verdict stands, not the one without them.
    """
    load = nominated.load_beside(attempt.context.pod)
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
        with Batch(attempt, rows, None) as batch:
            batch.shift(rows, load.requested[:, rows], load.pod_count[rows])
            return batch.ask(rows)
    nodes = attempt.context.nodes.sketch()
    first = np.full(len(rows), PASSED, np.int8)
    codes: dict[int, NDArray[np.int64]] = {}
    for i, row in enumerate(rows.tolist()):
        one = OneNode(attempt, nodes, row)
        for pod in nominated.beside(attempt.context.pod, nodes.names[row]):
            one.add(pod)
        found = one.ask()
        first[i] = found.first[0]
        for index, code in found.codes.items():
            codes.setdefault(index, np.zeros(len(rows), np.int64))[i] = code[0]
    return Verdicts(first, codes)


def ask_again(attempt: Attempt, context: SchedulingContext, rows: RowArray) -> Verdicts:
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
            answer = ask_filter(plugin, context, asked, len(asked))
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
        self._state = attempt.context.state.clone()
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

    def _cycle(self, state: CycleState) -> SchedulingContext:
        return self._attempt.context.on(self._nodes, state)


class Batch:
    """A what-if about the sums of many rows at once, with and without the pods nominated there.

    Hot: it works on the table itself, on these rows only, and `close` puts everything back. A copy of all columns would
    cost more than most what-ifs, which are about a handful of nodes.
    """

    def __init__(self, attempt: Attempt, rows: RowArray, load: Load | None) -> None:
        self._attempt = attempt
        self._nodes = attempt.context.nodes
        self._rows = rows
        self._requested = self._nodes.amounts.requested[:, rows]
        self._pod_count = self._nodes.pod_count[rows]
        self._load = load
        self._is_crowded = load.pod_count > 0 if load is not None else np.zeros(0, np.bool_)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo everything."""
        self._nodes.amounts.requested[: len(self._requested), self._rows] = self._requested
        self._nodes.pod_count[self._rows] = self._pod_count

    def shift(self, rows: RowArray, requested: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Add to what is requested on some of the rows (resources x rows), and to the number of pods there."""
        self._nodes.amounts.requested[: len(requested), rows] += requested
        self._nodes.pod_count[rows] += pods

    def ask(self, rows: RowArray) -> Verdicts:
        """The verdicts of some of the rows; crowded ones must pass both ways."""
        found = ask_again(self._attempt, self._attempt.context, rows)
        crowded = self._is_crowded[rows] if self._load is not None else None
        if self._load is None or crowded is None or not crowded.any():
            return found
        strict = self._ask_crowded(rows[crowded], self._load)
        refused = np.zeros(len(rows), np.bool_)
        refused[crowded] = strict.first != PASSED
        found.first[refused] = strict.first[strict.first != PASSED]
        for index, codes in strict.codes.items():
            found.codes.setdefault(index, np.zeros(len(rows), np.int64))[refused] = codes[strict.first != PASSED]
        return found

    def _ask_crowded(self, rows: RowArray, load: Load) -> Verdicts:
        requested, pods = load.requested[:, rows], load.pod_count[rows]
        self.shift(rows, requested, pods)
        try:
            return ask_again(self._attempt, self._attempt.context, rows)
        finally:
            self.shift(rows, -requested, -pods)


def _tell(extensions: Sequence[PreFilterExtensions], context: SchedulingContext, pod: Pod, row: int, what: str) -> None:
    for plugin in extensions:
        try:
            tell = plugin.add_pod if what == "AddPod" else plugin.remove_pod
            context.wrap(f"PreFilterExtension{what}", plugin.name, tell)(context, pod, row)
        except Exception as fault:
            name = getattr(plugin, "name", type(plugin).__name__)
            raise AttemptError(f'running {what} on PreFilter plugin "{name}": {describe(fault)}') from fault
