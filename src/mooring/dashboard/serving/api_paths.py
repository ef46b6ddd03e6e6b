"""Which path of the dashboard shows what: from a request to a reply, on the loop that owns the scheduler."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.dashboard.interfaces import (
    AskedChanges,
    DashboardSource,
    DecisionsPage,
    Doings,
    ExplainPod,
    Questions,
    Refused,
    RejectionsOnNode,
    SeekTarget,
    TimeLine,
    TimeLineState,
)
from mooring.dashboard.serving.sampler import Sampler
from mooring.dashboard.slices import OneAtATime, Sliced, TooBusy
from mooring.dashboard.views.node_map import NodesInUse
from mooring.dashboard.views.page_views import (
    MAX_ENTRIES,
    NodePage,
    PodList,
    PodPage,
    PodQuery,
    node_page,
    pod_list,
    pod_page,
)
from mooring.dashboard.views.scheduling_flow import HistoryPage
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.clock import in_millis
from mooring.kit.shown_text import json_bytes

# ---- A request to the dashboard and its reply, without HTTP, so that paths can be tested as functions.


JSON = "application/json"
MAX_BODY_BYTES = 1 << 20


class SessionReply(msgspec.Struct, frozen=True, rename="camel"):
    """`GET api/session`: what this dashboard shows and can do."""

    program: str
    version: str
    read_only: bool
    can_ask: bool
    can_do: bool
    profiles: Sequence[str]
    replay: bool
    is_leader: bool
    now: str


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request as paths see it."""

    method: str
    path: str
    """Below /dashboard/, as sent: `api/nodes/n%2F1`."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, decoded one by one: a name cannot add parts."""
        return tuple(unquote(part) for part in self.path.split("/"))

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A parameter of the query, held within its limits. Raises Refused (400) if it is not a number."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19):
            raise Refused(400, f"the parameter {name} must be a whole number")
        return min(max(int(text), least), most)


def query_of(raw: str) -> dict[str, str]:
    """The parameters of a query; the first of each name counts."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(raw, keep_blank_values=True, max_num_fields=100):
        found.setdefault(name, value)
    return found


@dataclass(frozen=True, slots=True)
class ApiReply:
    """A reply as paths give it; the server adds the headers that all replies have."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()


def refusal_reply(refused: Refused) -> ApiReply:
    headers = () if refused.retry_s is None else (("Retry-After", str(refused.retry_s)),)
    return ApiReply(json_bytes({"message": refused.message}), refused.status, headers=headers)


Handler = Callable[..., Awaitable[Any]]
"""(request, the parts of the path that a pattern left open) -> the document of the reply, or its JSON."""
T = TypeVar("T")
_MAX_NAME = 300
NOT_FOUND = "there is no such path in the dashboard"


@dataclass(frozen=True, slots=True)
class DashboardParts:
    """The parts that a dashboard is put together from."""

    source: DashboardSource
    version: str
    questions: Questions | None = None
    doings: Doings | None = None
    timeline: TimeLine | None = None
    in_use: Callable[[], NodesInUse] | None = None
    """Returns what nodes really use; None: only requests are shown."""
    prices: PriceList = NO_PRICES
    """Prices of nodes beside those that nodes tell themselves."""


