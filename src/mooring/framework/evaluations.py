"""How often each plugin of a profile had a say, at PreFilter, Filter, PreScore and Score."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.framework.points import Plugin
from mooring.framework.profiles import Profile

LeftOut = frozenset[str]
"""Plugins that skipped."""


class Evaluations:
    """Counts attempts and nodes by which plugins were left out, and adds them up for each plugin when someone looks.

    Kept answers count too: that a plugin did not have to be asked again does not make it silent.
    Hot: two sums an attempt, whatever the number of plugins.
    """

    def __init__(self, profile: Profile) -> None:
        self._pre_filters = _names(profile.pre_filters)
        self._filters = _names(profile.filters)
        self._pre_scores = _names(profile.pre_scores)
        self._scores = _names(profile.scores)
        self.clear()

    def clear(self) -> None:
        self._pre_filtered: defaultdict[LeftOut, int] = defaultdict(int)
        self._filtered: defaultdict[LeftOut, int] = defaultdict(int)
        self._pre_scored: defaultdict[LeftOut, int] = defaultdict(int)
        self._scored: defaultdict[LeftOut, int] = defaultdict(int)
        self._others: defaultdict[tuple[str, str], int] = defaultdict(int)
        """(Plugin, point): what cannot be told by who was left out."""

    def pre_filtered(self, left_out: LeftOut) -> None:
        self._pre_filtered[left_out] += 1

    def refused(self, left_out: LeftOut, by: str) -> None:
        """The pod was refused at PreFilter, so the plugins after that one were not asked."""
        for name in self._pre_filters:
            if name not in left_out:
                self._others[name, "PreFilter"] += 1
            if name == by:
                return

    def all_passed(self, left_out: LeftOut, nodes: int) -> None:
        """No filter rejected any of so many nodes."""
        self._filtered[left_out] += nodes

    def rejected(self, left_out: LeftOut, first: NDArray[np.int8], passed: int) -> None:
        """Some were rejected, each by the filter with this index; a filter has a say where those before it said yes.

        Nodes that were not asked about have a negative number.
        """
        rejecting = np.bincount(first[first >= 0], minlength=len(self._filters))[: len(self._filters)].tolist()
        left = passed + sum(rejecting)
        for name, rejections in zip(self._filters, rejecting, strict=True):
            if name not in left_out:
                self._others[name, "Filter"] += left
            left -= rejections

    def scored(self, left_out: LeftOut, nodes: int) -> None:
        self._pre_scored[left_out] += 1
        self._scored[left_out] += nodes

    def read(self) -> dict[tuple[str, str], int]:
        """By plugin and point, with those that never had a say."""
        counted: dict[tuple[str, str], int] = {}
        for point, names, sums in (
            ("PreFilter", self._pre_filters, self._pre_filtered),
            ("Filter", self._filters, self._filtered),
            ("PreScore", self._pre_scores, self._pre_scored),
            ("Score", self._scores, self._scored),
        ):
            for name in names:
                having_say = (count for left_out, count in sums.items() if name not in left_out)
                counted[name, point] = sum(having_say) + self._others.get((name, point), 0)
        return counted


def _names(plugins: Iterable[Plugin]) -> Sequence[str]:
    return tuple(plugin.name for plugin in plugins)
