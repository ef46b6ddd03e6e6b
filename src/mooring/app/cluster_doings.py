"""Carries out what somebody tried as a what-if first, through the API of the cluster like any other client.

Changes have the form of `mooring what-if`. They are read before anything is done; then each is made in order, and the first
that fails ends it: what follows may depend on it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import quote

from mooring.answers.what_if.targets import is_selector, kind_of, reject, split_number, whole
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import MERGE_PATCH, JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import node_name
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import Unanswered
from mooring.app import node_actions
from mooring.app.node_actions import NODES
from mooring.dashboard.interfaces import AskedChange, AskedChanges, DoneChanges, Refused
from mooring.inputs.input_errors import InputError

MAX_CHANGES = 50
MAX_NODES = 10_000
"""Nodes that one change may add."""
MAX_PODS = 100_000
MAX_SECONDS = 60.0
"""A drain may wait for its budgets for ever; the page asks again instead."""
MAX_LINES = 500
_LAST_NUMBER = re.compile(r"-?[0-9]+$")
"""New nodes are numbered on: those like node-0003 are node-0021 and so on."""

Doing = Callable[[ApiClient], AsyncIterator[str]]
"""Makes a change. Yields a line for each thing that was done."""


class ClusterDoings:
    """Changes the cluster behind a connection."""

    def __init__(self, access: ConnectionSettings) -> None:
        self._access = access

    async def do(self, changes: AskedChanges) -> DoneChanges:
        """Raises Refused (422) before anything is done, if a change cannot be read."""
        if not 0 < len(changes.changes) <= MAX_CHANGES:
            raise Refused(422, f"give 1 to {MAX_CHANGES} changes")
        doings = [(each, read_change(each)) for each in changes.changes]
        done: list[str] = []
        failed: list[str] = []
        async with ApiClient(self._access, "mooring-dashboard", qps=-1) as client:
            for each, doing in doings:
                name = f"{each.change} {each.value}"
                if failed:
                    failed.append(f"{name}: not tried")
                    continue
                fault = await _make(client, doing, done)
                if fault:
                    failed.append(f"{name}: {fault}")
        return DoneChanges(_cut(done), failed)


async def _make(client: ApiClient, doing: Doing, done: list[str]) -> str:
    """Make one change. Returns why it failed; empty if it did not."""
    try:
        async with asyncio.timeout(MAX_SECONDS):
            lines = doing(client)
            while (line := await anext(lines, None)) is not None:
                done.append(line)
    except TimeoutError:
        return f"not done after {MAX_SECONDS:g} seconds; what was done stays done"
    except (ApiError, Unanswered) as fault:
        return str(fault)
    return ""


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]


# ---- changes


def read_change(asked: AskedChange) -> Doing:
    """The function that makes a change. Raises Refused (422)."""
    make = CHANGES.get(asked.change)
    if make is None:
        raise Refused(422, f"{asked.change}: cannot be carried out here; possible are {', '.join(CHANGES)}")
    try:
        return make(asked.value)
    except InputError as fault:
        raise Refused(422, f"{asked.change} {asked.value}: {fault}") from None


def _each_node(target: str, act: Callable[[ApiClient, str], AsyncIterator[str]]) -> Doing:
    """Do something with every node that a target means, one after another."""

    async def doing(client: ApiClient) -> AsyncIterator[str]:
        for name in await _nodes(client, target):
            async for line in act(client, name):
                yield line

    return doing


async def _nodes(client: ApiClient, target: str) -> list[str]:
    """Raises ApiError: a node that is not there, or a selector that cannot be read."""
    if not is_selector(target):
        return [(await client.get(f"{NODES}/{_segment(node_name(target))}"))["metadata"]["name"]]
    listed = await client.list(NODES, {"labelSelector": target})
    return sorted(node["metadata"]["name"] for node in listed["items"])


def _segment(name: str) -> str:
    """A name as one part of a path, whatever characters it has."""
    return quote(name, safe="") if name not in (".", "..") else "%2E" * len(name)


def _cordon(is_unschedulable: bool) -> Callable[[str], Doing]:
    async def act(client: ApiClient, name: str) -> AsyncIterator[str]:
        await client.patch(f"{NODES}/{name}", {"spec": {"unschedulable": is_unschedulable or None}}, MERGE_PATCH)
        yield f"{name} {'cordoned' if is_unschedulable else 'uncordoned'}"

    return lambda target: _each_node(target, act)


async def _remove(client: ApiClient, name: str) -> AsyncIterator[str]:
    await node_actions.remove(client, name)
    yield f"{name} removed"


def _add_nodes(value: str) -> Doing:
    """`N=NODE`: nodes like one of the cluster."""
    number, _, template = value.partition("=")
    count = whole(number, MAX_NODES)

    async def doing(client: ApiClient) -> AsyncIterator[str]:
        like = _template(await client.get(f"{NODES}/{_segment(node_name(template))}")) if template else None
        async for name in node_actions.add(client, count, like):
            yield f"{name} added"

    return doing


def _template(node: JsonObject) -> JsonObject:
    """The manifest of a new node that is to be like this one, without what tells the state of this one."""
    meta, status = node["metadata"], node.get("status", {})
    labels = {key: value for key, value in meta.get("labels", {}).items() if key != "kubernetes.io/hostname"}
    taints = [
        each for each in node.get("spec", {}).get("taints", ()) if not each["key"].startswith("node.kubernetes.io/")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": _LAST_NUMBER.sub("", meta["name"]) or meta["name"], "labels": labels},
        "spec": {"taints": taints},
        "status": {key: status[key] for key in ("capacity", "allocatable") if key in status},
    }


@dataclass(frozen=True, slots=True)
class _Target:
    """An object by kind and name."""

    spec: KindSpec
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return self.spec.url(_segment(self.namespace), _segment(self.name))

    def __str__(self) -> str:
        return (
            f"{self.spec.kind} {self.namespace}/{self.name}"
            if self.spec.namespaced
            else f"{self.spec.kind} {self.name}"
        )


def _target(written: str) -> _Target:
    """`KIND/[NAMESPACE/]NAME`; without a namespace, `default`. Raises InputError."""
    kind, *names = written.split("/")
    if not 1 <= len(names) <= 2 or not all(names):
        reject("must be KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/shop/web")
    return _Target(kind_of(kind), names[0] if len(names) == 2 else "default", names[-1])


def _scale(value: str) -> Doing:
    """Parse `KIND/[NAMESPACE/]NAME=N` into an action that patches the number of pods: `parallelism` of a Job, `replicas` of
    other kinds."""
    written, number = split_number(value, "KIND/[NAMESPACE/]NAME=N, such as Deployment/shop/web=5", MAX_PODS)
    target = _target(written)
    field = "parallelism" if target.spec.kind == "Job" else "replicas"

    async def doing(client: ApiClient) -> AsyncIterator[str]:
        await client.patch(target.path, {"spec": {field: number}}, MERGE_PATCH)
        yield f"{target} scaled to {number}"

    return doing


def _delete(value: str) -> Doing:
    target = _target(value)

    async def doing(client: ApiClient) -> AsyncIterator[str]:
        await client.delete(target.path, {"propagationPolicy": "Background"})
        yield f"{target} deleted"

    return doing


CHANGES: dict[str, Callable[[str], Doing]] = {
    "drain": lambda target: _each_node(target, node_actions.drain),
    "cordon": _cordon(True),
    "uncordon": _cordon(False),
    "remove-nodes": lambda target: _each_node(target, _remove),
    "add-nodes": _add_nodes,
    "scale": _scale,
    "delete": _delete,
}
"""The changes that can be carried out. `apply` and `config` name files of the server, which are not for a browser to name."""
