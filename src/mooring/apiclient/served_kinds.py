"""The kinds that a server serves, and in which versions. They are kept up to date: servers are upgraded, and groups
come and go, while a scheduler runs.

A server that has aggregated discovery answers with two documents, and with 304 while they are unchanged. Any other
server is asked for each version of the groups that Mooring knows.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.client import TaggedDocument
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered, Unreadable, failed_status
from mooring.apiclient.throttle import Random, RetryBackoff, Timing
from mooring.kit.tasks import sooner

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


log = logging.getLogger(__name__)

PERIOD_S = 60.0
"""How often the server is asked, and up to half as much later at random, so that clients do not all ask at once."""
SHORTEST_PAUSE_S = 2.0
"""The time between two questions, whatever asks for one: all watches of a server that restarts end together."""


class NotServed(ApiError):
    """The server serves a kind in no version that Mooring reads."""

    def __init__(self, kind: KindSpec, served: Iterable[str]) -> None:
        others = ", ".join(served)
        read = ", ".join(written.rpartition("/")[2] for written in kind.api_versions)
        detail = f"the server has {others}, Mooring reads {read}" if others else f"Mooring reads {read}"
        super().__init__(404, "NotFound", f"the server does not serve {kind.resource}: {detail}")
        self.served = others
        """The versions that the server has, as text; empty if it has none."""


class ServedKinds:
    """Asks for discovery while `run` runs: at the start, every minute or so, and whenever `ask_soon` is called.

    A failure changes nothing that is known, and another question follows soon. While nothing is known at all, versions are
    tried one after another.
    """

    def __init__(
        self,
        source: DiscoverySource,
        kinds: Iterable[KindSpec],
        timing: Timing | None = None,
        draw: Random = random.random,
    ) -> None:
        self._discovery = Discovery(source, kinds)
        self._timing = timing or Timing()
        self._draw = draw
        self._pace = RetryBackoff(self._timing, draw)
        self.known: ServedVersions | None = None
        """The last answer; None before the first."""
        self._answered = asyncio.Event()
        """Set with each answer or failure, and replaced then: it stands for the next one."""
        self._changed = asyncio.Event()
        """As `_answered`, for answers that differ from the one before."""
        self._has_asked = asyncio.Event()
        self._wanted = asyncio.Event()
        self._last_fault = ""
        self._missing: dict[str, set[str]] = {}
        """By resource, the apiVersions that the server answered with 404. They count only while discovery does not work."""

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            pause_s, longest_s = await self._ask()
            await self._timing.sleep(pause_s)
            rest_s = longest_s - pause_s
            await sooner(self._wanted.wait(), self._timing.sleep(max(rest_s, 0.0)))

    async def _ask(self) -> tuple[float, float]:
        """Ask once. A failure is logged once, until another follows or an answer comes. Returns the shortest pause before the
        next question, which grows while the server does not answer, and the longest, which grows while questions fail: a
        server that starts refuses them until it has read its roles."""
        pause_s, is_new = SHORTEST_PAUSE_S, False
        try:
            found = await self._discovery.ask()
        except (ApiError, Unanswered, CredentialsError) as fault:
            if str(fault) != self._last_fault:
                self._last_fault = str(fault)
                log.warning("Failed to discover what the server serves: %s", fault)
            longest_s = self._pace.wait_s()
            if isinstance(fault, Unanswered):
                pause_s = max(pause_s, longest_s)
        else:
            self._last_fault = ""
            self._pace.forget()
            longest_s = PERIOD_S * (1 + self._draw() / 2)
            is_new, self.known = found != self.known, found
        self._has_asked.set()
        self._answered.set()
        self._answered = asyncio.Event()
        if is_new:
            self._changed.set()
            self._changed = asyncio.Event()
        return pause_s, longest_s

    # ---- for reflectors and writers

    def ask_soon(self) -> None:
        """Ask again when the shortest pause is over: a connection broke, and another server may answer now."""
        self._wanted.set()

    async def recheck(self, missing: KindSpec) -> None:
        """A version of a kind was answered with 404: ask again, and return when the server has answered, or failed to."""
        self._missing.setdefault(missing.resource, set()).add(missing.api_version)
        answered = self._answered
        self.ask_soon()
        await answered.wait()

    async def wait_for_change(self, kind: KindSpec, longest_s: float) -> None:
        """Return when the server serves other kinds or versions than now, or after `longest_s`: then all versions of the kind
        are worth another try."""
        await sooner(self._changed.wait(), self._timing.sleep(longest_s))
        self._missing.pop(kind.resource, None)

    async def find(self, kind: KindSpec) -> KindSpec:
        """The kind in the best version that is served. Raises NotServed."""
        await self._has_asked.wait()
        return self.found(kind)

    def found(self, kind: KindSpec) -> KindSpec:
        """As `find`, from what is known now."""
        if self.known is not None:
            best, served = self.known.best(kind), self.known.of(kind)
        else:
            missing = self._missing.get(kind.resource, ())
            untried = next((written for written in kind.api_versions if written not in missing), None)
            best, served = None if untried is None else kind.in_version(untried), []
        if best is None:
            raise NotServed(kind, served)
        return best
