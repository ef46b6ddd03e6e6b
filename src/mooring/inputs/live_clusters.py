"""Parts of live clusters that are read apart from their objects.

Several clusters are read one beside the other: a cluster that does not answer delays none of the others. The kinds that
a scheduler with given feature gates could watch are those that the API server serves and that the caller may list;
nothing is written. NodePools and NodeClaims are custom resources of Karpenter, which many clusters do not have.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.client import PAGE_SIZE, ApiClient, server_version
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered, Unreadable
from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths, merged
from mooring.apiclient.reflectors.reflector import watched_with
from mooring.apiclient.reflectors.watch_streams import advice, is_definite
from mooring.apiclient.served_kinds import Discovery, NotServed, ServedVersions
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.live_source import LiveClient, asked_live, connection_to, read_live, run_to_end
from mooring.inputs.manifests import Manifests

READ_AT_ONCE = 4
"""How many clusters are read at the same time. Their objects are in memory until their turn comes."""

ReadCluster = tuple[Manifests, list[str]]
"""The objects of a cluster, and notes for the user."""


def contexts_of(kubeconfig: str | None, named: Sequence[str]) -> list[str]:
    """The contexts to ask: those that are named, or all of the kubeconfig. Raises LiveSourceError if a name is unknown, or if
    there is no kubeconfig."""
    try:
        known = merged(kubeconfig_paths(None if kubeconfig is None else Path(kubeconfig))).contexts
    except KubeconfigError as fault:
        raise LiveSourceError(str(fault)) from fault
    for name in named:
        if name not in known:
            connection_to(kubeconfig, name)  # raises, with similar names
    if not named and not known:
        raise NoKubeconfig("the kubeconfig has no contexts")
    return [*named] or sorted(known)


def read_each(
    kubeconfig: str | None, contexts: Sequence[str], time_limit_s: float
) -> Iterator[tuple[str, ReadCluster | LiveSourceError]]:
    """The clusters in the order of their contexts, each with its objects, or with the error why it has none."""
    left = iter(contexts)
    with ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="reading") as threads:

        def begin(context: str) -> tuple[str, "Future[ReadCluster]"]:
            return context, threads.submit(read_live, kubeconfig, context, None, time_limit_s)

        under_way = deque(map(begin, islice(left, READ_AT_ONCE)))
        while under_way:
            context, reading = under_way.popleft()
            try:
                found: ReadCluster | LiveSourceError = reading.result()
            except LiveSourceError as fault:
                found = fault
            yield context, found
            under_way.extend(map(begin, islice(left, 1)))


AT_ONCE = 4
"""How many kinds are asked for at the same time."""


@dataclass(frozen=True, slots=True)
class KindFinding:
    """One kind: the version in which the server serves it, and why it cannot be watched, if so."""

    kind: KindSpec
    version: str = ""
    refusal: ApiError | None = None

    @property
    def is_fatal(self) -> bool:
        """Whether a scheduler cannot work on this server."""
        return self.refusal is not None and self.kind.watch is not None and self.kind.watch.is_required

    def state(self) -> str:
        """One or two words for a table."""
        if self.refusal is None:
            return "ok"
        return "not allowed" if self.refusal.code == 403 else "not served"

    def advice(self) -> str:
        """The action that the operator can take; empty if nothing is wrong."""
        return "" if self.refusal is None else advice(self.kind, self.refusal)


@dataclass(frozen=True, slots=True)
class LiveKinds:
    """The findings about one server."""

    server: str
    release: str
    """The version that the server reports; empty if it reports none."""
    findings: Sequence[KindFinding]


def live_kinds(kubeconfig: str | None, context: str, gates: Mapping[str, bool]) -> LiveKinds:
    """Ask the cluster that kubectl would use. Raises LiveSourceError."""
    connection = connection_to(kubeconfig, context)
    kinds = watched_with(with_defaults(gates))

    async def ask() -> LiveKinds:
        async with ApiClient(connection, "mooring-config") as client:
            release, findings = await find_kinds(client, kinds)
        return LiveKinds(connection.server, release, findings)

    try:
        return asyncio.run(ask())
    except (ApiError, Unanswered, CredentialsError) as fault:
        raise LiveSourceError(f"{connection.server}: {fault}") from fault


async def find_kinds(client: ApiClient, kinds: Sequence[KindSpec]) -> tuple[str, list[KindFinding]]:
    """The release of the server, and a finding for each kind, in their order. Raises ApiError, Unanswered,
    CredentialsError."""
    turn = asyncio.Semaphore(AT_ONCE)
    try:
        served: ServedVersions | None = await Discovery(client, kinds).ask()
    except (ApiError, Unreadable):
        served = None  # the kinds show what they are: each version is tried

    async def find(kind: KindSpec) -> KindFinding:
        async with turn:
            return await _find(client, kind, served)

    return await server_version(client), [*await asyncio.gather(*map(find, kinds))]


async def _find(client: ApiClient, kind: KindSpec, served: ServedVersions | None) -> KindFinding:
    """List one object in the best version. Only a definite refusal is a finding: anything else is raised."""
    if served is None:
        versions = [kind.in_version(written) for written in kind.api_versions]
    else:
        best = served.best(kind)
        versions = [] if best is None else [best]
    for each in versions:
        try:
            await client.get_bytes(each.url(), {"limit": "1"})
        except ApiError as fault:
            if not is_definite(fault):
                raise
            if fault.code == 403:
                return KindFinding(kind, each.version, fault)
        else:
            return KindFinding(kind, each.version)
    return KindFinding(kind, "", NotServed(kind, () if served is None else served.of(kind)))


GROUP, VERSIONS = "karpenter.sh", ("v1", "v1beta1")
KINDS = {"nodepools": "NodePool", "nodeclaims": "NodeClaim"}
MAX_PAGES = 200
"""How many pages of a resource are read: 100,000 NodeClaims."""


class _OfferPage(msgspec.Struct):
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    items: list[dict[str, Any]] | None = None


def read_live_offers(kubeconfig: str | None, context: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects, and a note about each kind that the server does not show. Raises LiveSourceError."""
    return run_to_end(asked_live(connection_to(kubeconfig, context), list_offers))


