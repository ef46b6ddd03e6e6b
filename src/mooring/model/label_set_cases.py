"""Answers about pods that only some of their labels decide: they are worked out once for each case, not for each pod."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mooring.model.label_set import LabelSet
from mooring.model.selectors import Selector

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
