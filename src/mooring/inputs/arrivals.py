"""Arrivals: pods that come over time and run for a while, read from a small YAML or CSV file.

YAML, a list (or the same under `arrivals:`), each entry one pod or a stream of them:

    - at: 0s             # since the beginning; a number of seconds, or a duration: 90, 1h30m
      every: 10s         # again and again, at this distance ...
      until: 2h          # ... as long as this
      count: 5           # how many at a time
      run: 15m           # how long a pod runs once it is bound; without it, for ever
      name: web          # pods are named web-0, web-1, ...
      namespace: shop
      labels: {app: web}
      priority: 100
      cpu: 500m          # requests, shorthand for a pod of one container
      memory: 1Gi
      requests: {example.com/gpu: 1}
      pod: {...}         # or the whole pod: metadata and spec as in a manifest

CSV, one pod in each line, with a header: `at`, `run`, `name`, `namespace`, `priority`, `count`; every other column is a
resource (cpu, memory, example.com/gpu, ...). An empty cell counts as missing.
"""

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mooring.api.decode import decode_as
from mooring.api.validate import validate
from mooring.api.validation.problem import NOTHING_THERE, Problem, at_key, show
from mooring.framework.config.durations import parse_duration
from mooring.inputs.admission import Admission
from mooring.inputs.documents import ManifestFile, bytes_of
from mooring.inputs.field_checks import Validation, check_core_fields
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import DURATION_FORM, documents_of, on_lines
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

MAX_BYTES = 256 << 20
MAX_ARRIVALS = 2_000_000
"""A small file can stand for any number of pods (`every`, `count`); each takes memory."""

_TIMES = ("at", "every", "until", "run")
_SHORTHAND = ("cpu", "memory", "requests")
_FIELDS = frozenset((*_TIMES, *_SHORTHAND, "count", "name", "namespace", "labels", "priority", "pod"))
_CSV_FIELDS = frozenset(("at", "run", "name", "namespace", "priority", "count"))
_CSV_PLACE = re.compile(r"line (\d+)\.?(.*)")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod, when it arrives, and how long it runs after its bind (None: for ever)."""

    at_ns: int
    pod: Pod
    run_ns: int | None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change that others make to an object while a day passes: it comes, is changed, or goes."""

    at_ns: int
    """Since the beginning."""
    item: KubeObject
    """As it is from then on; a pod keeps the node and the status that the simulation gave it."""
    is_removal: bool = False


