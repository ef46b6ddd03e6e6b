"""Input of a process that answers a question: the question, the settings of the scheduler, and the objects of the
cluster, line by line.

The objects of the model are values, so that taking references to them takes one moment (some milliseconds for 100,000
pods). They are encoded later, while the scheduler goes on.

    {"question": ..., "settings": ..., ...}      the first line
    Node {"metadata": ...}                       objects that the scheduler knows, by kind
    + {"apiVersion": ..., "kind": ...}           objects that it does not watch, as an API server shows them

`received` makes the cluster of these lines, in the process that answers.

Answers need some objects that the scheduler does not watch: workloads with their templates, classes, and the events of
the pod that is asked about. They come from an API server (`mooring run`) or from the store of an embedded cluster.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_STRUCT, KINDS, WORKLOADS, split_kind
from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import Unanswered
from mooring.apiserver.resource_api import ResourceApi
from mooring.dashboard.interfaces import AskedChanges, ExplainPod, Question, Refused, RejectionsOnNode
from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.config.settings import read_settings, settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry, load_file
from mooring.inputs.documents import ManifestFile
from mooring.inputs.dump_header import DumpHeader
from mooring.inputs.field_checks import Validation
from mooring.inputs.live_source import EVENTS, LISTED
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


# ---- The workloads that a question names, read from the API server when it is asked: `mooring run` watches no
# Deployments and Jobs, and of other workloads it keeps only selectors. Nothing else is read, and nothing is written.


MAX_NAMED = 20
"""Workloads that one question may name: each is a request."""
_NAMING = ("scale", "delete")
"""Changes whose value begins with KIND/[NAMESPACE/]NAME."""
_LIMITS = Limits(request_s=10, answer_bytes=8 << 20)
_ELSEWHERE = "or ask `mooring what-if` with your own credentials"


def workloads_at(access: ConnectionSettings, user_agent: str) -> FetchObjects:
    """From this API server, with a connection of their own: questions cannot delay binds."""

    async def fetch(question: Question) -> list[JsonObject]:
        named = named_workloads(question)
        if not named:
            return []
        async with ApiClient(access, user_agent, 5, 10, limits=_LIMITS) as client:
            return [item for spec, rest in named for item in await _listed(client, spec, rest)]

    return fetch


def named_workloads(question: Question) -> list[tuple[KindSpec, str]]:
    """Kind and `[NAMESPACE/]NAME` of each workload in the question, once. Values that cannot be read are left to the answer,
    which says what is wrong with them. Raises Refused."""
    if not isinstance(question, AskedChanges):
        return []
    found = [*dict.fromkeys(_named(question))]
    if len(found) > MAX_NAMED:
        raise Refused(422, f"the question names {len(found)} workloads; ask about at most {MAX_NAMED} at once")
    return found


def _named(question: AskedChanges) -> Iterator[tuple[KindSpec, str]]:
    for change in question.changes:
        written = change.value.rpartition("=")[0] if change.change == "scale" else change.value
        spec, rest = split_kind(written, WORKLOADS.values())
        if change.change in _NAMING and spec is not None:
            yield spec, rest


async def _listed(client: ApiClient, spec: KindSpec, rest: str) -> list[JsonObject]:
    """The workload; without a namespace all with the name. None if there is none: the answer says so. Raises Refused."""
    namespace, slash, name = rest.rpartition("/")
    try:
        if slash:
            items = [await client.get(f"{spec.path}/namespaces/{quote(namespace, '')}/{spec.plural}/{quote(name, '')}")]
        else:
            items = _items(await client.get(f"{spec.path}/{spec.plural}", {"fieldSelector": f"metadata.name={name}"}))
    except ApiError as fault:
        if fault.code == HTTPStatus.NOT_FOUND:
            return []
        raise _refusal(spec, rest, bool(slash), fault) from None
    except Unanswered as fault:
        raise Refused(503, f"the API server does not show {spec.kind} {rest}: {fault}") from None
    return [{"apiVersion": spec.api_version, "kind": spec.kind, **item} for item in items if isinstance(item, dict)]


def _items(listed: Any) -> list[Any]:
    items = listed.get("items") if isinstance(listed, dict) else None
    return items if isinstance(items, list) else []


def _refusal(spec: KindSpec, rest: str, is_one: bool, fault: ApiError) -> Refused:
    """RBAC is what an administrator can change: the text says what to grant, and to whom."""
    if fault.code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Refused(503, f"the API server does not show {spec.kind} {rest}: {fault.message}")
    verb = "get" if is_one else "list"
    grant = f"allow the scheduler's account to {verb} {spec.resource}"
    return Refused(403, f"the scheduler may not read {spec.kind} {rest}: {grant}, {_ELSEWHERE} ({fault.message})")


UNSEEN = tuple(spec for spec in LISTED if spec.watch is None or spec.makes_pods)
"""Workloads are here though the scheduler watches some of them: it reads their selectors only."""


def objects_in_store(api: ResourceApi) -> MoreObjects:
    """From the store of this API server. The objects there are values: a write makes new ones."""

    def more(question: Question) -> Iterator[JsonObject]:
        kept = [(spec, api.store.all(spec.storage)) for spec in UNSEEN]
        if isinstance(question, ExplainPod):
            kept.append((EVENTS, [event for event in api.store.all(EVENTS.storage) if _is_about(event, question)]))
        return ({"apiVersion": spec.api_version, "kind": spec.kind, **item} for spec, items in kept for item in items)

    return more


def _is_about(event: JsonObject, pod: ExplainPod) -> bool:
    involved = event.get("involvedObject") or {}
    return (involved.get("namespace", ""), involved.get("name", "")) == (pod.namespace, pod.name)
