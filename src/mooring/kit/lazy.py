"""Values that are worked out when first asked for, and kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Like functools.cached_property, for one thread.

    Hot: before Python 3.12 that one takes a lock for every first look, which costs more than most of our values.
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
