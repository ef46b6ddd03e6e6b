"""A cluster that questions are asked about: its objects, and the scheduler configuration that decides in it.

It is a value: questions build from it whatever they try, and never change it.
"""

import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mooring.api.kinds import other_kind, pod_name
from mooring.api.validation.problem import Problem, show
from mooring.framework.config.feature_gates import gates_with, parse_gates
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.plain import PlainPlugin
from mooring.framework.contract.points import Plugin
from mooring.framework.profile.registry import Registry
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.custom_workloads import TemplatePaths
from mooring.inputs.documents import STDIN, STDIN_NAME, ManifestFile
from mooring.inputs.dump_header import PodEvent
from mooring.inputs.input_errors import InputError, NoSuchPod
from mooring.inputs.manifests import STRICT, Manifests, ReadOptions, note_ignored, read
from mooring.kit.words import alike, some
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import Workload
from mooring.queue.queue_record import QueueRecord
from mooring.scheduler.ties import TieRule
from mooring.state.scheduler_assembly import all_plugins

Source = str | os.PathLike[str]
"""A file, or a folder of files."""
Written = Mapping[str, Any]
"""A Kubernetes object, or a list of them, as a dictionary."""
Objects = Source | Written | Iterable[Source | Written]
"""Files, folders and Kubernetes objects: one of them or several."""
Config = Source | Written
"""A KubeSchedulerConfiguration."""
Plugins = Iterable[type[Plugin] | type[PlainPlugin]]
"""Classes of plugins."""
Gates = Mapping[str, bool]
"""Feature gates by name; those that are not named have upstream's default."""


@dataclass(frozen=True, slots=True)
class LoadedCluster:
    """Objects as an API server would return them, and how they are scheduled."""

    objects: Sequence[KubeObject] = field(repr=False)
    config: KubeSchedulerConfiguration = field(repr=False)
    registry: Registry = field(default_factory=all_plugins, repr=False)
    gates: Mapping[str, bool] | None = field(default=None, repr=False)
    workloads: Sequence[Workload] = field(default=(), repr=False)
    """Deployments, Jobs and so on: of those without pods in the input, the pods are among the objects."""
    notes: Sequence[str] = ()
    """Sentences for the user about how the input was read."""
    events: Sequence[PodEvent] = field(default=(), repr=False)
    """Events about pods, as far as the input has them: the history of a pod."""
    queue: QueueRecord | None = field(default=None, repr=False)
    """The pods that waited, as the scheduler of a snapshot knew them."""
    templates: TemplatePaths = field(default_factory=dict, repr=False)
    """Where kinds that Mooring does not know have their pod templates, for manifests that are applied later."""
    ties: TieRule = None
    """Which of several nodes with the highest score a pod gets."""
    taken_at: str = ""
    """When the objects were read from their cluster, in RFC 3339; empty if the input does not say."""

    def pods(self) -> list[Pod]:
        """All pods that have not finished."""
        return [item for item in self.objects if isinstance(item, Pod) and not item.is_finished]

    def pending(self) -> list[Pod]:
        """The pods without a node, in the order of the input."""
        return [pod for pod in self.pods() if not pod.spec.node_name]

    def pod(self, name: str, namespace: str = "") -> Pod:
        """The pod with this `[pod/][namespace/]name`. Raises NoSuchPod, with similar names."""
        pods, name = self.pods(), pod_name(name)
        wanted = f"{namespace}/{name}" if namespace and "/" not in name else name
        finished = [item for item in self.objects if isinstance(item, Pod) and item.is_finished]
        return pod_named(wanted, pods, finished, f"among {len(pods)} pods", name)


