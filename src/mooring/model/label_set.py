"""A namespace with a set of labels, interned, so identity is equality: no selector tells two pods of one label set apart."""

from collections.abc import Mapping
from weakref import WeakValueDictionary


class LabelSet:
    """A namespace and a set of labels."""

    __slots__ = ("__weakref__", "labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels


_label_sets: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...]], LabelSet] = WeakValueDictionary()


def kin_of(namespace: str, labels: Mapping[str, str]) -> LabelSet:
    key = (namespace, tuple(sorted(labels.items())))
    label_set = _label_sets.get(key)
    if label_set is None:
        label_set = _label_sets[key] = LabelSet(namespace, labels)
    return label_set
