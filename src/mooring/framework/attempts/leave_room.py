"""Room for nominated pods: where pods are nominated that a pod must leave room for, a node has to pass with them too."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.pods.nominated import Crowd, NominatedLoad
from mooring.framework.attempts.attempt import Attempt, Verdicts
from mooring.framework.attempts.refiltering import (
    Batch,
    OneNode,
    RowArray,
    codes_beside,
    crowd_beside,
    is_batchable,
    rejection_of_row,
    rows_beyond_sums,
    verdicts_of,
)
from mooring.framework.contract.plugin_caller import ERROR, SUCCESS
from mooring.framework.kept.feasible import PASSED
from mooring.framework.kept.prepared import CrowdedColumns

FEW_ROWS = 4
"""Largest number of touched rows that are asked about one by one. With more rows, asking about all of them at once takes less
time."""


def leave_room(attempt: Attempt, verdicts: Verdicts, nominated: NominatedLoad) -> None:
    """Where pods are nominated that this one must leave room for, a node has to pass with them and without them.

    Parity: where it fails with them, that verdict stands, not the one without them.
    """
    pod, nodes = attempt.context.pod, attempt.context.nodes
    is_kept = verdicts.first is verdicts.kept and is_batchable(attempt)
    columns = attempt.runner.crowded.find(pod, nodes) if is_kept else None
    if columns is None:
        _leave_room(attempt, verdicts, crowd_beside(attempt), nominated)
        return
    try:
        _refresh_crowded(attempt, verdicts.first, columns, nominated)
    except BaseException:
        columns.void()
        raise
    _take_crowded(attempt, verdicts, columns, nominated)


def passes_alone(attempt: Attempt, row: int, nominated: NominatedLoad) -> bool:
    """Whether one row passes, with the pods nominated to it and without them; no filter is asked about other rows."""
    return rejection_alone(attempt, row, nominated) is None


def rejection_alone(attempt: Attempt, row: int, nominated: NominatedLoad) -> tuple[int, int] | None:
    """The index of the first filter that rejects one row, and its code; None: the row passes, with the pods nominated to it
    and without them."""
    caller, status = attempt.context.caller, ERROR
    began_ns = caller.began()
    try:
        rejection = _rejection_alone(attempt, row, nominated)
        status = SUCCESS
    finally:
        caller.ended("Filter", status, began_ns)
    caller.filtered(attempt.left_out, np.array([PASSED if rejection is None else rejection[0]], np.int8), 1)
    return rejection


def _rejection_alone(attempt: Attempt, row: int, nominated: NominatedLoad) -> tuple[int, int] | None:
    context = attempt.context
    attempt.refresh_node_answers()
    rejection = rejection_of_row(attempt, context, row)
    if rejection is not None:
        return rejection
    sums = nominated.sums_on(row, context.pod.priority, context.pod.id) if nominated else None
    if sums is None:
        return None
    if is_batchable(attempt):  # Hot: members of groups that have made room are asked about one row each
        return _rejection_beside(attempt, row, *sums)
    crowd = nominated.crowd_on([row], context.pod.priority, context.pod.id)
    assert crowd is not None, "pods are nominated there"
    verdicts = verdicts_with(attempt, crowd, nominated)
    first = int(verdicts.first[0])
    return None if first == PASSED else (first, int(verdicts.codes[first][0]))


def _leave_room(attempt: Attempt, verdicts: Verdicts, crowd: Crowd, nominated: NominatedLoad) -> None:
    """Replace the verdicts without a crowd by those with it."""
    found = _refusals_beside(attempt, verdicts.first, crowd, nominated)
    if found is not None:
        verdicts.first = verdicts.first.copy()
        for index in found[1].codes:
            verdicts.codes[index] = _all_codes(attempt, verdicts, index)
        _put_refusals(verdicts, *found)


def _refusals_beside(
    attempt: Attempt, first: NDArray[np.int8], crowd: Crowd, nominated: NominatedLoad
) -> tuple[RowArray, Verdicts] | None:
    """The rows that reject the pod with a crowd on them, with their verdicts; None: there are none."""
    crowd = crowd.among(first[crowd.rows] >= 0)
    if not len(crowd.rows):
        return None
    found = verdicts_with(attempt, crowd, nominated)
    refused = found.first != PASSED
    if refused.all():
        return crowd.rows, found
    codes = {index: codes[refused] for index, codes in found.codes.items()}
    return (crowd.rows[refused], Verdicts(found.first[refused], codes)) if refused.any() else None


def _put_refusals(verdicts: Verdicts, rows: RowArray, refusals: Verdicts) -> None:
    """Write verdicts about some rows into those of all rows."""
    verdicts.first[rows] = refusals.first
    for index, codes in refusals.codes.items():
        verdicts.codes[index][rows] = codes


def _all_codes(attempt: Attempt, verdicts: Verdicts, index: int) -> NDArray[np.int64]:
    """The codes of a filter for all rows so far, in an array of its own."""
    known = verdicts.codes.get(index)
    found = attempt.kept_codes(index) if known is None else known.copy()
    return np.zeros(len(verdicts.first), np.int64) if found is None else found[: len(verdicts.first)]


def _refresh_crowded(
    attempt: Attempt, first: NDArray[np.int8], columns: CrowdedColumns, nominated: NominatedLoad
) -> None:
    """Bring kept columns up to date: `first` has the verdicts without nominated pods."""
    touched, priority = columns.touched(), attempt.context.pod.priority
    if touched is None:
        found = Verdicts(first.copy())
        _leave_room(attempt, found, nominated.crowd_from(priority), nominated)
        columns.first, columns.codes = found.first, found.codes
    elif len(touched) <= FEW_ROWS:
        for row in touched:
            _refresh_row(attempt, int(first[row]), columns, row, nominated)
    else:
        _refresh_rows(attempt, first, columns, touched, nominated)


def _refresh_row(attempt: Attempt, first: int, columns: CrowdedColumns, row: int, nominated: NominatedLoad) -> None:
    """Refresh one row with plain numbers, with the same result as `_refresh_rows`. Hot: usually one row is touched between
    two attempts, and this takes 11 µs instead of 26."""
    for index, codes in columns.codes.items():
        codes[row] = attempt.kept_code(index, row)
    sums = nominated.sums_on(row, attempt.context.pod.priority) if first >= 0 else None
    refusal = _rejection_beside(attempt, row, *sums) if sums is not None else None
    if refusal is not None:
        first, code = refusal
        if first not in columns.codes:
            columns.codes[first] = _all_codes(attempt, Verdicts(columns.first), first)
        columns.codes[first][row] = code
    columns.first[row] = first


def _refresh_rows(
    attempt: Attempt, first: NDArray[np.int8], columns: CrowdedColumns, touched: list[int], nominated: NominatedLoad
) -> None:
    """Compute the verdicts of the touched rows again: first without the nominated pods, then with those that are nominated to
    these rows. Writes to `columns`."""
    verdicts = Verdicts(columns.first, columns.codes)  # these are written to
    rows = np.array(touched, np.intp)
    verdicts.first[rows] = first[rows]
    for index, codes in verdicts.codes.items():
        codes[rows] = [attempt.kept_code(index, row) for row in touched]
    crowd = nominated.crowd_on(touched, attempt.context.pod.priority)
    refusals = _refusals_beside(attempt, first, crowd, nominated) if crowd is not None else None
    if refusals is not None:
        for index in refusals[1].codes.keys() - verdicts.codes.keys():
            verdicts.codes[index] = _all_codes(attempt, verdicts, index)
        _put_refusals(verdicts, *refusals)


def _take_crowded(attempt: Attempt, verdicts: Verdicts, columns: CrowdedColumns, nominated: NominatedLoad) -> None:
    """The verdicts of an attempt are those of kept columns, but for the row that the pod itself is nominated to."""
    context = attempt.context
    own = nominated.node_of(context.pod.id)
    row = context.nodes.row_book.get(own) if own is not None else None
    if row is None:
        verdicts.first, verdicts.codes = columns.first, dict(columns.codes)
        return
    before = int(verdicts.first[row])
    verdicts.first, verdicts.codes = columns.first.copy(), dict(columns.codes)
    verdicts.first[row] = before
    if before in verdicts.codes:
        verdicts.codes[before] = verdicts.codes[before].copy()
        verdicts.codes[before][row] = attempt.kept_code(before, row)
    crowd = nominated.crowd_on([row], context.pod.priority, context.pod.id)
    if crowd is not None:
        _leave_room(attempt, verdicts, crowd, nominated)


def verdicts_with(attempt: Attempt, crowd: Crowd, nominated: NominatedLoad) -> Verdicts:
    """The verdicts of rows with the pods on them that are nominated there: together where only their sums matter."""
    if is_batchable(attempt):
        return _together_with(attempt, crowd)
    beyond_sums = rows_beyond_sums(attempt, nominated)[crowd.rows]
    if not beyond_sums.any():
        return _together_with(attempt, crowd)
    closing = codes_beside(attempt, nominated) if len(crowd.rows) > FEW_ROWS else None
    if closing is not None:  # all rows are told at once but the one that the pod itself is nominated to
        own = attempt.context.nodes.row_book.get(nominated.node_of(attempt.context.pod.id) or "")
        beyond_sums &= crowd.rows == (-1 if own is None else own)
    found = (
        _together_with(attempt, crowd.among(~beyond_sums)) if not beyond_sums.all() else Verdicts(np.zeros(0, np.int8))
    )
    if closing is not None:
        found = _closed_by(found, {index: each[crowd.rows[~beyond_sums]] for index, each in closing.items()})
        if not beyond_sums.any():
            return found
    first = np.full(len(crowd.rows), PASSED, np.int8)
    first[~beyond_sums] = found.first
    codes: dict[int, NDArray[np.int64]] = {}
    for index, those in found.codes.items():
        codes[index] = np.zeros(len(first), np.int64)
        codes[index][~beyond_sums] = those
    nodes = attempt.context.nodes.sketch()
    for place in np.flatnonzero(beyond_sums).tolist():
        one = OneNode(attempt, nodes, int(crowd.rows[place]))
        for pod in nominated.beside(attempt.context.pod, nodes.names[crowd.rows[place]]):
            one.add(pod)
        alone = one.ask()
        first[place] = alone.first[0]
        for index, code in alone.codes.items():
            codes.setdefault(index, np.zeros(len(first), np.int64))[place] = code[0]
    return Verdicts(first, codes)


def _closed_by(verdicts: Verdicts, closing: Mapping[int, NDArray[np.int64]]) -> Verdicts:
    """The verdicts of rows that filters close with these codes beside what they said before; the first filter counts, and of
    two codes of one filter the lower one.

    | first  | codes of filter 2 | closing, filter 2 | first | codes |
    | PASSED | 0                 | 3                 | 2     | 3     |
    | 1      | 0                 | 3                 | 1     | 0     |
    | 2      | 2                 | 3                 | 2     | 2     |
    """
    first = verdicts.first.copy()
    codes = {index: each.copy() for index, each in verdicts.codes.items()}
    for index, its in closing.items():
        known = codes.get(index)
        is_closed = (its != 0) & (first >= index)
        if known is not None:
            is_closed &= (first != index) | (its < known)
        if is_closed.any():
            for other in codes.values():
                other[is_closed] = 0
            codes.setdefault(index, np.zeros(len(first), np.int64))[is_closed] = its[is_closed]
            first[is_closed] = index
    return Verdicts(first, codes)


def _together_with(attempt: Attempt, crowd: Crowd) -> Verdicts:
    """The verdicts where only the sums of a crowd matter.

    Hot: as a rule one row was touched since the last attempt, and writing to single cells takes a third of the time.
    """
    if len(crowd.rows) == 1:
        amounts = {index: amount for index, amount in enumerate(crowd.requested[:, 0].tolist()) if amount}
        return verdicts_of(_rejection_beside(attempt, int(crowd.rows[0]), amounts, int(crowd.pod_count[0])))
    with Batch(attempt, crowd.rows, None) as batch:
        batch.shift(crowd.rows, crowd.requested, crowd.pod_count)
        return batch.ask(crowd.rows)


def _rejection_beside(attempt: Attempt, row: int, amounts: Mapping[int, int], pods: int) -> tuple[int, int] | None:
    """The filter that rejects a row with these amounts, by place of the resource, and so many pods added to it, and its
    code. The table is put back even if a plugin raises."""
    nodes = attempt.context.nodes
    requested = nodes.amounts.requested
    for index, amount in amounts.items():
        requested[index, row] += amount
    nodes.pod_count[row] += pods
    were_supposed, nodes.are_sums_supposed = nodes.are_sums_supposed, True
    try:
        return rejection_of_row(attempt, attempt.context, row)
    finally:
        nodes.are_sums_supposed = were_supposed
        for index, amount in amounts.items():
            nodes.amounts.requested[index, row] -= amount
        nodes.pod_count[row] -= pods
