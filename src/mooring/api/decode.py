"""Decoding: from plain data to typed objects.

msgspec decodes fast and stops at the first fault. An object that it rejects is walked a second time beside its schema, so
that a user learns all faults at once, each with its path, and so that null means what it means in Kubernetes.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from mooring.api.kinds import kind_of
from mooring.api.validation.problem import Problem, at_key, show
from mooring.model.meta import KubeObject, Wire

T = TypeVar("T", bound=Wire)

_QUANTITY = {inspect.StrType, inspect.IntType, inspect.FloatType}
_SCALARS: Mapping[type, tuple[type, str, Any]] = {
    inspect.StrType: (str, "a string", ""),
    inspect.IntType: (int, "an integer", 0),
    inspect.FloatType: (float, "a number", 0),
    inspect.BoolType: (bool, "true or false", False),
}
"""Type of the schema -> (type in Python, its name in messages, what null stands for)."""


def decode(kind: str, written: Any) -> tuple[KubeObject | None, list[Problem]]:
    """The object of a known kind, or every mismatch between the data and the form of that kind."""
    known = kind_of(kind)
    if known is None:
        return None, [Problem("kind", show(kind), "a kind that Mooring reads")]
    return decode_as(known.struct, written)


def decode_as(struct: type[T], written: Any) -> tuple[T | None, list[Problem]]:
    """As `decode`, for a given struct. As in Kubernetes, null means the same as leaving the field out."""
    try:
        return msgspec.convert(written, struct), []
    except msgspec.ValidationError:
        walk = _Walk()
        cleaned = walk.take(written, _form(struct), "")
    if walk.problems:
        return None, walk.problems
    try:
        return msgspec.convert(cleaned, struct), []
    except msgspec.ValidationError as error:
        # The walk covers all types that our structs use; for anything else the message is msgspec's.
        return None, [Problem("", f"does not have the form of a {struct.__name__}: {error}")]


def decode_json(raw: bytes | msgspec.Raw, kind: str) -> KubeObject:
    """The object in a JSON text. Raises msgspec's errors, without the second walk.

    Hot: decoding straight from text to struct; watch events of a live server take this way.
    """
    return _decoder(kind).decode(raw)


@cache
def _decoder(kind: str) -> msgspec.json.Decoder[KubeObject]:
    known = kind_of(kind)
    if known is None:
        raise msgspec.ValidationError(f"{kind} is not a kind that Mooring reads")
    return msgspec.json.Decoder(known.struct)


@cache
def _form(struct: type) -> inspect.Type:
    return inspect.type_info(struct)


class _Walk:
    """A walk over an object beside its schema. It collects problems, and returns the object without nulls."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def take(self, value: Any, form: inspect.Type, path: str) -> Any:
        """The value as the schema wants it; what does not fit becomes a problem and None.

        Unknown fields of an object are skipped, and null counts as missing.
        """
        match form:
            case inspect.StructType() if isinstance(value, dict):
                names = ((field.encode_name, field.type) for field in form.fields)
                present = [(name, inner) for name, inner in names if value.get(name) is not None]
                return {name: self.take(value[name], inner, at_key(path, name)) for name, inner in present}
            case inspect.DictType() if isinstance(value, dict):
                return {
                    key: self._take_part(entry, form.value_type, self._place(path, key)) for key, entry in value.items()
                }
            case inspect.ListType() if isinstance(value, list | tuple):
                return [self._take_part(item, form.item_type, f"{path}[{i}]") for i, item in enumerate(value)]
            case inspect.UnionType():
                return self._take_union(value, form, path)
            case inspect.AnyType():
                return value
        return self._take_scalar(value, form, (form,), path)

    def _take_part(self, value: Any, form: inspect.Type, path: str) -> Any:
        """An entry of a map or an item of a list."""
        return _null(form) if value is None else self.take(value, form, path)

    def _place(self, path: str, key: Any) -> str:
        """The path of an entry of a map."""
        place = at_key(path, str(key))
        if not isinstance(key, str):
            self.problems.append(Problem(place, f"the key {show(key)}", "a string as key"))
        return place

    def _take_union(self, value: Any, form: inspect.UnionType, path: str) -> Any:
        choices = [choice for choice in form.types if not isinstance(choice, inspect.NoneType)]
        if len(choices) == 1:
            return self.take(value, choices[0], path)
        return self._take_scalar(value, form, choices, path)

    def _take_scalar(self, value: Any, form: inspect.Type, choices: Sequence[inspect.Type], path: str) -> Any:
        """A float without a fraction passes for an integer: not every writer of YAML and JSON tells the two apart."""
        if any(_is_scalar(value, choice) for choice in choices):
            return value
        if isinstance(value, float) and value.is_integer() and any(_is_scalar(0, choice) for choice in choices):
            return int(value)
        self.problems.append(Problem(path, show(value), _describe(form)))
        return None


def _is_scalar(value: Any, form: inspect.Type) -> bool:
    if type(form) not in _SCALARS:
        return False
    wanted = _SCALARS[type(form)][0]
    return type(value) is wanted or (wanted is float and type(value) is int)


def _null(form: inspect.Type) -> Any:
    """The value for a null inside a list or a map, where leaving it out would shift or lose entries: Go's zero value."""
    match form:
        case inspect.StructType() | inspect.DictType():
            return {}
        case inspect.ListType():
            return []
        case inspect.UnionType():
            return 0 if {type(choice) for choice in form.types} >= _QUANTITY else None
    return _SCALARS[type(form)][2] if type(form) in _SCALARS else None


def _describe(form: inspect.Type) -> str:
    """Describe a schema in the words of a message."""
    match form:
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case inspect.ListType():
            return "a list"
        case inspect.UnionType():
            if {type(choice) for choice in form.types} >= _QUANTITY:
                return "a quantity, e.g. 500m, 2 or 1.5Gi"
            return " or ".join(_describe(choice) for choice in form.types if not isinstance(choice, inspect.NoneType))
    return _SCALARS[type(form)][1]