class ArrivalStream(Protocol):
    """Arrivals in the order of time: a list, or a load that is generated while a day passes. A day goes over them once and
    keeps only the pods that are there."""

    changes: Sequence[PlannedChange]
    """Changes that others make meanwhile, in the order of time."""
    replaced: Collection[str]
    """Keys of pods whose replacements, should they be preempted, are among the arrivals."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Arrival]: ...

    def pods(self) -> Sequence[Pod]:
        """Pods with all namespaces that the arrivals have."""
        ...

    def candidates(self, name: str) -> Sequence[Pod]:
        """The pods with this `namespace/name` or `name`, and others whose names a user may have meant."""
        ...


class ListedArrivals:
    """Arrivals that were read from a file, which are all there from the beginning."""

    def __init__(
        self, arrivals: Sequence[Arrival], changes: Sequence[PlannedChange] = (), replaced: Collection[str] = ()
    ) -> None:
        self.changes, self.replaced = changes, replaced
        self._arrivals = sorted(arrivals, key=lambda arrival: arrival.at_ns)

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self._arrivals)

    def pods(self) -> list[Pod]:
        return [arrival.pod for arrival in self._arrivals]

    def candidates(self, name: str) -> list[Pod]:
        return self.pods()


class ArrivalsError(InputError):
    """Arrivals that cannot be used."""


def read_arrivals(
    given: str | os.PathLike[str] | Sequence[Mapping[str, Any]],
    objects: Sequence[KubeObject] = (),
    gates: Mapping[str, bool] | None = None,
    validation: Validation = Validation.STRICT,
    on_warning: Callable[[Problem], None] | None = None,
) -> list[Arrival]:
    """All arrivals of a file, or of entries as such a file has them, in the order of their time. Raises ArrivalsError.

    `objects` are the cluster that the pods arrive in: its classes and limits apply to them, and the names of its pods are
    taken; so do its feature gates. `on_warning` gets unknown fields if `validation` is WARN.
    """
    if not isinstance(given, str | os.PathLike):
        return arrivals_of(given, objects, gates)
    path = os.fspath(given)
    text = bytes_of(path, MAX_BYTES, "split it", ArrivalsError)
    reader = _Reader(path, objects, validation, gates)
    if path.lower().endswith(".csv"):
        return _read_csv(reader, text, path)
    written = ManifestFile(path, text)
    try:
        arrivals = reader.read(_from_yaml(written))
    except ArrivalsError as error:
        raise ArrivalsError(on_lines(written, error.problems, "arrivals")) from None
    if reader.warnings and on_warning is not None:
        for warning in on_lines(written, reader.warnings, "arrivals"):
            on_warning(warning)
    return arrivals


def arrivals_of(
    written: Any, objects: Sequence[KubeObject] = (), gates: Mapping[str, bool] | None = None
) -> list[Arrival]:
    """Arrivals from plain data in the form of the YAML. Raises ArrivalsError."""
    return _Reader("", objects, Validation.STRICT, gates).read(_listed(written, ""))


def _read_csv(reader: "_Reader", text: bytes, path: str) -> list[Arrival]:
    """Turns the path `line 3` of a CSV entry into the line of its problem."""
    try:
        return reader.read(_from_csv(text, path))
    except ArrivalsError as error:
        parts = [(problem, _CSV_PLACE.fullmatch(problem.path)) for problem in error.problems]
        named = [replace(problem, line=int(at[1]), path=at[2]) if at else problem for problem, at in parts]
        raise ArrivalsError(named) from None


# ---- from text to entries

_Entry = tuple[str, Any]
"""Its path in messages, and its data."""


def _from_csv(text: bytes, path: str) -> list[_Entry]:
    """The rows of a CSV file as entries. Raises ArrivalsError with all problems."""
    problems: list[Problem] = []
    entries: list[_Entry] = []
    try:
        rows = csv.reader(io.StringIO(text.decode(), newline=""), strict=True)
        heads = [cell.strip() for cell in next(rows, [])]
        problems += _check_heads(heads, path)
        for row in rows:
            cells = [cell.strip() for cell in row]
            where = f"line {rows.line_num}"
            if len(cells) != len(heads) and any(cells):
                fault = f"the row has {len(cells)} cells; write {len(heads)}, as many as the header has"
                problems.append(Problem("", fault, file=path, line=rows.line_num))
            elif any(cells):
                entries.append((where, _from_cells(dict(zip(heads, cells, strict=True)))))
    except UnicodeDecodeError:
        problems.append(Problem("", "the text is not UTF-8: write CSV in UTF-8", file=path))
    except csv.Error as error:
        problems.append(Problem("", f"the text does not parse ({error})", file=path, line=rows.line_num))
    if problems:
        raise ArrivalsError(problems)
    return entries


def _check_heads(heads: Sequence[str], path: str) -> Iterator[Problem]:
    """Problems of the header: none at all, or a column twice."""
    if not any(heads):
        header = "a header: at, run, name, namespace, priority, count, resources"
        yield Problem("", NOTHING_THERE, header, file=path, line=1)
    for name, times in Counter(heads).items():
        if times > 1:
            text = f"the header has {times} columns {show(name)}; name each column once"
            yield Problem("", text, file=path, line=1)


def _from_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {key: value for key, value in cells.items() if key in _CSV_FIELDS and value}
    entry["requests"] = {key: value for key, value in cells.items() if key not in _CSV_FIELDS and value}
    return entry


def _from_yaml(file: ManifestFile) -> list[_Entry]:
    """The entries of a YAML file. Raises ArrivalsError."""
    documents = documents_of(file, ArrivalsError)
    return _listed(documents[0] if documents else None, file.name)


def _listed(written: Any, path: str) -> list[_Entry]:
    if isinstance(written, Mapping) and set(written) == {"arrivals"}:
        written = written["arrivals"]
    if not isinstance(written, list | tuple):
        form = "a list of arrivals, or one under `arrivals:`"
        raise ArrivalsError([Problem("", show(written), form, file=path)])
    return [(f"arrivals[{i}]", entry) for i, entry in enumerate(written)]


# ---- from entries to pods


class _Reader:
    """Turns entries into arrivals and collects their problems."""

    def __init__(
        self, path: str, objects: Sequence[KubeObject], validation: Validation, gates: Mapping[str, bool] | None
    ) -> None:
        self._path = path
        self._validation = validation
        self._admission = Admission.of(objects, gates)
        self._taken = {item.key for item in objects if isinstance(item, Pod)}
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def read(self, entries: Sequence[_Entry]) -> list[Arrival]:
        """All arrivals, sorted by time; entries at the same time keep their order. Raises ArrivalsError."""
        arrivals: list[Arrival] = []
        for where, entry in entries:
            for arrival in self._expand(entry, where):
                arrivals.append(arrival)
                if len(arrivals) > MAX_ARRIVALS:
                    self._fault(where, f"the arrivals are more than {MAX_ARRIVALS} pods in all; write fewer")
                    raise ArrivalsError(self._problems)
        if self._problems:
            raise ArrivalsError(self._problems)
        return sorted(arrivals, key=lambda arrival: arrival.at_ns)

    def _expand(self, entry: Any, where: str) -> Iterator[Arrival]:
        """The pods of an entry; none if it has a problem."""
        before = len(self._problems)
        if not isinstance(entry, Mapping):
            self._fault(where, show(entry), "an object with `at` and a pod")
            return
        for key in entry:
            if key not in _FIELDS:
                self._fault(at_key(where, str(key)), f"unknown field; the fields are {', '.join(sorted(_FIELDS))}")
        times = {key: self._duration(entry, key, where) for key in _TIMES}
        count = self._whole(entry, "count", where, 1, least=1)
        self._check_stream(entry, times, where)
        template = self._template(entry, where)
        if len(self._problems) > before or template is None:
            return
        at_ns, every_ns, until_ns = times["at"] or 0, times["every"], times["until"]
        while True:
            for _ in range(count):
                yield Arrival(at_ns, self._pod(template), times["run"])
            if every_ns is None or until_ns is None or at_ns + every_ns > until_ns:
                return
            at_ns += every_ns

    def _check_stream(self, entry: Mapping[str, Any], times: Mapping[str, int | None], where: str) -> None:
        if times["every"] == 0:
            self._fault(f"{where}.every", show(entry["every"]), "more than 0")
        if times["every"] and "until" not in entry:
            self._fault(f"{where}.every", "`every` needs `until`, which ends it; add `until`")
        if times["until"] is not None and "every" not in entry:
            self._fault(f"{where}.until", "`until` ends what `every` repeats; add `every` or remove `until`")

    def _template(self, entry: Mapping[str, Any], where: str) -> Pod | None:
        """The pod of the entry, without the number in its name."""
        written, paths = self._written(entry, where)
        if written is None:
            return None
        pod, problems = decode_as(Pod, written)
        unknown = check_core_fields("Pod", written) if self._validation is not Validation.IGNORE else []
        if self._validation is Validation.STRICT:
            problems += unknown
        else:
            self.warnings += [_as_written(problem, paths, where).at("", self._path) for problem in unknown]
        if pod is not None and not problems:
            problems += self._admission.admit(pod) + validate(pod)
            problems += _check_template(pod) if not problems else ()
        self._problems += [_as_written(problem, paths, where).at("", self._path) for problem in problems]
        return pod

    def _written(self, entry: Mapping[str, Any], where: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """The pod as in a manifest, and path in the pod -> path in the entry for the parts in the short form."""
        given = entry.get("pod", {})
        parts = {"pod": given}
        if isinstance(given, Mapping):
            parts |= {"pod.metadata": given.get("metadata"), "pod.spec": given.get("spec")}
        parts["requests"] = entry.get("requests")
        odd = [(path, part) for path, part in parts.items() if part is not None and not isinstance(part, Mapping)]
        for path, part in odd:
            self._fault(f"{where}.{path}", show(part), "an object")
        if odd:
            return None, {}
        metadata = dict((given or {}).get("metadata") or {})
        spec = dict((given or {}).get("spec") or {})
        paths = {}
        for key, default in (("name", "pod"), ("namespace", "default"), ("labels", None)):
            if entry.get(key) is not None or key not in metadata:
                metadata[key] = entry.get(key, default)
                paths[f"metadata.{key}"] = key
        if entry.get("priority") is not None:
            spec["priority"] = self._whole(entry, "priority", where, 0)
            paths["spec.priority"] = "priority"
        self._add_requests(entry, spec, paths, where)
        return {"metadata": metadata, "spec": spec}, paths

    def _add_requests(self, entry: Mapping[str, Any], spec: dict[str, Any], paths: dict[str, str], where: str) -> None:
        """Add the container of the short form; a problem if the pod has its own containers."""
        asked = {key: entry[key] for key in ("cpu", "memory") if entry.get(key) is not None}
        place = "spec.containers[0].resources.requests"
        paths |= {f"{place}.{key}": key for key in asked}
        more = entry.get("requests") or {}
        for key in asked.keys() & more:
            self._fault(f"{where}.requests.{key}", show(more[key]), f"nothing beside `{key}`")
        paths |= {at_key(place, str(key)): at_key("requests", str(key)) for key in more}
        if "containers" not in spec:
            spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": {**asked, **more}}}]
            return
        for key in _SHORTHAND:
            if entry.get(key):
                self._fault(f"{where}.{key}", show(entry[key]), "nothing beside containers of the pod's own")

    def _pod(self, template: Pod) -> Pod:
        """Another pod of the template with its own name; it shares the computed values of the template."""
        stem = (template.namespace, template.name)
        while True:
            name = f"{template.name}-{self._numbers[stem]}"
            self._numbers[stem] += 1
            key = f"{template.namespace}/{name}"
            if key not in self._taken:
                break
        return template.with_name(name, uid=key)

    # ---- single values

    def _duration(self, entry: Mapping[str, Any], key: str, where: str) -> int | None:
        value = entry.get(key)
        found = parse_duration(value)
        if value is not None and found is None:
            self._fault(f"{where}.{key}", show(value), DURATION_FORM)
        return found

    def _whole(self, entry: Mapping[str, Any], key: str, where: str, default: int, least: int | None = None) -> int:
        """A whole number of an entry; CSV has it as text."""
        value = entry.get(key)
        if value is None:
            return default
        try:
            found = int(value) if isinstance(value, str) or type(value) is int else None
        except ValueError:
            found = None
        if found is None or (least is not None and found < least):
            allowed = "a whole number" if least is None else f"a whole number from {least}"
            self._fault(f"{where}.{key}", show(value), allowed)
            return default
        return found

    def _fault(self, path: str, found: str, allowed: str = "") -> None:
        self._problems.append(Problem(path, found, allowed, file=self._path))


def _check_template(pod: Pod) -> Iterator[Problem]:
    """Fields that a manifest may have and an arrival may not."""
    if pod.spec.node_name:
        yield Problem("spec.nodeName", show(pod.spec.node_name), "nothing: the scheduler decides")


def _as_written(problem: Problem, paths: Mapping[str, str], where: str) -> Problem:
    """The problem with its path in the entry: that of the short form, or one below `pod`."""
    for long, short in paths.items():
        if problem.path == long or problem.path.startswith((f"{long}.", f"{long}[")):
            return replace(problem, path=f"{where}.{short}{problem.path[len(long) :]}")
    return problem.under(f"{where}.pod")
