"""Discovery: which kinds an API server serves, and in which versions.

A server that has aggregated discovery answers with two documents, and with 304 while they are unchanged. Any other server is
asked for each version of the groups that Mooring knows.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.client import TaggedDocument
from mooring.apiclient.request_errors import Unreadable, failed_status

ROOTS = ("/api", "/apis")
"""The documents of the core group, and of all other groups."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ",".join((*(_AGGREGATED.format(version) for version in ("v2", "v2beta1")), "application/json"))
"""Parity: client-go accepts the same forms, in this order."""

_Place = tuple[str, str, str]
"""Group, version and plural name of a resource."""
Versions = Mapping[tuple[str, str], frozenset[str]]
"""By group and plural name, the versions in which objects can be listed."""


class DiscoverySource(Protocol):
    """The part of an ApiClient that discovery uses."""

    async def get_document(self, path: str, accept: str, etag: str = "") -> TaggedDocument | None:
        """None: the document is still the one with this tag."""
        ...


class ServedVersions:
    """The kinds and versions that a server names in one answer to discovery."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServedVersions) and self._versions == other._versions

    __hash__ = None  # type: ignore[assignment]

    def of(self, kind: KindSpec) -> list[str]:
        """The versions in which the server serves a kind, those that Mooring does not know included."""
        return sorted(self._versions.get((kind.group, kind.plural), ()))

    def best(self, kind: KindSpec) -> KindSpec | None:
        """The kind in the version that Mooring prefers among those that are served; None if there is none."""
        served = self._versions.get((kind.group, kind.plural), frozenset())
        found = (written for written in kind.api_versions if written.rpartition("/")[2] in served)
        chosen = next(found, None)
        return None if chosen is None else kind.in_version(chosen)


class Discovery:
    """Asks one server. It keeps what the documents say of known groups, and their tags: an answer without changes has no
    body."""

    def __init__(self, source: DiscoverySource, kinds: Iterable[KindSpec]) -> None:
        self._source = source
        self._groups = {kind.group for kind in kinds}
        self._kept: dict[str, tuple[str, list[_Place]]] = {}
        """By path: the tag of the document, and the resources in it."""

    async def ask(self) -> ServedVersions:
        """Raises ApiError, Unanswered, CredentialsError."""
        found: dict[tuple[str, str], set[str]] = {}
        for root in ROOTS:
            for group, version, resource in await self._resources(root):
                found.setdefault((group, resource), set()).add(version)
        return ServedVersions({place: frozenset(versions) for place, versions in found.items()})

    async def _resources(self, root: str) -> "list[_Place]":
        """The resources below a root."""
        etag, places = self._kept.get(root, ("", []))
        answer = await self._source.get_document(root, ACCEPT, etag)
        if answer is None:
            return places
        document = _read(answer.body, _Root, root)
        if document.kind == "APIGroupDiscoveryList":
            places = [place for place in _aggregated(document) if place[0] in self._groups]
            self._kept[root] = answer.etag, places
            return places
        self._kept.pop(root, None)
        return [place for written in self._wanted(document) for place in await self._one_version(written)]

    def _wanted(self, document: "_Root") -> list[str]:
        """The apiVersions that the old form announces of known groups, also those that Mooring cannot read: it names them."""
        named = [each.name for group in document.groups or () for each in group.versions or ()]
        return [each for each in (*(document.versions or ()), *named) if each.rpartition("/")[0] in self._groups]

    async def _one_version(self, api_version: str) -> "list[_Place]":
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            answer = await self._source.get_document(path, "application/json")
        except ApiError as refused:
            if refused.code != 404:
                raise
            return []  # it went away after the list of groups was made
        lines = () if answer is None else _read(answer.body, _ResourceList, path).resources or ()
        return [(group, version, line.name) for line in lines if "list" in (line.verbs or ())]


# ---- documents: fields that are not read are not named, and null lists are Go's empty ones


class _Resource(msgspec.Struct):
    resource: str = ""
    verbs: list[str] | None = None


class _AggregatedVersion(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None


class _GroupVersion(msgspec.Struct):
    name: str = msgspec.field(default="", name="groupVersion")


class _AnnouncedGroup(msgspec.Struct):
    versions: list[_GroupVersion] | None = None


class _GroupName(msgspec.Struct):
    name: str = ""


class _AggregatedGroup(msgspec.Struct):
    metadata: _GroupName = msgspec.field(default_factory=_GroupName)
    versions: list[_AggregatedVersion] | None = None


class _Root(msgspec.Struct):
    """Either form of `/api` and `/apis`."""

    kind: str = ""
    items: list[_AggregatedGroup] | None = None
    versions: list[str] | None = None
    """Of the core group, in the old form."""
    groups: list[_AnnouncedGroup] | None = None


class _ResourceLine(msgspec.Struct):
    name: str = ""
    verbs: list[str] | None = None


class _ResourceList(msgspec.Struct):
    resources: list[_ResourceLine] | None = None


T = TypeVar("T", bound=msgspec.Struct)
_FORMS = frozenset(("APIGroupDiscoveryList", "APIVersions", "APIGroupList"))


def _read(body: bytes, struct: type[T], path: str) -> T:
    """Raises Unreadable for what is no document of discovery: taken for one without kinds, it would end all watches."""
    try:
        document = msgspec.json.decode(body, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Unreadable(f"GET {path}: the answer is not a document of discovery: {fault}") from None
    if isinstance(document, _Root) and document.kind not in _FORMS:
        if error := failed_status(msgspec.json.decode(body)):
            raise error
        raise Unreadable(f"GET {path}: the answer is not a document of discovery but of the kind {document.kind!r}")
    return document


def _aggregated(document: _Root) -> Iterable[_Place]:
    for group in document.items or ():
        for version in group.versions or ():
            for line in version.resources or ():
                if "list" in (line.verbs or ()):
                    yield group.metadata.name, version.version, line.resource
