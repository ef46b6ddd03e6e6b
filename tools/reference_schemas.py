"""The schemas of `-o json` (docs/schemas), made from the published forms of answers, and the reference of their fields."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

import msgspec
from reference_text import code, field_texts, page, prose, table

from mooring.answers.capacity.capacity import Capacity
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation, WorkloadExplanation
from mooring.answers.form.answer import API_VERSION, ClusterAnswer, SeveralAnswers
from mooring.answers.form.published import Form
from mooring.answers.pending.pending_answer import PendingExplanation
from mooring.answers.plan.plan import Plan
from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.pod_story import PodStory
from mooring.answers.recorded.replaying import ReplayAnswer
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulation_answer import SimulationAnswer
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.study.study_file import StudyFile
from mooring.answers.study.study_metrics import MetricEntry
from mooring.answers.what_if.difference import WhatIf
from mooring.model.meta import Wire

Schema = dict[str, Any]

ANSWERED: dict[str, tuple[str, tuple[type[ClusterAnswer], ...]]] = {
    "agree": ("", (Agreement,)),
    "capacity": ("", (Capacity,)),
    "clusters": ("", (SeveralAnswers,)),
    "compare": ("", (Comparison,)),
    "explain": (
        "Amounts are whole numbers: cpu in milli-CPU, memory in bytes, other resources as counted.",
        (PodExplanation, WorkloadExplanation, GroupExplanation, PendingExplanation),
    ),
    "plan": ("", (Plan,)),
    "replay": (
        "A replay, or with --pod the story of a pod. With --config or --open-loop the answer is a Comparison "
        "(compare.v1.json). Times are RFC 3339 in UTC.",
        (ReplayAnswer, PodStory),
    ),
    "simulate": (
        "Amounts are whole numbers: cpu in milli-CPU, memory in bytes, other resources as counted. Times are in seconds of "
        "the simulated clock since the beginning.",
        (SimulationAnswer, DayAnswer),
    ),
    "study": ("", (StudyAnswer,)),
    "what-if": ("", (WhatIf,)),
}
"""Command -> what its schema says first, if that is not the text of its only form, and the kinds of its answer."""
CLUSTERS = "clusters.v1.json"
"""The schema of the answers of several clusters, for every command that takes several contexts."""
STUDY_FILE = "study-file.v1.json"
"""The schema of the input of `mooring study`."""
WIDTH = 240
"""The length of a line of a schema: most fields are on one, with their texts."""


# ---- schemas


def schemas() -> dict[str, Schema]:
    """The schema of each command, by the name of its file."""
    answers = {f"{command}.v1.json": _schema(command, *parts) for command, parts in ANSWERED.items()}
    return answers | {STUDY_FILE: _study_file()}


def schema_text(value: Any, margin: int = 0) -> str:
    """The text of a schema: what fits on a line is on one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or len(line) + margin <= WIDTH:
        return line
    inside = " " * (margin + 2)
    entries = [f"{inside}{json.dumps(key)}: {schema_text(each, margin + 2)}" for key, each in value.items()]
    return "{\n" + ",\n".join(entries) + "\n" + " " * margin + "}"


def _schema(command: str, text: str, answers: tuple[type[ClusterAnswer], ...]) -> Schema:
    forms = [answer.form for answer in answers]
    _, components = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    parts: dict[str, Schema] = {name: _tidy(_described(name, schema)) for name, schema in components.items()}
    kinds = {answer.kind: _answer(answer.kind, parts[answer.form.__name__]) for answer in answers}
    written = json.dumps(parts)
    parts = {name: schema for name, schema in sorted(parts.items()) if f'"#/$defs/{name}"' in written}
    assert not parts.keys() & kinds.keys(), command
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _title(command)}
    stable = "Fields may be added; none is renamed or removed within v1."
    if len(kinds) > 1:
        choices = {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds]}
        return {**head, "description": f"{text} {stable}", **choices, "$defs": {**kinds, **parts}}
    (only,) = kinds.values()
    return {**head, **only, "description": f"{only['description']} {stable}", "$defs": parts}


def _title(command: str) -> str:
    is_several = CLUSTERS.startswith(f"{command}.")
    return "The answers of several clusters" if is_several else f"The answer of mooring {command}"


