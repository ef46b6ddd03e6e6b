"""A structural schema as rules in CEL see it: the names of fields, the types of values, their lengths, and the values.

Lengths are bounded by `maxItems`, `maxLength` and `maxProperties`, and without them by the largest request: the cost that an
API server estimates for a rule depends on them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mooring.api.structural_schema import Schema
from mooring.cel.estimates import LengthBounds, LengthsAt, Path
from mooring.cel.expression import CompileFault
from mooring.cel.functions.times import read_duration, read_timestamp
from mooring.cel.values import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of

_KEYWORDS = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@cache
def escaped(name: str) -> str | None:
    """The name of a field as expressions write it; None: they cannot name it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not name or name[0].isdigit() or re.search(r"[^a-zA-Z0-9_./-]", name):
        return None
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


# ---- types

_PLAIN = {"integer": INT, "number": DOUBLE, "boolean": BOOL, "string": STRING}
_FORMATS = {"byte": BYTES, "date": TIMESTAMP, "date-time": TIMESTAMP, "duration": DURATION}
_METADATA = {"name": STRING, "generateName": STRING}


MAX_TYPED_NODES = 200_000
"""The nodes of a schema that types are made of, for all rules of a version: a rule has the types of everything below it."""


@dataclass(slots=True)
class SchemaTypes:
    """The CEL types of schemas, by the names of those that have fields."""

    left: int = MAX_TYPED_NODES

    def of(self, schema: Schema, name: str, fields: dict[str, Mapping[str, Type]]) -> Type:
        """The type of a node; types with fields go into `fields`, by names that begin with `name`. Raises CompileFault."""
        self.left -= 1
        if self.left < 0:
            raise CompileFault("the schema is too large for so many rules")
        if schema.type == "array":
            return list_of(DYN if schema.items is None else self.of(schema.items, f"{name}.@items", fields))
        if schema.type == "string":
            return _FORMATS.get(schema.written.get("format", ""), STRING)
        if schema.type != "object":
            return _PLAIN.get(schema.type, DYN)
        if schema.entries is not None:
            return map_of(STRING, self.of(schema.entries, f"{name}.@values", fields))
        if not schema.properties and schema.keeps_unknown:
            return DYN
        made: dict[str, Type] = {}
        if schema.is_resource:
            made = {"apiVersion": STRING, "kind": STRING, "metadata": Type(f"{name}.metadata")}
            fields[f"{name}.metadata"] = _METADATA
        for part, inner in schema.properties.items():
            key = escaped(part)
            if key is not None and key not in made:
                made[key] = self.of(inner, f"{name}.{key}", fields)
        fields[name] = made
        return Type(name)


# ---- lengths

REQUEST_BYTES = 3 * 1024 * 1024
"""The largest request (upstream: MaxRequestSizeBytes)."""
_BRACKETS = 2
"""The bytes around a text, a list and a map."""
_MAX_CHARACTER, _MAX_NAME = 4, 253
"""The most bytes of a character, and the most characters of the name of an object."""
_LEAST_BYTES = {"boolean": 4, "integer": 1, "number": 1}
"""The bytes of `true` and of 0; the other types have an empty value, which takes two."""
_TIMES = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}
"""The fewest bytes, and the most characters, of texts with a format."""
_TEXT = Schema({}, "string")


