"""Workloads of kinds that Mooring does not know, such as an Argo Rollout: objects with a pod template somewhere.

A pod template at `spec.template` is found without being told. For other places a user names the path by kind:
`spec.jobTemplate.spec.template`, or `spec.tasks[].template` for every entry of a list or map. The number of pods is the field
`replicas`, or else `parallelism`, beside the template, or else 1.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import msgspec

from mooring.api.decode import decode_as
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import is_foreign
from mooring.api.validation.problem import Problem, show
from mooring.inputs.admission import DEFAULT_NAMESPACE
from mooring.inputs.documents import Document, DocumentPlace
from mooring.model.meta import ObjectMeta
from mooring.model.pod import Pod

GUESSED_PATH = "spec.template"
MAX_PODS = 1_000_000
"""How many pods one workload may have: a typo in `replicas` must not fill the memory."""
MAX_DEPTH = 8
"""How deep an object is searched for a pod template."""
_NUMBERS = ("replicas", "parallelism")
_EACH = "[]"
_PATH = re.compile(r"[A-Za-z]\w*(\[\])?(\.[A-Za-z]\w*(\[\])?)*")
_KIND = re.compile(r"[A-Za-z]\w*")

TemplatePaths = Mapping[str, str]
"""Kind -> where its pod templates are."""


def template_paths(written: Iterable[str]) -> dict[str, str]:
    """The paths of `KIND=PATH`. Raises ValueError, with what to write instead."""
    paths: dict[str, str] = {}
    for text in written:
        kind, _, path = text.partition("=")
        if not _KIND.fullmatch(kind) or not _PATH.fullmatch(path) or path.endswith(_EACH):
            raise ValueError(f"{text!r} is no KIND=PATH, such as CronTab=spec.jobTemplate.spec.template")
        if paths.setdefault(kind, path) != path:
            raise ValueError(f"{kind} has two paths, {paths[kind]} and {path}; name one")
    return paths


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """One pod template of an object, with how many pods it makes."""

    path: str
    """Where it is, with the number of each entry."""
    part: str
    """The name of the entry that holds the template. Empty if the object has only one template."""
    template: JsonObject
    count: int


@dataclass(frozen=True, slots=True)
class CustomWorkload:
    """An object of an unknown kind with pod templates."""

    kind: str
    api_version: str
    metadata: ObjectMeta
    templates: tuple[FoundTemplate, ...]
    place: DocumentPlace
    order: int
    path: str
    """Where the templates of its kind are."""

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    def pods(self, found: FoundTemplate, taken: Collection[str]) -> tuple[list[Pod], list[Problem]]:
        """The pods of one template, numbered from 0, or the problems of the template. If one of their names is `taken` (pod
        keys), the kind is part of all of them."""
        stem = "-".join(filter(None, (self.metadata.name, found.part)))
        if any(f"{self.namespace}/{stem}-{number}" in taken for number in range(found.count)):
            stem = f"{stem}-{self.kind.lower()}"
        owner = {"apiVersion": self.api_version, "kind": self.kind, "name": self.metadata.name, "controller": True}
        owner["uid"] = self.metadata.uid or f"{self.namespace}/{self.metadata.name}"
        held = found.template.get("metadata")
        kept = {key: held.get(key) for key in ("labels", "annotations")} if isinstance(held, dict) else {}
        metadata = {"name": f"{stem}-0", "namespace": self.namespace, "ownerReferences": [owner], **kept}
        first, problems = decode_as(Pod, {"metadata": metadata, "spec": found.template["spec"]})
        if first is None:
            return [], [problem.under(found.path) for problem in problems]
        written = msgspec.to_builtins(first)
        names = ({**written["metadata"], "name": f"{stem}-{number}"} for number in range(found.count))
        return [msgspec.convert({**written, "metadata": each}, Pod) for each in names], []


@dataclass(slots=True)
class CustomKind:
    """How the objects of one unknown kind were read, for a note."""

    path: str
    objects: int = 0
    pods: int = 0
    covered: int = 0
    """Objects that have their pods in the input."""
    is_read: bool = True
    """False: its templates are at another place than the one that is guessed, and its objects are left out."""


@dataclass(slots=True)
class CustomKinds:
    """The objects of unknown kinds with pod templates, and what was made of them."""

    paths: TemplatePaths = field(default_factory=dict)
    by_kind: dict[str, CustomKind] = field(default_factory=dict)

    def workload_of(self, document: Document, order: int) -> tuple[CustomWorkload | None, list[Problem]]:
        """The document as a workload; None if it has no pod template, or problems."""
        path = self.paths.get(document.kind, GUESSED_PATH)
        if document.kind not in self.paths and not is_foreign(document.api_version):
            return None, []  # a kind of Kubernetes itself that decisions do not read, such as a CronJob
        if isinstance(document.body, msgspec.Raw) and b"containers" not in bytes(document.body):
            return None, []  # hot: a dump may have many objects that are no workloads, and none is decoded in vain
        try:
            written = document.plain()
        except ValueError:
            return None, []
        templates = [*_at(written, path.split("."), "", ())]
        if not templates and document.kind in self.paths:
            return None, [Problem(path, "there is no pod template", "a template with spec.containers")]
        if not templates:
            self._note_elsewhere(document.kind, written)
            return None, []
        metadata, problems = decode_as(ObjectMeta, written.get("metadata") or {})
        if metadata is None or not metadata.name:
            return None, [problem.under("metadata") for problem in problems] or [Problem("metadata.name", "missing")]
        metadata.namespace = metadata.namespace or DEFAULT_NAMESPACE
        read, problems = _counted(templates)
        if problems:
            return None, problems
        known = (document.kind, document.api_version, metadata, read, document.place, order, path)
        return CustomWorkload(*known), []

    def _note_elsewhere(self, kind: str, written: JsonObject) -> None:
        """Note an object that is left out although it has a pod template at a place that is not guessed."""
        path = next(_template_places(written, "", 0), None)
        if path is not None:
            self.by_kind.setdefault(kind, CustomKind(path, is_read=False)).objects += 1

    def note(self, workload: CustomWorkload, pods: int, is_covered: bool) -> None:
        """Count a workload of which so many pods were made."""
        kind = self.by_kind.setdefault(workload.kind, CustomKind(workload.path))
        kind.objects += 1
        kind.pods += pods
        kind.covered += is_covered

    def notes(self) -> list[str]:
        """A sentence for each kind."""
        return [_told(name, kind, name in self.paths) for name, kind in sorted(self.by_kind.items())]


def _told(name: str, kind: CustomKind, is_named: bool) -> str:
    """Message about a custom kind: how many pods its objects became, from which path the template was read, and which flag
    changes this."""
    if not kind.is_read:
        remedy = f"simulate its pods with --pod-template-path '{name}={kind.path}'"
        return f"{kind.objects} {name} left out, though there is a pod template at {kind.path}; {remedy}"
    reason = "as --pod-template-path says" if is_named else "a guess, because Mooring does not know the kind"
    pods = f"{kind.pods} {'pod' if kind.pods == 1 else 'pods'}"
    told = [f"{kind.objects} {name} simulated as {pods} of the template at {kind.path}, {reason}"]
    if kind.covered:
        told.append(f"{kind.covered} of them have their pods in the input and get no others")
    if not is_named:
        told.append(f"name another place with --pod-template-path {name}=PATH")
    return "; ".join(told)


# ---- looking for templates


def _at(value: Any, steps: list[str], path: str, parts: tuple[str, ...]) -> Iterator[tuple[FoundTemplate, JsonObject]]:
    """All templates at a path, each with the object that has it as a field; `name[]` goes into every entry of a list or
    map. Their numbers of pods are not known yet."""
    if not isinstance(value, dict):
        return
    step, rest = steps[0], steps[1:]
    name = step.removesuffix(_EACH)
    path = f"{path}.{name}" if path else name
    inner = value.get(name)
    if not rest:
        if _is_pod_template(inner):
            yield FoundTemplate(path, "-".join(parts), inner, 1), value
    elif not step.endswith(_EACH):
        yield from _at(inner, rest, path, parts)
    elif isinstance(inner, list):
        for number, entry in enumerate(inner):
            told = entry.get("name") if isinstance(entry, dict) else None
            part = told if isinstance(told, str) and told else str(number)
            yield from _at(entry, rest, f"{path}[{number}]", (*parts, part))
    elif isinstance(inner, dict):
        for key, entry in inner.items():
            yield from _at(entry, rest, f"{path}.{key}", (*parts, str(key).lower()))


def _template_places(value: Any, path: str, depth: int) -> Iterator[str]:
    """Paths to pod templates, with `[]` for the entries of lists."""
    if depth > MAX_DEPTH or not isinstance(value, dict):
        return
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if _is_pod_template(inner) and _PATH.fullmatch(here):
            yield here
        elif isinstance(inner, list):
            for entry in inner:
                yield from _template_places(entry, f"{here}{_EACH}", depth + 1)
        else:
            yield from _template_places(inner, here, depth + 1)


def _is_pod_template(value: Any) -> TypeGuard[JsonObject]:
    """Whether it has containers: the templates of machines, certificates and so on have none."""
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list) and bool(spec["containers"])


def _counted(found: list[tuple[FoundTemplate, JsonObject]]) -> tuple[tuple[FoundTemplate, ...], list[Problem]]:
    """The templates with their numbers of pods, which are fields beside them, and the problems of these fields."""
    templates, problems = [], []
    for each, beside in found:
        name = next((name for name in _NUMBERS if beside.get(name) is not None), "")
        number = beside[name] if name else 1
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_PODS:
            path = f"{each.path.rpartition('.')[0]}.{name}"
            problems.append(Problem(path, show(number), f"a whole number from 0 to {MAX_PODS}"))
        else:
            templates.append(replace(each, count=number))
    return tuple(templates), problems
