"""Traits: what a selector may require of a pod. Indexes by trait find the few selectors and label sets that can match."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from mooring.model.exclusions import ExcludedPods
from mooring.model.label_set import LabelSet
from mooring.model.selectors import LabelRule, Selector

Trait = tuple[str, str | None]
"""A label (key, value), any label of a key (key, None), or a namespace ("", name): no label has an empty key."""


def required_traits(selector: Selector, namespaces: frozenset[str] | None = None) -> list[Trait] | None:
    """Traits of which a pod must have at least one to be selected, in these namespaces (None: in all). Labels are chosen
    before keys, because fewer pods have them, and keys before namespaces; of several choices the shortest.

    None: any pod may be selected.
    """
    if selector.is_nothing:
        return []
    choices = []
    if isinstance(selector, ExcludedPods):  # first: what is excluded is less common than what many selectors require
        choices.append([trait for rule in selector.any_of for trait in _traits(rule)])
    choices += [_traits(rule) for rule in selector.rules if rule.operator in ("In", "Exists")]
    if choices:
        return min(choices, key=lambda traits: (any(value is None for _, value in traits), len(traits)))
    return None if namespaces is None else [("", namespace) for namespace in namespaces]


def _traits(rule: LabelRule) -> list[Trait]:
    """Of which a pod must have one to meet a rule with In or Exists."""
    return [(rule.key, None)] if rule.operator == "Exists" else [(rule.key, value) for value in rule.values]


H = TypeVar("H", bound=Hashable)


class TraitIndex(Generic[H]):
    """Items by traits of which they require one.

    A pod has few traits, so of ten thousand selectors that each require a label of their own it meets few. Items that
    require nothing have to be tried on every pod.
    """

    def __init__(self) -> None:
        self._by_trait: dict[Trait, dict[H, None]] = {}
        self._others: dict[H, None] = {}
        self._traits_of: dict[H, set[Trait]] = {}

    def add(self, item: H, required: Iterable[Trait] | None) -> None:
        """An item that can only be meant by pods with one of these traits; None: by any pod."""
        if required is None:
            self._others[item] = None
            return
        self._traits_of[item] = traits = set(required)
        for trait in traits:
            self._by_trait.setdefault(trait, {})[item] = None

    def remove(self, item: H) -> None:
        """Nothing happens where the item is not there."""
        self._others.pop(item, None)
        for trait in self._traits_of.pop(item, ()):
            items = self._by_trait[trait]
            del items[item]
            if not items:
                del self._by_trait[trait]

    def candidates(self, label_set: LabelSet) -> list[H]:
        """The items that may be meant by pods of a label set, each once; no other is."""
        found, by_trait = dict(self._others), self._by_trait
        found.update(by_trait.get(("", label_set.namespace), ()))
        for label in label_set.labels.items():
            found.update(by_trait.get(label, ()))
            found.update(by_trait.get((label[0], None), ()))
        return list(found)


class LabelSetIndex:
    """Label sets by the traits that they have."""

    def __init__(self) -> None:
        self._members: dict[str, dict[str, dict[LabelSet, None]]] = {}
        """By key and value; those of a namespace are under an empty key."""

    def add(self, label_set: LabelSet) -> None:
        for key, value in (("", label_set.namespace), *label_set.labels.items()):
            self._members.setdefault(key, {}).setdefault(value, {})[label_set] = None

    def remove(self, label_set: LabelSet) -> None:
        for key, value in (("", label_set.namespace), *label_set.labels.items()):
            by_value = self._members[key]
            members = by_value[value]
            del members[label_set]
            if not members:
                del by_value[value]
                if not by_value:
                    del self._members[key]

    def having(self, traits: Iterable[Trait]) -> Iterable[LabelSet]:
        """The label sets that have one of these traits, each once."""
        found: dict[LabelSet, None] = {}
        for key, value in traits:
            by_value = self._members.get(key, {})
            for members in by_value.values() if value is None else (by_value.get(value, {}),):
                found.update(members)
        return found

    def clear(self) -> None:
        self._members.clear()

    def copy(self) -> "LabelSetIndex":
        other = LabelSetIndex()
        other._members = {
            key: {value: dict(members) for value, members in by_value.items()}
            for key, by_value in self._members.items()
        }
        return other
