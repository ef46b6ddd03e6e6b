"""A live cluster as the source of answers: the cluster that kubectl would use, read-only, as manifests like any others."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND, KINDS, WORKLOADS
from mooring.apiclient.client import PAGE_SIZE, ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ListMeta, Unanswered, Unreadable
from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.inputs.documents import MAX_BYTES, ManifestFile
from mooring.inputs.dump_header import FAILED_CREATE, DumpHeader, PodEvent
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.loaded_cluster import Config, Gates, LoadedCluster, Plugins, loaded_from
from mooring.inputs.manifests import Manifests, OnProgress, ReadOptions, read_files
from mooring.kit.words import LISTED_FAULTS
from mooring.model.node import Node
from mooring.model.pod import Pod

# ---- Resources that are listed, and what is lost if the caller may not list one of them. Secrets and ConfigMaps are never
# read: no decision depends on their content. reader.yaml grants exactly these.

READER_ROLE = Path(__file__).with_name("reader.yaml")
"""The manifest with the ClusterRoles that allow what questions list, and what an observer watches: errors name it."""

PODS, NODES = KINDS["Pod"], KINDS["Node"]
EVENTS = BY_KIND["v1", "Event"]
REQUIRED = (PODS, NODES)
"""Without them there is no cluster to ask about."""


LISTED: tuple[KindSpec, ...] = (*dict.fromkeys((*REQUIRED, *KINDS.values(), *WORKLOADS.values())),)
"""All kinds that decisions read, and the workloads, which questions name as KIND/NAME. Pods come first: their version is the
one at which all others are listed."""


_LOSSES = {
    "PersistentVolumeClaim": "pods with volume claims look as if their claims did not exist",
    "PersistentVolume StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment": (
        "answers about pods with volumes may be wrong"
    ),
    "ResourceClaim ResourceClaimTemplate DeviceClass ResourceSlice DeviceTaintRule": (
        "answers about pods with resource claims may be wrong"
    ),
    "PodDisruptionBudget": "no budget protects pods",
    "Namespace": "namespace selectors match no namespace",
    "Service ReplicaSet StatefulSet ReplicationController": (
        "default spreading does not see the pods that belong together"
    ),
    "Deployment DaemonSet Job": "questions cannot name them",
    "PodGroup CompositePodGroup": "pods of groups look as if their groups did not exist",
    "PriorityClass RuntimeClass LimitRange": "pods that you add do not get its defaults",
    "Event": "explanations have no history, and do not know why controllers created no pods",
}
"""By kinds: what answers lose if one of them cannot be listed."""


def loss_without(spec: KindSpec) -> str:
    """A sentence that says what is lost without a resource."""
    return next((text for kinds, text in _LOSSES.items() if spec.kind in kinds.split()), "answers may be wrong")


def is_gated(spec: KindSpec) -> bool:
    """Whether hardly any server serves it: an API behind a feature gate that is off by default."""
    return spec.watch is not None and bool(spec.watch.needs_gate)


# ---- Lists of a live cluster: one of each resource that matters, all at one version, and nothing is written.
#
# The lists form one state of the cluster. Pods are listed first, in pages; the version of that list is the version at
# which all other resources are listed (resourceVersionMatch=Exact), so a pod and its node, claim and volume are of
# the same moment. A server may not have that version any more, or keep a resource in a store with other versions;
# then the resource is listed as it is now. If that happens to nodes, everything is listed once more. What still
# differs afterwards is told.


MAX_EVENT_PAGES = 20
"""How many pages of events are read: 10,000 events. They are history, and no decision depends on them."""
MAX_PAGES = 20_000
"""How many pages one resource may have: 10,000,000 objects. A faulty server may continue a list for ever."""
AT_ONCE = 4
"""How many resources are listed at the same time: a server counts a long list as many requests."""
_OTHER_VERSION = (400, 410, 422, 504)
"""Status codes of a server that cannot list at a version: it does not know the parameter, or the version."""


class LiveClient(Protocol):
    """The part of an ApiClient that lists resources: nothing else is ever asked of a server."""

    async def get_bytes(self, path: str, params: dict[str, str] | None = None) -> bytes: ...


@dataclass(slots=True)
class LiveLists:
    """The lists that a server answered with, and the resources that it did not list."""

    server: str
    pages: dict[KindSpec, list[bytes]] = field(default_factory=dict)
    versions: dict[KindSpec, str] = field(default_factory=dict)
    refused: list[KindSpec] = field(default_factory=list)
    """Resources that the caller may not list."""
    unserved: list[KindSpec] = field(default_factory=list)
    """Resources that the server serves in no version that Mooring reads."""
    listed_as: dict[KindSpec, KindSpec] = field(default_factory=dict)
    """The version in which each resource was listed."""
    events_are_cut: bool = False

    @property
    def moved(self) -> list[KindSpec]:
        """Resources that were listed at another version than the pods."""
        return [spec for spec, version in self.versions.items() if version != self.versions[PODS]]

    def notes(self) -> list[str]:
        """Notes for the user: each resource that is missing, with what is lost, and lists of another moment."""
        notes = [f"you may not list {spec.resource}: {loss_without(spec)}" for spec in self.refused]
        if self.refused:
            notes.append(f"{READER_ROLE} has the ClusterRole mooring-reader, which allows all lists")
        if unserved := [spec.resource for spec in self.unserved if not is_gated(spec)]:
            notes.append(f"the server does not serve {', '.join(unserved)}: answers assume that there are none")
        if self.moved:
            names = ", ".join(spec.resource for spec in self.moved)
            notes.append(f"the cluster changed while it was listed: {names} may be newer than the pods")
        if self.events_are_cut:
            notes.append(f"only the first {MAX_EVENT_PAGES * PAGE_SIZE} events were read")
        return notes


async def list_cluster(client: LiveClient, server: str, on_progress: OnProgress | None = None) -> LiveLists:
    """All lists at one version; once more if nodes are of another version than pods."""
    lists = await _Listing(client, server, on_progress).all()
    if NODES in lists.moved:
        lists = await _Listing(client, server, on_progress).all()
    return lists


class _Listing:
    """Lists all resources once."""

    def __init__(self, client: LiveClient, server: str, on_progress: OnProgress | None) -> None:
        self._client = client
        self._lists = LiveLists(server)
        self._report = on_progress or (lambda done, total: None)
        self._left_bytes = MAX_BYTES
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def all(self) -> LiveLists:
        await self._list(PODS, "")
        version = self._lists.versions[PODS]
        await asyncio.gather(*(self._list(spec, version) for spec in LISTED if spec is not PODS))
        await self._list_events()
        self._sort()
        return self._lists

    def _sort(self) -> None:
        """The order of the kinds, not that of the answers: two runs tell and write the same."""
        lists, order = self._lists, (*LISTED, EVENTS)
        lists.pages = {spec: lists.pages[spec] for spec in order if spec in lists.pages}
        lists.versions = {spec: lists.versions[spec] for spec in order if spec in lists.versions}
        lists.refused.sort(key=order.index)
        lists.unserved.sort(key=order.index)

    async def _list(self, spec: KindSpec, version: str) -> None:
        """One resource, at the version if the server has it. Notes a resource that is not served or not allowed."""
        try:
            async with self._turn:
                pages = await self._in_any_version(spec, version)
        except ApiError as fault:
            self._note_refusal(spec, fault)
            return
        self._lists.pages[spec] = pages
        self._lists.versions[spec] = _metadata(pages[0], path_of(spec)).resource_version or ""
        self._report(len(self._lists.pages), len(LISTED))

    async def _in_any_version(self, spec: KindSpec, version: str) -> list[bytes]:
        """The pages in the first API version that the server serves. One list needs no discovery: a 404 says as much."""
        for written in spec.api_versions:
            served = spec.in_version(written)
            try:
                pages = await self._at_version(served, version)
            except ApiError as fault:
                if fault.code != HTTPStatus.NOT_FOUND or written == spec.api_versions[-1]:
                    raise
            else:
                self._lists.listed_as[spec] = served
                return pages
        raise AssertionError("every kind has a version")

    async def _at_version(self, spec: KindSpec, version: str) -> list[bytes]:
        """The pages at the version; or else as they are now; or else, if the list expires between two pages, in one page."""
        if version:
            try:
                exactly = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
                return await self._pages(spec, exactly, PAGE_SIZE)
            except ApiError as fault:
                if fault.code not in _OTHER_VERSION:
                    raise
        try:
            return await self._pages(spec, {}, PAGE_SIZE)
        except ApiError as fault:
            if fault.code != HTTPStatus.GONE:
                raise
        return await self._pages(spec, {}, 0)

    async def _pages(self, spec: KindSpec, asked: dict[str, str], limit: int, most: int = 0) -> list[bytes]:
        """Pages of a list, all or the first `most`. The first page has the version; the others have it in their token."""
        selector = spec.watch.field_selector if spec.watch is not None else ""
        steady = {**({"fieldSelector": selector} if selector else {}), **({"limit": str(limit)} if limit else {})}
        pages = [await self._page(spec, {**steady, **asked})]
        kept = {name: text for name, text in asked.items() if not name.startswith("resourceVersion")}
        while token := _metadata(pages[-1], path_of(spec)).token:
            if len(pages) == most:
                break
            if len(pages) == MAX_PAGES:
                raise LiveSourceError(f"{self._lists.server}: {spec.resource} have more than {MAX_PAGES} pages")
            pages.append(await self._page(spec, {**steady, **kept, "continue": token}))
        return pages

    async def _page(self, spec: KindSpec, asked: dict[str, str]) -> bytes:
        page = await self._client.get_bytes(path_of(spec), asked)
        self._left_bytes -= len(page)
        if self._left_bytes < 0:
            raise LiveSourceError(f"{self._lists.server}: the lists have more than {MAX_BYTES} bytes")
        return page

    def _note_refusal(self, spec: KindSpec, fault: ApiError) -> None:
        """Go on without a resource that the server does not show. Raises the fault if decisions cannot do without it."""
        if fault.code == 403 and spec in REQUIRED:
            text = f"you may not list {spec.resource}, and there is no answer without them"
            allowed = f"the ClusterRole mooring-reader in {READER_ROLE} allows it"
            raise LiveSourceError(f"{self._lists.server}: {text}; {allowed}: {fault.message}")
        if fault.code not in (403, 404) or spec in REQUIRED:
            raise fault
        (self._lists.refused if fault.code == 403 else self._lists.unserved).append(spec)

    async def _list_events(self) -> None:
        """Events of controllers that could not create pods, and those about pods, if a pod is pending. They are of no
        version: servers keep them in a store of their own."""
        has_pending = any(_has_pending(page) for page in self._lists.pages[PODS])
        asked = [f"reason={FAILED_CREATE}", *(["involvedObject.kind=Pod"] if has_pending else [])]
        try:
            lists = [await self._pages(EVENTS, {"fieldSelector": each}, PAGE_SIZE, MAX_EVENT_PAGES) for each in asked]
        except ApiError as fault:
            self._note_refusal(EVENTS, fault)
            return
        self._lists.pages[EVENTS] = [page for pages in lists for page in pages]
        self._lists.events_are_cut = any(_metadata(pages[-1], path_of(EVENTS)).token for pages in lists)


# ---- reading pages


class _LivePage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    """Not decoded here: the reader of manifests does that."""


class _PodPlace(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PlacedPod(msgspec.Struct):
    spec: _PodPlace = msgspec.field(default_factory=_PodPlace)


class _PodPage(msgspec.Struct):
    items: list[_PlacedPod] | None = None


def _metadata(page: bytes, path: str) -> ListMeta:
    try:
        return msgspec.json.decode(page, type=_LivePage).metadata
    except ValueError:
        raise Unreadable(f"GET {path}: the answer is not a list of the API") from None


def _has_pending(page: bytes) -> bool:
    try:
        return any(not pod.spec.node_name for pod in msgspec.json.decode(page, type=_PodPage).items or ())
    except ValueError:
        return False


def has_items(page: bytes) -> bool:
    """Whether the page has a list of objects: Go writes an empty list as null, and some servers leave it out."""
    return bytes(msgspec.json.decode(page, type=_LivePage).items) not in (b"", b"null")


def path_of(spec: KindSpec) -> str:
    return f"{spec.path}/{spec.plural}"


# ---- the cluster

T = TypeVar("T")


def load_live(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str = "",
    config: Config | None = None,
    plugins: Plugins = (),
    feature_gates: Gates | None = None,
) -> LoadedCluster:
    """The live cluster that kubectl would use, for Python programs; nothing is written to it. Raises LiveSourceError."""
    manifests, notes = read_live(None if kubeconfig is None else os.fspath(kubeconfig), context)
    loaded = loaded_from(manifests, config, plugins, feature_gates)
    return replace(loaded, notes=[*notes, *loaded.notes])


def read_live(
    kubeconfig: str | None = None,
    context: str = "",
    on_progress: OnProgress | None = None,
    time_limit_s: float | None = None,
) -> tuple[Manifests, list[str]]:
    """The objects of a live cluster, and notes for the user. Raises LiveSourceError, also if the lists take longer than the
    limit."""
    connection = connection_to(kubeconfig, context)
    listing = partial(list_cluster, server=connection.server, on_progress=on_progress)
    lists = run_to_end(asked_live(connection, listing, time_limit_s))
    header = DumpHeader(
        has_all_pods=True,
        taken_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        missing=[spec.resource for spec in lists.refused] or None,
    )
    files = [*_files(connection.server, lists)]
    # The server has validated the objects; fields that Mooring does not know come from a newer Kubernetes.
    manifests = read_files(files, ReadOptions(validation=Validation.IGNORE, header=header))
    manifests.events = _of_pending(manifests)
    notes = [*lists.notes(), *_homeless(manifests), *_left_out(manifests)]
    manifests.problems = []
    return manifests, notes


def _files(server: str, lists: LiveLists) -> Iterator[ManifestFile]:
    """The pages as files; their names are the URLs, which messages show."""
    for spec, pages in lists.pages.items():
        url = f"{server}{path_of(lists.listed_as.get(spec, spec))}"
        yield from (ManifestFile(url, page) for page in pages if has_items(page))


def connection_to(kubeconfig: str | None, context: str) -> ConnectionSettings:
    """The cluster that kubectl would use. Raises LiveSourceError."""
    try:
        return find_connection(None if kubeconfig is None else Path(kubeconfig), context)
    except (KubeconfigError, CredentialsError) as fault:
        is_unnamed = kubeconfig is None and not kubeconfig_paths(None)
        raise (NoKubeconfig if is_unnamed else LiveSourceError)(str(fault)) from fault


def _left_out(manifests: Manifests) -> list[str]:
    """Notes about objects that cannot be read: one strange object must not keep answers about all others away."""
    told = [f"left out, because it cannot be read: {problem}" for problem in manifests.problems]
    return (
        told
        if len(told) <= LISTED_FAULTS
        else [*told[:LISTED_FAULTS], f"... and {len(told) - LISTED_FAULTS} more objects are left out"]
    )


def _of_pending(manifests: Manifests) -> list[PodEvent]:
    """The events about pods that are pending, and about pods that were not created: nobody asks for the history of the
    others, which are most."""
    objects = [manifest.object for manifest in manifests.objects]
    pending = {item.key: item.uid for item in objects if isinstance(item, Pod) and not item.spec.node_name}
    return [
        event
        for event in manifests.events
        if event.is_failed_create or event.involved_object.uid == pending.get(event.pod_key)
    ]


def _homeless(manifests: Manifests) -> list[str]:
    """A note about pods on nodes that are not listed: the node was just deleted."""
    objects = [manifest.object for manifest in manifests.objects]
    nodes = {item.name for item in objects if isinstance(item, Node)}
    hosts = [item.spec.node_name for item in objects if isinstance(item, Pod)]
    gone = sum(bool(host) and host not in nodes for host in hosts)
    return [f"{gone} pods are bound to nodes that do not exist; they take no room"] if gone else []


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in a thread of its own if this one has an event loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def asked_live(
    connection: ConnectionSettings, ask: Callable[[LiveClient], Awaitable[T]], time_limit_s: float | None = None
) -> T:
    """Ask something with a client of the API server. Raises LiveSourceError for all that goes wrong between them."""
    try:
        async with asyncio.timeout(time_limit_s), ApiClient(connection, "mooring-answers") as client:
            return await ask(client)
    except TimeoutError:
        raise LiveSourceError(f"{connection.server}: not read within {time_limit_s:g} s") from None
    except ApiError as fault:
        refused = "the server does not accept the credentials (401); check the user of the context"
        told = refused if fault.code == 401 else f"{fault.message} ({fault.code})"
        raise LiveSourceError(f"{connection.server}: {told}") from fault
    except (Unanswered, CredentialsError) as fault:
        raise LiveSourceError(f"{connection.server}: {fault}") from fault
