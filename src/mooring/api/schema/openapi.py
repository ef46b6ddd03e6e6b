"""OpenAPI v3 and v2: the schemas of all served kinds, made from the table of fields, and the operations that kubectl looks
for.

kubectl explains kinds by the schemas, sees by the parameters of PATCH that the server
validates fields, and `kubectl apply` merges by the rules that stand beside the fields. Documents
are made once and shared: a caller must not change one.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from mooring.api.fields import (
    ANYTHING,
    Field,
    core_of,
    descriptions,
    fields_of,
    full_name,
    is_list,
    is_map,
    is_type,
    part_of,
    table,
    type_of,
)
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.api.schema.discovery import VERSION

ROOT = "/openapi/v3"

_QUERY = ("dryRun", "fieldManager", "fieldValidation", "force")
"""The parameters of a write that kubectl looks for."""
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


def index() -> JsonObject:
    """`/openapi/v3`: where the document of each group and version is, with a hash by which kubectl caches it."""
    return {"paths": {path: _link(path, _hash(path)) for path in _kinds()}}


def _link(path: str, hashed: str) -> JsonObject:
    return {"serverRelativeURL": f"{ROOT}/{path}?hash={hashed}"}


def document(path: str) -> JsonObject | None:
    """The document behind `/openapi/v3/<path>`, such as `api/v1` or `apis/apps/v1`; None if there is none."""
    return _document(path) if path in _kinds() else None


@cache
def _kinds() -> dict[str, list[KindSpec]]:
    """All kinds whose fields are known, by the path of their document."""
    found: dict[str, list[KindSpec]] = {}
    for resource in (*RESOURCES.values(), *REQUESTS):
        if is_type(type_of(resource)) or resource.schema is not None:
            found.setdefault(resource.path.strip("/"), []).append(resource)
    return found


@cache
def _document(path: str) -> JsonObject:
    """The document of one group and version."""
    return _described(_kinds()[path])


def _described(kinds: Iterable[KindSpec]) -> JsonObject:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": {url: item for resource in kinds for url, item in _operations(resource)},
        "components": {"schemas": _schemas(kinds)},
    }


@cache
def _hash(path: str) -> str:
    """The hash under which kubectl caches a document: another document has another hash."""
    return _hashed(_document(path))


def _hashed(document: JsonObject) -> str:
    return hashlib.sha512(msgspec.json.encode(document)).hexdigest().upper()


# ---- documents of custom kinds


class CustomDocuments:
    """The documents of the custom kinds of one server. They are made when a client asks; hashes are kept."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[list[KindSpec], str]] = {}
        """By path, the kinds that a document was made of, and its hash."""

    def index(self, custom: Iterable[KindSpec]) -> JsonObject:
        """`/openapi/v3` with the documents of custom kinds."""
        by_path = _by_path(custom)
        self._hashes = {path: self._known(path, kinds) for path, kinds in by_path.items()}
        links = {path: _link(path, hashed) for path, (_, hashed) in self._hashes.items()}
        return {"paths": links | index()["paths"]}

    def document(self, path: str, custom: Iterable[KindSpec]) -> JsonObject | None:
        """One document, of kinds of Kubernetes or of custom ones; None if there is none."""
        found = document(path)
        kinds = _by_path(custom).get(path) if found is None else None
        return found if kinds is None else _described(kinds)

    def _known(self, path: str, kinds: list[KindSpec]) -> tuple[list[KindSpec], str]:
        held = self._hashes.get(path)
        return held if held is not None and held[0] == kinds else (kinds, _hashed(_described(kinds)))


def _by_path(custom: Iterable[KindSpec]) -> dict[str, list[KindSpec]]:
    found: dict[str, list[KindSpec]] = {}
    for resource in custom:
        found.setdefault(resource.path.strip("/"), []).append(resource)
    return found


def _custom_schema(resource: KindSpec) -> JsonObject:
    """The schema of a kind as its definition has it, with the fields that every object has."""
    assert resource.schema is not None
    written = resource.schema.written
    shared: JsonObject = {name: {"type": "string"} for name in ("apiVersion", "kind")}
    shared["metadata"] = _reference(full_name("meta.ObjectMeta"))
    properties = {**shared, **written.get("properties", {}), "metadata": shared["metadata"]}
    return {**written, "properties": properties}


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
    """The content that a request may send: the object, or a patch. kubectl sends the type of patch that it finds here."""
    if action == "patch":
        return {name: {"schema": _reference(PATCH)} for name in resource.patches}
    return {"application/json": {"schema": _reference(_schema_name(resource))}}


def _schema_name(resource: KindSpec) -> str:
    """The full name of the schema of a kind. Custom kinds have their group backwards, as upstream names them."""
    if resource.schema is None:
        return full_name(type_of(resource))
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _identity(resource: KindSpec) -> dict[str, str]:
    """How schemas and operations name a kind."""
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


