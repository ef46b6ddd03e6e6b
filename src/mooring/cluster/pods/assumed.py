"""Objects as the scheduler is about to change them, on top of what the watch shows of them."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from mooring.cluster.nodes.table import ClusterError
from mooring.model.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class Assumed(Generic[T]):
    """Changed copies by key. A copy counts only while the watch shows the version that it was made of.

    Parity: versions are compared as text, so where objects have none a copy stays until it is restored.
    """

    def __init__(self, shown: Mapping[str, T]) -> None:
        self._shown = shown
        self._copies: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The object as it is assumed to be, or as the watch shows it."""
        shown = self._shown.get(key)
        copy = self._copies.get(key)
        if shown is None or copy is None:
            return shown
        return copy if _version(copy) == _version(shown) else shown

    def assume(self, copy: T) -> None:
        """From now on `get` returns this copy. Raises ClusterError if the copy was not made of the version that the
        watch shows: the decision for it rests on an old state. The words are upstream's."""
        shown = self._shown.get(copy.key)
        if shown is None:
            raise ClusterError(f'could not find {type(copy).__name__} "{copy.key}"')
        if _version(shown) != _version(copy):
            said = f"stored: {_version(shown)}, assume: {_version(copy)}"
            raise ClusterError(f'{type(copy).__name__} "{copy.key}" is out of sync ({said})')
        self._copies[copy.key] = copy

    def restore(self, key: str) -> None:
        """The copy is no longer what the object is going to be; nothing happens where there is none."""
        self._copies.pop(key, None)

    def refresh(self, key: str) -> None:
        """The watch showed the object anew, or its removal."""
        shown, copy = self._shown.get(key), self._copies.get(key)
        if copy is not None and (shown is None or _version(shown) != _version(copy)):
            del self._copies[key]

    def keys(self) -> set[str]:
        return set(self._copies)

    def adopt(self, other: "Assumed[T]") -> list[str]:
        """Assume what another view of the same objects assumes, and nothing else. Returns the keys that changed."""
        ours, theirs = self._copies, other._copies
        changed = [key for key in {**ours, **theirs} if ours.get(key) is not theirs.get(key)]
        self._copies = dict(theirs)
        return changed


def _version(item: KubeObject) -> str:
    """As text: versions of Kubernetes objects are opaque, so only equality means something."""
    return item.metadata.resource_version or ""