async def list_offers(client: LiveClient) -> tuple[list[dict[str, Any]], list[str]]:
    """All NodePools and NodeClaims that a server lists. Raises ApiError for other faults than a missing kind or right."""
    objects: list[dict[str, Any]] = []
    notes: list[str] = []
    for plural, kind in KINDS.items():
        try:
            objects += [{**item, "kind": kind} for item in await _items(client, plural)]
        except ApiError as fault:
            if fault.code not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
                raise
            told = "you may not list" if fault.code == HTTPStatus.FORBIDDEN else "the server does not serve"
            notes.append(f"{told} {plural}.{GROUP}: none are offered")
    return objects, notes


async def _items(client: LiveClient, plural: str) -> list[dict[str, Any]]:
    """The objects of a resource in the first version that the server serves."""
    for version in VERSIONS:
        try:
            return await _pages(client, f"/apis/{GROUP}/{version}/{plural}")
        except ApiError as fault:
            if fault.code != HTTPStatus.NOT_FOUND or version == VERSIONS[-1]:
                raise
    raise AssertionError("there is a version")


async def _pages(client: LiveClient, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    asked = {"limit": str(PAGE_SIZE)}
    for _ in range(MAX_PAGES):
        try:
            page = msgspec.json.decode(await client.get_bytes(path, asked), type=_OfferPage)
        except msgspec.DecodeError as error:
            raise LiveSourceError(f"GET {path}: the answer is not a list of the API") from error
        found += page.items or []
        token = page.metadata.get("continue")
        if not token:
            return found
        asked = {"limit": str(PAGE_SIZE), "continue": str(token)}
    raise LiveSourceError(f"GET {path}: the list has more than {MAX_PAGES} pages")
