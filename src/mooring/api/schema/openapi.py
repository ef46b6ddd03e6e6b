"""OpenAPI v3: the schemas of all served kinds, made from the table of fields, and the operations that kubectl looks
for.

kubectl explains kinds by the schemas (which have no descriptions), sees by the parameters of PATCH that the server
validates fields, and `kubectl apply` merges by the rules that stand beside the fields: those of `merge_keys`. Documents
are made once and shared: a caller must not change one.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec, ListRule
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.api.patches.merge_keys import Names, is_atomic, is_replaced, list_rule
from mooring.api.schema.discovery import VERSION
from mooring.api.schema.fields import (
    ANYTHING,
    Field,
    core_of,
    fields_of,
    full_name,
    is_list,
    is_map,
    is_type,
    part_of,
    type_of,
)

ROOT = "/openapi/v3"

_QUERY = ("dryRun", "fieldManager", "fieldValidation", "force")
"""The parameters of a write that kubectl looks for."""
_PATCH_TYPES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
_MACHINERY = "io.k8s.apimachinery.pkg"
PATCH = f"{_MACHINERY}.apis.meta.v1.Patch"

_NAMED_VALUES: dict[str, tuple[str, JsonObject]] = {
    "quantity": (f"{_MACHINERY}.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int-or-string": (
        f"{_MACHINERY}.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (f"{_MACHINERY}.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
    "micro-time": (f"{_MACHINERY}.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "fields-v1": (f"{_MACHINERY}.apis.meta.v1.FieldsV1", {"type": "object"}),
    ANYTHING: (f"{_MACHINERY}.runtime.RawExtension", {"type": "object"}),
}
"""Plain values that have a schema of their own: what it is called, and what it says."""

_RETAINED = frozenset(
    (
        *(("core.PodSpec", "volumes"), ("core.PodSpec", "resourceClaims")),
        *(("core.PodStatus", "resourceClaimStatuses"), ("apps.DeploymentSpec", "strategy")),
    )
)
"""Unions: when one of them is patched, fields that the patch does not name go, or two of its members would stay."""


def index() -> JsonObject:
    """`/openapi/v3`: where the document of each group and version is, with a hash by which kubectl caches it."""
    return {"paths": {path: {"serverRelativeURL": f"{ROOT}/{path}?hash={_hash(path)}"} for path in _kinds()}}


def document(path: str) -> JsonObject | None:
    """The document behind `/openapi/v3/<path>`, such as `api/v1` or `apis/apps/v1`; None if there is none."""
    return _document(path) if path in _kinds() else None


def all_documents() -> Iterator[JsonObject]:
    """The documents of all groups and versions."""
    return map(_document, _kinds())


@cache
def _kinds() -> dict[str, list[KindSpec]]:
    """All kinds whose fields are known, by the path of their document."""
    found: dict[str, list[KindSpec]] = {}
    for resource in (*RESOURCES.values(), *REQUESTS):
        if is_type(type_of(resource)):
            found.setdefault(resource.path.strip("/"), []).append(resource)
    return found


@cache
def _document(path: str) -> JsonObject:
    """The document of one group and version."""
    kinds = _kinds()[path]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": {url: item for resource in kinds for url, item in _operations(resource)},
        "components": {"schemas": _schemas(kinds)},
    }


@cache
def _hash(path: str) -> str:
    """What kubectl caches a document under: another document has another hash."""
    return hashlib.sha512(msgspec.json.encode(_document(path))).hexdigest().upper()


# ---- operations


def _operations(resource: KindSpec) -> Iterator[tuple[str, JsonObject]]:
    """The paths of a collection and of one object, each with the operations whose parameters kubectl looks at."""
    scope = ("namespace",) if resource.namespaced else ()
    collection = f"{resource.path}{'/namespaces/{namespace}' if scope else ''}/{resource.plural}"
    yield collection, _path_parameters(scope) | {"post": _operation(resource, "post")}
    if resource not in REQUESTS:
        operations = {verb: _operation(resource, verb) for verb in ("put", "patch")}
        yield f"{collection}/{{name}}", _path_parameters((*scope, "name")) | operations


def _path_parameters(names: Iterable[str]) -> JsonObject:
    made = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {"parameters": made} if made else {}


def _operation(resource: KindSpec, action: str) -> JsonObject:
    """One verb of a path."""
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _identity(resource),
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}}
            for name in _QUERY
            if action == "patch" or name != "force"
        ],
        "requestBody": {"required": True, "content": _content(resource, action)},
        "responses": {"200": {"description": "OK"}},
    }


def _content(resource: KindSpec, action: str) -> JsonObject:
    """What a request may send: the object, or a patch of any type."""
    if action == "patch":
        return {f"application/{name}": {"schema": _reference(PATCH)} for name in _PATCH_TYPES}
    return {"application/json": {"schema": _reference(full_name(type_of(resource)))}}


def _identity(resource: KindSpec) -> dict[str, str]:
    """How schemas and operations name a kind."""
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


# ---- schemas


def _schemas(kinds: Iterable[KindSpec]) -> dict[str, JsonObject]:
    """The schemas of some kinds and of all types that they are made of, by their full names."""
    made: dict[str, JsonObject] = {PATCH: {"type": "object"}}
    for resource in kinds:
        _add_schemas(made, type_of(resource))
        made[full_name(type_of(resource))]["x-kubernetes-group-version-kind"] = [_identity(resource)]
    return made


def _add_schemas(made: dict[str, JsonObject], name: str) -> None:
    """The schema of a type, and of all that it is made of."""
    if name in _NAMED_VALUES:
        full, schema = _NAMED_VALUES[name]
        made[full] = schema
    elif is_type(name) and full_name(name) not in made:
        made[full_name(name)] = _schema(name)
        for field in fields_of(name).values():
            _add_schemas(made, core_of(field.holds))


def _schema(name: str) -> JsonObject:
    """One type as an object with properties."""
    fields = fields_of(name)
    schema = {
        "type": "object",
        "required": [field for field, held in fields.items() if held.is_required],
        "properties": {field: _property(name, field, held) for field, held in fields.items()},
    }
    return {key: value for key, value in schema.items() if value}


def _property(name: str, field: str, held: Field) -> JsonObject:
    """One field: what it holds, with the rules by which patches merge it."""
    schema, rules = _value(held.holds), _merge_rules().get((name, field), {})
    # Nothing may stand beside a reference.
    return {"allOf": [schema], **rules} if rules and "$ref" in schema else schema | rules


def _value(holds: str) -> JsonObject:
    """The schema of what a field holds."""
    if is_list(holds):
        return {"type": "array", "items": _value(part_of(holds))}
    if is_map(holds):
        return {"type": "object", "additionalProperties": _value(part_of(holds))}
    if is_type(holds):
        return _reference(full_name(holds))
    return _reference(_NAMED_VALUES[holds][0]) if holds in _NAMED_VALUES else {"type": holds}


def _reference(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


# ---- how fields are merged


@cache
def _merge_rules() -> dict[tuple[str, str], JsonObject]:
    """By type and field. `merge_keys` goes by the way to a field, so all ways are gone; a test sees that they agree."""
    found: dict[tuple[str, str], JsonObject] = {}
    for name, field, way in ways():
        if rules := _rules(name, field, way):
            found[name, field] = rules
    return found


def ways() -> Iterator[tuple[str, str, Names]]:
    """Each field of each type, with a way to it for each that `merge_keys` could tell apart."""
    gone: set[tuple[str, Names]] = set()
    for resource in RESOURCES.values():
        yield from _ways(type_of(resource), (resource.kind,), gone)


def _ways(name: str, way: Names, gone: set[tuple[str, Names]]) -> Iterator[tuple[str, str, Names]]:
    """All ways into a type. `merge_keys` looks at the last three names, so a type that was reached by the same last two
    is not entered again."""
    if not is_type(name) or (name, way[-2:]) in gone:
        return
    gone.add((name, way[-2:]))
    for field, held in fields_of(name).items():
        yield name, field, (*way, field)
        yield from _ways(core_of(held.holds), (*way, field), gone)


def _rules(name: str, field: str, way: Names) -> JsonObject:
    """The extensions by which clients merge one field."""
    if is_list(fields_of(name)[field].holds):
        rules = _list_rules(list_rule(way))
    else:
        rules = {"map-type": "atomic"} if is_atomic(way) else {}
        rules |= {"patch-strategy": "replace"} if is_replaced(way) else {}
    if (name, field) in _RETAINED:
        rules["patch-strategy"] = ",".join(filter(None, (rules.get("patch-strategy"), "retainKeys")))
    return {f"x-kubernetes-{rule}": value for rule, value in rules.items()}


def _list_rules(rule: ListRule) -> dict[str, Any]:
    """Server-side apply goes by list-type, strategic merge patches go by patch-strategy and patch-merge-key."""
    rules: dict[str, Any] = {"list-type": "atomic"}
    if rule.apply_keys is not None:
        rules = (
            {"list-type": "map", "list-map-keys": list(rule.apply_keys)} if rule.apply_keys else {"list-type": "set"}
        )
    if rule.patch_key:
        rules["patch-merge-key"] = rule.patch_key
    return rules if rule.patch_key is None else rules | {"patch-strategy": "merge"}
