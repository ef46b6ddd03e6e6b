"""Label sets, and answers that are kept for them.

Selectors read only the namespace and the labels of a pod. So an answer about one pod holds for all pods of the same label
set, and for all that agree in the labels that the selectors read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from mooring.model.selectors import Selector


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

    def __init__(self, selectors: Iterable[Selector], most: int = LIMIT) -> None:
        """`most`: fewer cases than LIMIT are kept."""
        self._most = min(most, self.LIMIT)
        self._keys = frozenset(rule.key for selector in selectors for rule in selector.read_rules)
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
            if len(self._answers) >= self._most:
                self._answers.clear()
            self._answers[case] = build()
        return self._answers[case]
