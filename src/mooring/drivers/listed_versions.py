"""The versions of objects as the API server lists them, against those that reflectors know.

Only a list shows that a watch has lost an event. A list takes time, and watches are late, so an object that is behind is
looked at again, then read from the API server, and reported only if the watch has not caught up with it by then.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from functools import cached_property, partial
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.kinds import BY_STRUCT
from mooring.apiclient.client import ApiClient
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ListMeta, Unanswered
from mooring.apiclient.reflectors.mirror import is_later
from mooring.apiclient.reflectors.reflector import Reflector
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.state.check.object_differences import StateDifference, version_of

PAGE = 250
"""Objects in a page: decoding their metadata takes a millisecond or two."""
MAX_READ = 200
"""Objects that are read one by one in a check. Where more seem to be behind, the rest waits for the next check."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The Accept header of a client that needs no more of a list than metadata. A server that cannot do that sends whole
objects."""

_FAULTS = (ApiError, Unanswered, CredentialsError, msgspec.DecodeError)

ObjectPlace = tuple[type[KubeObject], str]
GONE = "gone"
"""Instead of a version: the object does not exist, or has finished."""


class _Listed(msgspec.Struct):
    metadata: ObjectMeta


class _ReadStatus(msgspec.Struct):
    phase: str = ""


class _ReadObject(msgspec.Struct):
    metadata: ObjectMeta
    status: _ReadStatus = msgspec.field(default_factory=_ReadStatus)


class _MetadataPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[_Listed] | None = None


class ListedVersions:
    """Compares lists with what reflectors know, and reads single objects. `lister` need not return more than metadata."""

    def __init__(self, reflectors: Callable[[], Iterable[Reflector]], lister: ApiClient, reader: ApiClient) -> None:
        self._members = reflectors
        self._lister, self._reader = lister, reader
        self._read: dict[ObjectPlace, str] = {}
        """The versions of objects that were to be read: GONE, or empty if they were not."""

    @cached_property
    def _reflectors(self) -> dict[type[KubeObject], Reflector]:
        """By the struct of their objects. Reflectors exist only after this, because they need a listener that follows."""
        return {reflector.spec.struct: reflector for reflector in self._members()}

    # ---- lists

    async def pages(self) -> AsyncIterator[Callable[[], list[ObjectPlace]]]:
        """List all resources, page by page. Yields what is to be called before the next page: it returns the objects of
        which the watch shows an older form, or none, or one that is gone."""
        for kind, reflector in self._reflectors.items():
            if reflector.has_synced and reflector.refusal is None:
                comparison = _ListComparison(kind, reflector)
                try:
                    while not comparison.is_over:
                        page = await self._lister.get_bytes(reflector.spec.url(), comparison.params)
                        yield partial(comparison.take, page)
                except _FAULTS:
                    continue  # the reflector reports what is wrong with the server

    # ---- single objects

    async def read(self, places: Iterable[ObjectPlace]) -> None:
        """Read objects, so that `is_unseen` knows about them. After the first that cannot be read, and beyond MAX_READ, none
        is read: nothing is then said about the others in this check."""
        wanted = [place for place in dict.fromkeys(places) if place[0] in self._reflectors]
        self._read = dict.fromkeys(wanted, "")
        for place in wanted[:MAX_READ]:
            version = await self._version(*place)
            if not version:
                break
            self._read[place] = version

    async def _version(self, kind: type[KubeObject], key: str) -> str:
        """Read the resource version of one object from the server: GONE if it does not exist or is a finished pod, empty if
        the answer is of no use."""
        try:
            item = msgspec.json.decode(await self._reader.get_bytes(self.path(kind, key)), type=_ReadObject)
        except ApiError as refused:
            return GONE if refused.code == 404 else ""
        except _FAULTS:
            return ""
        is_finished = kind is Pod and item.status.phase in FINISHED_PHASES  # watches leave such pods out
        return GONE if is_finished else item.metadata.resource_version or ""

    def path(self, kind: type[KubeObject], key: str) -> str:
        namespace, _, name = key.rpartition("/")
        return self._reflectors[kind].spec.url(namespace, name)

    def is_unseen(self, kind: type[KubeObject] | None, key: str) -> bool:
        """Whether the API server has a newer form of the object than the watch has shown, or could not be asked."""
        if kind is None or (kind, key) not in self._read:
            return False
        version, known = self._read[kind, key], self.known(kind, key)
        if version == GONE:
            return known is not None
        return not version or known is None or is_later(version, known.metadata.resource_version)

    def known(self, kind: type[KubeObject], key: str) -> KubeObject | None:
        return self._reflectors[kind].objects.get(key)

    def missed(self, places: Iterable[ObjectPlace]) -> list[StateDifference]:
        """The objects among those that were read that the watch has not shown as they are."""
        found = []
        for kind, key in places:
            version = self._read.get((kind, key), "")
            if version and self.is_unseen(kind, key):
                server = "there is none" if version == GONE else version
                found.append(StateDifference("watch", kind, key, "version", version_of(self.known(kind, key)), server))
        return found

    async def mend(self, difference: StateDifference) -> None:
        """Hand the reflector what its watch has lost, as a line of a watch. The reflector lists again in due course,
        because the line comes out of order."""
        assert difference.about is not None, "it is about an object"
        kind, key = difference.about, difference.name
        known = self.known(kind, key)
        try:
            body = await self._reader.get_bytes(self.path(kind, key))
        except ApiError as refused:
            if refused.code != 404 or known is None:
                raise
            self._reflectors[kind].take_line(_deletion(known))
        else:
            self._reflectors[kind].take_line(b'{"type":"MODIFIED","object":' + body.strip() + b"}")


class _ListComparison:
    """One list against what the reflector knows at each moment: its watch goes on meanwhile."""

    def __init__(self, kind: type[KubeObject], reflector: Reflector) -> None:
        self._kind, self._reflector = kind, reflector
        self.params: dict[str, str] = {"limit": str(PAGE)}
        """Parameters of the request for the next page."""
        if reflector.spec.watch is not None and reflector.spec.watch.field_selector:
            self.params["fieldSelector"] = reflector.spec.watch.field_selector
        self.is_over = False
        self._listed: set[str] = set()
        self._version = ""

    def take(self, body: bytes) -> list[ObjectPlace]:
        """The objects that are behind a page; after the last page also those that the list does not have."""
        page, known = msgspec.json.decode(body, type=_MetadataPage), self._reflector.objects
        self._version = self._version or page.metadata.resource_version or ""
        objects = [KubeObject(metadata=item.metadata) for item in page.items or ()]
        self._listed.update(item.key for item in objects)
        found = [item.key for item in objects if _is_behind(known.get(item.key), item)]
        self.params["continue"] = page.metadata.token or ""
        if not page.metadata.token:
            self.is_over = True
            found += [key for key, item in known.items() if key not in self._listed and self._is_older(item)]
        return [(self._kind, key) for key in found]

    def _is_older(self, item: KubeObject) -> bool:
        """Whether an object was there when the list was made."""
        return not is_later(item.metadata.resource_version, self._version)


def _is_behind(known: KubeObject | None, listed: KubeObject) -> bool:
    if known is None or known.uid != listed.uid:
        return known is None or is_later(listed.metadata.resource_version, known.metadata.resource_version)
    version = listed.metadata.resource_version
    return version != known.metadata.resource_version and is_later(version, known.metadata.resource_version)


def _deletion(known: KubeObject) -> bytes:
    spec = BY_STRUCT[type(known)]
    item: dict[str, Any] = {"apiVersion": spec.api_version, "kind": spec.kind, "metadata": known.metadata}
    return msgspec.json.encode({"type": "DELETED", "object": item})
