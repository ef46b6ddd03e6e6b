"""Which kinds of a live cluster a scheduler with given feature gates could watch: what the API server serves, and what the
caller may list. Nothing is written."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.client import ApiClient, server_version
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.discovery import Discovery, ServedVersions
from mooring.apiclient.reflectors.reflector import watched_with
from mooring.apiclient.reflectors.watch_ends import advice, is_definite
from mooring.apiclient.request_errors import Unanswered, Unreadable
from mooring.apiclient.served_kinds import NotServed
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.input_errors import LiveSourceError
from mooring.inputs.live_source import connection_to

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
