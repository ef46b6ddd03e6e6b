"""Pods and nodes as an API server wrote them, kept for extenders that want to see them whole.

The scheduler reads a part of each object and forgets the rest; this listens in on the way from the server.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from mooring.apiclient.reflectors.reflector import WatchSource
from mooring.live.extenders.bodies import shown
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod

_PODS, _NODES = "/api/v1/pods", "/api/v1/nodes"
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _Page(msgspec.Struct):
    items: list[dict[str, Any]] | None = None


class Originals:
    """A source of watches that lets everything through, and keeps a copy of each pod and node."""

    def __init__(self, source: WatchSource) -> None:
        self._source = source
        self._kept: dict[str, dict[str, msgspec.Raw]] = {_PODS: {}, _NODES: {}}
        """Path -> key of the object -> its JSON."""
        self._arriving: dict[str, dict[str, msgspec.Raw]] = {}
        """Lists that are being streamed; each counts from the bookmark on that ends it."""

    def whole(self, item: KubeObject) -> Any:
        """The object as it was last seen; what is given, where it was not."""
        return self._kept[_PODS if isinstance(item, Pod) else _NODES].get(_key(item.metadata), item)

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        pages = await self._source.list_pages(path, params)
        if path in self._kept:
            self._kept[path].clear()
            for page in pages:
                self._keep_page(path, page)
        return pages

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
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
            return  # whoever reads the page will say so
        for item in items or ():
            self._keep(path, item)

    def _keep_line(self, path: str, line: bytes) -> None:
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
        """What is being filled: the list that arrives, or what is known."""
        return self._arriving.get(path, self._kept[path])


def _key(metadata: ObjectMeta) -> str:
    """With the uid: a pod of the same name is another pod."""
    return f"{metadata.namespace}/{metadata.name}/{metadata.uid}"


def _metadata(item: dict[str, Any]) -> ObjectMeta:
    written = item.get("metadata")
    names = written if isinstance(written, dict) else {}
    return ObjectMeta(
        name=str(names.get("name", "")), namespace=str(names.get("namespace", "")), uid=str(names.get("uid", ""))
    )
