"""Input of a process that answers a question: the question, the settings of the scheduler, and the objects of the cluster,
line by line.

The objects of the model are values, so that taking references to them takes one moment (some milliseconds for 100,000 pods).
They are encoded later, while the scheduler goes on.

    {"question": ..., "settings": ..., ...}      the first line
    Node {"metadata": ...}                       objects that the scheduler knows, by kind
    + {"apiVersion": ..., "kind": ...}           objects that it does not watch, as an API server shows them

`received` makes the cluster of these lines, in the process that answers.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT, KINDS
from mooring.dashboard.interfaces import AskedChanges, ExplainPod, Question, RejectionsOnNode
from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.config.settings import read_settings, settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry, load_file
from mooring.inputs.documents import ManifestFile
from mooring.inputs.dump_header import DumpHeader
from mooring.inputs.field_checks import Validation
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.manifests import Manifests, ReadOptions, read_files
from mooring.inputs.offers.price_list import PriceList
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import Workload
from mooring.queue.queue_record import QueueRecord, WaitingPodRecord
from mooring.scheduler.scheduler import Scheduler
from mooring.serve.cache_debugger import waiting_record
from mooring.state.scheduler_assembly import all_plugins

UNWATCHED = b"+"
"""The mark of a line with an object that the scheduler does not watch."""
MoreObjects = Callable[[Question], Iterable[JsonObject]]
"""Objects that the scheduler does not watch and that an answer may need: workloads, classes, events of a pod."""
FetchObjects = Callable[[Question], Awaitable[list[JsonObject]]]
"""Reads such objects from an API server, before the moment that the answer is about. Raises Refused."""
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class AskedScheduler:
    """The configuration and the plugins of the scheduler, so that another process can build one like it."""

    config: KubeSchedulerConfiguration
    gates: Mapping[str, bool] | None = None
    plugin_files: Sequence[str] = ()
    prices: PriceList = NO_PRICES
    """Prices of nodes beside those that nodes tell themselves, for the costs of changes."""

    @staticmethod
    def of(
        config: KubeSchedulerConfiguration,
        gates: Mapping[str, bool] | None,
        registry: Registry | None,
        prices: PriceList = NO_PRICES,
    ) -> "AskedScheduler":
        """A scheduler with the plugins that the registry has from files."""
        files = registry.files.values() if registry is not None else ()
        return AskedScheduler(config, gates, list(dict.fromkeys(files)), prices)


class QuestionHeader(msgspec.Struct):
    """The first line."""

    settings: dict[str, Any]
    plugin_files: list[str]
    explain: ExplainPod | None = None
    rejections: RejectionsOnNode | None = None
    changes: AskedChanges | None = None
    waiting: WaitingPodRecord | None = None
    """Record of the pod that is asked about, with the data that only the running scheduler has."""
    prices: PriceList = NO_PRICES


@dataclass(slots=True)
class AskedCluster:
    """References to all that is sent, taken at one moment."""

    header: QuestionHeader
    nodes: list[KubeObject]
    others: list[list[KubeObject]]
    placed: list[list[Pod]]
    known: list[Pod]
    more: Iterable[JsonObject]

    @staticmethod
    def of(
        scheduler: Scheduler, asked: AskedScheduler, question: Question, more: MoreObjects = lambda question: ()
    ) -> "AskedCluster":
        """The cluster as the next decision would see it: assumed pods are on their nodes."""
        table = scheduler.cluster.nodes
        return AskedCluster(
            _header(scheduler, asked, question),
            [node for node in table.nodes if node is not None],
            [list(found.values()) for found in scheduler.cluster.objects.values()],
            [list(there) for there in table.pods_on if there],
            list(scheduler.pods.values()),
            more(question),
        )

    def lines(self) -> Iterator[bytes]:
        """Each with its end. Objects that controllers hold may change meanwhile; those of the scheduler do not."""
        yield _encoded(self.header) + b"\n"
        for item in self.nodes:
            yield _line(item)
        for items in self.others:
            yield from map(_line, items)
        seen: set[str] = set()
        for pods in self.placed:
            for pod in pods:
                seen.add(pod.id)
                yield _line(pod)
        yield from (_line(pod) for pod in self.known if pod.id not in seen)
        for written in self.more:
            yield UNWATCHED + b" " + _encoded(written) + b"\n"


def _line(item: KubeObject) -> bytes:
    return b"%s %s\n" % (BY_STRUCT[type(item)].kind.encode(), _encoded(item))


def _encoded(document: Any) -> bytes:
    """JSON on one line. Half characters become question marks: one text must not stop all questions."""
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document), ensure_ascii=False).encode(errors="replace")


def _header(scheduler: Scheduler, asked: AskedScheduler, question: Question) -> QuestionHeader:
    """First line for the process that answers: settings, plugin files and the question. A question about a pod also gets its
    record in the queue."""
    header = QuestionHeader(settings_object(asked.config, asked.gates), list(asked.plugin_files), prices=asked.prices)
    if isinstance(question, ExplainPod):
        header.explain = question
        pod = scheduler.pods.get(f"{question.namespace}/{question.name}")
        header.waiting = waiting_record(scheduler, pod) if pod is not None else None
    elif isinstance(question, RejectionsOnNode):
        header.rejections = question
    else:
        header.changes = question
    return header


def read_header(line: bytes) -> QuestionHeader:
    return msgspec.json.decode(line, type=QuestionHeader)


def received(header: QuestionHeader, lines: Iterable[bytes]) -> LoadedCluster:
    """The cluster of the lines. Raises ConfigError, RegistryError."""
    objects, written = _objects(lines)
    more = _read(written, objects)
    there = {(type(item).__name__, item.key) for item in objects}
    objects += [each.object for each in more.objects if (each.kind, each.object.key) not in there]
    settings = read_settings(header.settings, os.devnull)
    assert settings is not None, "the parent has written them"
    gates = parse_gates(settings.gates_text)
    registry = all_plugins()
    for file in header.plugin_files:
        load_file(registry, file)
    return LoadedCluster(
        objects,
        configuration.from_object(settings.configuration, feature_gates=gates),
        registry,
        gates,
        [each.object for each in more.workloads if isinstance(each.object, Workload)],
        events=more.events,
        queue=QueueRecord(pods=(header.waiting,)) if header.waiting is not None else None,
    )


def _objects(lines: Iterable[bytes]) -> tuple[list[KubeObject], list[bytes]]:
    """Typed objects, and others as they are written."""
    decoders: dict[bytes, msgspec.json.Decoder[Any]] = {
        kind.encode(): msgspec.json.Decoder(spec.struct) for kind, spec in KINDS.items()
    }
    objects: list[KubeObject] = []
    written: list[bytes] = []
    for line in lines:
        kind, _, body = line.partition(b" ")
        if kind == UNWATCHED:
            written.append(body)
        else:
            objects.append(decoders[kind].decode(body))
    return objects, written


def _read(written: list[bytes], objects: list[KubeObject]) -> Manifests:
    """Objects that the scheduler does not watch, as commands read them. Pods of workloads are all there: none is created."""
    if not written:
        return Manifests()
    text = b'{"apiVersion":"v1","kind":"List","items":[%s]}' % b",".join(written)
    header = DumpHeader(has_all_pods=True)
    options = ReadOptions(objects, Validation.IGNORE, header=header)
    return read_files([ManifestFile("the cluster", text)], options)
