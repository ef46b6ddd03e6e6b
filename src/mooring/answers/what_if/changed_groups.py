"""Pod groups in a difference: each becomes pending or placed as one, and is one line for all of its pods."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mooring.answers.form.published import Published
from mooring.answers.trial.group_trials import spread_of
from mooring.answers.what_if.difference_form import ChangedGroupForm, GroupChange
from mooring.kit.words import some
from mooring.sim.group_states import GroupState

_TOLD: Mapping[GroupChange, str] = {
    "pending": "pending now",
    "still pending": "pending as before",
    "placed": "pending before and placed now",
    "new": "new and placed",
}


@dataclass(frozen=True, slots=True)
class ChangedGroup(Published):
    """A group that is pending after the changes, or that was not placed before them."""

    form: ClassVar = ChangedGroupForm
    key: str
    change: GroupChange
    nodes: Mapping[str, str] = field(repr=False)
    """By key of the pod: its node after the changes, empty while it is pending."""
    min_count: int | None = None
    message: str = ""

    def row(self) -> tuple[object, ...]:
        """A line of the table of pods, without the reason."""
        where = spread_of(node for node in self.nodes.values() if node)
        return f"{self.key} (group of {len(self.nodes)})", self.change, "", where

    @property
    def members(self) -> int:
        return len(self.nodes)

    @property
    def on_nodes(self) -> int:
        return sum(bool(node) for node in self.nodes.values())


def changed_groups(before: Mapping[str, GroupState], after: Mapping[str, GroupState]) -> list[ChangedGroup]:
    """The groups that are worth a line."""
    found = []
    for key, state in after.items():
        was = before.get(key)
        change = _change(was, state)
        if change is not None:
            found.append(ChangedGroup(key, change, dict(state.nodes), state.min_count, state.message))
    return found


def _change(was: GroupState | None, now: GroupState) -> GroupChange | None:
    if not now.is_placed:
        return "still pending" if was is not None and not was.is_placed else "pending"
    if was is None:
        return "new"
    return None if was.is_placed else "placed"


def told_changes(groups: Sequence[ChangedGroup]) -> Iterator[str]:
    """`Pod groups: 1 pending now (ml/train).`"""
    counts = Counter(group.change for group in groups)
    parts = [
        f"{counts[change]} {words} ({some([group.key for group in groups if group.change == change])})"
        for change, words in _TOLD.items()
        if counts[change]
    ]
    if parts:
        yield f"Pod groups: {', '.join(parts)}."


def pods_in(groups: Sequence[ChangedGroup]) -> set[str]:
    """The pods that the lines of the groups stand for."""
    return {key for group in groups for key in group.nodes}