class ApiPaths:
    """Answers everything below /dashboard/api/ but the stream."""

    def __init__(self, parts: DashboardParts, sampler: Sampler) -> None:
        self._parts = parts
        self._sampler = sampler
        self._searches = OneAtATime()
        self._handlers: list[tuple[str, tuple[str, ...], Handler]] = []
        self._add("GET api/session", self._session)
        self._add("GET api/history", self._history)
        self._add("GET api/nodes/*", self._node)
        self._add("GET api/pods", self._pods)
        self._add("GET api/pods/*/*", self._pod)
        if parts.questions is not None:
            ask = parts.questions.ask
            self._add("GET api/pods/*/*/explanation", lambda request, *pod: ask(ExplainPod(*pod)))
            self._add("GET api/nodes/*/rejections", lambda request, node: ask(RejectionsOnNode(node)))
            self._add("POST api/what-if", lambda request: ask(_decoded(request.body, AskedChanges)))
        if parts.doings is not None:
            do = parts.doings.do
            self._add("POST api/do", lambda request: do(_decoded(request.body, AskedChanges)))
        if parts.timeline is not None:
            self._add("GET api/replay", partial(self._replay, parts.timeline))
            self._add("POST api/replay/seek", partial(self._seek, parts.timeline))
            self._add("GET api/replay/decisions", partial(self._decisions, parts.timeline))

    def _add(self, pattern: str, handler: Handler) -> None:
        """`*` stands for one part of a path."""
        method, _, path = pattern.partition(" ")
        self._handlers.append((method, tuple(path.split("/")), handler))

    async def answer(self, request: ApiRequest) -> ApiReply:
        """The reply; a refusal is one too."""
        try:
            handler, names = self._find(request)
            found = await handler(request, *names)
            return ApiReply(found if isinstance(found, bytes) else json_bytes(found))
        except Refused as refused:
            return refusal_reply(refused)

    def _find(self, request: ApiRequest) -> tuple[Handler, tuple[str, ...]]:
        segments = request.segments
        is_known = False
        for method, pattern, handler in self._handlers:
            names = _matched(pattern, segments)
            if names is not None and method == request.method:
                return handler, names
            is_known = is_known or names is not None
        raise Refused(405 if is_known else 404, f"{request.method} is not possible here" if is_known else NOT_FOUND)

    # ---- what this dashboard is

    async def _session(self, request: ApiRequest) -> SessionReply:
        """Facts about the program that the page needs first: version, profiles, and which actions and questions are
        possible."""
        parts = self._parts
        facts = parts.source.facts()
        return SessionReply(
            program=facts.program,
            version=parts.version,
            read_only=parts.doings is None,
            can_ask=parts.questions is not None,
            can_do=parts.doings is not None,
            profiles=facts.profiles,
            replay=parts.timeline is not None,
            is_leader=facts.is_leader,
            now=in_millis(parts.source.now_ns()),
        )

    # ---- views

    async def _history(self, request: ApiRequest) -> HistoryPage:
        return self._sampler.history.page()

    async def _node(self, request: ApiRequest, name: str) -> NodePage:
        found = node_page(self._parts.source.scheduler, name, self._parts.prices)
        if found is None:
            raise Refused(404, f"the scheduler knows no node {shown_name(name)}")
        return found

    async def _pods(self, request: ApiRequest) -> PodList:
        """List pending or bound pods, filtered by namespace and text, up to the limit of the request."""
        state = request.query.get("state") or "pending"
        if state not in ("pending", "bound"):
            raise Refused(400, "the parameter state must be pending or bound")
        query = PodQuery(
            state == "bound",
            request.query.get("namespace", ""),
            request.query.get("query", ""),
            request.number("limit", 100, 1, MAX_ENTRIES),
        )
        return await self._search(pod_list(self._parts.source.scheduler, query))

    async def _pod(self, request: ApiRequest, namespace: str, name: str) -> PodPage:
        source = self._parts.source
        found = await self._search(pod_page(source.scheduler, source.stories, namespace, name))
        if found is None:
            raise Refused(404, f"the scheduler knows no pod {shown_name(f'{namespace}/{name}')}")
        return found

    async def _search(self, work: Sliced[T]) -> T:
        """Work that looks at many pods. Raises Refused (429)."""
        try:
            return await self._searches.run(work)
        except TooBusy:
            raise Refused(429, "too many requests wait for the scheduler already", 1) from None

    # ---- recordings

    async def _replay(self, timeline: TimeLine, request: ApiRequest) -> TimeLineState:
        return timeline.state()

    async def _seek(self, timeline: TimeLine, request: ApiRequest) -> TimeLineState:
        target = _decoded(request.body, SeekTarget)
        if sum(value is not None for value in (target.time, target.decision, target.step)) != 1:
            raise Refused(422, "give one of time, decision and step")
        state = await timeline.seek(target)
        self._sampler.wake()
        return state

    async def _decisions(self, timeline: TimeLine, request: ApiRequest) -> DecisionsPage:
        after = request.number("after", 0, 0, 2**53)
        return timeline.decisions(after, request.number("limit", 100, 1, MAX_ENTRIES))


def shown_name(name: str) -> str:
    """A name in a message: it may have any length."""
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."


def _matched(pattern: tuple[str, ...], segments: tuple[str, ...]) -> tuple[str, ...] | None:
    """The parts of a path that stand for `*`; None if the path is another one."""
    if len(pattern) != len(segments):
        return None
    pairs = list(zip(pattern, segments, strict=True))
    if any(expected not in ("*", given) for expected, given in pairs):
        return None
    return tuple(given for expected, given in pairs if expected == "*")


def _decoded(body: bytes, kind: type[T]) -> T:
    """Raises Refused (400) for what is not JSON of this form."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as fault:
        raise Refused(400, f"the body cannot be read: {fault}") from None
