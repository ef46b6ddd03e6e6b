"""Pod groups in the answers of simulations: each is placed or pending as one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooring.answers.form.answer import AnswerTable
from mooring.kit.words import count
from mooring.sim.group_states import GroupState
from mooring.sim.results import GroupWait, PodResult, show_seconds


def told_groups(groups: Sequence[GroupState]) -> list[str]:
    """`2 of 3 pod groups placed, after 1ms to 3.2s.` Nothing without groups."""
    return _told(len(groups), [group.waited_s for group in groups if group.is_placed])


def told_group_waits(groups: Sequence[GroupWait]) -> list[str]:
    """The same for a day."""
    return _told(len(groups), [group.waited_s for group in groups if group.waited_s is not None])


def _told(groups: int, placed_s: Sequence[float | None]) -> list[str]:
    """The waiting times of the groups that were placed; None for one that ran before."""
    if not groups:
        return []
    waits = sorted(waited_s for waited_s in placed_s if waited_s is not None)
    when = f", after {_span(waits)}" if waits else ""
    return [f"{len(placed_s)} of {count(groups, 'pod group')} placed{when}."]


def group_wait_table(groups: Iterable[GroupWait]) -> AnswerTable:
    """A row for each group of a day, those that waited longest first."""
    ordered = sorted(groups, key=lambda group: (group.waited_s is not None, -(group.waited_s or 0), group.key))
    rows = [(group.key, group.members, show_seconds(group.waited_s)) for group in ordered]
    return AnswerTable("Pod groups", ("group", "pods", "waited"), rows, is_detail=True)


def group_waits_as_data(groups: Iterable[GroupWait]) -> list[dict[str, Any]]:
    """The entries of `groups` of a day."""
    return [{"podGroup": group.key, "members": group.members, "waitedSeconds": group.waited_s} for group in groups]


def _span(waits_s: Sequence[float]) -> str:
    low, high = show_seconds(waits_s[0]), show_seconds(waits_s[-1])
    return low if low == high else f"{low} to {high}"


def group_table(groups: Iterable[GroupState]) -> AnswerTable:
    """A row for each group, those that are pending first."""
    ordered = sorted(groups, key=lambda group: (group.is_placed, group.key))
    rows = [
        (
            group.key,
            "placed" if group.is_placed else "pending",
            f"{group.placed_count}/{len(group.nodes)}",
            "-" if group.min_count is None else group.min_count,
            show_seconds(group.waited_s),
            group.message or "-",
        )
        for group in ordered
    ]
    return AnswerTable("Pod groups", ("group", "result", "pods on nodes", "minimum", "waited", "reason"), rows)


def without_groups(results: Iterable[PodResult], groups: Iterable[GroupState]) -> list[PodResult]:
    """The results without the pods of pending groups: the table of groups has one line for all of them."""
    pending = {key for group in groups if not group.is_placed for key in group.nodes}
    return [result for result in results if result.pod.key not in pending]


def group_counts(groups: Sequence[GroupState]) -> Mapping[str, int]:
    """Fields of the summary; none without groups."""
    if not groups:
        return {}
    placed = sum(group.is_placed for group in groups)
    return {"groups": len(groups), "groupsPlaced": placed, "groupsPending": len(groups) - placed}


def groups_as_data(groups: Iterable[GroupState]) -> list[dict[str, Any]]:
    """The entries of `groups`."""
    return [
        {
            "podGroup": group.key,
            "result": "placed" if group.is_placed else "pending",
            "minCount": group.min_count,
            "members": len(group.nodes),
            "onNodes": group.placed_count,
            "waitedSeconds": group.waited_s,
            "message": group.message,
        }
        for group in groups
    ]
