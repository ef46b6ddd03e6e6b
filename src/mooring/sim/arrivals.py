"""Arrivals: pods that come over time and run for a while, read from a small YAML or CSV file.

YAML, a list (or the same under `arrivals:`), each entry one pod or a stream of them:

    - at: 0s             # since the beginning; a number of seconds, or a duration: 90, 1h30m
      every: 10s         # again and again, at this distance ...
      until: 2h          # ... as long as this (needs `every`)
      count: 5           # how many at a time
      run: 15m           # how long a pod runs once it is bound; without it, for ever
      name: web          # pods are named web-0, web-1, ...
      cpu: 500m          # requests, shorthand for a pod of one container
      memory: 1Gi
      priority: 100
      pod: {...}         # or the whole pod: metadata and spec as in a manifest

CSV, one pod a line, with a header: `at`, `run`, `name`, `namespace`, `priority`, `count`; every other column is a
resource (cpu, memory, example.com/gpu, ...).
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from mooring.framework.config.durations import Duration
from mooring.kit.clock import NS_PER_S
from mooring.model.decode import decode_as
from mooring.model.pod import Pod
from mooring.model.problem import Problem, show
from mooring.model.validate import validate

MAX_BYTES = 256 << 20
MAX_ARRIVALS = 2_000_000

_FIELDS = {"at", "every", "until", "count", "run", "name", "namespace", "priority", "labels", "pod", "cpu", "memory"}
_CSV_FIELDS = {"at", "run", "name", "namespace", "priority", "count"}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod, when it comes, and how long it will run once it is bound (None: for ever)."""

    at_ns: int
    pod: Pod
    run_ns: int | None


class ArrivalsError(ValueError):
    """A file that cannot be used; `problems` has every fault of it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def read_arrivals(path: str) -> list[Arrival]:
    """All arrivals of a file, in the order of their time. Raises ArrivalsError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode()
    except OSError as fault:
        raise ArrivalsError([Problem("", f"a file that cannot be read ({fault.strerror})", "a file", path)]) from fault
    except UnicodeDecodeError as fault:
        raise ArrivalsError([Problem("", "text that is not UTF-8", "YAML or CSV in UTF-8", path)]) from fault
    if len(raw) > MAX_BYTES:
        raise ArrivalsError([Problem("", f"more than {MAX_BYTES} bytes", "a smaller file", path)])
    entries = _from_csv(text, path) if path.endswith(".csv") else _from_yaml(text, path)
    return _Reader(path).read(entries)


def _from_csv(text: str, path: str) -> list[Any]:
    rows = csv.DictReader(io.StringIO(text))
    entries = []
    for row in rows:
        entry: dict[str, Any] = {key: value for key, value in row.items() if key in _CSV_FIELDS and value}
        if None in row or None in row.values():
            fault = Problem(
                f"line {rows.line_num}", "another number of cells than the header has", "one a column", path
            )
            raise ArrivalsError([fault])
        entry["requests"] = {key: value for key, value in row.items() if key not in _CSV_FIELDS and value}
        entries.append(entry)
    return entries


def _from_yaml(text: str, path: str) -> list[Any]:
    try:
        loaded = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as fault:
        what = " ".join(str(fault).split())
        raise ArrivalsError([Problem("", f"text that is not YAML ({what})", "YAML", path)]) from fault
    if isinstance(loaded, Mapping) and set(loaded) == {"arrivals"}:
        loaded = loaded["arrivals"]
    if not isinstance(loaded, list):
        raise ArrivalsError([Problem("", show(loaded), "a list of arrivals, or one under `arrivals:`", path)])
    return loaded