# ---- schemas


def _schemas(kinds: Iterable[KindSpec]) -> dict[str, JsonObject]:
    """The schemas of some kinds and of all types that they are made of, by their full names."""
    made: dict[str, JsonObject] = {PATCH: {"type": "object"}}
    for resource in kinds:
        name = _schema_name(resource)
        if resource.schema is None:
            _add_schemas(made, type_of(resource))
        else:
            _add_schemas(made, "meta.ObjectMeta")
            made[name] = _custom_schema(resource)
        made[name]["x-kubernetes-group-version-kind"] = [_identity(resource)]
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
        "description": descriptions().get((name, "")),
        "type": "object",
        "required": [field for field, held in fields.items() if held.is_required],
        "properties": {field: _property(name, field, held) for field, held in fields.items()},
        **_extensions(name),
    }
    return {key: value for key, value in schema.items() if value}


def _property(name: str, field: str, held: Field) -> JsonObject:
    """One field: what it holds, with the rules by which patches merge it."""
    schema, rules = _value(held.holds), _extensions(name, field)
    said = descriptions().get((name, field))
    rules = {"description": said, **rules} if said else rules
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


def _extensions(name: str, field: str = "") -> JsonObject:
    """The extensions by which clients merge a field or a type."""
    return {
        f"x-kubernetes-{rule}": value.split(",") if rule == "list-map-keys" else value
        for rule, value in table().extensions.get((name, field), {}).items()
    }


# ---- OpenAPI v2, which older clients and generators ask for: the schemas and operations of v3, written as v2 wants them
#
# kubectl asks for it in protobuf only, and only whether the server validates fields of kinds that v3 does not have, such as
# List. It is answered with a document that has a version and a title: more would take an encoder for all of OpenAPI.


V2_ROOT = "/openapi/v2"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_PROTOBUF_NAMES = (V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_LENGTH_DELIMITED = 2
"""The wire type of texts and messages."""
_V2_INFO = {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"}


def wants_protobuf(accept: str) -> bool:
    """Parity: a client that names it anywhere in Accept gets it."""
    return any(wish.partition(";")[0].strip().lower() in _V2_PROTOBUF_NAMES for wish in accept.split(","))


@cache
def document_v2() -> JsonObject:
    """The document as JSON. It is made once and shared: a caller must not change it."""
    paths: JsonObject = {}
    definitions: JsonObject = {}
    for described in map(_document, _kinds()):
        paths |= {url: _path_v2(item) for url, item in described["paths"].items()}
        definitions |= {name: _schema_v2(schema) for name, schema in described["components"]["schemas"].items()}
    return {"swagger": "2.0", "info": _V2_INFO, "paths": paths, "definitions": definitions}


@cache
def protobuf_v2() -> bytes:
    """The document that kubectl gets: version and title."""
    return _message(b"2.0", _message(*(text.encode() for text in _V2_INFO.values())))


def _message(*parts: bytes) -> bytes:
    """A message of protobuf whose fields have the numbers 1, 2, ... Each has less than 128 bytes: its length is one byte."""
    fields = (bytes((number << 3 | _LENGTH_DELIMITED, len(part))) + part for number, part in enumerate(parts, 1))
    return b"".join(fields)


def _path_v2(item: JsonObject) -> JsonObject:
    """The operations of one path."""
    made: JsonObject = {verb: _operation_v2(operation) for verb, operation in item.items() if verb != "parameters"}
    if "parameters" in item:
        made["parameters"] = [_parameter_v2(parameter) for parameter in item["parameters"]]
    return made


def _operation_v2(operation: JsonObject) -> JsonObject:
    """A body is a parameter, and its types stand beside it."""
    content: JsonObject = operation["requestBody"]["content"]
    (schema, *_) = (described["schema"] for described in content.values())
    body = {"name": "body", "in": "body", "required": True, "schema": _schema_v2(schema)}
    rest = {key: value for key, value in operation.items() if key not in ("requestBody", "parameters")}
    parameters = [body, *map(_parameter_v2, operation["parameters"])]
    return {"consumes": list(content), "produces": ["application/json"], "parameters": parameters, **rest}


def _parameter_v2(parameter: JsonObject) -> JsonObject:
    """A parameter has its type itself, not in a schema."""
    held: JsonObject = parameter["schema"]
    return {key: value for key, value in parameter.items() if key != "schema"} | held


def _schema_v2(schema: Any) -> Any:
    """A schema with references as v2 has them. v2 has no alternatives: those are strings in JSON."""
    if isinstance(schema, list):
        return [_schema_v2(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: JsonObject = {}
    for key, value in schema.items():
        if key == "$ref":
            made[key] = value.replace("#/components/schemas/", "#/definitions/")
        elif key == "oneOf":
            made["type"] = "string"
        elif key == "allOf":
            made |= _schema_v2(value[0])
        else:
            made[key] = _schema_v2(value)
    return made
