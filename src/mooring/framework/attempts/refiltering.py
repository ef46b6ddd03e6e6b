"""What-ifs: the filters of an attempt are asked again with other pods on nodes. Preemption and nominated pods
(leave_room.py) need this.

Two forms. A *batch* changes many nodes at once; it is possible when every active filter reads nothing of pods but sums.
*One node* changes a single node and is always possible: plugins whose state counts pods over the whole cluster get a
call for each pod that comes or goes (PreFilterExtensions).
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Crowd, Load, NominatedLoad
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.attempts.attempt import Attempt, Verdicts
from mooring.framework.contract.context import CycleState, SchedulingContext
from mooring.framework.contract.points import FilterPlugin, PreFilterExtensions, Reads, ResourceDemand
from mooring.framework.contract.status import Rejection, describe
from mooring.framework.kept.asking import AttemptError, ask_filter, ask_filter_row, filtering
from mooring.framework.kept.feasible import PASSED
from mooring.model.pod import Pod

RowArray = NDArray[np.intp]


_ACTIVE = "mooring/active-filters"
_CROWD = "mooring/crowd"


def active_filters(attempt: Attempt) -> list[tuple[int, FilterPlugin]]:
    """The filters that have a say about the pod, with their place in the order.

    Hot: what-ifs ask up to six times in an attempt, and working it out takes 8 µs.
    """
    state = attempt.context.state
    found: list[tuple[int, FilterPlugin]] | None = state.find(_ACTIVE)
    if found is None:
        found = attempt.active_filters()
        state.write(_ACTIVE, found)
    return found


def crowd_beside(attempt: Attempt) -> Crowd:
    """Sum of the requests of the nominated pods that the pod of the attempt must leave room for, by row.

    Hot: filters and preemption ask, and with 1,000 nominated pods it takes 50 µs.
    """
    context = attempt.context
    found: Crowd | None = context.state.find(_CROWD)
    if found is None:
        found = context.cluster.nominated.crowd_beside(context.pod)
        context.state.write(_CROWD, found)
    return found


def is_batchable(attempt: Attempt) -> bool:
    """Whether no active filter reads more of the pods on nodes than sums. `@reads` of the plugins decides: a wrong
    claim there makes preemption wrong. On nodes that have more than columns hold, pods are summed up one by one. For a resize
    it also matters which pod is asked about."""
    if attempt.context.nodes.amounts.huge_rows or attempt.context.is_resize:
        return False
    return all(attempt.runner.filter_reads[index] <= Reads.TOTALS for index, _ in active_filters(attempt))


def rows_beyond_sums(attempt: Attempt, nominated: NominatedLoad) -> NDArray[np.bool_]:
    """Rows with nominated pods that a filter may count for more than their sums (FilterPlugin.counted_rows)."""
    context, reads = attempt.context, attempt.runner.filter_reads
    if context.nodes.amounts.huge_rows or context.is_resize:
        return np.ones(context.nodes.height, np.bool_)
    beyond_sums = np.zeros(context.nodes.height, np.bool_)
    for index, plugin in active_filters(attempt):
        if reads[index] > Reads.TOTALS:
            counted = counted_rows(plugin, context, nominated.tallies())
            if counted is None:
                return np.ones(context.nodes.height, np.bool_)
            beyond_sums |= counted
    return beyond_sums


def counted_rows(plugin: FilterPlugin, context: SchedulingContext, tallies: PodTallies) -> NDArray[np.bool_] | None:
    """The rows with pods that a filter counts; None: any pod may count. What it raises, or an answer of another form, ends
    the attempt."""
    try:
        rows = plugin.counted_rows(context, tallies)
        if rows is not None and (rows.dtype != np.bool_ or rows.shape != (context.nodes.height,)):
            raise TypeError(f"counted rows must be an array of {context.nodes.height} bool")
    except Exception as fault:
        raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault
    return rows


def codes_beside(attempt: Attempt, nominated: NominatedLoad) -> dict[int, NDArray[np.int64]] | None:
    """By index of a filter: for each row the code with which its nominated pods close it (FilterPlugin.codes_beside). None: a
    filter that counts some of them does not say, or the pod need not leave room for all nominated pods."""
    context, reads = attempt.context, attempt.runner.filter_reads
    if context.nodes.amounts.huge_rows or context.is_resize or nominated.least_priority() < context.pod.priority:
        return None
    found: dict[int, NDArray[np.int64]] = {}
    for index, plugin in active_filters(attempt):
        if reads[index] <= Reads.TOTALS:
            continue
        try:
            codes = plugin.codes_beside(context, nominated.tallies())
            if codes is not None and (codes.dtype != np.int64 or codes.shape != (context.nodes.height,)):
                raise TypeError(f"codes must be an array of {context.nodes.height} int64")
        except Exception as fault:
            raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault
        if codes is not None:
            found[index] = codes
            continue
        counted = counted_rows(plugin, context, nominated.tallies())
        if counted is None or counted.any():
            return None
    return found


def demand_of(plugin: FilterPlugin, context: SchedulingContext) -> ResourceDemand | None:
    """Ask a filter for its ResourceDemand; None if sums of requests do not describe the filter. An exception of the plugin
    ends the attempt as AttemptError."""
    try:
        return plugin.demand(context)
    except Exception as fault:
        raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault


def rejection_of_row(attempt: Attempt, context: SchedulingContext, row: int) -> tuple[int, int] | None:
    """The first filter that rejects one row in a what-if, and its code; None: the row passes. In plain numbers.

    Hot: a third of the time that `ask_again` takes.
    """
    for index, plugin in active_filters(attempt):
        if attempt.runner.filter_reads[index] <= Reads.NODE:
            code = attempt.kept_code(index, row)
        else:
            code = ask_filter_row(plugin, context, row)
        if code:
            return index, code
    return None


def verdicts_of(rejection: tuple[int, int] | None) -> Verdicts:
    """The answer of `rejection_of_row` as verdicts of one row."""
    if rejection is None:
        return Verdicts(np.array([PASSED], np.int8))
    index, code = rejection
    return Verdicts(np.array([index], np.int8), {index: np.array([code], np.int64)})


def ask_again(attempt: Attempt, context: SchedulingContext, rows: RowArray) -> Verdicts:
    """The verdicts of these rows in a what-if, aligned with `rows`. Filters that read only nodes keep their answers:
    pods do not change them."""
    first = np.full(len(rows), PASSED, np.int8)
    verdicts = Verdicts(first)
    for index, plugin in active_filters(attempt):
        still_in = first == PASSED
        if not still_in.any():
            break
        if attempt.runner.filter_reads[index] <= Reads.NODE:
            kept = attempt.kept_codes(index)
            codes = None if kept is None else kept[rows] * still_in
        else:
            asked = rows if still_in.all() else rows[still_in]
            answer = ask_filter(plugin, context, asked)
            codes = None if answer is None else np.zeros(len(rows), np.int64)
            if codes is not None:
                codes[still_in] = answer
        if codes is not None and codes.any():
            verdicts.codes[index] = codes
            first[codes != 0] = index
    return verdicts


class OneNode:
    """A what-if about the pods of one row, in a sketch of the table. Several what-ifs may share a sketch, if each
    has a row of its own."""

    def __init__(self, attempt: Attempt, nodes: NodeTable, row: int) -> None:
        self._attempt = attempt
        self._nodes = nodes
        self._row = row
        self._state = attempt.context.state.clone()
        """A clone: the attempt itself must not see the pods that are added and removed here."""
        self._extensions = attempt.extensions()

    def add(self, pod: Pod) -> None:
        """Put a pod on the node, for the table and for the plugins' state."""
        self._nodes.hold(pod, self._row)
        _tell(self._extensions, self._context(self._state), pod, self._row, "AddPod")

    def remove(self, pod: Pod) -> None:
        """Take a pod off the node, likewise."""
        self._nodes.release(pod, self._row)
        _tell(self._extensions, self._context(self._state), pod, self._row, "RemovePod")

    def tell_elsewhere(self, pod: Pod, row: int, is_leaving: bool) -> None:
        """A pod of another row leaves or comes back: only plugins that count pods over the whole cluster are told."""
        _tell(self._extensions, self._context(self._state), pod, row, "RemovePod" if is_leaving else "AddPod")

    def ask(self) -> Verdicts:
        """The verdict of the node with the pods that are on it now."""
        return verdicts_of(rejection_of_row(self._attempt, self._context(self._state), self._row))

    def verdict(self, nominated: Sequence[Pod] = ()) -> Rejection | None:
        """None if the node passes with the nominated pods on it, and without them.

        Both are needed, as upstream: with them, because they will come; without them, because the pod must not depend
        on them (affinity to a pod that may never arrive).
        """
        if nominated:
            found = self._ask_beside(nominated)
            if found.first[0] != PASSED:
                return self._rejection(found)
        found = self.ask()
        return None if found.first[0] == PASSED else self._rejection(found)

    def fits(self, nominated: Sequence[Pod] = ()) -> bool:
        """Whether the node passes, as `verdict` says. Parity: while pods come back, a filter that fails rejects."""
        try:
            return self.verdict(nominated) is None
        except AttemptError:
            return False

    def _ask_beside(self, nominated: Sequence[Pod]) -> Verdicts:
        """The verdict of the node with the nominated pods on it, which leave it again also where a filter fails."""
        kept, held = self._state, list[Pod]()
        self._state = kept.clone()
        try:
            for pod in nominated:
                held.append(pod)
                self.add(pod)
            return self.ask()
        finally:
            for pod in held:
                self._nodes.release(pod, self._row)
            self._state = kept

    def _rejection(self, found: Verdicts) -> Rejection:
        """The rejection behind the code of the filter that rejected the node."""
        index = int(found.first[0])
        return self._attempt.rejection(index, int(found.codes[index][0]))

    def _context(self, state: CycleState) -> SchedulingContext:
        """The attempt's context with this sketch and this state."""
        return self._attempt.context.on(self._nodes, state)


