"""Kin: a namespace with a set of labels, interned, so identity is equality. No selector tells two pods of one kin apart."""

from collections.abc import Mapping
from weakref import WeakValueDictionary


class Kin:
    """A namespace and a set of labels."""

    __slots__ = ("__weakref__", "labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels


_kins: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...]], Kin] = WeakValueDictionary()


def kin_of(namespace: str, labels: Mapping[str, str]) -> Kin:
    key = (namespace, tuple(sorted(labels.items())))
    kin = _kins.get(key)
    if kin is None:
        kin = _kins[key] = Kin(namespace, labels)
    return kin
