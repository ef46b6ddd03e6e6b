"""Unschedulable pods: rejected by plugins, or gated, and waiting for an event that could change that."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import attrgetter

import msgspec

from mooring.framework.contract.events import ClusterEvent, EventKeys
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedEntity
from mooring.queue.hints import AskedHints, Hints, ObservedEvent, RejectionKind


class _Filed(msgspec.Struct, eq=False, gc=False):
    """An unschedulable pod, with the drawer that it is in: its traces must be found after the entry has changed."""

    entry: QueuedEntity
    sequence: int = 0
    is_gated: bool = False
    """As it was filed."""
    kind: RejectionKind | None = None
    """The kind of its drawer; None: it is in none."""
    keys: tuple[frozenset[Hashable] | None, ...] = ()
    """For each of the drawer's indexes."""


_BY_SEQUENCE = attrgetter("sequence")
SPARE = 16
"""How many drawers without pods are kept: a cluster has a handful of kinds at a time."""

_UNTOLD = object()
"""Where an index has the pods whose keys cannot be told."""


class _Drawer:
    """The pods of one kind, and an index of them for each kind of key by which an event can name them."""

    __slots__ = ("_asked", "_hints", "_kind", "filed", "indexes")

    def __init__(self, kind: RejectionKind, hints: Hints) -> None:
        self._kind = kind
        self._hints = hints
        self._asked: dict[ClusterEvent, AskedHints | None] = {}
        """The answers of `Hints.asked` by event. They stay valid, because registrations do not change."""
        self.filed: dict[str, _Filed] = {}
        self.indexes: dict[EventKeys, dict[Hashable, dict[str, _Filed]]] = {each: {} for each in hints.keys_of(kind)}

    def put(self, filed: _Filed) -> None:
        key = filed.entry.key
        self.filed[key] = filed
        for index, keys in zip(self.indexes.values(), filed.keys, strict=True):
            for each in (_UNTOLD,) if keys is None else keys:
                index.setdefault(each, {})[key] = filed

    def remove(self, filed: _Filed) -> None:
        """Take an entry out of the drawer and out of all its indexes. Keys of an index without entries are dropped."""
        key = filed.entry.key
        del self.filed[key]
        for index, keys in zip(self.indexes.values(), filed.keys, strict=True):
            for each in (_UNTOLD,) if keys is None else keys:
                found = index[each]
                del found[key]
                if not found:
                    del index[each]

    def asked(self, event: ClusterEvent) -> AskedHints | None:
        """The hints to ask about the pods here; None: the event means nothing to them."""
        try:
            return self._asked[event]
        except KeyError:
            found = self._asked[event] = self._hints.asked(self._kind, event)
            return found

    def concerned(self, asked: AskedHints, observed: ObservedEvent, counts_others: bool) -> Iterable[_Filed]:
        """The pods that the event names, or all if it names none. The others may be counted as asked."""
        found: dict[str, _Filed] = {}
        for keys in asked.keys:
            names = self._hints.keys_of_change(keys, observed)
            if names is None:
                return self.filed.values()
            index = self.indexes[keys]
            for each in (*names, _UNTOLD):
                found.update(index.get(each, ()))
        if not asked.keys:
            return self.filed.values()
        if counts_others and len(found) < len(self.filed):
            skipped = sum(filed.entry.size for key, filed in self.filed.items() if key not in found)
            self._hints.skip(self._kind, asked, observed, skipped)
        return found.values()

    def keys_of(self, entry: QueuedEntity) -> tuple[frozenset[Hashable] | None, ...]:
        """The keys of a pod, for each index."""
        return tuple(self._hints.keys_of_pod(each, entry) for each in self.indexes)

    def has(self, key: str, filed: _Filed) -> bool:
        """Whether a pod is here, and found by each of its keys."""
        return self.filed.get(key) is filed and all(
            index.get(each, {}).get(key) is filed
            for index, keys in zip(self.indexes.values(), filed.keys, strict=True)
            for each in ((_UNTOLD,) if keys is None else keys)
        )

    def count_keys(self) -> int:
        """How many keys of pods the indexes have. A key that no pod has any more counts, so that the check finds it."""
        return sum(len(found) or 1 for index in self.indexes.values() for found in index.values())


