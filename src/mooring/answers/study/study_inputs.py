"""Inputs of a study: clusters, workloads, configurations and plugins, each of which is loaded once in a process; and
the pods of a run that arrive one by one, with loads that are drawn like a table.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mooring.answers.experiments.compared_run import RunInputs
from mooring.answers.experiments.run_plan import UnknownPath, digest_of, with_values
from mooring.answers.study.study_file import ONE_BY_ONE, OPTIMAL, ConfigurationEntry, Study, StudyError, WorkloadEntry
from mooring.answers.study.study_metrics import PYTHON, amount_in
from mooring.answers.study.study_plan import StudyPlan
from mooring.answers.trial.node_prices import node_prices
from mooring.cluster.cluster import Cluster
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.framework.config.durations import parse_duration
from mooring.framework.profile.registry import Registry, load_file
from mooring.inputs.arrivals import Arrival, PlannedChange, read_arrivals
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import LoadPlan, read_load_plan
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.inputs.offers.offer_files import asked_prices
from mooring.inputs.offers.price_list import PriceList
from mooring.inputs.recorded_load import RecordedLoad, recorded_load
from mooring.inputs.trace_formats import FORMATS
from mooring.inputs.trace_reader import TracePods, read_trace_nodes, read_trace_pods
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.sim.fragmentation import WeighedShape, cut_shapes, weighed_shapes
from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import settings_of
from mooring.state.replay.run_reader import RecordedSpan
from mooring.state.scheduler_assembly import all_plugins

KEPT = 3
"""How many clusters and workloads a process keeps: runs come in their order, and a workload of 8,000 pods takes 20 MB."""

TABLE_PODS = 5000
"""A guess at the number of pods in a table, before it is read: those of the openb trace have 5,000 to 9,000."""


@dataclass(frozen=True)
class StudyCluster:
    """A cluster of a study."""

    loaded: LoadedCluster
    prices: PriceList | None = None

    @property
    def objects(self) -> Sequence[KubeObject]:
        return self.loaded.objects

    @cached_property
    def node_prices(self) -> dict[str, float]:
        """The price of an hour of each node, by name; empty if no price is known. Raises InputError."""
        return node_prices([item for item in self.objects if isinstance(item, Node)], self.prices)


@dataclass(slots=True)
class StudyWorkload:
    """A workload on a cluster."""

    entry: WorkloadEntry
    pods: TracePods | None = None
    arrivals: list[Arrival] | None = None
    load_plan: LoadPlan | None = None
    changes: Sequence[PlannedChange] = ()
    replaced: frozenset[str] = frozenset()
    until_ns: int | None = None
    _built: list[Pod] = field(default_factory=list, repr=False)
    _shapes: list[WeighedShape] | None = field(default=None, repr=False)

    def built_pods(self) -> list[Pod]:
        """The pods of a table, built once."""
        if not self._built and self.pods is not None:
            self._built = self.pods.pods()
        return self._built

    def shapes(self) -> list[WeighedShape]:
        """The shapes of the pods, the most frequent first: what fragmentation goes by."""
        if self._shapes is None:
            self._shapes = cut_shapes(weighed_shapes((pod, 1) for pod in self.built_pods()))[0]
        return self._shapes


class StudyInputs:
    """Loads what runs need when the first of them needs it. Raises InputError, ConfigError and RegistryError."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._registries: dict[tuple[str, ...], Registry] = {}
        self._clusters: dict[int, StudyCluster] = {}
        self._workloads: dict[tuple[int, int], StudyWorkload] = {}
        self._recordings: dict[str, RecordedLoad] = {}
        self._configs: dict[str, KubeSchedulerConfiguration] = {}

    def registry(self, entry: ConfigurationEntry) -> Registry:
        """All plugins of the study are loaded before the first pod: annotations that they declare belong to its shape."""
        for each in self.study.configurations:
            files = tuple(each.plugins)
            if files not in self._registries:
                registry = self._registries[files] = all_plugins()
                for file in files:
                    load_file(registry, file)
        return self._registries[tuple(entry.plugins)]

    def config(self, plan: StudyPlan, gates: Mapping[str, bool] | None) -> KubeSchedulerConfiguration:
        """The configuration of a run, with the values of `set`."""
        study = self.study
        entry = study.configuration(plan.config)
        workload = study.workloads[plan.workload]
        later = {
            "workload": workload.name,
            "workload.pods": workload.pods or "",
            "cluster": study.clusters[plan.cluster].name,
            "seed": plan.seed,
        }
        values = {path: _filled(value, later) for path, value in entry.set.items()}
        key = digest_of([entry.config, values, gates])
        if key not in self._configs:
            if len(self._configs) >= 64:  # a value that differs with each seed
                self._configs.clear()
            self._configs[key] = _configuration(entry, values, gates)
        return self._configs[key]

    def cluster(self, place: int) -> StudyCluster:
        if place not in self._clusters:
            _make_room(self._clusters)
            self._clusters[place] = self._load_cluster(place)
        return self._clusters[place]

    def workload(self, place: int, cluster: int) -> StudyWorkload:
        if (place, cluster) not in self._workloads:
            _make_room(self._workloads)
            objects = self.cluster(cluster)
            self._workloads[place, cluster] = self._load_workload(self.study.workloads[place], objects.loaded)
        return self._workloads[place, cluster]

    def run_inputs(self, plan: StudyPlan) -> RunInputs:
        """The inputs of a run that is simulated over time, or at once."""
        registry = self.registry(self.study.configuration(plan.config))
        cluster, workload = self.cluster(plan.cluster), self.workload(plan.workload, plan.cluster)
        return RunInputs(
            cluster.objects,
            workload.arrivals,
            workload.load_plan,
            cluster.loaded.gates,
            (),
            workload.until_ns,
            cluster.prices,
            registry,
            workload.changes,
            workload.replaced,
        )

    def pods_of_a_run(self) -> int:
        """A guess at the number of pods of a run, to decide on the number of processes."""
        generated = [each.generate for each in self.study.workloads if isinstance(each.generate, dict)]
        has_table = any(each.pods is not None for each in self.study.workloads)
        return max([int(plan.get("pods") or 0) for plan in generated] + [TABLE_PODS if has_table else 500])

    # ---- loading

    def _load_cluster(self, place: int) -> StudyCluster:
        entry = self.study.clusters[place]
        prices = asked_prices(entry.prices)
        if entry.manifests is not None:
            return StudyCluster(load(entry.manifests), prices)
        if entry.recording is not None:
            objects: Sequence[KubeObject] = self._recording(entry.recording).objects
        else:
            objects = read_trace_nodes(str(entry.nodes), FORMATS[str(entry.format)])
        return StudyCluster(LoadedCluster(objects, configuration.default(), all_plugins()), prices)

    def _load_workload(self, entry: WorkloadEntry, cluster: LoadedCluster) -> StudyWorkload:
        for each in self.study.configurations:
            self.registry(each)
        found = StudyWorkload(entry, until_ns=_until_ns(entry))
        if entry.pods is not None:
            found.pods = read_trace_pods(entry.pods, FORMATS[str(entry.format)], entry.types, cluster.objects)
            if entry.arrive != ONE_BY_ONE and entry.fit is None:
                found.arrivals = found.pods.arrivals()
        elif entry.arrivals is not None:
            found.arrivals = read_arrivals(entry.arrivals, cluster.objects, cluster.gates)
        elif entry.generate is not None:
            found.load_plan = read_load_plan(entry.generate)
        elif entry.recording is not None:
            recorded = self._recording(entry.recording)
            found.arrivals, found.changes = recorded.arrivals, recorded.changes
            found.replaced, found.until_ns = frozenset(recorded.evicted), found.until_ns or recorded.over_ns
        return found

    def _recording(self, folder: str) -> RecordedLoad:
        if folder not in self._recordings:
            try:
                self._recordings[folder] = _recorded(folder)
            except RecordingError as error:
                raise StudyError(str(error)) from error
        return self._recordings[folder]


