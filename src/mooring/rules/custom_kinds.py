"""The kinds of a CustomResourceDefinition as KindSpecs, one for each served version, and the faults of its schemas."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mooring.api.api_errors import Cause, field_invalid
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import AGE, NAME, OF_METADATA, Cell, Column, KindSpec, ScalePaths, since, text_at
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.custom_resources import (
    SCHEMA,
    definition_faults,
    first_at,
    read_json_path,
    storage_version,
    stored_version_faults,
)
from mooring.api.schema.discovery import version_rank
from mooring.api.structural_schema import PRESERVE, Schema, known_part, nodes_of, read_schema
from mooring.rules.schema_expressions import SchemaRules, rule_faults
from mooring.rules.schema_values import fill_defaults, pattern_fault, validate_value

_BLOCKING = (
    *("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"),
    "FieldValueTypeInvalid",
)
"""Faults after which rules are not evaluated: they rely on types, and on the limits of sizes."""
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors "
    "to complete validation"
)
_OPEN = read_schema({"type": "object", PRESERVE: True}, "")[0]
"""The schema of a version without one."""

# ---- faults of a definition


def all_definition_faults(old: JsonObject, new: JsonObject) -> list[Cause]:
    """Why an API server rejects a definition; `old` is empty for a new one. Schemas that are stored already are not looked at
    again."""
    faults = validate_value(SCHEMA, new)
    if faults:
        return faults
    faults = [*definition_faults(new), *_overlaps(new["spec"]), *stored_version_faults(old, new)]
    known = _schemas(old)
    for written, path in _placed_schemas(_schemas(new)):
        if isinstance(written, dict) and written not in known:
            faults += _schema_faults(written, f"{path}.openAPIV3Schema")
    return faults


def _schemas(definition: JsonObject) -> list[Any]:
    return [at(version, "schema.openAPIV3Schema") for version in at(definition, "spec.versions", ())]


def _placed_schemas(schemas: list[Any]) -> list[tuple[Any, str]]:
    """Schemas with their paths. Parity: if all versions have the same schema, it is checked once, as that of the kind."""
    if all(schema == schemas[0] for schema in schemas):
        return [(schemas[0], "spec.validation")]
    return [(schema, f"spec.versions[{i}].schema") for i, schema in enumerate(schemas)]


def _overlaps(spec: JsonObject) -> list[Cause]:
    """A definition of a kind that Kubernetes has would share its objects, and take them along when it goes."""
    plural = spec["names"]["plural"]
    storage = f"{spec['group']}/{plural}"
    if not any(kind.storage == storage for kind in RESOURCES.values()):
        return []
    return [field_invalid("spec.names.plural", plural, f"the server has {plural}.{spec['group']} of its own")]


def _schema_faults(written: JsonObject, path: str) -> list[Cause]:
    schema, faults = read_schema(written, path, pattern_fault)
    return faults or [*_default_faults(schema, path), *rule_faults(schema, path)]


def _default_faults(schema: Schema, path: str) -> Iterator[Cause]:
    """A default must be valid where it stands, and have no unknown fields."""
    for node, place in nodes_of(schema, path):
        if node.default is None:
            continue
        unknown: list[Any] = []
        known_part(node, node.default, unknown)
        if unknown:
            yield field_invalid(f"{place}.default", node.default, "must not have unknown fields")
        for fault in validate_value(node, node.default):
            inner = "" if fault.field in ("", "<nil>") else f".{fault.field}"
            yield Cause(fault.reason, fault.message, f"{place}.default{inner}")


# ---- kinds


def kinds_of(definition: JsonObject) -> list[KindSpec]:
    """The kinds that a definition adds, the preferred version first."""
    spec = definition["spec"]
    fixed = {key: spec["names"][key] for key in ("plural", "kind")}  # whatever a client writes into the status
    names = at(definition, "status.acceptedNames", {}) | fixed
    stored = f"{spec['group']}/{storage_version(definition)}"
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_rank(version["name"]))
    return [_kind(definition["metadata"]["name"], spec, names, version, stored) for version in served]


def _kind(definition: str, spec: JsonObject, names: JsonObject, version: JsonObject, stored: str) -> KindSpec:
    written = at(version, "schema.openAPIV3Schema")
    schema = read_schema(written, "")[0] if isinstance(written, dict) else _OPEN
    new_faults, change_faults = _checks(schema)
    own = f"{spec['group']}/{version['name']}"
    return KindSpec(
        *(spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced"),
        tuple(names.get("shortNames", ())),
        tuple(names.get("categories", ())),
        tuple(part for part in ("scale", "status") if at(version, f"subresources.{part}") is not None),
        stored_version="" if own == stored else stored,
        definition=definition,
        schema=schema,
        singular_name=names.get("singular", ""),
        list_kind_name=names.get("listKind", ""),
        complete=partial(fill_defaults, schema),
        completes_status=True,
        has_generation=True,
        needs_version=True,
        new_faults=new_faults,
        change_faults=change_faults,
        status_faults=change_faults,
        scale=_scale(at(version, "subresources.scale", {})),
        field_labels={**OF_METADATA, **_selectable(version)},
        columns=(NAME, *map(_column, version["additionalPrinterColumns"]))
        if version.get("additionalPrinterColumns")
        else (NAME, AGE),
    )


def _checks(
    schema: Schema,
) -> tuple[Callable[[JsonObject], list[Cause]], Callable[[JsonObject, JsonObject], list[Cause]]]:
    """The checks of a new object and of a change: the schema, then its rules."""
    rules = SchemaRules(schema)

    def check(new: JsonObject, *old: JsonObject) -> list[Cause]:
        faults = validate_value(schema, new, *old)
        if rules.is_empty:
            return faults
        if any(fault.reason in _BLOCKING for fault in faults):
            return [*faults, Cause("FieldValueInvalid", _NOT_CHECKED, "<nil>")]
        return [*faults, *rules.faults(new, *old)]

    return check, lambda old, new: check(new, old)


def _scale(written: JsonObject) -> ScalePaths:
    """The paths of a scale subresource, which begin with a dot in the definition."""
    if not written:
        return ScalePaths()
    keys = ("specReplicas", "statusReplicas", "labelSelector")
    replicas, current, selector = (written.get(f"{key}Path", "").removeprefix(".") for key in keys)
    return ScalePaths(replicas, current, selector)


def _selectable(version: JsonObject) -> dict[str, Any]:
    paths = [entry["jsonPath"].removeprefix(".") for entry in version.get("selectableFields", ())]
    return {path: text_at(path) for path in paths}


# ---- columns


def _column(written: JsonObject) -> Column:
    path, kind = read_json_path(written["jsonPath"]), written["type"]
    said = (
        written.get("description") or f"Custom resource definition column (in JSONPath format): {written['jsonPath']}"
    )

    def cell(item: JsonObject, now_ns: int) -> Cell:
        return _cell(first_at(path, item), kind, now_ns)

    return Column(written["name"], cell, written.get("priority", 0), kind, written.get("format", ""), said)


def _cell(value: Any, kind: str, now_ns: int) -> Cell:
    """A value in a column of a type; None where it has another one, as upstream has it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "date":
            return since(value, now_ns) if isinstance(value, str) else None
        case "integer":
            return int(value) if is_number else None
        case "number":
            return float(value) if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
    return None if value is None else _text(value)


def _text(value: Any) -> str:
    """A value as Go's JSONPath prints it: JSON for what is no text."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