class UnschedulablePods:
    """The unschedulable pods by key, in the order in which they came, and by the plugins that rejected them.

    Hot: an event asks only about the pods whose rejectors listen to it, so a bound pod does not cost a look at each of
    10,000 pods that wait for a node with a label. Of those, it asks only about the pods that it names, where it names any:
    1,600 pods whose ResourceClaims came after them took 6 s, because each claim asked about each pod.

    Hot: pods are sorted into drawers when an event asks, not when they are filed. A gated group goes and comes back twice for
    each member that joins it, mostly as it was at the event before: it took 12 µs of 46 to sort it four times.
    """

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self.filed: dict[str, _Filed] = {}
        self._drawers: dict[RejectionKind, _Drawer] = {}
        self._unsorted: dict[str, _Filed] = {}
        """The pods that came, changed or went since the last event: they may be in the drawer of what they were."""
        self._spare: dict[RejectionKind, _Drawer] = {}
        """Drawers that lost their last pod, at most SPARE of them. Hot: members that come to gated groups in turn have each
        group sorted as another kind, and back."""
        self._sequence = 0
        self.gated = 0
        """How many of the pods are gated."""

    def __len__(self) -> int:
        return len(self.filed)

    def __contains__(self, key: str) -> bool:
        return key in self.filed

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (filed.entry for filed in self.filed.values())

    def get(self, key: str) -> QueuedEntity | None:
        filed = self.filed.get(key)
        return filed.entry if filed is not None else None

    def put(self, entry: QueuedEntity) -> bool:
        """Add a pod, or file it anew after it was changed. Returns whether it was not there before."""
        key = entry.key
        old = self.filed.get(key)
        filed = old or self._unsorted.get(key) or _Filed(entry)
        if old is None:
            self._sequence = filed.sequence = self._sequence + 1
            self.filed[key] = filed
        else:
            self.gated -= old.is_gated
        filed.entry, filed.is_gated = entry, entry.is_gated
        self.gated += filed.is_gated
        self._unsorted[key] = filed
        return old is None

    def remove(self, key: str) -> QueuedEntity | None:
        """Take a pod out; None: it was not there."""
        filed = self.filed.pop(key, None)
        if filed is None:
            return None
        self.gated -= filed.is_gated
        if filed.kind is None:
            del self._unsorted[key]
        else:
            self._unsorted[key] = filed
        return filed.entry

    def concerned(
        self, observed: ObservedEvent, admits: Callable[[Pod], bool] | None = None, *, counts_others: bool = True
    ) -> list[QueuedEntity]:
        """The pods that hints have to be asked about, of those that `admits` lets in, in the order in which they were
        unschedulable. Pods that the event does not name are counted as asked (`counts_others`)."""
        self._sort()
        found: list[_Filed] = []
        for drawer in self._drawers.values():
            asked = drawer.asked(observed.event)
            if asked is None:
                continue
            if admits is None:
                found += drawer.concerned(asked, observed, counts_others)
            else:
                found += [filed for filed in drawer.filed.values() if any(admits(e.pod) for e in filed.entry.entries)]
        found.sort(key=_BY_SEQUENCE)
        return [filed.entry for filed in found]

    def _sort(self) -> None:
        """Bring the pods that came, changed or went since the last event into their drawers, or out of them."""
        for key, filed in self._unsorted.items():
            if key not in self.filed:
                self._take_out(filed)
                continue
            kind = self._hints.kind_of(filed.entry)
            drawer = self._drawers.get(kind)
            if drawer is None:
                drawer = self._spare.pop(kind) if kind in self._spare else _Drawer(kind, self._hints)
                self._drawers[kind] = drawer
            keys = drawer.keys_of(filed.entry)
            if kind != filed.kind or keys != filed.keys:
                self._take_out(filed, drawer)
                filed.kind, filed.keys = kind, keys
                drawer.put(filed)
        self._unsorted.clear()

    def _take_out(self, filed: _Filed, target: _Drawer | None = None) -> None:
        """Take a pod out of its drawer; it may come to `target`. Drawers go with their last pod, but for some: a kind is a
        set of plugins, and there are many sets."""
        if filed.kind is None:
            return
        drawer = self._drawers[filed.kind]
        drawer.remove(filed)
        if not drawer.filed and drawer is not target:
            self._spare[filed.kind] = self._drawers.pop(filed.kind)
            if len(self._spare) > SPARE:
                del self._spare[next(iter(self._spare))]
        filed.kind = None

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        self._sort()
        problems = []
        for key, filed in self.filed.items():
            entry = filed.entry
            drawer = None if filed.kind is None else self._drawers.get(filed.kind)
            if entry.key != key:
                problems.append(f"{entry.key}: filed as {key}")
            if not entry.rejectors and not entry.is_gated:
                problems.append(f"{key}: unschedulable, but no plugin rejected it")
            if filed.kind != self._hints.kind_of(entry):
                problems.append(f"{key}: unschedulable, and changed since it was filed")
            elif drawer is not None and filed.keys != drawer.keys_of(entry):
                problems.append(f"{key}: unschedulable, and other events name it than when it was filed")
            if drawer is None or not drawer.has(key, filed):
                problems.append(f"{key}: unschedulable, but not found by its rejectors")
        if sum(len(drawer.filed) for drawer in self._drawers.values()) != len(self.filed):
            problems.append("unschedulable: pods are filed under plugins that did not reject them")
        keys = sum(1 if keys is None else len(keys) for filed in self.filed.values() for keys in filed.keys)
        if sum(drawer.count_keys() for drawer in self._drawers.values()) != keys:
            problems.append("unschedulable: pods are filed under keys that they do not have")
        if self.gated != sum(entry.is_gated for entry in self):
            problems.append(f"unschedulable: {self.gated} pods are counted as gated")
        return problems
