"""A property whose value is computed on the first access and then kept in the object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Like functools.cached_property, for use by one thread.

    The value replaces the descriptor in the object's `__dict__`, so that later accesses do not come here. The class must
    therefore have a `__dict__`, and what the value depends on must not change.

    Hot: before Python 3.12 cached_property takes a lock on every first access, which costs more than computing most of
    the values here.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, item: None, owner: type) -> "lazy[T]": ...
    @overload
    def __get__(self, item: object, owner: type) -> T: ...
    def __get__(self, item: Any, owner: type) -> Any:
        if item is None:
            return self
        value = item.__dict__[self._name] = self._work_out(item)
        return value