def _recorded(folder: str) -> RecordedLoad:
    """The load of a recording. Raises RecordingError."""
    runs = runs_in(Path(folder))
    header = next((run.header for run in runs if run.segments), None)
    if header is None:
        raise RecordingError(f"{folder}: no file of the recording can be read: {runs[0].problems[0]}")
    config, _ = settings_of(header)
    names = frozenset(profile.scheduler_name or "default-scheduler" for profile in config.profiles)
    return recorded_load(runs, names, RecordedSpan())


def _make_room(kept: dict[Any, Any]) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]


def _until_ns(entry: WorkloadEntry) -> int | None:
    found = parse_duration(entry.ends)
    if entry.ends is not None and found is None:
        raise StudyError(f"workload {entry.name}: ends: {entry.ends!r} is no duration: write seconds, or 90s, 15m, 24h")
    return found


def _configuration(
    entry: ConfigurationEntry, values: Mapping[str, Any], gates: Mapping[str, bool] | None
) -> KubeSchedulerConfiguration:
    try:
        return with_values(configuration_of(entry.config, gates), values, gates, entry.name)
    except UnknownPath as error:
        raise StudyError(f"configuration {entry.name}: set: {error}") from None
    except ConfigError as error:
        error.source = entry.name
        raise


def _filled(value: Any, later: Mapping[str, Any]) -> Any:
    """A value of `set` for one run. A text that is only a name in braces becomes the value itself, which may be a number."""
    if isinstance(value, dict):
        return {key: _filled(each, later) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, later) for each in value]
    if isinstance(value, str):
        for name, own in later.items():
            if value == f"{{{name}}}":
                return own
            value = value.replace(f"{{{name}}}", str(own))
    return value


