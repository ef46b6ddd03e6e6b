"""The published form of answers: structs whose fields are those of the JSON, in its order, with their types.

The forms are a public interface with a version: fields may be added, but not renamed or removed. docs/schemas is made from
them, with the texts below their fields (`make reference`).
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec

DECIMALS = 9
"""The precision of numbers that programs get: nanoseconds, and more digits than prices and shares have."""
ADDED = msgspec.Meta(extra_json_schema={"added": True})
"""The mark of a field that came after the first answers of this version: a schema does not require it."""

Count = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})]
Positive = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})]
"""A schema states the bounds. They are not checked when an answer is written: a wrong count must not cost the answer."""
Number = int | float
"""A number that is published as it is: 0 does not become 0.0."""


class Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An object of the JSON. A field that has a default is left out while it has this value."""

    def content(self) -> dict[str, Any]:
        """The object as plain data."""
        found: dict[str, Any] = rounded(msgspec.to_builtins(self))
        return found


class TupleForm(Form, frozen=True):
    """An object of the JSON that Python unpacks like a tuple."""

    def __iter__(self) -> Iterator[Any]:
        return iter(msgspec.structs.astuple(self))


class Published:
    """A working value that is published in another form than its own: its attributes and properties fill the fields of `form`
    that have their names."""

    __slots__ = ()

    form: ClassVar[type[Any]]
    """A `Form`."""

    def published(self) -> Any:
        """The value in its form. Raises msgspec.ValidationError for an attribute that is not of the type of its field."""
        return msgspec.convert(self, self.form, from_attributes=True)

    def content(self) -> dict[str, Any]:
        """The value as plain data."""
        found: Form = self.published()
        return found.content()


def rounded(value: Any) -> Any:
    """Plain data with rounded floats: sums of prices and shares end without the noise of the last bits."""
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value
