r"""CustomResourceDefinitions: the kind by which users add kinds, what a definition may say, and which names it gets.

The fields of a definition are described by a structural schema, as those of the kinds that it defines. What its own
schemas say is checked elsewhere: `structural_schema` and `rules.custom_kinds`.

Printer columns of custom kinds are written in JSONPath: fields, indexes, `[*]` and filters that compare one field, such
as `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels['app\.kubernetes\.io/name']` and
`.spec.items[0].name`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mooring.api.api_errors import Cause, field_invalid, field_required
from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import NAME, Column, KindSpec, field_cell
from mooring.api.structural_schema import LIST_KEYS, LIST_TYPE, PRESERVE, read_schema
from mooring.kit.shown_text import quoted
from mooring.model.names import dns_1035_faults, subdomain_faults

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""
NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
APPROVED = "api-approved.kubernetes.io"
_PLAIN_PATH = re.compile(r"(\.[^.\[\]'\"]+)+")
"""`.spec.replicas`: the paths of the scale subresource."""

# ---- the fields of a definition

_TEXT: JsonObject = {"type": "string"}
_FLAG: JsonObject = {"type": "boolean"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT, LIST_TYPE: "atomic"}
_ANYTHING: JsonObject = {"type": "object", PRESERVE: True}


def _object(required: str = "", **properties: JsonObject) -> JsonObject:
    return {"type": "object", "required": required.split(), "properties": properties}


def _list(item: JsonObject, key: str = "") -> JsonObject:
    how = {LIST_TYPE: "map", LIST_KEYS: [key]} if key else {LIST_TYPE: "atomic"}
    return {"type": "array", "items": item, **how}


_NAMES = _object(
    "kind plural", plural=_TEXT, singular=_TEXT, kind=_TEXT, listKind=_TEXT, shortNames=_TEXTS, categories=_TEXTS
)
_SCALE = _object(
    "specReplicasPath statusReplicasPath", specReplicasPath=_TEXT, statusReplicasPath=_TEXT, labelSelectorPath=_TEXT
)
_COLUMN = _object(
    "name type jsonPath",
    name=_TEXT,
    type={"type": "string", "enum": list(COLUMN_TYPES)},
    format=_TEXT,
    description=_TEXT,
    priority={"type": "integer"},
    jsonPath=_TEXT,
)
_VERSION = _object(
    "name served storage",
    name=_TEXT,
    served=_FLAG,
    storage=_FLAG,
    deprecated=_FLAG,
    deprecationWarning=_TEXT,
    schema=_object(openAPIV3Schema=_ANYTHING),
    subresources=_object(status=_ANYTHING, scale=_SCALE),
    additionalPrinterColumns=_list(_COLUMN),
    selectableFields=_list(_object("jsonPath", jsonPath=_TEXT)),
)
_SPEC = _object(
    "group names scope versions",
    group=_TEXT,
    names=_NAMES,
    scope={"type": "string", "enum": ["Cluster", "Namespaced"]},
    versions={**_list(_VERSION, "name"), "minItems": 1, LIST_TYPE: "map"},
    conversion=_object("strategy", strategy={"type": "string", "enum": ["None", "Webhook"]}, webhook=_ANYTHING),
    preserveUnknownFields=_FLAG,
)
_CONDITION = _object(
    "type status",
    type=_TEXT,
    status=_TEXT,
    reason=_TEXT,
    message=_TEXT,
    lastTransitionTime=_TEXT,
    observedGeneration={"type": "integer"},
)
_STATUS = _object(
    conditions=_list(_CONDITION, "type"),
    acceptedNames=_NAMES,
    storedVersions=_TEXTS,
    observedGeneration={"type": "integer"},
)
SCHEMA, _ = read_schema(_object("spec", spec=_SPEC, status=_STATUS), "")


# ---- what a definition may say


def _complete(definition: JsonObject) -> None:
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {})
    spec.setdefault("conversion", {"strategy": "None"})


def definition_faults(definition: JsonObject) -> list[Cause]:
    """The faults of a definition of the right form, apart from its schemas."""
    spec = definition["spec"]
    found = [*_name_faults(definition), *_version_faults(spec)]
    for i, version in enumerate(spec["versions"]):
        found += _served_faults(version, f"spec.versions[{i}]")
    return found


def _name_faults(definition: JsonObject) -> Iterator[Cause]:
    spec = definition["spec"]
    group, names = spec["group"], spec["names"]
    wanted = f"{names['plural']}.{group}"
    if definition["metadata"]["name"] != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        yield field_invalid("metadata.name", definition["metadata"]["name"], why)
    if why := ",".join(subdomain_faults(group)):
        yield field_invalid("spec.group", group, why)
    elif "." not in group:
        yield field_invalid("spec.group", group, "should be a domain with at least one dot")
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")) and not at(definition, "metadata.annotations", {}).get(
        APPROVED
    ):
        why = "protected groups must have approval annotation"
        yield field_required(
            f"metadata.annotations[{APPROVED}]", f'{why} "{APPROVED}", see the Kubernetes documentation'
        )
    for key in ("plural", "singular"):
        if why := ",".join(dns_1035_faults(names.get(key, ""))):
            yield field_invalid(f"spec.names.{key}", names.get(key, ""), why)
    for key in ("kind", "listKind"):
        if why := ",".join(dns_1035_faults(names.get(key, "").lower())):
            why = f"may have mixed case, but should otherwise match: {why}"
            yield field_invalid(f"spec.names.{key}", names.get(key, ""), why)
    if names["kind"] == names.get("listKind"):
        yield field_invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for key in ("shortNames", "categories"):
        for i, name in enumerate(names.get(key, ())):
            if why := ",".join(dns_1035_faults(name)):
                yield field_invalid(f"spec.names.{key}[{i}]", name, why)


def _version_faults(spec: JsonObject) -> Iterator[Cause]:
    names = [version["name"] for version in spec["versions"]]
    for i, name in enumerate(names):
        if why := ",".join(dns_1035_faults(name)):
            yield field_invalid(f"spec.versions[{i}].name", name, why)
    if len(set(names)) < len(names):
        yield field_invalid("spec.versions", names, "must contain unique version names")
    if sum(version["storage"] for version in spec["versions"]) != 1:
        yield field_invalid("spec.versions", names, "must have exactly one version marked as storage version")
    if spec.get("preserveUnknownFields"):
        why = f"cannot set to true, set {PRESERVE} to true in spec.versions[*].schema instead"
        yield field_invalid("spec.preserveUnknownFields", True, why)


def _served_faults(version: JsonObject, path: str) -> Iterator[Cause]:
    """Columns, selectable fields and subresources of a version."""
    if not isinstance(at(version, "schema.openAPIV3Schema"), dict):
        yield field_required(f"{path}.schema.openAPIV3Schema")
    for i, column in enumerate(version.get("additionalPrinterColumns", ())):
        try:
            read_json_path(column["jsonPath"])
        except JsonPathFault as fault:
            yield field_invalid(f"{path}.additionalPrinterColumns[{i}].jsonPath", column["jsonPath"], str(fault))
    for i, selectable in enumerate(version.get("selectableFields", ())):
        if not _PLAIN_PATH.fullmatch(selectable["jsonPath"]) or selectable["jsonPath"].startswith(".metadata."):
            why = "must be a simple json path starting with ., and not point to fields in metadata"
            yield field_invalid(f"{path}.selectableFields[{i}].jsonPath", selectable["jsonPath"], why)
        elif why := _unselectable(at(version, "schema.openAPIV3Schema"), selectable["jsonPath"]):
            yield field_invalid(f"{path}.selectableFields[{i}].jsonPath", selectable["jsonPath"], why)
    scale = at(version, "subresources.scale", {})
    for key, roots in (
        ("specReplicas", ("spec",)),
        ("statusReplicas", ("status",)),
        ("labelSelector", ("spec", "status")),
    ):
        place = scale.get(f"{key}Path")
        is_good = place and _PLAIN_PATH.fullmatch(place) and place.startswith(tuple(f".{root}." for root in roots))
        if place and not is_good:
            under = " or ".join(f".{root}" for root in roots)
            why = f"should be a json path under {'either ' if len(roots) > 1 else ''}{under}"
            yield field_invalid(f"{path}.subresources.scale.{key}Path", place, why)


def _unselectable(schema: object, path: str) -> str:
    """Why objects cannot be selected by the field; empty if they can."""
    for name in path.removeprefix(".").split("."):
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(schema, dict):
        return "does not refer to a valid field"
    if schema.get("type") in ("string", "boolean", "integer"):
        return ""
    allowed = "Enum string fields and strings with formats are allowed."
    return f"must point to a field of type string, boolean or integer. {allowed}"


def stored_version_faults(old: JsonObject, new: JsonObject) -> list[Cause]:
    """A version that may still be in the store must stay."""
    known = {version["name"] for version in new["spec"]["versions"]}
    return [
        field_invalid(
            f"status.storedVersions[{i}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
            f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
        )
        for i, name in enumerate(at(old, "status.storedVersions", ()))
        if name not in known
    ]


# ---- the names that a definition gets


def storage_version(definition: JsonObject) -> str:
    """The version in which objects are stored."""
    return next((str(version["name"]) for version in definition["spec"]["versions"] if version["storage"]), "")


def is_true(definition: JsonObject, condition: str) -> bool:
    held = at(definition, "status.conditions", ())
    return any(entry.get("type") == condition and entry.get("status") == "True" for entry in held)


def named_status(definition: JsonObject, others: Iterable[JsonObject], now: str) -> JsonObject:
    """The status of a definition among others: the names that it gets, and whether its kind is served. `now` is RFC 3339."""
    status: JsonObject = {**definition.get("status", {})}
    wanted, held = definition["spec"]["names"], status.get("acceptedNames", {})
    resources, kinds = _taken(others, definition)
    conflicts = [
        (reason, clash)
        for key, reason, taken in _claims(resources, kinds)
        if (clash := _clash(wanted.get(key), held.get(key), taken))
    ]
    free = {key for key, reason, _ in _claims(resources, kinds) if reason not in dict(conflicts)} | {"categories"}
    kept = {key: value for key, value in held.items() if key not in free}
    status["acceptedNames"] = {**kept, **{key: value for key, value in wanted.items() if key in free}}
    status["storedVersions"] = [*dict.fromkeys((*status.get("storedVersions", ()), storage_version(definition)))]
    if conflicts:
        reason, clash = conflicts[-1]
        accepted = _condition(NAMES_ACCEPTED, False, reason, f"{quoted(clash)} is already in use", now)
    else:
        accepted = _condition(NAMES_ACCEPTED, True, "NoConflicts", "no conflicts found", now)
    if is_true(definition, ESTABLISHED) or not conflicts:
        served = _condition(ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted", now)
    else:
        served = _condition(ESTABLISHED, False, "NotAccepted", "not all names are accepted", now)
    return with_conditions(status, accepted, served)


def with_conditions(status: JsonObject, *new: JsonObject) -> JsonObject:
    """The status with these conditions. One that has not changed keeps its time."""
    held = {condition["type"]: condition for condition in status.get("conditions", ())}
    for condition in new:
        before = held.get(condition["type"], {})
        if before.get("status") == condition["status"] and before.get("lastTransitionTime"):
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        held[condition["type"]] = condition
    return {**status, "conditions": list(held.values())}


def _condition(kind: str, is_so: bool, reason: str, message: str, now: str) -> JsonObject:
    made = {"type": kind, "status": "True" if is_so else "False", "lastTransitionTime": now}
    return {**made, "reason": reason, "message": message}


def terminating(now: str) -> JsonObject:
    """The condition of a definition whose objects are being deleted."""
    return _condition(TERMINATING, True, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)


def _taken(others: Iterable[JsonObject], definition: JsonObject) -> tuple[set[str], set[str]]:
    """The names and the kinds that other definitions of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        is_same = other["metadata"]["name"] == definition["metadata"]["name"]
        if is_same or other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names = at(other, "status.acceptedNames", {})
        resources |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _claims(resources: set[str], kinds: set[str]) -> tuple[tuple[str, str, set[str]], ...]:
    """The names that a definition claims, in the order in which upstream looks at them, and those that are taken."""
    return (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    )


