"""Many selectors at once: which of them may match given labels, without trying each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mooring.model.selectors import LabelRule, Selector

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
