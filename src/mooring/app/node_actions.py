"""Things to try with the nodes of an embedded cluster, done through its API."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.unanswered import Unreadable
from mooring.apiserver.identity import ROOT, id_in, prefix_of
from mooring.controllers.nodes.node_hosts import FAILED
from mooring.controllers.nodes.node_making import more_nodes
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.media_types import MERGE_PATCH

NODES = "/api/v1/nodes"
_RETRY_S = 1.0


async def add(client: ApiClient, count: int, template: JsonObject | None) -> AsyncIterator[str]:
    """That many more, under the first names that are free. Tells the name of each."""
    taken = {node["metadata"]["name"] for node in (await client.list(NODES))["items"]}
    for node in more_nodes(count, taken, template):
        await client.post(NODES, node)
        yield node["metadata"]["name"]


async def remove(client: ApiClient, name: str) -> None:
    await client.delete(f"{NODES}/{name}")


async def fail(client: ApiClient, name: str) -> None:
    """Its kubelet falls silent: the node is found unreachable, and its pods are evicted when their time is up."""
    await _annotate(client, name, "true")


async def recover(client: ApiClient, name: str) -> None:
    await _annotate(client, name, None)


async def _annotate(client: ApiClient, name: str, value: str | None) -> None:
    await client.patch(f"{NODES}/{name}", {"metadata": {"annotations": {FAILED: value}}}, MERGE_PATCH)


async def drain(client: ApiClient, name: str) -> AsyncIterator[str]:
    """Cordon the node and evict its pods, but those of daemons, as their budgets allow. Tells what happens."""
    await client.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}}, MERGE_PATCH)
    yield f"{name} cordoned"
    told: set[str] = set()
    while pods := await _evictable(client, name):
        for pod in pods:
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["metadata"].get("deletionTimestamp"):
                continue
            refusal = await _evict(client, pod)
            if refusal and key not in told:
                told.add(key)
                yield f"{key} has to wait: {refusal}"
            elif not refusal:
                yield f"{key} evicted"
        await asyncio.sleep(_RETRY_S)
    yield f"{name} drained"


async def _evictable(client: ApiClient, node: str) -> list[JsonObject]:
    selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    pods = (await client.list("/api/v1/pods", {"fieldSelector": selector}))["items"]
    return [pod for pod in pods if not _is_daemons(pod)]


def _is_daemons(pod: JsonObject) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners)


async def _evict(client: ApiClient, pod: JsonObject) -> str:
    """Why not; empty: it is evicted, or gone."""
    meta = pod["metadata"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
    try:
        await client.post(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", body)
    except ApiError as refused:
        if refused.code not in (404, 429):
            raise
        return refused.message if refused.code == 429 else ""
    return ""


# ---- Finds out whether a kubeconfig leads to a cluster of `mooring up`, for commands that must not touch any other.


_UNAUTHORIZED = 401


class NotOurs(Exception):
    """The server is not one of `mooring up`."""

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} is not a cluster that `mooring up` started: nothing was changed")


async def own_connection(access: ConnectionSettings, user_agent: str) -> ConnectionSettings:
    """Access to the same cluster below the path that only this cluster serves. It reads one document and writes nothing.

    Raises NotOurs; ApiError (401) where the server does not say, because it does not know the user.
    """
    async with ApiClient(access, user_agent, qps=-1) as client:
        try:
            cluster_id = id_in(await client.get(ROOT))
        except Unreadable:
            cluster_id = ""
        except ApiError as refused:
            if refused.code == _UNAUTHORIZED:
                raise
            cluster_id = ""
    if not cluster_id:
        raise NotOurs(access.server)
    return replace(access, server=access.server + prefix_of(cluster_id))
