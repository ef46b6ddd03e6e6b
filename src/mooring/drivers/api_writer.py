"""The writes of a scheduler, as requests to an API server; `drivers/stored_objects.py` is for the embedded cluster.

Bytes and paths are those that kube-scheduler sends. Each purpose has its own client, so that none waits for another.
"""

import random
from functools import cache
from typing import Protocol

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import MERGE_PATCH, STRATEGIC_MERGE_PATCH, JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_STRUCT
from mooring.apiclient.request_errors import ConnectionLost, ConnectionRefused, TimedOut, Unanswered, Unreadable
from mooring.apiclient.throttle import Random, Timing
from mooring.framework.contract.intents import Write
from mooring.kit.shown_text import json_bytes
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

STATUS_WAITS_S = (0.01, 0.05, 0.25)
"""Pauses between tries of a status patch, and up to a tenth more: retry.DefaultBackoff of client-go."""
LATE_PATCH_S = 1.0
"""How long a status patch without an answer may take to arrive, before anything else is written for its pod."""
_NOT_READY = (409, 500, 503)
"""Answers after which a status patch is tried again."""

_encode = msgspec.json.Encoder().encode
_NO_OPTIONS = _encode({"kind": "DeleteOptions", "apiVersion": "v1"})


class Sender(Protocol):
    """What an ApiWriter sends by: a LeanClient, or one that traces the requests of an attempt."""

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes: ...


class Writer(Protocol):
    """What a scheduler writes. Methods raise ApiError if the API server refuses, and Unanswered if there is no answer: then
    the write may or may not have been carried out."""

    def for_pod(self, pod_id: str) -> "Writer":
        """The writer for what an attempt of this pod leads to, where the method does not take the pod itself."""

    async def bind(self, pod: Pod, node_name: str) -> None: ...

    async def read_pod(self, pod: Pod) -> JsonObject | None: ...

    async def patch_status(self, pod: Pod, patch: JsonObject) -> None: ...

    async def delete(self, pod: Pod) -> None: ...

    async def write(self, method: str, path: str, body: JsonObject, content_type: str) -> JsonObject: ...

    async def create_event(self, event: JsonObject) -> None: ...

    async def patch_event(self, namespace: str, name: str, series: JsonObject) -> None: ...


class _BoundPod(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str


class _BindTarget(msgspec.Struct, gc=False, tag_field="kind", tag="Node"):
    name: str


class _Binding(msgspec.Struct, gc=False, tag_field="kind", tag="Binding"):
    """The body of a bind. Hot: 5,750 instructions, and 8,200 with dictionaries."""

    api_version: str = msgspec.field(name="apiVersion")
    metadata: _BoundPod
    target: _BindTarget


class ApiWriter(msgspec.Struct, frozen=True):
    """The Writer of a live scheduler."""

    binder: Sender
    statuses: Sender
    objects: Sender
    """Claims and volumes: pods wait for them before their bind, so they must not wait behind hundreds of statuses."""
    events: Sender
    timing: Timing
    draw: Random = random.random

    def for_pod(self, pod_id: str) -> Writer:
        return self

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the binding subresource. The uid makes the API server refuse if a new pod has taken the name."""
        meta = pod.metadata
        body = _Binding("v1", _BoundPod(meta.name, meta.namespace, meta.uid), _BindTarget(node_name))
        await self.binder.send("POST", f"{_path(pod)}/binding", _encode(body))

    async def read_pod(self, pod: Pod) -> JsonObject | None:
        """The pod as the server has it now; None if it is gone."""
        try:
            answer = await self.binder.send("GET", _path(pod), b"")
        except ApiError as refused:
            if refused.code == 404:
                return None
            raise
        try:
            return msgspec.json.decode(answer, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unreadable(f"GET {_path(pod)}: the answer is not an object") from None

    async def patch_status(self, pod: Pod, patch: JsonObject) -> None:
        """Try again a few times if the API server is not ready, reports a conflict, closes the connection, or answers with
        something unreadable: the same patch twice does no harm.

        A patch that was sent but not answered may still arrive. If it arrives after a bind, it sets PodScheduled to False on
        a pod that has its node. So the writer waits for a moment before it returns.
        """
        may_arrive = False
        for wait_s in (*STATUS_WAITS_S, None):
            fault = await self._try_patch(pod, patch)
            may_arrive = may_arrive or isinstance(fault, ConnectionLost | TimedOut)
            if fault is None or wait_s is None or not _is_worth_another_try(fault):
                break
            await self.timing.sleep(wait_s * (1 + 0.1 * self.draw()))
        if may_arrive:
            await self.timing.sleep(LATE_PATCH_S)
        if fault is not None:
            raise fault

    async def _try_patch(self, pod: Pod, patch: JsonObject) -> ApiError | Unanswered | None:
        try:
            await self.statuses.send("PATCH", f"{_path(pod)}/status", json_bytes(patch), STRATEGIC_MERGE_PATCH)
        except (ApiError, Unanswered) as fault:
            return fault
        return None

    async def delete(self, pod: Pod) -> None:
        await self.statuses.send("DELETE", _path(pod), _NO_OPTIONS)

    async def write(self, method: str, path: str, body: JsonObject, content_type: str) -> JsonObject:
        """Write any other object, such as a claim or a volume. Returns the object that the API server answers with."""
        written: JsonObject = msgspec.json.decode(await self.objects.send(method, path, _encode(body), content_type))
        return written

    async def create_event(self, event: JsonObject) -> None:
        await self.events.send("POST", _events(event["metadata"]["namespace"]), json_bytes(event))

    async def patch_event(self, namespace: str, name: str, series: JsonObject) -> None:
        body = json_bytes({"series": series})
        await self.events.send("PATCH", f"{_events(namespace)}/{name}", body, STRATEGIC_MERGE_PATCH)


def _is_worth_another_try(fault: ApiError | Unanswered) -> bool:
    if isinstance(fault, ApiError):
        return fault.code in _NOT_READY
    return isinstance(fault, ConnectionRefused | ConnectionLost | Unreadable)


def _path(pod: Pod) -> str:
    meta = pod.metadata
    return f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"


def _events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


# ---- objects other than pods, such as claims and volumes


JSON = "application/json"


@cache
def resource_of(kind: type[KubeObject]) -> KindSpec:
    """The kind of a struct, with the path under which the API server serves it."""
    return BY_STRUCT[kind]


def body_of(write: Write) -> JsonObject:
    """The body as JSON; with apiVersion and kind unless it is a patch."""
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    if write.method == "PATCH" or body is None:
        return body or {}
    resource = resource_of(write.kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def request_of(write: Write) -> tuple[str, str]:
    """Path and content type of the request that carries the write out."""
    resource = resource_of(write.kind)
    within = f"/namespaces/{write.namespace}" if resource.namespaced else ""
    parts = [f"{resource.path}{within}/{resource.plural}"]
    if write.method != "POST":
        parts += filter(None, (write.name, write.subresource))
    if write.method != "PATCH":
        return "/".join(parts), JSON
    return "/".join(parts), STRATEGIC_MERGE_PATCH if write.form == "strategic" else MERGE_PATCH
