"""The functions that expressions may call. Each has overloads, which differ by the types of their parameters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mooring.cel.values import Defaulting, Extension, Fault, Maybe, Type, Uint, read_type, read_types

Act = Callable[..., Any]
"""Arguments in, value or Fault out. Evaluation never calls it with a Fault as an argument."""


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function. `id` is cel-go's, because costs are looked up by it."""

    id: str
    function: str
    params: tuple[Type, ...]
    result: Type
    act: Act
    is_member: bool = False

    @property
    def is_generic(self) -> bool:
        """Whether a type variable is in its signature, so that each call needs fresh variables."""
        return any(map(_has_variable, (*self.params, self.result)))


def plain(overload_id: str, function: str, params: str, result: str, act: Act) -> Overload:
    """An overload that is called as `function(a, b)`; types are written as in `map(string, list(A))`."""
    return Overload(overload_id, function, read_types(params), read_type(result), act)


def member(overload_id: str, function: str, params: str, result: str, act: Act) -> Overload:
    """An overload that is called as `a.function(b)`: the first parameter is the receiver."""
    return replace(plain(overload_id, function, params, result, act), is_member=True)


def succeeds(read: Act) -> Act:
    """The function `isX` of a function that reads an X: whether it returns no Fault."""
    return lambda *args: read(*args).__class__ is not Fault


def _has_variable(kind: Type) -> bool:
    return kind.is_variable or any(map(_has_variable, kind.params))


class Library:
    """All functions by name. Several groups may declare overloads of one function."""

    def __init__(self, overloads: Iterable[Overload]) -> None:
        self._functions: dict[str, list[Overload]] = {}
        self._acts: dict[tuple[Any, ...], Act | None] = {}
        for overload in overloads:
            self._functions.setdefault(overload.function, []).append(overload)

    def overloads(self, function: str) -> Sequence[Overload] | None:
        return self._functions.get(function)

    def act_of(self, function: str, is_member: bool, args: Sequence[Any]) -> Act | None:
        """The implementation for these arguments, by their types at run time; None if no overload accepts them.

        Hot: every call of an expression asks, so that the answer is kept for each combination of types.
        """
        key = (function, is_member, *map(_kind_of, args))
        try:
            return self._acts[key]
        except KeyError:
            found = (each.act for each in self._functions[function] if _accepts(each, is_member, args))
            act = self._acts[key] = next(found, None)
            return act


def _kind_of(value: Any) -> Any:
    """The part of a value that decides between overloads. For a list, its first element stands for all: overloads tell
    lists apart by the type of their elements."""
    kind = value.__class__
    if kind is list:
        return (list, value[0].__class__ if value else None)
    if isinstance(value, Extension):
        return value.type
    return kind


def _accepts(overload: Overload, is_member: bool, args: Sequence[Any]) -> bool:
    if overload.is_member is not is_member or len(overload.params) != len(args):
        return False
    return all(map(_is_of, overload.params, args))


_CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "uint": (Uint,),
    "double": (float,),
    "string": (str,),
    "bytes": (bytes,),
    "null": (type(None),),
    "list": (list,),
    "map": (dict, Defaulting),
    "optional_type": (Maybe,),
}


def _is_of(kind: Type, value: Any) -> bool:
    """Whether a value has a type. A list is judged by its first element, and an empty list has every list type."""
    if kind.is_variable or kind.name == "dyn":
        return True
    if isinstance(value, Extension):
        return value.type.name == kind.name
    if value.__class__ not in _CLASSES.get(kind.name, ()):
        return False
    return not isinstance(value, list) or not value or _is_of(kind.params[0], value[0])