# ---- digests


class Digests:
    """Digests that change with everything that a run depends on."""

    def __init__(self, study: Study, version: str) -> None:
        """Raises StudyError for a file that cannot be read."""
        self._study = study
        self._files: dict[str, str] = {}
        functions = [metric.of.rpartition(":")[0] for metric in study.metrics if metric.kind == PYTHON]
        metrics = [[metric.kind, os.path.basename(metric.of), metric.column, metric.at] for metric in study.metrics]
        self.common = digest_of([version, metrics, [self._file(file) for file in functions]])
        self._entries: dict[tuple[str, int], str] = {}
        """By list and place: the digests of entries whose files were read. A run that `--only` leaves out reads none."""

    def of(self, plan: StudyPlan) -> str:
        """Raises StudyError for a file that cannot be read."""
        parts = (self._entry("clusters", plan.cluster), self._entry("workloads", plan.workload), self.config(plan))
        bound = (OPTIMAL,) if plan.config is None else ()
        return digest_of([self.common, *parts, *bound, plan.seed, plan.load])

    def config(self, plan: StudyPlan) -> str:
        """The digest of the configuration of a run."""
        if plan.config is None:  # a node is open to a pod if one of the configurations says so
            return digest_of([self._entry("configurations", i) for i in range(len(self._study.configurations))])
        return self._entry("configurations", plan.config)

    def of_all(self, plans: Sequence[StudyPlan]) -> str:
        """The digest of all runs together: worker processes of Dask keep an experiment by it."""
        return digest_of([self._study.digest, *map(self.of, plans)])

    def _entry(self, which: str, place: int) -> str:
        """The digest of an entry of the study, with the content of its files in the place of their names."""
        found = self._entries.get((which, place))
        if found is None:
            found = self._entries[which, place] = self._digest(getattr(self._study, which)[place])
        return found

    def _digest(self, entry: msgspec.Struct) -> str:
        written = msgspec.to_builtins(entry)
        written.pop("name", None)
        return digest_of({name: self._content(value) for name, value in written.items()})

    def _content(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._content(each) for each in value]
        return self._file(value) if isinstance(value, str) and os.path.isabs(value) else value

    def _file(self, path: str) -> str:
        if path not in self._files:
            total = hashlib.sha256()
            for file in _files_in(path):
                try:
                    with open(file, "rb") as opened:
                        total.update(hashlib.file_digest(opened, "sha256").digest())
                except OSError as error:
                    raise StudyError(f"{file}: cannot be read: {error.strerror}") from error
            self._files[path] = total.hexdigest()[:16]
        return self._files[path]


