"""Unschedulable pods: rejected by plugins, or gated, and waiting for an event that could change that."""

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from mooring.queue.entry import QueuedPod

_ANY_EVENT = ""
"""Where pods are filed that no plugin answers for: every event concerns them."""


class _Filed(NamedTuple):
    """An unschedulable pod as it was when it was filed: `put` must find its traces after the entry has changed."""

    entry: QueuedPod
    sequence: int
    rejectors: tuple[str, ...]
    is_gated: bool


_BY_SEQUENCE = attrgetter("sequence")


class UnschedulablePods:
    """The unschedulable pods by key, in the order in which they came, and by the plugins that rejected them.

    Hot: an event asks only for the pods whose rejectors listen to it, so a bound pod does not cost a look at each of
    10,000 pods that wait for a node with a label.
    """

    def __init__(self, profiles: Collection[str]) -> None:
        self._profiles = profiles
        self.filed: dict[str, _Filed] = {}
        self._by_rejector: dict[str, dict[str, _Filed]] = {}
        self._sequence = 0
        self.gated = 0
        """How many of the pods are gated."""

    def __len__(self) -> int:
        return len(self.filed)

    def __contains__(self, key: str) -> bool:
        return key in self.filed

    def __iter__(self) -> Iterator[QueuedPod]:
        return (filed.entry for filed in self.filed.values())

    def get(self, key: str) -> QueuedPod | None:
        filed = self.filed.get(key)
        return filed.entry if filed is not None else None

    def put(self, entry: QueuedPod) -> bool:
        """Add a pod, or file it anew after it was changed. Returns whether it was not there before."""
        old = self.filed.get(entry.key)
        if old is not None:
            self._unfile(old)
        else:
            self._sequence += 1
        sequence = old.sequence if old is not None else self._sequence
        filed = self.filed[entry.key] = _Filed(entry, sequence, self._drawers(entry), entry.is_gated)
        for plugin in filed.rejectors:
            self._by_rejector.setdefault(plugin, {})[entry.key] = filed
        self.gated += filed.is_gated
        return old is None

    def remove(self, key: str) -> QueuedPod | None:
        """Take a pod out; None: it was not there."""
        filed = self.filed.pop(key, None)
        if filed is None:
            return None
        self._unfile(filed)
        return filed.entry

    def rejected_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """The pods that one of these plugins rejected, in the order in which they were unschedulable."""
        drawers = [drawer for name in (*plugins, _ANY_EVENT) if (drawer := self._by_rejector.get(name))]
        if not drawers:
            return []
        found = {key: filed for drawer in drawers for key, filed in drawer.items()} if drawers[1:] else drawers[0]
        return [filed.entry for filed in sorted(found.values(), key=_BY_SEQUENCE)]

    def _drawers(self, entry: QueuedPod) -> tuple[str, ...]:
        """Under which plugins a pod is filed. A pod of an unknown profile, or without rejectors, is filed under every
        event."""
        return entry.rejectors if entry.profile in self._profiles and entry.rejectors else (_ANY_EVENT,)

    def _unfile(self, filed: _Filed) -> None:
        """Forget by whom a pod was rejected. Empty drawers stay: there are no more than plugins."""
        for plugin in filed.rejectors:
            del self._by_rejector[plugin][filed.entry.key]
        self.gated -= filed.is_gated

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        problems = []
        for key, filed in self.filed.items():
            entry = filed.entry
            if entry.key != key:
                problems.append(f"{entry.key}: filed as {key}")
            if not entry.rejectors:
                problems.append(f"{key}: unschedulable, but no plugin rejected it")
            if (filed.rejectors, filed.is_gated) != (self._drawers(entry), entry.is_gated):
                problems.append(f"{key}: unschedulable, and changed since it was filed")
            if any(self._by_rejector[plugin].get(key) is not filed for plugin in filed.rejectors):
                problems.append(f"{key}: unschedulable, but not found by its rejectors")
        if sum(map(len, self._by_rejector.values())) != sum(len(filed.rejectors) for filed in self.filed.values()):
            problems.append("unschedulable: pods are filed under plugins that did not reject them")
        if self.gated != sum(filed.is_gated for filed in self.filed.values()):
            problems.append(f"unschedulable: {self.gated} pods are counted as gated")
        return problems
