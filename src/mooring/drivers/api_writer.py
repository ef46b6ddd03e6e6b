"""The writes of a scheduler, as requests to an API server; `drivers/embedded_driver.py` has those of the embedded cluster.

Bytes and paths are those that kube-scheduler sends. Each purpose has its own client, so that none waits for another.
"""

import random

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JSON, MERGE_PATCH, PROTOBUF, STRATEGIC_MERGE_PATCH, JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_STRUCT
from mooring.apiclient.http_requests import ConnectionLost, ConnectionRefused, TimedOut, Unanswered, Unreadable
from mooring.apiclient.served_kinds import NotServed, ServedKinds
from mooring.apiclient.throttle import Random, Timing
from mooring.drivers.driver import plain_body
from mooring.drivers.traced_requests import NO_TRACES, RequestTraces, Sender
from mooring.framework.contract.intents import Write
from mooring.kit.shown_text import json_bytes
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod

RETRY_WAITS_S = (0.01, 0.05, 0.25)
"""Pauses between tries of a bind or a status patch, and up to a tenth more: retry.DefaultBackoff of client-go."""
LATE_PATCH_S = 1.0
"""How long a status patch without an answer may take to arrive, before anything else is written for its pod."""
_NOT_READY = {"InternalError": 500, "ServiceUnavailable": 503}
"""Reasons after which a write is tried again, with the codes that stand for them in answers without a reason."""

_encode = msgspec.json.Encoder().encode
_NO_OPTIONS = _encode({"kind": "DeleteOptions", "apiVersion": "v1"})


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


_BINDING = "k8s\0\n\x0d\n\x02v1\x12\x07Binding\x12"
"""How a Binding in protobuf begins: the mark of Kubernetes, the field with version and kind, the tag of what follows."""
_SIZES = tuple(chr(size) if size < 128 else chr(size & 127 | 128) + chr(size >> 7) for size in range(1024))
"""Lengths as protobuf writes them: seven bits to a byte, the lowest first."""
_MOST_CHARS = 900
"""The longest names that API servers accept have 253 characters, three of them and a uid fewer than these."""


def _protobuf_binding(meta: ObjectMeta, node_name: str) -> bytes | None:
    """The body of a bind in protobuf: the fields of _Binding by the numbers that core/v1 has for them. None for names that
    no API server accepts, which JSON can express.

    Hot: text that is encoded once takes 0.6 µs, and bytes that are joined field by field 4.
    """
    name, namespace, uid, sizes = meta.name, meta.namespace, meta.uid, _SIZES
    texts = f"{name}{namespace}{uid}{node_name}"
    if len(texts) > _MOST_CHARS or not texts.isascii():
        return None
    metadata = f"\n{sizes[len(name)]}{name}\x1a{sizes[len(namespace)]}{namespace}*{sizes[len(uid)]}{uid}"
    target = f"\n\x04Node\x1a{sizes[len(node_name)]}{node_name}"
    raw = f"\n{sizes[len(metadata)]}{metadata}\x12{sizes[len(target)]}{target}"
    return f"{_BINDING}{sizes[len(raw)]}{raw}".encode("latin-1")


class WriteClients(msgspec.Struct, frozen=True):
    """The clients that send the writes of each purpose: LeanClients, or what a dry run has instead."""

    binder: Sender
    statuses: Sender
    objects: Sender
    """Claims and volumes: pods wait for them before their bind, so they must not wait behind hundreds of statuses."""
    events: Sender