def _files_in(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(names))


def fitted_load(given: TracePods, count: int, seed: int) -> TracePods:
    """Draws `count` pods from those that are given; their names are numbered.

    What a pod asks for and how long it runs are drawn together, so that large pods run as long as large pods did. Distances
    between arrivals are drawn from those of the given pods, so bursts stay bursts; a rate that rises and falls over the day
    does not. Each seed gives another load.
    """
    if not len(given):
        return given
    # Uniform numbers alone: NumPy gives the same for a seed in all releases.
    uniform = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, count]))).random
    rows = (uniform(count) * len(given)).astype(np.int64)
    gaps_ns = np.diff(np.array(given.at_ns, np.int64))
    steps_ns = gaps_ns[(uniform(count - 1) * len(gaps_ns)).astype(np.int64)] if len(gaps_ns) else np.zeros(count - 1)
    at_ns = np.concatenate([[0], np.cumsum(steps_ns)]).astype(np.int64)
    return TracePods(
        given.templates,
        [f"fitted-{number}" for number in range(count)],
        [given.which[row] for row in rows.tolist()],
        at_ns.tolist(),
        [given.run_ns[row] for row in rows.tolist()],
    )


MAX_PODS = 2_000_000
"""How many pods may arrive one by one: a small resource of a large cluster would want more."""


def fitted(workload: StudyWorkload, plan: StudyPlan) -> list[Arrival]:
    """A load like the pods of the table, another one for each seed."""
    assert workload.pods is not None and workload.entry.fit is not None, "the reader of the study checks it"
    return fitted_load(workload.pods, workload.entry.fit.pods or len(workload.pods), plan.seed).arrivals()


def arriving_pods(workload: StudyWorkload, plan: StudyPlan, cluster: Cluster) -> Iterator[Pod]:
    """The pods in the order of their arrival: shuffled by the seed, then drawn again at random until they ask for enough.
    They depend on the seed and the load of the plan, and not on its configuration. Raises InputError."""
    entry = workload.entry
    pods = workload.built_pods()
    if entry.fit is not None:
        pods = [arrival.pod for arrival in fitted(workload, plan)]
    if not pods:
        return
    draw = np.random.Generator(np.random.PCG64(plan.seed)).random
    order = np.argsort(draw(len(pods)), kind="stable").tolist()
    if entry.until is None:
        wanted, resource = float(round(len(pods) * plan.load)), ""
    else:
        resource = entry.until.resource
        room = amount_in(cluster, resource, is_requested=False)
        if not room:
            raise InputError(f"workload {entry.name}: until: no node has {resource}")
        if not any(pod.shape.request.get(resource, 0) for pod in pods):
            raise InputError(f"workload {entry.name}: until: no pod asks for {resource}")
        wanted = entry.until.percent / 100 * plan.load * room
    asked = 0
    for number in range(MAX_PODS):
        pod = pods[order[number]] if number < len(pods) else _drawn(pods, float(draw()), number)
        yield pod
        asked += pod.shape.request.get(resource, 0) if resource else 1
        if asked >= wanted:
            return
    raise InputError(f"workload {entry.name}: more than {MAX_PODS} pods would arrive: write a lower percentage")


def _drawn(pods: list[Pod], share: float, number: int) -> Pod:
    """Another pod like one of these."""
    pod = pods[int(share * len(pods))]
    name = f"{pod.name}-again-{number}"
    return pod.with_name(name, f"{pod.namespace}/{name}")