def _study_file() -> Schema:
    """The schema of the file of a study. All of its fields may be left out, apart from its header and a cluster."""
    _, components = msgspec.json.schema_components([StudyFile, MetricEntry], ref_template="#/$defs/{name}")
    parts = {name: _tidy(_described_entry(name, schema)) for name, schema in components.items()}
    whole = parts.pop(StudyFile.__name__)
    whole["properties"]["metrics"]["items"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/MetricEntry"}]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The file of mooring study"}
    return {**head, **whole, "required": ["apiVersion", "kind", "clusters"], "$defs": dict(sorted(parts.items()))}


def _described_entry(name: str, schema: Schema) -> Schema:
    """The schema of a part of a file, with the texts of its fields. No other fields are allowed."""
    entry = next((each for each in Wire.__subclasses__() if each.__name__ == name), None)
    if entry is None:
        return schema
    texts = field_texts(entry)
    properties = {
        field.encode_name: schema["properties"][field.encode_name]
        | ({"description": " ".join(texts[field.name].split())} if field.name in texts else {})
        for field in msgspec.structs.fields(entry)
    }
    text = " ".join(inspect.cleandoc(entry.__doc__ or "").split())
    return {"type": "object", "description": text, "properties": properties, "additionalProperties": False}


def _answer(kind: str, form: Schema) -> Schema:
    """The form of an answer with the two fields that all answers begin with."""
    named = {"apiVersion": {"const": API_VERSION}, "kind": {"const": kind}}
    return {**form, "required": [*named, *form["required"]], "properties": {**named, **form["properties"]}}


def _described(name: str, schema: Schema) -> Schema:
    """The schema of a form with the texts that stand below its fields. A field is required that is always written, unless it
    was added later."""
    form = {each.__name__: each for each in _kinds(Form)}.get(name)
    if form is None:
        return schema
    texts, properties, required = field_texts(form), {}, []
    for field in msgspec.structs.fields(form):
        written = schema["properties"][field.encode_name]
        is_added = written.pop("added", False)
        described = {"description": " ".join(texts[field.name].split())} if field.name in texts else {}
        properties[field.encode_name] = {**written, **described}
        is_kept = not form.__struct_config__.omit_defaults and field.default is not msgspec.UNSET
        required += [field.encode_name] if (field.required or is_kept) and not is_added else []
    text = " ".join(inspect.cleandoc(form.__doc__ or "").split())
    return {"type": "object", "description": text, "required": required, "properties": properties}


def _kinds(kind: type[Form]) -> Iterator[type[Form]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _tidy(schema: Any) -> Any:
    """The schema without titles and defaults, and with one list of types where the choice is between plain types."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: _tidy(each) for name, each in value.items()} if key == "properties" else _tidy(value)
        for key, value in schema.items()
        if key not in ("title", "default")
    }
    choices = found.get("anyOf", ())
    if not choices or any("type" not in each or "properties" in each for each in choices):
        return found
    types = [each["type"] for each in choices if each["type"] != "integer" or {"type": "number"} not in choices]
    rest = {key: value for each in choices for key, value in each.items() if key != "type"}
    del found["anyOf"]
    return {"type": types[0] if len(types) == 1 else types, **rest, **found}


# ---- the page


def schemas_page() -> str:
    sections = [part for name, schema in schemas().items() for part in _section(name, schema)]
    intro = """\
`-o json` and `-o yaml` print an answer in one of these forms; `to_dict()` of an answer in Python returns the same. Within a
version (`v1`), fields are added, and never renamed or removed. `[]` stands for each entry of a list and `{}` for each value
of a mapping. A field with the mark ✓ is always there."""
    return page("JSON of answers", intro, *sections)


def heading(file: str) -> str:
    """The heading of the section about a schema."""
    named = {STUDY_FILE: "The file of mooring study", CLUSTERS: "Several clusters -o json"}
    return named.get(file) or f"mooring {file.partition('.')[0]} -o json"


def _section(file: str, schema: Schema) -> Iterator[str]:
    yield f"## {heading(file)}"
    yield f"{prose(schema.get('description', ''))} The schema is [{file}](../schemas/{file})."
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
