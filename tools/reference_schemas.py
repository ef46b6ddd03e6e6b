"""The reference of `-o json`: the fields that docs/schemas describes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference_text import code, page, prose, table

SCHEMAS = Path(__file__).parent.parent / "docs" / "schemas"

Schema = dict[str, Any]


def schemas_page() -> str:
    sections = [part for path in sorted(SCHEMAS.glob("*.json")) for part in _section(path)]
    intro = """\
`-o json` and `-o yaml` print an answer in one of these forms; `to_dict()` of an answer in Python returns the same. Within a
version (`v1`), fields are added, and never renamed or removed. `[]` stands for each entry of a list and `{}` for each value
of a mapping. A field with the mark ✓ is always there."""
    return page("JSON of answers", intro, *sections)


def _section(path: Path) -> Iterator[str]:
    schema: Schema = json.loads(path.read_text())
    yield f"## mooring {path.name.partition('.')[0]} -o json"
    yield f"{prose(schema.get('description', ''))} The schema is [{path.name}](../schemas/{path.name})."
    for title, form in forms(schema):
        yield f"### {title}" if title else ""
        yield prose(form.get("description", "")) if title else ""
        rows = [
            [code(name), kind, "✓" if always else "", prose(text)] for name, kind, always, text in fields(schema, form)
        ]
        yield table(["field", "type", "always", "meaning"], rows)


def forms(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The kinds of answer that a schema allows, by name; one without a name where there is no choice."""
    choices = [_resolved(schema, choice) for choice in schema.get("oneOf", ())]
    for choice in choices:
        yield choice["properties"]["kind"]["const"], choice
    if not choices:
        yield "", schema


def fields(root: Schema, schema: Schema) -> Iterator[tuple[str, str, bool, str]]:
    """Path, type, whether it is always there, and meaning of every field, depth first. References are to `root`."""
    yield from _inside(root, schema, "", ())


def _fields(root: Schema, schema: Schema, path: str, seen: tuple[str, ...]) -> Iterator[tuple[str, str, bool, str]]:
    for name, written in schema.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        yield inner, _kind(root, written), name in schema.get("required", ()), _text(root, written)
        yield from _inside(root, written, inner, seen)


def _inside(root: Schema, written: Schema, path: str, seen: tuple[str, ...]) -> Iterator[tuple[str, str, bool, str]]:
    """The fields below a field. A definition that has itself in it is described once."""
    reference = written.get("$ref", "")
    if reference in seen and reference:
        return
    seen = (*seen, reference)
    schema = _resolved(root, written)
    yield from _fields(root, schema, path, seen)
    if isinstance(schema.get("items"), dict):
        yield from _inside(root, schema["items"], f"{path}[]", seen)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _inside(root, schema["additionalProperties"], f"{path}{{}}", seen)
    for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _inside(root, choice, path, seen)


def _resolved(root: Schema, schema: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    target: Any = root
    for step in reference.removeprefix("#/").split("/"):
        target = target[step]
    return {**_resolved(root, target), **{key: value for key, value in schema.items() if key != "$ref"}}


def _kind(root: Schema, written: Schema) -> str:
    schema = _resolved(root, written)
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    choices = (*schema.get("oneOf", ()), *schema.get("anyOf", ()))
    if choices:
        return " or ".join(dict.fromkeys(_kind(root, choice) for choice in choices))
    kind = schema.get("type", "any")
    names = [kind] if isinstance(kind, str) else kind
    if "array" in names and isinstance(schema.get("items"), dict):
        names = [f"list of {_kind(root, schema['items'])}" if name == "array" else name for name in names]
    return " or ".join(names)


def _text(root: Schema, written: Schema) -> str:
    text: str = _resolved(root, written).get("description", "")
    return text