class ApiWriter:
    """Writes what a scheduler wants written. Methods raise ApiError if the API server refuses, and Unanswered if there is
    no answer: then the write may or may not have been carried out.

    Requests are traced where the attempt is that leads to them. Events are not: they are written long after it.
    """

    def __init__(
        self,
        clients: WriteClients,
        timing: Timing,
        draw: Random = random.random,
        traces: RequestTraces = NO_TRACES,
        served: ServedKinds | None = None,
        content_type: str = JSON,
    ) -> None:
        """`served` says in which version each kind is written; without it that is the version of the spec. `content_type` is
        the form of binds, all else is JSON."""
        self._clients = clients
        self._served = served
        self._timing = timing
        self._draw = draw
        self._traced = traces.sender
        self._binds_in_protobuf = content_type == PROTOBUF

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the binding subresource. The uid makes the API server refuse if a new pod has taken the name.

        Hot: with protobuf, kube-apiserver and etcd take 5 % less CPU for a bind.
        """
        meta, path = pod.metadata, f"{_path(pod)}/binding"
        sender = self._traced(self._clients.binder, pod.id, is_awaited=True)
        if self._binds_in_protobuf and (compact := _protobuf_binding(meta, node_name)) is not None:
            try:
                await sender.send("POST", path, compact, PROTOBUF)
                return
            except ApiError as refused:
                if refused.code != 415:
                    raise
                self._binds_in_protobuf = False  # the server reads JSON alone, and has done nothing
        body = _Binding("v1", _BoundPod(meta.name, meta.namespace, meta.uid), _BindTarget(node_name))
        await sender.send("POST", path, _encode(body))

    async def read_pod(self, pod: Pod) -> JsonObject | None:
        """The pod as the server has it now; None if it is gone."""
        try:
            sender = self._traced(self._clients.binder, pod.id, is_awaited=True)
            answer = await sender.send("GET", _path(pod), b"")
        except ApiError as refused:
            if refused.code == 404:
                return None
            raise
        try:
            return msgspec.json.decode(answer, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unreadable(f"GET {_path(pod)}: the answer is not an object") from None

    async def patch_status(self, pod: Pod, patch: JsonObject, cause_id: str = "") -> None:
        """Patch a status for an attempt of the pod, or of the pod with the id `cause_id`.

        Try again a few times if the API server is not ready, reports a conflict, closes the connection, or answers with
        something unreadable: the same patch twice does no harm.

        A patch that was sent but not answered may still arrive. If it arrives after a bind, it sets PodScheduled to False on
        a pod that has its node. So the writer waits for a moment before it returns.
        """
        sender = self._traced(self._clients.statuses, cause_id or pod.id, is_awaited=False)
        may_arrive = False
        for wait_s in (*RETRY_WAITS_S, None):
            fault = await _try_patch(sender, pod, patch)
            may_arrive = may_arrive or isinstance(fault, ConnectionLost | TimedOut)
            if fault is None or wait_s is None or not _is_worth_another_try(fault):
                break
            await self._timing.sleep(with_jitter(wait_s, self._draw))
        if may_arrive:
            await self._timing.sleep(LATE_PATCH_S)
        if fault is not None:
            raise fault

    async def delete(self, pod: Pod, cause_id: str) -> None:
        """Delete a pod for an attempt of the pod with the id `cause_id`."""
        sender = self._traced(self._clients.statuses, cause_id, is_awaited=False)
        await sender.send("DELETE", _path(pod), _NO_OPTIONS)

    async def write(self, write: Write) -> KubeObject | None:
        """Write any other object, such as a claim or a volume. Returns the object that the API server answers with, None
        after a deletion."""
        kind = self._version_of(BY_STRUCT[write.kind])
        try:
            return await self._write_as(kind, write)
        except ApiError as refused:
            # The path is unknown, and not the object: the server was upgraded a moment ago, and has done nothing.
            if self._served is None or refused.code != 404 or (refused.details is not None and refused.details.name):
                raise
            await self._served.recheck(kind)
            other = self._version_of(BY_STRUCT[write.kind])
            if other.api_version == kind.api_version:
                raise
            return await self._write_as(other, write)

    def _version_of(self, kind: KindSpec) -> KindSpec:
        """The kind in the version that the server serves; in its own version if that is not known, so that the server says
        what is wrong."""
        try:
            return kind if self._served is None else self._served.found(kind)
        except NotServed:
            return kind

    async def _write_as(self, kind: KindSpec, write: Write) -> KubeObject | None:
        path, content_type = request_of(write, kind)
        sender = self._traced(self._clients.objects, write.pod_id, is_awaited=True)
        answer = msgspec.json.decode(await sender.send(write.method, path, _encode(body_of(write, kind)), content_type))
        if write.method == "DELETE":
            return None
        return msgspec.convert(answer if kind.form is None else kind.form.read(answer), write.kind)

    async def create_event(self, event: JsonObject) -> None:
        await self._clients.events.send("POST", _events(event["metadata"]["namespace"]), json_bytes(event))

    async def patch_event(self, namespace: str, name: str, series: JsonObject) -> None:
        body = json_bytes({"series": series})
        await self._clients.events.send("PATCH", f"{_events(namespace)}/{name}", body, STRATEGIC_MERGE_PATCH)


async def _try_patch(sender: Sender, pod: Pod, patch: JsonObject) -> ApiError | Unanswered | None:
    try:
        await sender.send("PATCH", f"{_path(pod)}/status", json_bytes(patch), STRATEGIC_MERGE_PATCH)
    except (ApiError, Unanswered) as fault:
        return fault
    return None


def with_jitter(wait_s: float, draw: Random) -> float:
    """The pause and up to a tenth more, so that clients do not come back all at once."""
    return wait_s * (1 + 0.1 * draw())


def is_not_ready(fault: Exception) -> bool:
    """Whether the API server cannot serve now: upstream's `Retriable`. A 500 with another reason, such as ServerTimeout, is
    none of these."""
    if isinstance(fault, ApiError):
        return fault.reason in _NOT_READY or (not fault.reason and fault.code in _NOT_READY.values())
    return isinstance(fault, ConnectionRefused)


def _is_worth_another_try(fault: ApiError | Unanswered) -> bool:
    """Whether to try a status patch again: a conflict too, and whatever was lost on the way."""
    if isinstance(fault, ApiError) and fault.code == 409:
        return True
    return is_not_ready(fault) or isinstance(fault, ConnectionLost | Unreadable)


def _path(pod: Pod) -> str:
    meta = pod.metadata
    return f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"


def _events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


# ---- objects other than pods, such as claims and volumes


def body_of(write: Write, as_kind: KindSpec | None = None) -> JsonObject:
    """The body as JSON, in the form of the kind's version; with apiVersion and kind unless it is a patch. Patches concern
    metadata and status, which have one form in all versions."""
    body, kind = plain_body(write), as_kind or BY_STRUCT[write.kind]
    if write.method == "PATCH" or write.body is None:
        return body
    if kind.form is not None and kind.form.write is not None:
        body = kind.form.write(body)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def request_of(write: Write, as_kind: KindSpec | None = None) -> tuple[str, str]:
    """Path and content type of the request that carries the write out."""
    kind = as_kind or BY_STRUCT[write.kind]
    path = kind.url(write.namespace, write.name if write.method != "POST" else "")
    if write.subresource and write.method != "POST":
        path = f"{path}/{write.subresource}"
    if write.method != "PATCH":
        return path, JSON
    return path, STRATEGIC_MERGE_PATCH if write.form == "strategic" else MERGE_PATCH
