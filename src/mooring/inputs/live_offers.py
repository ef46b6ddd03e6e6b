"""NodePools and NodeClaims of a live cluster: custom resources of Karpenter, which many clusters do not have."""

from http import HTTPStatus
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import PAGE_SIZE, ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.request_errors import Unanswered
from mooring.inputs.input_errors import LiveSourceError
from mooring.inputs.live_source import LiveClient, connection_to, refusal, run_to_end

GROUP, VERSIONS = "karpenter.sh", ("v1", "v1beta1")
KINDS = {"nodepools": "NodePool", "nodeclaims": "NodeClaim"}
MAX_PAGES = 200
"""How many pages of a resource are read: 100,000 NodeClaims."""


class _OfferPage(msgspec.Struct):
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    items: list[dict[str, Any]] | None = None


def read_live_offers(kubeconfig: str | None, context: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects, and a note about each kind that the server does not show. Raises LiveSourceError."""
    return run_to_end(_list_all(connection_to(kubeconfig, context)))


async def _list_all(connection: ConnectionSettings) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        async with ApiClient(connection, "mooring-answers") as client:
            return await list_offers(client)
    except ApiError as fault:
        raise LiveSourceError(refusal(connection.server, fault)) from fault
    except (Unanswered, CredentialsError) as fault:
        raise LiveSourceError(f"{connection.server}: {fault}") from fault


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
