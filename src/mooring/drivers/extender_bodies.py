"""The bodies of calls to extenders: the core's plain data, with whole objects instead of the parts that the core keeps.

The core decodes only the fields that a scheduler reads, but extenders get pods and nodes whole. An embedded cluster has whole
objects in its store (`drivers/stored_objects.py`); for a live one, `Originals` keeps them as the reflectors receive them,
and only if there are extenders.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from mooring.apiclient.reflectors.reflector import WatchSource
from mooring.framework.contract.intents import Call
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod

Whole = Callable[[KubeObject], Any]
"""Returns the object as the API server has it, ready for JSON; the given object if there is no other."""

_encode = msgspec.json.Encoder().encode


def encoded(call: Call, whole: Whole) -> bytes:
    """The JSON body of a call."""
    return _encode(_filled(call.body, whole))


def _filled(value: Any, whole: Whole) -> Any:
    """The value with each typed object replaced by the whole one."""
    if isinstance(value, KubeObject):
        return whole(value)
    if isinstance(value, dict):
        return {key: _filled(member, whole) for key, member in value.items()}
    if isinstance(value, list):
        return [_filled(item, whole) for item in value]
    return value


def shown(item: dict[str, Any], is_pod: bool) -> dict[str, Any]:
    """An object as upstream sends it. Parity: without kind and apiVersion; pods without managedFields, nodes with them."""
    bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
    metadata = bare.get("metadata")
    if is_pod and isinstance(metadata, dict) and "managedFields" in metadata:
        bare["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    return bare


# ---- pods and nodes of a live cluster


_PODS, _NODES = "/api/v1/pods", "/api/v1/nodes"
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _Page(msgspec.Struct):
    items: list[dict[str, Any]] | None = None


class Originals:
    """A WatchSource that passes everything on, and keeps the JSON of each pod and node.

    It costs one more decoding of each pod and node, and their memory, so a scheduler without extenders does not use it.
    """

    def __init__(self, source: WatchSource) -> None:
        self._source = source
        self._kept: dict[str, dict[str, msgspec.Raw]] = {_PODS: {}, _NODES: {}}
        """Path -> key of the object -> its JSON."""
        self._arriving: dict[str, dict[str, msgspec.Raw]] = {}
        """Lists that are being streamed (sendInitialEvents). Each replaces `_kept` with the bookmark that ends it: until then
        it misses objects."""

    def whole(self, item: KubeObject) -> Any:
        """The object as it was last received; `item` itself if it was not."""
        return self._kept[_PODS if isinstance(item, Pod) else _NODES].get(_key(item.metadata), item)

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        pages = await self._source.list_pages(path, params)
        if path in self._kept:
            self._kept[path].clear()
            for page in pages:
                self._keep_page(path, page)
        return pages

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        """Passes the lines on unchanged, and keeps the objects in them."""
        self._arriving.pop(path, None)
        if path in self._kept and "sendInitialEvents" in (params or {}):
            self._arriving[path] = {}
        async for lines in self._source.watch(path, params):
            if path in self._kept:
                for line in lines:
                    self._keep_line(path, line)
            yield lines

    def _keep_page(self, path: str, page: bytes) -> None:
        try:
            items = msgspec.json.decode(page, type=_Page).items
        except _FAULTS:
            return  # the reflector decodes the page next and reports the fault
        for item in items or ():
            self._keep(path, item)

    def _keep_line(self, path: str, line: bytes) -> None:
        """Follow one event of a watch. A line that cannot be decoded is skipped: the reflector reports it."""
        try:
            event = msgspec.json.decode(line, type=_Event)
        except _FAULTS:
            return
        if event.type in ("ADDED", "MODIFIED"):
            self._keep(path, event.object)
        elif event.type == "DELETED":
            self._now(path).pop(_key(_metadata(event.object)), None)
        elif event.type == "BOOKMARK" and path in self._arriving:
            self._kept[path] = self._arriving.pop(path)

    def _keep(self, path: str, item: dict[str, Any]) -> None:
        written = msgspec.json.encode(shown(item, path == _PODS))
        self._now(path)[_key(_metadata(item))] = msgspec.Raw(written)

    def _now(self, path: str) -> dict[str, msgspec.Raw]:
        """Where events go: into the list that is being streamed, or into what is kept."""
        return self._arriving.get(path, self._kept[path])


def _key(metadata: ObjectMeta) -> str:
    """The key has the uid: a pod of the same name may be another pod."""
    return f"{metadata.namespace}/{metadata.name}/{metadata.uid}"


def _metadata(item: dict[str, Any]) -> ObjectMeta:
    written = item.get("metadata")
    names = written if isinstance(written, dict) else {}
    return ObjectMeta(
        name=str(names.get("name", "")), namespace=str(names.get("namespace", "")), uid=str(names.get("uid", ""))
    )
