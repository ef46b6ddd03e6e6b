"""The actions of `mooring nodes` on the nodes of an embedded cluster, through its API like any other client."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import MERGE_PATCH, JsonObject
from mooring.api.schema.discovery import IDENTITY_PATH, id_in, prefix_of
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import Unreadable
from mooring.controllers.index import manager_of
from mooring.controllers.nodes.simulated_nodes import FAILED, more_nodes
from mooring.rules.workload_pods import DAEMON_SET

NODES = "/api/v1/nodes"
_RETRY_S = 1.0
"""How often a drain tries evictions again that a PodDisruptionBudget refuses; `kubectl drain` waits 5 s."""


async def add(client: ApiClient, count: int, template: JsonObject | None) -> AsyncIterator[str]:
    """Create `count` nodes under the first free names. Yields each name."""
    taken = {node["metadata"]["name"] for node in (await client.list(NODES))["items"]}
    for node in more_nodes(count, taken, template):
        await client.post(NODES, node)
        yield node["metadata"]["name"]


async def remove(client: ApiClient, name: str) -> None:
    await client.delete(f"{NODES}/{name}")


async def fail(client: ApiClient, name: str) -> None:
    """Stop the heartbeats of the node. The node controller finds it unreachable and evicts its pods after their toleration
    time."""
    await _annotate(client, name, "true")


async def recover(client: ApiClient, name: str) -> None:
    """Start the heartbeats of the node again."""
    await _annotate(client, name, None)


async def _annotate(client: ApiClient, name: str, value: str | None) -> None:
    await client.patch(f"{NODES}/{name}", {"metadata": {"annotations": {FAILED: value}}}, MERGE_PATCH)


async def drain(client: ApiClient, name: str) -> AsyncIterator[str]:
    """Cordon the node and evict its pods, except those of DaemonSets, as their budgets allow. Yields what happens."""
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
    return [pod for pod in pods if (manager_of(pod) or {}).get("kind") != DAEMON_SET]


async def _evict(client: ApiClient, pod: JsonObject) -> str:
    """Evict one pod. Returns why its budget refuses; empty if the pod is evicted or gone."""
    meta = pod["metadata"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
    try:
        await client.post(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", body)
    except ApiError as refused:
        if refused.code not in (404, 429):
            raise
        return refused.message if refused.code == 429 else ""
    return ""


# ---- only clusters of `mooring up`

_UNAUTHORIZED = 401


class NotOurs(Exception):
    """`mooring up` did not start this server."""

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} is not a cluster that `mooring up` started: nothing was changed")


async def own_connection(access: ConnectionSettings, user_agent: str) -> ConnectionSettings:
    """Connection below the path prefix that only this cluster serves, so that no request can reach another cluster, even if
    another one starts on the port. Reads one document and writes nothing.

    Raises NotOurs, and ApiError (401) if the server does not accept the credentials.
    """
    async with ApiClient(access, user_agent, qps=-1) as client:
        try:
            cluster_id = id_in(await client.get(IDENTITY_PATH))
        except Unreadable:
            cluster_id = ""
        except ApiError as refused:
            if refused.code == _UNAUTHORIZED:
                raise
            cluster_id = ""
    if not cluster_id:
        raise NotOurs(access.server)
    return replace(access, server=access.server + prefix_of(cluster_id))
