"""The file of a study: which clusters, workloads, configurations, seeds and loads, and what the runs are judged by.

docs/laboratory.md has an example and a table of all fields.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mooring.answers.experiments.run_plan import digest_of
from mooring.answers.study.study_metrics import Metric, MetricEntry, columns_of, metric_of
from mooring.api.decode import decode_as
from mooring.api.validation.problem import NOTHING_THERE, Problem, show
from mooring.inputs.field_checks import nearest, unknown_fields
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import on_lines, read_own_file
from mooring.inputs.trace_formats import FORMATS
from mooring.model.meta import Wire

API_VERSION, KIND = "mooring.dev/v1", "Study"
MAX_BYTES = 1 << 20
MAX_SEEDS = 100_000
MAX_LOAD = 1000.0
ONE_BY_ONE, OVER_TIME, AT_ONCE = "one-by-one", "over-time", "at-once"
ARRIVE = (ONE_BY_ONE, OVER_TIME, AT_ONCE)
BY_SEED, BY_NAME, SHUFFLED = "seed", "name", "shuffled"
OPTIMAL = "Optimal"
"""The name, among the policies, of a bound that none of them exceeds."""
LATER = ("workload", "workload.pods", "cluster", "seed")
"""Names in braces that are known only in a run, for `set` of configurations."""
_BRACES = re.compile(r"\{([A-Za-z][\w.-]*)\}")
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


class StudyError(InputError):
    """A study that cannot be used."""


class ParameterEntry(Wire, omit_defaults=True):
    """A parameter: `--set NAME=VALUE` gives its value, which stands for `{NAME}` in all texts."""

    default: Any = None
    """The value without `--set`. Null: the study needs one."""
    about: str = ""
    """The meaning of the value; for data, where to get them."""


class ClusterEntry(Wire, omit_defaults=True):
    """A cluster: exactly one of `nodes`, `manifests` and `recording`."""

    name: str = ""
    nodes: str | None = None
    """A table of nodes, in the format of a public trace."""
    format: str | None = None
    """The format of `nodes`."""
    manifests: Any = None
    """A file or folder with manifests, a dump or a snapshot; or a list of them."""
    recording: str | None = None
    """A folder of `mooring record`: the cluster at its beginning."""
    prices: str | None = None
    """Prices of nodes an hour, by instance type or name (YAML)."""


class UntilEntry(Wire, omit_defaults=True):
    """When no more pods arrive."""

    resource: str = "cpu"
    percent: float = 100.0
    """Pods arrive until they ask for this much of what all nodes have of the resource. Pods are drawn again at random if
    there are too few."""


class FitEntry(Wire, omit_defaults=True):
    """A new load like the pods of a table: requests, distances between arrivals and run times are drawn from them."""

    pods: int | None = None
    """How many pods to draw; null: as many as the table has."""


class WorkloadEntry(Wire, omit_defaults=True):
    """A workload: at most one of `pods`, `arrivals`, `generate` and `recording`. Without them, the pending pods of the
    cluster are placed at once."""

    name: str = ""
    pods: str | None = None
    """A table of pods, in the format of a public trace."""
    types: str | None = None
    """The second table of formats that have one."""
    format: str | None = None
    arrivals: str | None = None
    """A file of arrivals (docs/simulation.md)."""
    generate: Any = None
    """A plan of a generated load: a file, or the plan itself (docs/simulation.md)."""
    recording: str | None = None
    """A folder of `mooring record`: its arrivals and changes."""
    arrive: str | None = None
    """one-by-one: in an order that the seed shuffles, and pods never leave. over-time: at the times of the source. at-once:
    all pending pods of the cluster at one moment."""
    until: UntilEntry | None = None
    """For one-by-one: when no more pods arrive. Null: when each pod of the table has arrived."""
    gives_up: bool | None = None
    """For one-by-one, which always does: a pod that does not fit is given up."""
    fit: FitEntry | None = None
    """Draw a new load like `pods` for each seed."""
    ends: Any = None
    """For over-time: stop each run after this much simulated time."""

    @property
    def has_moments(self) -> bool:
        """Whether runs have moments at which pods ask for a percentage of a resource: `at` of metrics."""
        return self.arrive == ONE_BY_ONE and self.until is not None


class ConfigurationEntry(Wire, omit_defaults=True):
    """A scheduler configuration and its plugins."""

    name: str = ""
    config: str | None = None
    """A file with a KubeSchedulerConfiguration; null: the built-in one."""
    plugins: list[str] = msgspec.field(default_factory=list)
    """Files or packages of plugins."""
    ties: str = BY_SEED
    """Which of several nodes with the same score a pod gets: seed (the seed of the run decides each time), name (the lowest)
    or, for one-by-one, shuffled (the first in an order of the nodes that the seed decides once)."""
    set: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the configuration by path, as in `mooring compare --vary`. `{workload}`, `{workload.pods}`, `{cluster}` and
    `{seed}` stand for those of a run."""


