"""Structural schemas: the fields of a custom kind, as its CustomResourceDefinition writes them in OpenAPI v3.

A schema is read once, when its definition is stored; reading also finds the faults for which kube-apiserver rejects the
definition. Everything that asks about fields of a custom kind asks a `Schema`: pruning, server-side apply, defaults and
validation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.api.api_errors import Cause, field_forbidden, field_invalid, field_required, field_unsupported
from mooring.api.json_objects import JsonObject

Step = str | int
Link = tuple["Link", Step] | None
"""How a field is reached: the link to what holds it, and its own step."""

_META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
"""The fields of every object, which a schema has even if it does not name them."""
PRESERVE, INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
EMBEDDED, RULES = "x-kubernetes-embedded-resource", "x-kubernetes-validations"
LIST_TYPE, LIST_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One node of a schema. `written` has the node as the definition writes it; the other fields are what is read often."""

    written: JsonObject
    type: str = ""
    properties: Mapping[str, "Schema"] = field(default_factory=dict)
    items: "Schema | None" = None
    entries: "Schema | None" = None
    """The schema of the values of a map (`additionalProperties`)."""
    keeps_unknown: bool = False
    """Whether fields that the schema does not name are stored as they are."""
    is_resource: bool = False
    """Whether the value is an object with apiVersion, kind and metadata: the root, and embedded resources."""
    is_nullable: bool = False
    list_keys: tuple[str, ...] | None = None
    """The fields that identify an item of a list, () for a set; None: the list is one value."""
    is_atomic: bool = False
    """Whether a map is one value for server-side apply."""
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    negated: "Schema | None" = None

    def at(self, name: str) -> "Schema | None":
        """The schema of a field or of an entry of a map; None: it has none."""
        return self.properties.get(name, self.entries)

    @property
    def default(self) -> Any:
        return self.written.get("default")

    @property
    def is_int_or_string(self) -> bool:
        return self.written.get(INT_OR_STRING) is True

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that a value may have; empty: any."""
        if self.is_int_or_string:
            return ("integer", "string")
        return (self.type,) if self.type else ()


# ---- unknown fields


def known_part(schema: Schema | None, value: Any, unknown: list[Link], link: Link = None) -> Any:
    """A copy of a value without the fields that its schema does not name; links to those are added to `unknown`.

    Parity: below a node that keeps unknown fields, the fields that it names are pruned all the same.
    """
    if isinstance(value, list):
        items = None if schema is None else schema.items
        if items is None and schema is not None and schema.keeps_unknown:
            return value
        return [known_part(items, item, unknown, (link, i)) for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if schema is None:
        unknown += [(link, name) for name in value]
        return {}
    made: JsonObject = {}
    for name, inner in value.items():
        if schema.is_resource and name in _META_FIELDS:
            made[name] = inner
        elif (part := schema.at(name)) is not None:
            made[name] = known_part(part, inner, unknown, (link, name))
        elif schema.keeps_unknown:
            made[name] = inner
        else:
            unknown.append((link, name))
    return made


# ---- reading

_NUMBER, _TEXT, _FLAG, _LIST, _MAP, _ANY = (int, float), (str,), (bool,), (list,), (dict,), (object,)
_FORMS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "title", "description", "pattern", LIST_TYPE, MAP_TYPE), _TEXT),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), _FLAG),
    **dict.fromkeys((PRESERVE, INT_OR_STRING, EMBEDDED), _FLAG),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), (int,)),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", LIST_KEYS, RULES), _LIST),
    **dict.fromkeys(("properties", "not", "externalDocs"), _MAP),
    **dict.fromkeys(("default", "example"), _ANY),
    "items": (dict, list),
    "additionalProperties": (dict, bool),
}
"""The keys of a node, with the classes that their values have in Python."""
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_NESTED_ONLY = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    LIST_KEYS: "must be empty to be structural",
    LIST_TYPE: "must be undefined to be structural",
    MAP_TYPE: "must be undefined to be structural",
}
"""Keys that a node inside allOf, anyOf, oneOf and not may not have, with the reason."""
_INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]
"""The one form of `anyOf` that may name types."""
_METADATA_FIELDS = frozenset(("name", "generateName"))
"""The fields that a schema may name in the metadata of the object."""
_METADATA_KEYS = frozenset(("type", "properties", "description"))
_MAP_TYPES = ("atomic", "granular")
_LIST_AND_MAP = (LIST_TYPE, LIST_KEYS, MAP_TYPE)
_SCALARS = ("boolean", "integer", "number", "string")


def read_schema(
    written: JsonObject, path: str, check_pattern: Callable[[str], str] = lambda text: ""
) -> tuple[Schema, list[Cause]]:
    """The schema of a kind, and why an API server rejects it. `check_pattern` says what is wrong with a pattern."""
    faults: list[Cause] = []
    schema = _SchemaReader(faults, check_pattern).read(written, path, "root")
    return schema, faults


@dataclass(slots=True)
class _SchemaReader:
    """Reads the nodes of one schema. The depth of a body is bounded, so the reader can recurse."""

    faults: list[Cause]
    check_pattern: Callable[[str], str]

    def read(self, given: JsonObject, path: str, level: str) -> Schema:
        """One node. `level` is its place: root, field or item."""
        node = self._formed(given, path)
        self._check_place(node, path, level)
        schema = self._node(node, path, level == "root")
        if not node.keys().isdisjoint(_LIST_AND_MAP):
            self._check_lists(schema, path)
        if schema.is_resource:
            self._check_metadata(schema, path, level)
        return schema

    def _formed(self, given: JsonObject, path: str) -> JsonObject:
        """The node without values of the wrong form, which are faults."""
        made: JsonObject = {}
        for key, value in given.items():
            wanted = _FORMS.get(key)
            if key in _UNSUPPORTED and value:
                self.faults.append(field_forbidden(f"{path}.{key}", f"{key} is not supported"))
            elif wanted is None or value is None:
                continue
            elif isinstance(value, wanted) and (not isinstance(value, bool) or bool in wanted or wanted is _ANY):
                made[key] = value
            else:
                self.faults.append(field_invalid(f"{path}.{key}", "", f"must be of type {wanted[0].__name__}"))
        for key in ("required", LIST_KEYS):
            if key in made and not all(isinstance(entry, str) for entry in made[key]):
                self.faults.append(field_invalid(f"{path}.{key}", "", "must be a list of strings"))
                del made[key]
        return made

    def _node(self, node: JsonObject, path: str, is_root: bool) -> Schema:
        items, entries = node.get("items"), node.get("additionalProperties")
        if isinstance(items, list):
            self.faults.append(field_forbidden(f"{path}.items", "items must be a schema object and not an array"))
            items = None
        parts = self._parts(node["properties"], f"{path}.properties") if "properties" in node else {}
        properties = {name: self.read(part, f"{path}.properties[{name}]", "field") for name, part in parts.items()}
        kind = node.get(LIST_TYPE)
        keys = tuple(node.get(LIST_KEYS, ())) if kind == "map" else ()
        return Schema(
            node,
            node.get("type", ""),
            properties,
            self.read(items, f"{path}.items", "item") if items is not None else None,
            self.read(entries, f"{path}.additionalProperties", "field") if isinstance(entries, dict) else None,
            node.get(PRESERVE) is True or entries is True,
            is_root or node.get(EMBEDDED) is True,
            node.get("nullable") is True,
            keys if kind in ("map", "set") else None,
            node.get(MAP_TYPE) == "atomic",
            self._junctor(node, "allOf", path),
            self._junctor(node, "anyOf", path),
            self._junctor(node, "oneOf", path),
            self._nested(node["not"], f"{path}.not") if "not" in node else None,
        )

    def _parts(self, written: Mapping[str, Any], path: str) -> dict[str, JsonObject]:
        """The entries that are nodes; any other value is a fault."""
        odd = [name for name, part in written.items() if not isinstance(part, dict)]
        self.faults += [field_invalid(f"{path}[{name}]", "", "must be of type object") for name in odd]
        return {name: part for name, part in written.items() if name not in odd}

    # ---- junctors

    def _junctor(self, node: JsonObject, key: str, path: str) -> tuple[Schema, ...]:
        if key not in node:
            return ()
        parts = self._parts({str(i): part for i, part in enumerate(node[key])}, f"{path}.{key}")
        may_have_types = key == "anyOf" and node[key] == _INT_OR_STRING_FORM
        nested = ((f"{path}.{key}[{i}]", part) for i, part in parts.items())
        return tuple(self._nested(part, place, may_have_types, key == "allOf") for place, part in nested)

    def _nested(self, given: JsonObject, path: str, has_type: bool = False, has_rules: bool = False) -> Schema:
        """A node inside a junctor: it restricts values, and adds no fields."""
        node = self._formed(given, path)
        for key, why in _NESTED_ONLY.items():
            if node.get(key) and not (key == "type" and has_type):
                self.faults.append(field_forbidden(f"{path}.{key}", why))
        if node.get(RULES) and not has_rules:
            self.faults.append(field_forbidden(f"{path}.{RULES}", "must be empty to be structural"))
        self._check_value(node, path)
        parts = self._parts(node.get("properties", {}), f"{path}.properties")
        items = node.get("items")
        return Schema(
            node,
            node.get("type", "") if has_type else "",
            {name: self._nested(part, f"{path}.properties[{name}]") for name, part in parts.items()},
            self._nested(items, f"{path}.items") if isinstance(items, dict) else None,
            all_of=self._junctor(node, "allOf", path),
            any_of=self._junctor(node, "anyOf", path),
            one_of=self._junctor(node, "oneOf", path),
            negated=self._nested(node["not"], f"{path}.not") if "not" in node else None,
        )

    # ---- faults

    def _check_place(self, node: JsonObject, path: str, level: str) -> None:
        """Check what a node must say of its type, by its place."""
        kind, is_embedded = node.get("type", ""), node.get(EMBEDDED) is True
        told = self.faults.append
        if kind and kind not in _TYPES:
            told(field_unsupported(f"{path}.type", kind, _TYPES))
        if is_embedded and kind != "object":
            why = f"must be object if {EMBEDDED} is true"
            told(field_invalid(f"{path}.type", kind, why) if kind else field_required(f"{path}.type", why))
        elif not kind and not node.get(INT_OR_STRING) and not node.get(PRESERVE):
            where = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
            told(field_required(f"{path}.type", f"must not be empty {where[level]}"))
        if level == "root" and kind not in ("", "object"):
            told(field_invalid(f"{path}.type", kind, "must be object at the root"))
        if kind == "array" and "items" not in node:
            told(field_required(f"{path}.items", "must be specified"))
        if "additionalProperties" in node:
            self._check_map(node, path, level)
        if node.get(INT_OR_STRING):
            for key in (PRESERVE, EMBEDDED):
                if node.get(key):
                    told(field_invalid(f"{path}.{key}", True, f"must be false if {INT_OR_STRING} is true"))
        if node.get(PRESERVE) is False:
            told(field_invalid(f"{path}.{PRESERVE}", False, "must be true or undefined"))
        if is_embedded and not node.get(PRESERVE) and not node.get("properties"):
            told(field_required(f"{path}.properties", f"must not be empty if {EMBEDDED} is true without {PRESERVE}"))
        self._check_value(node, path)

    def _check_map(self, node: JsonObject, path: str, level: str) -> None:
        place = f"{path}.additionalProperties"
        if level == "root":
            self.faults.append(field_forbidden(place, "must not be used at the root"))
        if node.get(EMBEDDED):
            self.faults.append(field_forbidden(place, f"must not be used if {EMBEDDED} is set"))
        if node.get("properties") and node["additionalProperties"] is not False:
            self.faults.append(field_forbidden(place, "additionalProperties and properties are mutual exclusive"))

    def _check_value(self, node: JsonObject, path: str) -> None:
        if node.get("uniqueItems"):
            why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            self.faults.append(field_forbidden(f"{path}.uniqueItems", why))
        pattern = node.get("pattern", "")
        wrong = self.check_pattern(pattern) if pattern else ""
        if wrong:
            why = f"must be a valid regular expression, but isn't: {wrong}"
            self.faults.append(field_invalid(f"{path}.pattern", pattern, why))

    def _check_lists(self, schema: Schema, path: str) -> None:
        """List types and map types, and the keys of items."""
        node, kind, keys = schema.written, schema.written.get(LIST_TYPE), schema.written.get(LIST_KEYS)
        told = self.faults.append
        for key, choices, wanted in ((LIST_TYPE, ("atomic", "set", "map"), "array"), (MAP_TYPE, _MAP_TYPES, "object")):
            if key in node and node[key] not in choices:
                told(field_unsupported(f"{path}.{key}", node[key], choices))
            if key in node and schema.type != wanted:
                why = f"must be {wanted} if {key} is specified"
                told(field_invalid(f"{path}.type", schema.type, why))
        if keys and kind != "map":
            told(field_invalid(f"{path}.{LIST_TYPE}", kind or "", f"must be map if {LIST_KEYS} is non-empty"))
        if kind == "map" and not keys:
            told(field_required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map"))
        if kind == "map" and schema.items is not None:
            self._check_keys(schema.items, keys or (), path)
        if kind in ("map", "set") and schema.items is not None and schema.items.is_nullable:
            told(field_forbidden(f"{path}.items.nullable", f"cannot be nullable when {LIST_TYPE} is {kind}"))

    def _check_keys(self, items: Schema, keys: Any, path: str) -> None:
        """The keys of a list of objects are scalars that every item has."""
        if items.type != "object":
            why = f"must be object if parent array's {LIST_TYPE} is map"
            self.faults.append(field_invalid(f"{path}.items.type", items.type, why))
        for key in keys:
            place, part = f"{path}.items.properties[{key}]", items.properties.get(key)
            if part is None:
                why = "entries must all be names of item properties"
                self.faults.append(field_invalid(f"{path}.{LIST_KEYS}", list(keys), why))
                continue
            if part.type not in _SCALARS and not part.is_int_or_string:
                why = f"must be a scalar type if parent array's {LIST_TYPE} is map"
                self.faults.append(field_invalid(f"{place}.type", part.type, why))
            if key not in items.written.get("required", ()) and part.default is None:
                why = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
                self.faults.append(field_required(f"{place}.default", why))
        if len(set(keys)) < len(keys):
            self.faults.append(field_invalid(f"{path}.{LIST_KEYS}", list(keys), "must not contain duplicate entries"))

    def _check_metadata(self, schema: Schema, path: str, level: str) -> None:
        """An object has its metadata anyway: the schema may only restrict names."""
        for name in ("kind", "apiVersion"):
            part = schema.properties.get(name)
            if part is not None and part.type != "string":
                self.faults.append(field_invalid(f"{path}.properties[{name}].type", part.type, "must be string"))
        metadata = schema.properties.get("metadata")
        place = f"{path}.properties[metadata]"
        if metadata is not None and metadata.type != "object":
            self.faults.append(field_invalid(f"{place}.type", metadata.type, "must be object"))
        if metadata is None or level != "root":
            return
        if metadata.written.keys() - _METADATA_KEYS or metadata.properties.keys() - _METADATA_FIELDS:
            why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            self.faults.append(field_forbidden(place, why))


def nodes_of(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """A node and all below it outside of junctors, each with its path in the definition."""
    yield schema, path
    for name, part in schema.properties.items():
        yield from nodes_of(part, f"{path}.properties[{name}]")
    for inner, key in ((schema.items, "items"), (schema.entries, "additionalProperties")):
        if inner is not None:
            yield from nodes_of(inner, f"{path}.{key}")


_PATH_TOKENS = re.compile(r"[.\[\]]|'.*?(?<!\\)'|'.*|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = dict(zip("abfnrtv'\\", "\a\b\f\n\r\t\v'\\", strict=True))


def field_path(schema: Schema, written: str) -> str | None:
    """The path of a field below a node as errors show it; None: the node has no such field.

    | written        | of fields | of a map |
    | .a.b           | .a.b      | [a][b]   |
    | .a['b.c']      | .a.b.c    | [a][b.c] |
    """
    shown, tokens = "", iter(_PATH_TOKENS.findall(written))
    for token in tokens:
        name = next(tokens, None)
        if token == "[" and name is not None:
            name = _unquoted(name) if next(tokens, None) == "]" else None
        if token not in ("[", ".") or name is None:
            return None
        inner = schema.properties.get(name) if schema.properties else schema.entries
        if inner is None:
            return None
        shown += f".{name}" if schema.properties else f"[{name}]"
        schema = inner
    return shown


def _unquoted(token: str) -> str | None:
    """The text in single quotes; None: it has none, or an escape that does not exist."""
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        return None
    if any(escaped not in _ESCAPES for escaped in _ESCAPED.findall(token[1:-1])):
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], token[1:-1])