def _clash(wanted: Any, held: Any, taken: set[str]) -> str:
    """The first name that another definition has; empty if none."""
    own = set(held if isinstance(held, list) else [held])
    names = wanted if isinstance(wanted, list) else [wanted]
    return next((name for name in names if name in taken and name not in own), "")


def name_new_definition(definition: JsonObject, others: Iterable[JsonObject]) -> None:
    """Give a new definition its names, so that its kind is served at once."""
    definition["status"] = named_status(
        {**definition, "status": {}}, others, definition["metadata"]["creationTimestamp"]
    )


CUSTOM_RESOURCE_DEFINITION = KindSpec(
    *("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    schema=SCHEMA,
    complete=_complete,
    has_generation=True,
    finalizer=CLEANUP,
    fixed=("spec.group", "spec.scope", "spec.names.plural", "spec.names.kind"),
    columns=(NAME, Column("Created At", field_cell("metadata.creationTimestamp"))),
)


_STEP = re.compile(
    r"""\.?(?:
        (?P<name>(?:\\.|[^.\[\]\\'"()?@])+)
      | \[(?P<index>-?[0-9]{1,9})\]
      | \[(?P<all>\*)\]
      | \[(?P<quote>['"])(?P<key>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\]
      | \[\?\(@\.(?P<field>[^=!<>()\[\]]+?)\s*(?P<compare>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|true|false|-?[0-9]+)\)\]
    )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
MAX_CHARS = 1024
"""The longest path that is read."""

JsonPathStep = Callable[[list[Any]], list[Any]]
"""All values before a step in, all behind it out."""


class JsonPathFault(ValueError):
    """The text is no path that can be read here."""


def read_json_path(text: str) -> Sequence[JsonPathStep]:
    """The steps of a path. Raises JsonPathFault."""
    path = text.strip().removeprefix("{").removesuffix("}")
    if not path.startswith((".", "[")) or len(path) > MAX_CHARS:
        raise JsonPathFault(f"unrecognized path {text!r}")
    steps: list[JsonPathStep] = []
    place = 0
    while place < len(path) and path != ".":
        found = _STEP.match(path, place)
        if found is None:
            raise JsonPathFault(f"unrecognized path {text!r}")
        steps.append(_step(found))
        place = found.end()
    return steps


def first_at(steps: Sequence[JsonPathStep], item: Any) -> Any:
    """The first value at a path; None if there is none."""
    values = [item]
    for step in steps:
        values = step(values)
    return values[0] if values else None


def _step(found: re.Match[str]) -> JsonPathStep:
    if found["index"] is not None:
        return _indexed(int(found["index"]))
    if found["all"]:
        return lambda values: [part for value in values for part in _parts(value)]
    if found["field"] is not None:
        return _filtered(found["field"].split("."), found["compare"] == "==", _literal(found["literal"]))
    name = _ESCAPED.sub(r"\1", found["name"] if found["name"] is not None else found["key"])
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _indexed(index: int) -> JsonPathStep:
    return lambda values: [
        value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)
    ]


def _filtered(names: list[str], is_equal: bool, literal: Any) -> JsonPathStep:
    def keep(part: Any) -> bool:
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part is not None and (part == literal) is is_equal

    return lambda values: [part for value in values for part in _parts(value) if keep(part)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    return text == "true" if text in ("true", "false") else int(text)