class RunEntry(Wire, omit_defaults=True):
    """How the runs are made."""

    processes: int | None = None
    """How many processes to use; null: one for each core."""


Seeds = int | list[int] | str


class StudyFile(Wire, omit_defaults=True):
    """A study: every cluster with every workload under every configuration, with every seed and load."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = ""
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = ""
    about: str = ""
    """The question of the study, for reports."""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    """By name: a value, null, or an object with `default` and `about`."""
    clusters: list[ClusterEntry] = msgspec.field(default_factory=list)
    workloads: list[WorkloadEntry] = msgspec.field(default_factory=list)
    """Empty: the pending pods of each cluster are placed at once."""
    configurations: list[ConfigurationEntry] = msgspec.field(default_factory=list)
    """The first one is what the others are compared with. Empty: the built-in configuration."""
    seeds: Any = 1
    """A number N for 1 to N, a list, or a text such as 1..10."""
    loads: list[float] = msgspec.field(default_factory=lambda: [1.0])
    """How many pods arrive, as multiples of those that are given."""
    metrics: list[Any] = msgspec.field(default_factory=list)
    """The columns of the results. Empty: placed, pending and preempted pods, waiting times and utilisation."""
    run: RunEntry = msgspec.field(default_factory=RunEntry)


@dataclass(frozen=True, slots=True)
class Study:
    """A study that can be run: values of parameters are filled in, and paths are absolute."""

    clusters: tuple[ClusterEntry, ...]
    workloads: tuple[WorkloadEntry, ...]
    configurations: tuple[ConfigurationEntry, ...]
    seeds: tuple[int, ...]
    loads: tuple[float, ...]
    metrics: tuple[Metric, ...]
    parameters: Mapping[str, Any]
    processes: int | None = None
    name: str = ""
    about: str = ""
    digest: str = ""
    """The digest of the file as it is written."""

    @property
    def columns(self) -> list[str]:
        """The columns of the metrics."""
        return columns_of(self.metrics)

    def configuration(self, place: int | None) -> ConfigurationEntry:
        """The configuration of a run that has one."""
        assert place is not None, "a bound has no configuration"
        return self.configurations[place]

    def policy(self, place: int | None) -> str:
        """The name of a configuration; None: that of the bound."""
        return OPTIMAL if place is None else self.configurations[place].name

    def names(self, cluster: int, workload: int, config: int | None) -> tuple[str, str, str]:
        """The names of the cluster, the workload and the configuration at these places."""
        return self.clusters[cluster].name, self.workloads[workload].name, self.policy(config)


def read_study(given: str | os.PathLike[str] | Mapping[str, Any], values: Mapping[str, Any] | None = None) -> Study:
    """The study in a YAML or JSON file, or in a dictionary of the same form. `values` are those of parameters.

    Raises StudyError with all problems, those of a file with their lines.
    """
    if isinstance(given, Mapping):
        return _Reading(os.getcwd(), "", values or {}).read(dict(given))
    path = os.fspath(given)
    file, written = read_own_file(path, MAX_BYTES, "write a smaller study", StudyError)
    try:
        return _Reading(os.path.dirname(os.path.abspath(path)), path, values or {}).read(written)
    except StudyError as error:
        raise StudyError(on_lines(file, error.problems)) from None


@dataclass(slots=True)
class _Reading:
    """A study that is being read. Problems are collected, so that a user learns all of them at once."""

    folder: str
    """Relative paths of the file begin here."""
    path: str
    values: Mapping[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def read(self, written: Any) -> Study:
        if not isinstance(written, dict):
            raise StudyError([Problem("", show(written), f"an object with apiVersion: {API_VERSION} and kind: {KIND}")])
        self.problems += unknown_fields(written, StudyFile, "")
        file, mismatches = decode_as(StudyFile, written)
        self.problems += mismatches
        if file is None:
            raise StudyError(self.problems)
        self._header(file)
        self._parameters(file)
        self._end()  # texts cannot be filled in without all values
        study = self._study(file, digest_of(written))
        self._end()
        return study

    def _end(self) -> None:
        if self.problems:
            raise StudyError(self.problems)

    def fault(self, path: str, found: str, allowed: str = "") -> None:
        self.problems.append(Problem(path, found, allowed))

    def _header(self, file: StudyFile) -> None:
        for path, found, wanted in (("apiVersion", file.api_version, API_VERSION), ("kind", file.kind, KIND)):
            if found != wanted:
                self.fault(path, show(found) if found else NOTHING_THERE, wanted)

    # ---- parameters

    def _parameters(self, file: StudyFile) -> None:
        for name in self.values:
            if name not in file.parameters:
                meant = nearest(name, file.parameters)
                known = (
                    f"did you mean {meant}?" if meant else f"the parameters are {', '.join(file.parameters) or 'none'}"
                )
                self.problems.append(Problem(f"--set {name}", f"the study has no such parameter; {known}"))
        for name, entry in file.parameters.items():
            path = f"parameters.{name}"
            about = ""
            if isinstance(entry, dict):
                self.problems += unknown_fields(entry, ParameterEntry, path)
                about, entry = str(entry.get("about") or ""), entry.get("default")
            value = self.values.get(name, entry)
            if name in LATER:
                self.fault(path, f"{name} is the name of a part of a run; choose another name")
            elif isinstance(value, dict | list):
                self.fault(path, show(value), "a text, a number or null")
            elif value is None:
                told = f"the study needs a value: --set {name}=VALUE"
                self.fault(path, f"{told}; it is {about}" if about else told)
            self.parameters[name] = value

    def _filled(self, written: Any, path: str, later: Sequence[str] = ()) -> Any:
        """The value with those of parameters in the place of their names in braces."""
        if isinstance(written, dict):
            return {key: self._filled(each, f"{path}.{key}", later) for key, each in written.items()}
        if isinstance(written, list):
            return [self._filled(each, f"{path}[{i}]", later) for i, each in enumerate(written)]
        if not isinstance(written, str):
            return written

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name in self.parameters:
                return str(self.parameters[name])
            if name not in later:
                known = [*self.parameters, *later]
                meant = nearest(name, known)
                hint = f"did you mean {{{meant}}}?" if meant else "add it to parameters"
                self.fault(path, f"{{{name}}} is no parameter; {hint}")
            return found[0]

        return _BRACES.sub(value, written)

    def _file(self, written: str | None, path: str) -> str | None:
        """A path: those of the file are relative to it, those of parameters to the working directory."""
        if written is None:
            return None
        filled = self._filled(written, path)
        return os.path.abspath(filled if written.startswith("{") else os.path.join(self.folder, filled))

    # ---- parts

    def _study(self, file: StudyFile, digest: str) -> Study:
        clusters = [self._cluster(each, f"clusters[{i}]") for i, each in enumerate(file.clusters)]
        workloads = [self._workload(each, f"workloads[{i}]") for i, each in enumerate(file.workloads)]
        configs = [self._configuration(each, f"configurations[{i}]") for i, each in enumerate(file.configurations)]
        if not clusters:
            self.fault("clusters", NOTHING_THERE, "at least one cluster")
        for path, entries in (("clusters", clusters), ("workloads", workloads), ("configurations", configs)):
            self._check_names(path, [each.name for each in entries])
        return Study(
            tuple(clusters),
            tuple(workloads) or (WorkloadEntry("pending", arrive=AT_ONCE),),
            tuple(configs) or (ConfigurationEntry("default"),),
            self._seeds(file.seeds),
            self._loads(file.loads),
            self._metrics(file.metrics, workloads),
            self.parameters,
            file.run.processes,
            os.path.splitext(os.path.basename(self.path))[0],
            file.about,
            digest,
        )

    def _check_names(self, path: str, names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            if not _NAME.fullmatch(name):
                self.fault(f"{path}[{i}].name", show(name), "a name of letters, digits, hyphens, dots and underscores")
            elif name in names[:i]:
                self.fault(f"{path}[{i}].name", f"{show(name)} is the name of another one; write another name")

    def _chosen(self, entry: Wire, names: Sequence[str], path: str, at_least: int) -> str:
        """The one of these fields that is written."""
        there = [name for name in names if getattr(entry, name) is not None]
        if not at_least <= len(there) <= 1:
            self.fault(path, f"has {', '.join(there) or 'no source'}; write one of {', '.join(names)}")
        return there[0] if there else ""

    def _format(self, entry: ClusterEntry | WorkloadEntry, source: str, path: str) -> None:
        if source in ("nodes", "pods") and entry.format not in FORMATS:
            found = show(entry.format) if entry.format else NOTHING_THERE
            self.fault(f"{path}.format", found, f"a format of {source}, one of: {', '.join(FORMATS)}")
        elif source not in ("nodes", "pods") and entry.format is not None:
            self.fault(f"{path}.format", f"{source or 'the pending pods'} have no format; remove it")

    def _cluster(self, entry: ClusterEntry, path: str) -> ClusterEntry:
        source = self._chosen(entry, ("nodes", "manifests", "recording"), path, 1)
        self._format(entry, source, path)
        listed = entry.manifests if isinstance(entry.manifests, list) else [entry.manifests]
        if entry.manifests is not None and not all(isinstance(each, str) for each in listed):
            self.fault(f"{path}.manifests", show(entry.manifests), "a file or folder, or a list of them")
            listed = []
        return ClusterEntry(
            entry.name or _stem(entry.nodes or entry.recording or (listed[0] if listed else None)),
            self._file(entry.nodes, f"{path}.nodes"),
            entry.format,
            None if entry.manifests is None else [self._file(each, f"{path}.manifests") for each in listed],
            self._file(entry.recording, f"{path}.recording"),
            self._file(entry.prices, f"{path}.prices"),
        )

    def _workload(self, entry: WorkloadEntry, path: str) -> WorkloadEntry:
        source = self._chosen(entry, ("pods", "arrivals", "generate", "recording"), path, 0)
        self._format(entry, source, path)
        arrive = entry.arrive or (OVER_TIME if source else AT_ONCE)
        self._check_arrive(entry, source, arrive, path)
        plan = entry.generate
        if isinstance(plan, str):
            plan = self._file(plan, f"{path}.generate")
        elif plan is not None and not isinstance(plan, dict):
            self.fault(f"{path}.generate", show(plan), "a file, or a plan as an object")
        return msgspec.structs.replace(
            entry,
            name=entry.name or _stem(entry.pods or entry.arrivals or entry.recording) or source or "pending",
            pods=self._file(entry.pods, f"{path}.pods"),
            types=self._file(entry.types, f"{path}.types"),
            arrivals=self._file(entry.arrivals, f"{path}.arrivals"),
            generate=plan,
            recording=self._file(entry.recording, f"{path}.recording"),
            arrive=arrive,
        )

    def _check_arrive(self, entry: WorkloadEntry, source: str, arrive: str, path: str) -> None:
        if arrive not in ARRIVE:
            self.fault(f"{path}.arrive", show(arrive), f"one of: {', '.join(ARRIVE)}")
        elif (arrive == AT_ONCE) != (not source):
            told = "places the pending pods of the cluster" if arrive == AT_ONCE else "needs a source of pods"
            self.fault(f"{path}.arrive", f"{arrive} {told}; write one of {', '.join(ARRIVE)} that suits")
        elif arrive == ONE_BY_ONE and source != "pods":
            self.fault(f"{path}.arrive", "one-by-one needs a table of pods; write pods and format")
        if arrive != ONE_BY_ONE:
            for name, value in (("until", entry.until), ("givesUp", entry.gives_up)):
                if value is not None:
                    self.fault(f"{path}.{name}", "only pods that arrive one-by-one have it; remove it")
        elif entry.gives_up is False:
            self.fault(f"{path}.givesUp", "pods that arrive one-by-one cannot wait; write true, or arrive: over-time")
        if entry.until is not None and not 0 < entry.until.percent <= 10_000:
            self.fault(f"{path}.until.percent", show(entry.until.percent), "above 0, up to 10000")
        if entry.fit is not None and source != "pods":
            self.fault(f"{path}.fit", "is drawn from a table of pods; write pods and format")
        if entry.fit is not None and entry.fit.pods is not None and not 1 <= entry.fit.pods <= 1_000_000:
            self.fault(f"{path}.fit.pods", show(entry.fit.pods), "from 1 to 1000000")

    def _configuration(self, entry: ConfigurationEntry, path: str) -> ConfigurationEntry:
        if entry.ties not in (BY_SEED, BY_NAME, SHUFFLED):
            self.fault(f"{path}.ties", show(entry.ties), f"one of: {BY_SEED}, {BY_NAME}, {SHUFFLED}")
        return ConfigurationEntry(
            entry.name or _stem(entry.config) or "default",
            self._file(entry.config, f"{path}.config"),
            [str(self._file(each, f"{path}.plugins[{i}]")) for i, each in enumerate(entry.plugins)],
            entry.ties,
            {key: self._filled(value, f"{path}.set", LATER) for key, value in entry.set.items()},
        )

    def _seeds(self, written: Any) -> tuple[int, ...]:
        found: Sequence[Any] = ()
        if isinstance(written, int) and not isinstance(written, bool):
            found = range(1, min(written, MAX_SEEDS + 1) + 1)
        elif isinstance(written, list):
            found = written
        elif isinstance(written, str) and (between := re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", written.strip())):
            first, last = int(between[1]), int(between[2])
            found = range(first, min(last, first + MAX_SEEDS) + 1)
        good = [each for each in found if isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**63]
        if not found or len(good) < len(found) or len({*good}) < len(good) or len(found) > MAX_SEEDS:
            self.fault(
                "seeds", show(written), "a number of seeds, a list of different whole numbers, or a text such as 1..10"
            )
        return tuple(good)

    def _loads(self, written: Sequence[float]) -> tuple[float, ...]:
        for i, load in enumerate(written):
            if not 0 < load <= MAX_LOAD or load in written[:i]:
                self.fault(f"loads[{i}]", show(load), f"above 0, up to {MAX_LOAD:g}, and not given twice")
        if not written:
            self.fault("loads", NOTHING_THERE, "at least one load, such as 1.0")
        return tuple(written)

    def _metrics(self, written: Sequence[Any], workloads: Sequence[WorkloadEntry]) -> tuple[Metric, ...]:
        metrics: list[Metric] = []
        has_moments = any(each.has_moments for each in workloads)
        for i, each in enumerate(written or DEFAULT_METRICS):
            path = f"metrics[{i}]"
            if isinstance(each, dict):
                self.problems += unknown_fields(each, MetricEntry, path)
            found = metric_of(self._filled(each, path), path, self.folder)
            if isinstance(found, Metric):
                metrics.append(found)
                if found.at and not has_moments:
                    self.fault(
                        f"{path}.at",
                        f"no workload arrives {ONE_BY_ONE} with `until`; remove it, or add such a workload",
                    )
            else:
                self.problems += found
        columns = columns_of(metrics)
        for column in {column for column in columns if columns.count(column) > 1}:
            self.fault("metrics", f"two metrics have the column {column}; write a `column` for one of them")
        return tuple(metrics)


DEFAULT_METRICS = (
    *("placed", "pending", "preempted", "waits.p50Seconds", "waits.p99Seconds"),
    *("utilisation.cpu.mean", "utilisation.memory.mean", "nodesUsed", "cost"),
)


def _stem(path: Any) -> str:
    """A file is known by its name without folder and endings."""
    return (
        re.sub(r"(\.(csv|yaml|yml|json|gz|zst))+$", "", os.path.basename(path.rstrip("/")))
        if isinstance(path, str)
        else ""
    )