class _Reader:
    """Turns entries into arrivals and gathers what is wrong with them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._problems: list[Problem] = []
        self._numbers: dict[str, int] = {}

    def read(self, entries: list[Any]) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for i, entry in enumerate(entries):
            for arrival in self._expand(entry, f"arrivals[{i}]"):
                arrivals.append(arrival)
                if len(arrivals) > MAX_ARRIVALS:
                    self._fault(f"arrivals[{i}]", f"more than {MAX_ARRIVALS} pods in all", "fewer")
                    break
        if self._problems:
            raise ArrivalsError(self._problems)
        return sorted(arrivals, key=lambda arrival: arrival.at_ns)

    def _expand(self, entry: Any, where: str) -> Iterator[Arrival]:
        before = len(self._problems)
        if not isinstance(entry, Mapping):
            self._fault(where, show(entry), "an object with `at` and a pod")
            return
        for key in entry.keys() - _FIELDS - {"requests"}:
            self._fault(f"{where}.{key}", "a field that is not known", ", ".join(sorted(_FIELDS)))
        at_ns = self._duration(entry, "at", where) or 0
        run_ns = self._duration(entry, "run", where)
        every_ns, until_ns = self._duration(entry, "every", where), self._duration(entry, "until", where)
        count = self._whole(entry, "count", where, 1)
        template = self._template(entry, where)
        if until_ns is not None and not every_ns:
            self._fault(f"{where}.until", show(entry["until"]), "only beside an `every` above 0")
        if len(self._problems) > before or template is None:
            return
        while True:
            for _ in range(count):
                yield Arrival(at_ns, self._pod(template), run_ns)
            if not every_ns or until_ns is None or at_ns + every_ns > until_ns:
                return
            at_ns += every_ns

    def _template(self, entry: Mapping[str, Any], where: str) -> Pod | None:
        """The pod that the entry describes, without the number in its name."""
        written = dict(entry.get("pod") or {}) if isinstance(entry.get("pod", {}), Mapping) else None
        if written is None:
            self._fault(f"{where}.pod", show(entry["pod"]), "a pod: metadata and spec")
            return None
        requests = {name: entry[name] for name in ("cpu", "memory") if name in entry} | dict(
            entry.get("requests") or {}
        )
        metadata = {"name": entry.get("name", "pod"), "namespace": entry.get("namespace", "default")}
        written["metadata"] = {**metadata, "labels": entry.get("labels"), **(written.get("metadata") or {})}
        spec = dict(
            written.get("spec") or {"containers": [{"name": "main", "image": "", "resources": {"requests": requests}}]}
        )
        if "priority" in entry:
            spec["priority"] = self._whole(entry, "priority", where, 0)
        spec.setdefault("schedulerName", "default-scheduler")
        written["spec"] = spec
        pod, problems = decode_as(Pod, written)
        problems += validate(pod) if pod is not None else []
        self._problems += [problem.under(f"{where}.pod").at(self._path) for problem in problems]
        return pod

    def _pod(self, template: Pod) -> Pod:
        """Another pod of the template, with a name of its own; what was worked out of the template is shared."""
        base = template.metadata.name
        number = self._numbers[base] = self._numbers.get(base, -1) + 1
        name = f"{base}-{number}"
        metadata = msgspec.structs.replace(template.metadata, name=name, uid=f"{template.namespace}/{name}")
        pod = Pod(metadata=metadata, spec=template.spec, status=template.status)
        pod.__dict__.update(shape=template.shape, kin=template.kin)
        return pod

    def _duration(self, entry: Mapping[str, Any], key: str, where: str) -> int | None:
        value = entry.get(key)
        if value is None:
            return None
        try:
            number = float(value)
            found = round(number * NS_PER_S)
        except (TypeError, ValueError, OverflowError):
            try:
                found = Duration.parse(str(value)).nanoseconds
            except ValueError:
                found = -1
        if found < 0:
            self._fault(f"{where}.{key}", show(value), "seconds, or a duration such as 90s, 15m, 1h30m")
            return None
        return found

    def _whole(self, entry: Mapping[str, Any], key: str, where: str, default: int) -> int:
        value = entry.get(key, default)
        try:
            return int(value)
        except (TypeError, ValueError):
            self._fault(f"{where}.{key}", show(value), "a whole number")
            return default

    def _fault(self, path: str, found: str, allowed: str) -> None:
        self._problems.append(Problem(path, found, allowed, self._path))
