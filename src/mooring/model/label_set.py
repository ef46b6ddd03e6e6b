"""A namespace with a set of labels, interned, so identity is equality: no selector tells two pods of one label set apart."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from mooring.model.selectors import LabelRule, Selector


class LabelSet:
    """A namespace and a set of labels."""

    __slots__ = ("__weakref__", "labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels


_label_sets: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...]], LabelSet] = WeakValueDictionary()


def label_set_of(namespace: str, labels: Mapping[str, str]) -> LabelSet:
    key = (namespace, tuple(sorted(labels.items())))
    label_set = _label_sets.get(key)
    if label_set is None:
        label_set = _label_sets[key] = LabelSet(namespace, labels)
    return label_set


# ---- Answers about pods that only some of their labels decide: they are worked out once for each case, not for each pod.


T = TypeVar("T")


class LabelSetCases(Generic[T]):
    """Answers that depend on the namespace of a pod and on the labels that some selectors ask about.

    The members of a StatefulSet, each of a label set of its own, are one case. The owner of thousands of selectors
    tries them once for each case.
    """

    LIMIT = 256
    """Cases kept at once."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._keys = frozenset(rule.key for selector in selectors for rule in selector.rules)
        self._answers: dict[tuple[int, str, frozenset[tuple[str, str]]], T] = {}

    def get(self, label_set: LabelSet, build: Callable[[], T], version: int = 0) -> T:
        """The answer for a label set; `version` is that of all else that it depends on."""
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


# ---- Many selectors at once: which of them may match given labels, without trying each.


_NONE: tuple[int, ...] = ()


class SelectorIndex:
    """The numbers of selectors by a label that each of them requires.

    A pod has few labels, so of ten thousand selectors that each require a label of their own it meets few. Selectors that
    require no particular label have to be tried on every pod.
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
        """The selectors that may match, in order; no other does."""
        found = list(self._others)
        for label in labels.items():
            found += self._by_label.get(label, _NONE)
        found.sort()
        return found


def _narrowest(selector: Selector) -> LabelRule | None:
    """The requirement that names the fewest values, if any names some."""
    named = [rule for rule in selector.rules if rule.operator == "In"]
    return min(named, key=lambda rule: len(rule.values), default=None)
