"""An object without the fields that its kind does not have: those are never stored."""

from typing import Any

from mooring.apiserver.schema.fields import fields_of, is_list, is_map, is_type, part_of, type_of
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec


def pruned(resource: KindSpec, item: JsonObject) -> JsonObject:
    left: JsonObject = _pruned(item, type_of(resource))
    return left


def _pruned(value: Any, holds: str) -> Any:
    """A value of the wrong form is left as it is, for others to refuse."""
    if isinstance(value, list) and is_list(holds):
        return [_pruned(inner, part_of(holds)) for inner in value]
    if not isinstance(value, dict):
        return value
    if is_map(holds):
        return {name: _pruned(inner, part_of(holds)) for name, inner in value.items()}
    if not is_type(holds):
        return value
    known = fields_of(holds)
    return {name: _pruned(inner, known[name].holds) for name, inner in value.items() if name in known}
