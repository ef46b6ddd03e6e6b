"""OpenAPI v2, which older clients and generators ask for: the same schemas and operations as v3, written as v2 wants them.

kubectl asks for it in protobuf only, and only whether the server validates fields of kinds that v3 does not tell of, such
as List. It is answered with a document that has a version and a title: more would take an encoder for all of OpenAPI.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.api.schema.discovery import VERSION
from mooring.api.schema.openapi import all_documents

PATH = "/openapi/v2"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_NAMES = (PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_LENGTH_DELIMITED = 2
"""The wire type of texts and messages."""
_SWAGGER, _INFO, _TITLE, _API_VERSION = 1, 2, 1, 2
"""Numbers of fields in the messages Document and Info."""

_INFO_TEXT = {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"}


def wants_protobuf(accept: str) -> bool:
    """Parity: a client that names it anywhere in Accept gets it."""
    return any(wish.partition(";")[0].strip().lower() in _PROTOBUF_NAMES for wish in accept.split(","))


@cache
def document() -> JsonObject:
    """The document as JSON. It is made once and shared: a caller must not change it."""
    paths: JsonObject = {}
    definitions: JsonObject = {}
    for described in all_documents():
        paths |= {url: _path(item) for url, item in described["paths"].items()}
        definitions |= {name: _schema(schema) for name, schema in described["components"]["schemas"].items()}
    return {"swagger": "2.0", "info": _INFO_TEXT, "paths": paths, "definitions": definitions}


@cache
def protobuf() -> bytes:
    """The document that kubectl gets: version and title."""
    info = _text(_TITLE, _INFO_TEXT["title"]) + _text(_API_VERSION, _INFO_TEXT["version"])
    return _text(_SWAGGER, "2.0") + _field(_INFO, info)


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, data: bytes) -> bytes:
    """Of less than 128 bytes, whose length is one."""
    return bytes((number << 3 | _LENGTH_DELIMITED, len(data))) + data


def _path(item: JsonObject) -> JsonObject:
    """The operations of one path."""
    made: JsonObject = {verb: _operation(operation) for verb, operation in item.items() if verb != "parameters"}
    if "parameters" in item:
        made["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return made


def _operation(operation: JsonObject) -> JsonObject:
    """A body is a parameter, and its types stand beside it."""
    content: JsonObject = operation["requestBody"]["content"]
    (schema, *_) = (described["schema"] for described in content.values())
    body = {"name": "body", "in": "body", "required": True, "schema": _schema(schema)}
    rest = {key: value for key, value in operation.items() if key not in ("requestBody", "parameters")}
    parameters = [body, *map(_parameter, operation["parameters"])]
    return {"consumes": list(content), "produces": ["application/json"], "parameters": parameters, **rest}


def _parameter(parameter: JsonObject) -> JsonObject:
    """What it holds stands in it, not in a schema of its own."""
    held: JsonObject = parameter["schema"]
    return {key: value for key, value in parameter.items() if key != "schema"} | held


def _schema(schema: Any) -> Any:
    """With references as v2 has them, and without alternatives, which it does not know: those are strings in JSON."""
    if isinstance(schema, list):
        return [_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return dict(_parts(schema))


def _parts(schema: JsonObject) -> Iterator[tuple[str, Any]]:
    """The entries of a schema, as v2 writes them."""
    for key, value in schema.items():
        if key == "$ref":
            yield key, value.replace("#/components/schemas/", "#/definitions/")
        elif key == "oneOf":
            yield "type", "string"
        elif key == "allOf":
            yield from _schema(value[0]).items()
        else:
            yield key, _schema(value)
