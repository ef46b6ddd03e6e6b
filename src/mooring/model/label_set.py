"""Label sets, and ways to avoid trying every selector on every pod.

Selectors read only the namespace and the labels of a pod. So an answer about one pod holds for all pods of the same label
set, and for all that agree in the labels that the selectors read; and of many selectors most need not be tried at all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from mooring.model.selectors import LabelRule, Selector


class LabelSet:
    """A namespace and a set of labels. Interned (`label_set_of`), so that identity is equality and keys are cheap."""

    __slots__ = ("__weakref__", "labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels


_label_sets: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...]], LabelSet] = WeakValueDictionary()
"""Weak, so that a label set is forgotten with the last pod that has it: jobs make new ones all the time."""


def label_set_of(namespace: str, labels: Mapping[str, str]) -> LabelSet:
    """The one LabelSet of this namespace and these labels, in whatever order they are written."""
    key = (namespace, tuple(sorted(labels.items())))
    label_set = _label_sets.get(key)
    if label_set is None:
        label_set = _label_sets[key] = LabelSet(namespace, labels)
    return label_set


# ---- answers that depend on some labels only


T = TypeVar("T")


class LabelSetCases(Generic[T]):
    """Keeps answers that depend on the namespace of a pod and on the labels that some selectors read.

    Each pod of a StatefulSet has a label set of its own (its pod name is a label), but all of them are one case here. A
    pod with thousands of selectors tries them once for each case.
    """

    LIMIT = 256
    """Cases kept at once; beyond it all are dropped. More cases than that have labels with arbitrary values, such as ids,
    for which keeping answers does not help."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._keys = frozenset(rule.key for selector in selectors for rule in selector.rules)
        self._answers: dict[tuple[int, str, frozenset[tuple[str, str]]], T] = {}

    def get(self, label_set: LabelSet, build: Callable[[], T], version: int = 0) -> T:
        """The answer for a label set, from `build` if it is not known. `version` must change with everything else that
        the answer depends on, for instance the labels of namespaces."""
        keys, labels = self._keys, label_set.labels
        if len(keys) < len(labels):
            asked = frozenset((key, labels[key]) for key in keys if key in labels)
        else:
            asked = frozenset(pair for pair in labels.items() if pair[0] in keys)
        case = (version, label_set.namespace, asked)
        if case not in self._answers:
            if len(self._answers) >= self.LIMIT:
                self._answers.clear()
            self._answers[case] = build()
        return self._answers[case]


# ---- many selectors at once


_NONE: tuple[int, ...] = ()


class SelectorIndex:
    """Finds the selectors that may match given labels, without trying each: an index by a label that each requires.

    A pod has few labels, so of ten thousand selectors that each require a label of their own it finds few. Selectors that
    require no particular label (NotIn, Exists) are candidates for every pod.
    """

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._by_label: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._others: list[int] = []
        for number, selector in enumerate(selectors):
            if selector.is_nothing:
                continue
            rule = _narrowest(selector)
            if rule is None:
                self._others.append(number)
            else:
                for value in rule.values:
                    self._by_label[rule.key, value].append(number)

    def candidates(self, labels: Mapping[str, str]) -> list[int]:
        """The numbers of the selectors that may match, in order. All others do not match; these must be tried."""
        found = list(self._others)
        for label in labels.items():
            found += self._by_label.get(label, _NONE)
        found.sort()
        return found


def _narrowest(selector: Selector) -> LabelRule | None:
    """The In requirement with the fewest values: it puts the selector under the fewest labels. None if there is none."""
    named = [rule for rule in selector.rules if rule.operator == "In"]
    return min(named, key=lambda rule: len(rule.values), default=None)
