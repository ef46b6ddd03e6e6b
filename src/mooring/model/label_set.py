"""Label sets, and answers that are kept for them.

Selectors read only the namespace and the labels of a pod. So an answer about one pod holds for all pods of the same label
set, and for all that agree in the labels that the selectors read.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from mooring.model.selectors import ExcludedPods, LabelRule, Selector


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


# ---- traits: what a selector may require of a pod. Indexes by trait find the few selectors and label sets that can match


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
    """The traits of which a pod must have one to meet a rule with In or Exists."""
    return [(rule.key, None)] if rule.operator == "Exists" else [(rule.key, value) for value in rule.values]


H = TypeVar("H", bound=Hashable)


class TraitIndex(Generic[H]):
    """Items by traits of which they require one.

    A pod has few traits, so of ten thousand selectors that each require a label of their own it meets few. Items that
    require nothing have to be tried on every pod.
    """

    def __init__(self) -> None:
        self.by_trait: dict[Trait, dict[H, None]] = {}
        self._others: dict[H, None] = {}
        self.traits_of: dict[H, set[Trait]] = {}

    def add(self, item: H, required: Iterable[Trait] | None) -> None:
        """An item that can only be meant by pods with one of these traits; None: by any pod."""
        if required is None:
            self._others[item] = None
            return
        self.traits_of[item] = traits = set(required)
        for trait in traits:
            self.by_trait.setdefault(trait, {})[item] = None

    def remove(self, item: H) -> None:
        """Nothing happens where the item is not there."""
        self._others.pop(item, None)
        for trait in self.traits_of.pop(item, ()):
            items = self.by_trait[trait]
            del items[item]
            if not items:
                del self.by_trait[trait]

    def candidates(self, label_set: LabelSet) -> list[H]:
        """The items that may be meant by pods of a label set, each once; no other is."""
        found, by_trait = dict(self._others), self.by_trait
        found.update(by_trait.get(("", label_set.namespace), ()))
        for label in label_set.labels.items():
            found.update(by_trait.get(label, ()))
            found.update(by_trait.get((label[0], None), ()))
        return list(found)


class LabelSetIndex:
    """Label sets by the traits that they have."""

    def __init__(self, members: dict[str, dict[str, dict[LabelSet, None]]] | None = None) -> None:
        self.members = {} if members is None else members
        """By key and value; those of a namespace are under an empty key."""

    def add(self, label_set: LabelSet) -> None:
        for key, value in (("", label_set.namespace), *label_set.labels.items()):
            self.members.setdefault(key, {}).setdefault(value, {})[label_set] = None

    def remove(self, label_set: LabelSet) -> None:
        for key, value in (("", label_set.namespace), *label_set.labels.items()):
            by_value = self.members[key]
            members = by_value[value]
            del members[label_set]
            if not members:
                del by_value[value]
                if not by_value:
                    del self.members[key]

    def having(self, traits: Iterable[Trait]) -> Iterable[LabelSet]:
        """The label sets that have one of these traits, each once."""
        found: dict[LabelSet, None] = {}
        for key, value in traits:
            by_value = self.members.get(key, {})
            for members in by_value.values() if value is None else (by_value.get(value, {}),):
                found.update(members)
        return found

    def clear(self) -> None:
        self.members.clear()

    def copy(self) -> "LabelSetIndex":
        return LabelSetIndex(
            {
                key: {value: dict(members) for value, members in by_value.items()}
                for key, by_value in self.members.items()
            }
        )
