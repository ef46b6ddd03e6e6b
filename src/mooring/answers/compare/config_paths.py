"""Paths into a scheduler configuration: `profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type`.

A step is the name of a field, the index of an item, or the `name` of an item. The arguments of a plugin follow its name
directly. The types of the configuration say which fields there are, so a path may name a field that is not written.
"""

import copy
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from mooring.framework.config.args import args_kind
from mooring.framework.config.types import KubeSchedulerConfiguration, PluginConfig
from mooring.inputs.field_checks import nearest

_INDEX = re.compile(r"\[([^\]]*)\]")
_UNTYPED = inspect.AnyType()
"""The arguments of a plugin that has no Args kind: any field may be there."""
_NAMES_SHOWN = 20
SEED, LOAD = "seed", "load"
"""What can be varied beside fields of the configuration; hints name them too."""


class UnknownPath(ValueError):
    """A path that leads nowhere; the text says at which step, and what could be meant."""


def with_value(written: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a configuration, in the form of a file, with this value at the path. Raises UnknownPath.

    Whether the value is a good one is for those to say who read the result.
    """
    changed = copy.deepcopy(dict(written))
    steps = _INDEX.sub(r".\1", path).split(".")
    _set(changed, inspect.type_info(KubeSchedulerConfiguration), steps, value, path)
    return changed


def _set(there: Any, kind: inspect.Type, steps: Sequence[str], value: Any, path: str) -> None:
    """Follow the steps from `there`, which has this type, and set what the last one names."""
    kind = _bare(kind)
    if isinstance(kind, inspect.ListType):
        _set_item(there, kind.item_type, steps, value, path)
        return
    if kind is not _UNTYPED and not _is_section(kind):
        raise UnknownPath(f"{path}: the field before {steps[0]!r} has no fields of its own")
    step, rest = steps[0], steps[1:]
    field = _field(kind, step, path)
    if not rest:
        there[step] = value
        return
    below = there.setdefault(step, [] if isinstance(_bare(field), inspect.ListType) else {})
    if kind is _UNTYPED and isinstance(below, list):
        field = inspect.ListType(_UNTYPED)
    elif not isinstance(below, dict | list):
        raise UnknownPath(f"{path}: {step!r} has no fields of its own")
    _set(below, field, rest, value, path)


def _set_item(items: list[Any], kind: inspect.Type, steps: Sequence[str], value: Any, path: str) -> None:
    """Go on in the item that has this index or name. Names may have dots in them, so the longest one that is there counts."""
    names = {item["name"]: i for i, item in enumerate(items) if isinstance(item, dict) and "name" in item}
    for count in range(len(steps), 0, -1):
        step, rest = ".".join(steps[:count]), steps[count:]
        index = int(step) if step.isascii() and step.isdecimal() and len(step) < 10 else names.get(step)
        if index is not None and index < len(items):
            break
    else:
        raise UnknownPath(f"{path}: no item {steps[0]!r} among {len(items)}{_hint(steps[0], names, 'names')}")
    if not rest:
        items[index] = value
        return
    below, bare = items[index], _bare(kind)
    if isinstance(bare, inspect.StructType) and bare.cls is PluginConfig and rest[0] not in ("name", "args"):
        rest = ["args", *rest]
    if isinstance(bare, inspect.StructType) and bare.cls is PluginConfig and rest[0] == "args" and len(rest) > 1:
        args = args_kind(below["name"])
        _set(below.setdefault("args", {}), inspect.type_info(args) if args else _UNTYPED, rest[1:], value, path)
        return
    _set(below, bare, rest, value, path)


def _field(kind: inspect.Type, step: str, path: str) -> inspect.Type:
    """The type of a field."""
    if not isinstance(kind, inspect.StructType):
        return _UNTYPED
    fields = {field.encode_name: field.type for field in kind.fields}
    if step not in fields:
        beside = (SEED, LOAD) if kind.cls is KubeSchedulerConfiguration else ()
        raise UnknownPath(f"{path}: unknown field {step!r}{_hint(step, (*fields, *beside), 'fields')}")
    return fields[step]


def _hint(step: str, known: Collection[str], noun: str) -> str:
    meant = nearest(step, known)
    if meant:
        return f"; did you mean {meant}?"
    listed = [*known][:_NAMES_SHOWN]
    more = ", ..." if len(known) > len(listed) else ""
    return f"; the {noun} are {', '.join(listed)}{more}" if listed else ""


def _bare(kind: inspect.Type) -> inspect.Type:
    """A type without `| None` and without what is only for messages."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return _UNTYPED if isinstance(kind, inspect.AnyType) else kind


def _is_section(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType) and issubclass(kind.cls, msgspec.Struct)