class Batch:
    """A what-if about the sums of many rows at once, with and without the pods nominated there.

    Hot: it works on the table itself, on these rows only, and `close` puts everything back. A copy of all columns would
    cost more than most what-ifs, which are about a handful of nodes. One resource is written after another: for 600 rows this
    takes 12 µs instead of 26.
    """

    def __init__(self, attempt: Attempt, rows: RowArray, load: Load | None) -> None:
        self._attempt = attempt
        self._nodes = attempt.context.nodes
        self._rows = rows
        self._requested = self._nodes.amounts.requested.take(rows, axis=1)
        """Requests on the rows before the batch. `close` restores them, together with `_pod_count`."""
        self._pod_count = self._nodes.pod_count[rows]
        self._were_supposed = self._nodes.are_sums_supposed
        self._nodes.are_sums_supposed = True
        self._load = load
        self._is_crowded = load.pod_count > 0 if load is not None else np.zeros(0, np.bool_)
        """Rows with nominated pods that the pod must leave room for: they are asked twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo everything."""
        for line, amounts in zip(self._nodes.amounts.requested, self._requested, strict=False):
            line[self._rows] = amounts
        self._nodes.pod_count[self._rows] = self._pod_count
        self._nodes.are_sums_supposed = self._were_supposed

    def shift(self, rows: RowArray, requested: NDArray[np.int64], pods: NDArray[np.int64]) -> None:
        """Add to what is requested on some of the rows (resources x rows), and to the number of pods there."""
        for line, amounts in zip(self._nodes.amounts.requested, requested, strict=False):
            line[rows] += amounts
        self._nodes.pod_count[rows] += pods

    def ask(self, rows: RowArray) -> Verdicts:
        """The verdicts of some of the rows; rows with nominated pods must pass with and without them."""
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
        """With the load of nominated pods on top; the sums are restored even if a plugin raises."""
        requested, pods = load.requested[:, rows], load.pod_count[rows]
        self.shift(rows, requested, pods)
        try:
            return ask_again(self._attempt, self._attempt.context, rows)
        finally:
            self.shift(rows, -requested, -pods)


def _tell(extensions: Sequence[PreFilterExtensions], context: SchedulingContext, pod: Pod, row: int, what: str) -> None:
    """Call AddPod or RemovePod of PreFilterExtensions. A fault ends the attempt with an error, in upstream's words."""
    for plugin in extensions:
        try:
            tell = plugin.add_pod if what == "AddPod" else plugin.remove_pod
            context.wrap(f"PreFilterExtension{what}", plugin.name, tell)(context, pod, row)
        except Exception as fault:
            name = getattr(plugin, "name", type(plugin).__name__)
            raise AttemptError(f'running {what} on PreFilter plugin "{name}": {describe(fault)}') from fault
