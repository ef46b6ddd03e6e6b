"""Error messages for a configuration, with upstream's texts: operators search the web for these texts."""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

import msgspec

from mooring.framework.config.durations import Duration
from mooring.model.selectors import aggregated

Stage = Literal["decode", "validate", "build"]
"""Where a configuration was refused; upstream's texts differ between these."""


class ConfigError(ValueError):
    """A configuration that is refused, at one of three stages.

    Decoding stops at the first fault of its kind, validation lists them all, building names the first one met.
    `source` is where the text came from, for callers that show it; it is no part of the message.
    """

    def __init__(self, stage: Stage, problems: Iterable[str], source: str = "") -> None:
        self.stage: Stage = stage
        self.problems = list(problems)
        self.source = source
        super().__init__(aggregated(self.problems))


def invalid(path: str, value: object, why: str) -> str:
    """A value that is wrong. This function and the next four have the formats of upstream's field.Error."""
    return f"{path}: Invalid value: {show(value)}: {why}"


def required(path: str, why: str = "") -> str:
    return f"{path}: Required value: {why}" if why else f"{path}: Required value"


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {show(value)}"


def forbidden(path: str, why: str) -> str:
    return f"{path}: Forbidden: {why}"


def unsupported(path: str, value: object, supported: Iterable[str]) -> str:
    return f"{path}: Unsupported value: {show(value)}: supported values: {', '.join(map(quote, supported))}"


def quote(text: str) -> str:
    """Go's %q, as far as names and values need it."""
    return json.dumps(text, ensure_ascii=False)


def show(value: object) -> str:
    """A value as upstream prints it: JSON, with the names of its Go fields where it is a structure."""
    return json.dumps(_in_go(value), ensure_ascii=False, separators=(",", ":"))


def _in_go(value: object) -> Any:
    """Parity: upstream shows its internal types, which have no JSON names, and an empty list there is a nil slice."""
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {go_name: _in_go_field(getattr(value, name)) for name, go_name in _go_fields(type(value))}
    if isinstance(value, list):
        return [_in_go(item) for item in value]
    return value


@cache
def _go_fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a structure with their names in Go."""
    return tuple((field.name, _capital(field.encode_name)) for field in msgspec.structs.fields(struct))


def _in_go_field(value: object) -> Any:
    """An empty list is a nil slice in Go, which prints as null."""
    return None if value == [] else _in_go(value)


def _capital(name: str) -> str:
    """The Go field behind a JSON name."""
    return name[:1].upper() + name[1:]