@dataclass(slots=True)
class SchemaLengths:
    """The lengths of the values of a schema, by the rules of apiserver's SchemaDeclType. What is found out once is kept."""

    _least: dict[Schema, int] = field(default_factory=dict)
    _named: dict[Schema, dict[str, Schema]] = field(default_factory=dict)
    """The fields of a node by the names that expressions write."""

    def of(self, root: Schema) -> LengthsAt:
        """The lengths of the values in `self` and `oldSelf`, which both have this schema. Parity: the first step of a path is
        not looked at, so that an element of a computed list counts as `self`."""

        def at(path: Path, kind: Type) -> LengthBounds | None:
            if not path:
                return None
            node: Schema | None = root
            for step in path[1:]:
                if node is None:
                    return None
                if step == "@keys" and node.entries is not None:
                    return LengthBounds(0, 0)  # Parity: keys of maps have no length
                node = (node.items or node.entries) if step in ("@items", "@values") else self._fields(node).get(step)
            return None if node is None else LengthBounds(0, self.most(node))

        return at

    def _fields(self, node: Schema) -> dict[str, Schema]:
        known = self._named.get(node)
        if known is None:
            parts = ((escaped(name), part) for name, part in _parts(node).items())
            known = self._named[node] = {key: part for key, part in parts if key is not None}
        return known

    def most(self, node: Schema) -> int:
        """The most bytes, items or entries of a value. Parity: objects, numbers and booleans have none."""
        written = node.written
        if node.is_int_or_string:
            return _most_bytes(written, REQUEST_BYTES - _BRACKETS)
        if node.type == "array" and node.items is not None:
            return _limit(written, "maxItems", (REQUEST_BYTES - _BRACKETS) // (self.least_bytes(node.items) + 1))
        if node.type == "object" and node.entries is not None:
            pair = self.least_bytes(node.entries) + 6  # two characters of the key, quotes, colon and comma
            return _limit(written, "maxProperties", (REQUEST_BYTES - _BRACKETS) // pair)
        return _longest_text(written) if node.type == "string" else 0

    def most_in_a_request(self, node: Schema) -> int:
        """How often a request can have a value of a node; a comma separates two."""
        return REQUEST_BYTES // (self.least_bytes(node) + 1)

    def least_bytes(self, node: Schema) -> int:
        """The fewest bytes that a value takes in a request."""
        known = self._least.get(node)
        if known is None:
            known = self._least[node] = self._fewest(node)
        return known

    def _fewest(self, node: Schema) -> int:
        if node.is_int_or_string:
            return 1
        if node.type != "object" or node.entries is not None:
            form = node.written.get("format", "") if node.type == "string" else ""
            return _TIMES[form][0] if form in _TIMES else _LEAST_BYTES.get(node.type, _BRACKETS)
        needed = node.written.get("required", ())
        parts = ((name, part) for name, part in _parts(node).items() if name in needed and part.default is None)
        return _BRACKETS + sum(len(name.encode()) + self.least_bytes(part) + 4 for name, part in parts)


def _longest_text(written: Mapping[str, Any]) -> int:
    form = written.get("format")
    if form in _TIMES:
        return _TIMES[form][1]
    if form == "byte":
        return _limit(written, "maxLength", REQUEST_BYTES - _BRACKETS)
    choices = written.get("enum")
    if choices:
        return _most_bytes(written, max((len(text.encode()) for text in choices if isinstance(text, str)), default=0))
    return _most_bytes(written, REQUEST_BYTES - _BRACKETS)


def _limit(written: Mapping[str, Any], key: str, otherwise: int) -> int:
    """A limit of a node; a negative one is zero."""
    return max(written[key], 0) if key in written else otherwise


def _most_bytes(written: Mapping[str, Any], otherwise: int) -> int:
    """The bytes of a text; `maxLength` counts characters."""
    return _limit(written, "maxLength", 0) * _MAX_CHARACTER if "maxLength" in written else otherwise


def _parts(node: Schema) -> Mapping[str, Schema]:
    """The fields of a node, and those that every resource has."""
    if not node.is_resource:
        return node.properties
    written = node.properties.get("metadata", _TEXT).properties
    metadata: dict[str, Schema] = {}
    for name, most in (("name", _MAX_NAME), ("generateName", _MAX_NAME - 1)):
        own = written.get(name, _TEXT).written
        metadata[name] = Schema({"maxLength": min(_limit(own, "maxLength", most), most)}, "string")
    return {**node.properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": Schema({}, "object", metadata)}


# ---- values


def value_of(schema: Schema | None, value: Any) -> Any:
    """A JSON value as CEL sees it: escaped names, times and durations as such."""
    if isinstance(value, dict):
        if schema is None or schema.entries is not None or not (schema.properties or schema.is_resource):
            inner = None if schema is None else schema.entries
            return {name: value_of(inner, part) for name, part in value.items()}
        named = ((escaped(name), schema.at(name), part) for name, part in value.items())
        return {key: value_of(inner, part) for key, inner, part in named if key is not None}
    if isinstance(value, list):
        items = None if schema is None else schema.items
        return [value_of(items, item) for item in value]
    if schema is None:
        return value
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _formatted(schema.written.get("format"), value) if isinstance(value, str) else value


def _formatted(form: str | None, text: str) -> Any:
    """A text by its format; validation has refused texts that do not have it."""
    match form:
        case "byte":
            return text.encode()
        case "date":
            return read_timestamp(f"{text}T00:00:00Z")
        case "date-time":
            return read_timestamp(text)
        case "duration":
            return read_duration(text)
    return text