def pod_named(wanted: str, pods: Sequence[Pod], finished: Sequence[Pod], among: str, written: str = "") -> Pod:
    """The pod with this `[namespace/]name`. Raises NoSuchPod, with similar names; `among` says where it was looked for, and
    `written` is the name as the user wrote it, if it is another one."""
    found = [pod for pod in pods if wanted in (pod.key, pod.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoSuchPod(
            f"{written or wanted!r} could be any of {some([pod.key for pod in found], 5)}: add its namespace"
        )
    if any(wanted in (pod.key, pod.name) for pod in finished):
        raise NoSuchPod(f"pod {written or wanted!r} has finished: there is nothing to decide about it")
    raise NoSuchPod(f"no pod {wanted!r} {among}{other_kind(wanted)}{alike(wanted, pods)}")


Apply = Callable[[LoadedCluster, Sequence[ManifestFile]], LoadedCluster]
"""Applies manifests to a cluster."""

# ---- loading


def load(
    objects: Objects,
    config: Config | None = None,
    plugins: Plugins = (),
    feature_gates: Gates | None = None,
    apply: Apply | None = None,
) -> LoadedCluster:
    """A cluster from files, folders or dictionaries, as `mooring.load` takes them. `apply` applies manifests beside a dump to
    its cluster; without it they are part of one input.

    Raises InputError with every problem of the objects, ConfigError for the configuration, GateError.
    """
    gates = None if feature_gates is None else gates_with(feature_gates)
    manifests = read_objects(objects, ReadOptions(gates=gates, separates=apply is not None))
    if manifests.problems:
        raise InputError(manifests.problems)
    loaded = loaded_from(manifests, config, plugins, feature_gates)
    loaded = replace(loaded, notes=[*loaded.notes, *manifests.notes_of_dump()])
    return apply(loaded, manifests.to_apply) if apply is not None and manifests.to_apply else loaded


def loaded_from(
    manifests: Manifests, config: Config | None = None, plugins: Plugins = (), feature_gates: Gates | None = None
) -> LoadedCluster:
    """A cluster from what was read without a problem; without `config` and gates it has those of the source, or the
    defaults."""
    registry = all_plugins()
    for plugin in plugins:
        registry.register(plugin)
    settings = manifests.settings
    gates = parse_gates(settings.gates_text) if settings is not None else None
    if feature_gates is not None:
        gates = gates_with(feature_gates)
    chosen = configuration_of(settings.configuration if config is None and settings is not None else config, gates)
    return from_manifests(manifests, chosen, registry, gates)


def from_manifests(
    manifests: Manifests,
    config: KubeSchedulerConfiguration,
    registry: Registry,
    gates: Mapping[str, bool] | None = None,
) -> LoadedCluster:
    """A cluster from what was read without a problem."""
    objects = [manifest.object for manifest in manifests.objects]
    workloads = [each.object for each in manifests.workloads if isinstance(each.object, Workload)]
    notes = [*note_ignored(manifests), *manifests.custom.notes()]
    notes += manifests.header.notes_about(registry) if manifests.header else []
    known = (objects, config, registry, gates, workloads, notes, manifests.events, manifests.queue)
    taken_at = manifests.header.taken_at if manifests.header is not None else ""
    return LoadedCluster(*known, templates=manifests.custom.paths, taken_at=taken_at)


def read_objects(objects: Objects, options: ReadOptions = STRICT) -> Manifests:
    """Files and dictionaries as one input; dictionaries are read as a JSON list. Raises InputError for anything else."""
    listed = [*objects] if isinstance(objects, Iterable) and not isinstance(objects, str | Mapping) else [objects]
    for item in listed:
        if not isinstance(item, str | os.PathLike | Mapping):
            raise InputError(f"objects are files, folders and dictionaries, not {show(item)}")
    paths = [os.fspath(item) for item in listed if isinstance(item, str | os.PathLike)]
    written = [item for item in listed if isinstance(item, Mapping)]
    stdin = getattr(sys.stdin, "buffer", None)
    if written:
        listed_text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": written})
        paths, stdin = [*paths, STDIN], io.BytesIO(listed_text)
    manifests = read(paths, stdin, options)
    if written:
        manifests.problems = [_as_dictionary(problem) for problem in manifests.problems]
    return manifests


def _as_dictionary(problem: Problem) -> Problem:
    """A problem without the file name: dictionaries are read as if they came from standard input."""
    if problem.file != STDIN_NAME:
        return problem
    return replace(problem, file="", line=0, where=problem.where.replace("document 1, item", "object"))
