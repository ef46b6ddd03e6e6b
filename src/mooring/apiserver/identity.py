"""How a client recognises a cluster of `mooring up`, and writes to that one cluster only.

A GET of `/mooring` answers with the id of the cluster; no other API server has that path. The whole API is served a
second time below `/mooring/clusters/ID`. A request there cannot reach another cluster, even if another server has taken
the address since the client read the id: every other server, also one of `mooring up`, answers 404.
"""

import re
from typing import Any

from mooring.api.json_objects import JsonObject

ROOT = "/mooring"
KIND = "MooringCluster"
_ID = re.compile(r"[0-9a-f-]{36}")
"""A uid. Anything else must not become part of a path."""


def identity(cluster_id: str) -> JsonObject:
    """The answer of `/mooring`."""
    return {"kind": KIND, "apiVersion": "mooring.dev/v1", "metadata": {"uid": cluster_id}}


def id_in(answer: Any) -> str:
    """The id in an answer to `/mooring`; empty: the server is no `mooring up`, but for instance a proxy that answers
    everything."""
    if not isinstance(answer, dict) or answer.get("kind") != KIND or not isinstance(answer.get("metadata"), dict):
        return ""
    uid = answer["metadata"].get("uid")
    return uid if isinstance(uid, str) and _ID.fullmatch(uid) else ""


def prefix_of(cluster_id: str) -> str:
    """The path below which the API of this cluster, and of no other, is served."""
    return f"{ROOT}/clusters/{cluster_id}"
