"""What became of an object, and who wants to know."""

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mooring.model.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class ChangeListener(Protocol):
    """Told of every change, in the order in which changes come. A scheduler is one."""

    def added(self, item: Any) -> None: ...

    def updated(self, old: Any, new: Any) -> None:
        """Both are the same object: their uid is equal."""
        ...

    def removed(self, item: Any) -> None:
        """The object is as it was told last."""
        ...


class ObjectChange(NamedTuple, Generic[T]):
    """An object before and after: without `old` it is new, without `new` it is gone.

    Where the uids differ, one object has gone and another has taken its name.
    """

    old: T | None
    new: T | None


def tell(listener: ChangeListener, change: ObjectChange[T]) -> None:
    old, new = change
    if old is None:
        listener.added(new)
    elif new is None:
        listener.removed(old)
    elif old.metadata.uid == new.metadata.uid:
        listener.updated(old, new)
    else:
        listener.removed(old)
        listener.added(new)
