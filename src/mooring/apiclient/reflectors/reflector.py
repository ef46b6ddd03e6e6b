"""Reflectors: each lists and watches one resource of an API server until it is cancelled, whatever fails on the way.

As client-go's reflector, with two differences: the order of events is checked, and a watch that may have lost an event is
followed by a list (see `known`).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from mooring.api import kinds
from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec, Watch
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ConnectionLost, TimedOut, Unanswered
from mooring.apiclient.reflectors.mirror import Listen, Mirror, Statistics
from mooring.apiclient.reflectors.watch_streams import (
    Restart,
    SilenceLimit,
    Silent,
    WatchEnd,
    WatchRecord,
    advice,
    end_by,
    is_definite,
    is_expired,
    restart_after,
    rules_out_streaming,
    unwatched_text,
)
from mooring.apiclient.served_kinds import NotServed, ServedKinds
from mooring.apiclient.throttle import Random, RetryBackoff, Timing
from mooring.kit.callbacks import ReportFault
from mooring.model.meta import KubeObject

log = logging.getLogger(__name__)

BOOKMARK_S = 60.0
"""API servers send a bookmark about once a minute if there is no other event."""
UNSERVED_RETRY_S = 60.0
"""How often to try an optional resource that the server does not serve. Where discovery works, news come sooner."""
FORBIDDEN_RETRY_S, LONGEST_FORBIDDEN_S = 60.0, 480.0
"""How long to wait before an optional resource is tried again that the server does not allow, at first and at most: the pause
doubles."""
SHORTEST_S, LONGEST_S = 300, 600
"""Parity: client-go requests watches for a random time in this range, so that those of many clients do not end together."""
TURN = 64
"""How many events to process before other tasks run: about 4 ms of work."""
SHORT_LIFE_S = 1.0
"""Parity: a stream that ends sooner and delivers nothing shows that its version is useless. A pause and a list follow."""
CUT_LISTS = 1
"""After so many failures in a row a streamed list that is cut is the last one."""


class WatchSource(Protocol):
    """The part of an ApiClient that a reflector uses."""

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]: ...

    def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        """Lines, as many at a time as have arrived; the first item is empty: the server has answered."""
        ...


def _log(text: str, fault: Exception | None) -> None:
    log.warning("%s", text, exc_info=fault)


class ReflectorOptions(msgspec.Struct, frozen=True):
    """Time, random numbers and reports of reflectors; tests pass their own."""

    timing: Timing = msgspec.field(default_factory=Timing)
    draw: Random = random.random
    silence_s: float = 120.0
    """How much longer than BOOKMARK_S a watch may be silent before the reflector ends it."""
    report: ReportFault = _log
    """Called once for each trouble, until it is over. The exception is given if it is a bug in Mooring."""


class Reflector:
    """One resource. `run` ends only when it is cancelled; no failure of the server ends it.

    A list is streamed if the server supports that, otherwise it comes in pages. Every list is compared with the known
    objects, so that the listener gets changes that no watch delivered. `watch_ends.restart_after` decides what follows
    which failure.
    """

    def __init__(
        self,
        source: WatchSource,
        spec: KindSpec,
        listen: Listen,
        reflector_options: ReflectorOptions | None = None,
        served: ServedKinds | None = None,
    ) -> None:
        """`served` says which version to use; without it that of the spec is used, as for required kinds."""
        self.kind = spec
        self.spec = spec
        """The kind in the version that is watched."""
        self._watch = spec.watch or Watch()
        self.settled = asyncio.Event()
        """Set once scheduling need not wait for this resource: it has synced, or it is optional and the server rejects it."""
        self.refusal: ApiError | None = None
        """Why the server does not show this resource; None while it does, or may."""
        self._source = source
        self._options = reflector_options or ReflectorOptions()
        self.record = WatchRecord(self._options.timing)
        self._mirror = Mirror(spec, listen, self._options.report)
        self.objects: Mapping[str, KubeObject] = self._mirror.known.objects
        """The known objects by key. Callers must not change it."""
        self.statistics: Statistics = self._mirror.statistics
        self._pace = RetryBackoff(self._options.timing, self._options.draw)
        self._must_list = True
        self._not_older_than: str | None = None
        """The minimum version of the next list. None: any, because none was seen; empty: the newest."""
        self._can_stream = True
        """Whether the server may support streaming lists."""
        self._trouble = ""
        """The last report, while its trouble lasts."""
        self.queued = 0
        """How many lines have arrived and are not taken yet."""
        self.observe_ns: Callable[[int], None] | None = None
        """Takes how long the processing of each line took, where that is measured."""
        self._served = None if self.is_required else served
        self._unserved_since_s: float | None = None
        self._forbidden_s = FORBIDDEN_RETRY_S

    @property
    def is_required(self) -> bool:
        """Whether the scheduler cannot work without the resource. Any other counts as empty while the server rejects it."""
        return self._watch.is_required

    @property
    def mirror(self) -> Mirror:
        """The objects as lists and watches showed them, for checks; only the reflector feeds it in service."""
        return self._mirror

    @property
    def has_synced(self) -> bool:
        """Whether the listener has got a complete list."""
        return self._mirror.has_synced

    @property
    def version(self) -> str:
        """The latest version seen: a watch can continue from it."""
        return self._mirror.version

    def take_line(self, line: bytes) -> None:
        """Take a line that no watch has delivered: a self-check found that it was lost. Not while a list arrives, which
        shows the same."""
        if not self._mirror.is_listing:
            self._mirror.correct(line)

    async def run(self) -> None:
        while True:
            try:
                if self._must_list:
                    await self._choose_version()
                    await self._list()
                else:
                    await self._stream({**self._lasting(), **_present(resourceVersion=self._mirror.version)})
            except (ApiError, Unanswered, CredentialsError) as fault:
                await self._recover(fault)

    # ---- versions

    async def _choose_version(self) -> None:
        """Watch the best version that is served from now on. Raises NotServed."""
        if self._served is None:
            return
        found = await self._served.find(self.kind)
        if found.api_version != self.spec.api_version:
            log.info("%s: watching version %s", self.kind.resource, found.version)
            self.spec, self._can_stream = found, True
            self._mirror.use_version(found)

    async def _is_elsewhere(self) -> bool:
        """Whether discovery, asked again after a 404, shows the kind in another version: a server was upgraded."""
        assert self._served is not None
        await self._served.recheck(self.spec)
        try:
            return self._served.found(self.kind).api_version != self.spec.api_version
        except NotServed:
            return True  # the next list says so

    async def _wait_until_served(self) -> None:
        """Wait for a server that serves the kind. Objects of a kind that went away are dropped, but not at once: servers that
        are upgraded one after another contradict each other for a while."""
        assert self._served is not None
        now_s = self._options.timing.monotonic_s()
        if self._unserved_since_s is None:
            self._unserved_since_s = now_s
        elif now_s - self._unserved_since_s >= UNSERVED_RETRY_S and self.objects:
            log.info("%s: the server no longer serves them, so there are none", self.kind.resource)
            self._mirror.begin_list()
            for _ in self._mirror.complete("", ""):
                await asyncio.sleep(0)
            self._not_older_than = None
        await self._served.wait_for_change(self.kind, UNSERVED_RETRY_S)

    # ---- lists

    async def _list(self) -> None:
        """A list; a streamed one continues as a watch."""
        self.statistics.lists += 1
        self._mirror.begin_list()
        if self._can_stream:
            try:
                streamed = {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}
                version = _present(resourceVersion=self._not_older_than)
                await self._stream({**self._lasting(), **streamed, **version})
            except ApiError as refusal:
                if not self._mirror.is_listing or not rules_out_streaming(refusal):
                    raise
                log.info(
                    "%s: the server rejects a streaming list, so the list comes in pages: %s",
                    self.spec.resource,
                    refusal,
                )
                self._can_stream = refusal.code >= 500
                self._mirror.begin_list()
        if self._mirror.is_listing:
            await self._list_in_pages()

    async def _list_in_pages(self) -> None:
        """Without a match, a server takes a version together with a limit for exactly that version: the list would be as old
        as the watch that expired."""
        version = "0" if self._not_older_than is None else self._not_older_than
        match = "NotOlderThan" if version not in ("", "0") else None
        asked = _present(fieldSelector=self._watch.field_selector, resourceVersion=version, resourceVersionMatch=match)
        listed_at = ""
        for page in await self._source.list_pages(self.spec.url(), asked):
            listed_at = self._mirror.take_page(page)
            await asyncio.sleep(0)
        await self._complete(listed_at)

    async def _complete(self, version: str) -> None:
        for _ in self._mirror.complete(version, self._not_older_than or ""):
            await asyncio.sleep(0)
        self._must_list = False
        self._unserved_since_s, self._forbidden_s = None, FORBIDDEN_RETRY_S
        self._is_well()
        self.settled.set()

    # ---- watches

    def _lasting(self) -> dict[str, str]:
        asked_s = SHORTEST_S + int(self._options.draw() * (LONGEST_S - SHORTEST_S))
        lasting = {"allowWatchBookmarks": "true", "timeoutSeconds": str(asked_s)}
        return {**lasting, **_present(fieldSelector=self._watch.field_selector)}

    async def _stream(self, params: Mapping[str, str]) -> None:
        """Follow one stream to its end, and decide how to continue.

        A server may end a watch at any time, and ends watches that fall behind. So a watch that delivered something is
        resumed at once: with a pause the client would fall behind further.
        """
        was_listing, told, heard = self._mirror.is_listing, self.statistics.delivered, self.statistics.events
        began_s = self._options.timing.monotonic_s()
        try:
            fault = await self._follow_to_the_end(params)
        finally:
            if self.statistics.delivered > told and not self._mirror.is_in_doubt:
                self._pace.forget()
        if self._mirror.is_listing:
            self._can_stream = False
            self._mirror.begin_list()
            return
        has_told = was_listing or self.statistics.delivered > told
        self._note_end(fault, has_told)
        is_short = self._options.timing.monotonic_s() - began_s < SHORT_LIFE_S
        is_empty = fault is None and self.statistics.events == heard
        if self._mirror.is_in_doubt or (is_short and is_empty):
            self._list_next(Restart.RELIST)
        if is_short and (self._mirror.is_in_doubt or not has_told):
            await self._pause()

    async def _follow_to_the_end(self, params: Mapping[str, str]) -> Exception | None:
        """Follow a stream. Returns the fault that broke the connection of a watch, or None if the server ended it.

        Raises faults that need more than another watch.
        """
        try:
            await self._follow(params)
        except (ApiError, Unanswered, CredentialsError) as fault:
            is_listing, is_cut = self._mirror.is_listing, isinstance(fault, ConnectionLost | TimedOut)
            # A streamed list that is cut begins anew with its first object: where connections do not last long enough, it
            # never ends. One that went silent has no end that the server reports. The pages of a list end.
            is_hopeless = isinstance(fault, TimedOut) or (is_cut and self._pace.failures() >= CUT_LISTS)
            self._can_stream &= not (is_listing and is_hopeless)
            if is_listing or not is_cut or not self.record.is_watching:
                self.record.ended(end_by(fault))
                raise
            log.info("The watch of %s broke: %s", self.spec.resource, fault)
            self._ask_again()
            return fault
        if self._mirror.is_listing:
            self.record.ended(WatchEnd.FAILED)
        return None

    def _note_end(self, fault: Exception | None, has_told: bool) -> None:
        if isinstance(fault, Silent):
            self.record.ended(WatchEnd.SILENT)
        else:
            self.record.ended(WatchEnd.AFTER_EVENTS if has_told else WatchEnd.WITHOUT_EVENTS)

    async def _follow(self, params: Mapping[str, str]) -> None:
        """Open one watch and take its events until the stream ends. The watch is ended here if not even a bookmark arrives
        for longer than the limit."""
        silence_s = BOOKMARK_S + self._options.silence_s
        limit = SilenceLimit(silence_s, self._options.timing, f"GET {self.spec.url()}")
        stream: Any = self._source.watch(self.spec.url(), params)
        self.statistics.watches += 1
        try:
            async with limit, aclosing(stream):
                async for lines in stream:
                    self.record.answered()
                    limit.heard()
                    if lines:
                        await self._take(lines)
        finally:
            self.statistics.silences += limit.is_broken

    async def _take(self, lines: list[bytes]) -> None:
        try:
            await self._take_in_turns(lines)
        finally:
            self.queued = 0
        if self._trouble and not self._mirror.is_listing:
            self._is_well()

    async def _take_in_turns(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), TURN):
            self.queued, began_s = len(lines) - start, self._options.timing.monotonic_s()
            turn = lines[start : start + TURN]
            for line in turn:
                if listed_at := self._mirror.take(line):
                    await self._complete(listed_at)
            self._measured(len(turn), began_s)
            if len(turn) == TURN:
                await asyncio.sleep(0)

    def _measured(self, count: int, began_s: float) -> None:
        """Record how long lines took. Hot: the clock is read once for a turn, so each line counts with the mean."""
        if self.observe_ns is not None:
            each_ns = round((self._options.timing.monotonic_s() - began_s) * 1e9 / count)
            for _ in range(count):
                self.observe_ns(each_ns)

    # ---- failures

    async def _recover(self, fault: Exception) -> None:
        """Report the fault, decide how to continue, and pause."""
        was_newest = self._not_older_than == ""
        restart = restart_after(fault, self._mirror.is_listing, self._pace.failures())
        self._list_next(restart)
        is_missing = isinstance(fault, ApiError) and fault.code == 404
        if self._served is not None and is_missing and not isinstance(fault, NotServed) and await self._is_elsewhere():
            return
        self._complain(fault)
        if self._mirror.is_listing and restart is Restart.RELIST_NEWEST and not was_newest:
            return
        await self._pause_after(fault)

    async def _pause_after(self, fault: Exception) -> None:
        """Pause: until the server serves the kind, for a minute or more if it rejects the watch, otherwise for seconds. One
        that allowed it before may only be starting: until it has read its roles it forbids everything."""
        if isinstance(fault, NotServed):
            await self._wait_until_served()
        elif self.refusal is None or self.is_required or (self.refusal.code == 403 and self.has_synced):
            if isinstance(fault, Unanswered):
                self._ask_again()
            await self._pause()
        elif self.refusal.code == 403:
            wait_s, self._forbidden_s = self._forbidden_s, min(2 * self._forbidden_s, LONGEST_FORBIDDEN_S)
            await self._options.timing.sleep(wait_s * (1 + self._options.draw() / 10))
        elif self._served is not None:
            await self._pause()  # discovery contradicts the 404: servers of different versions answer
        else:
            await self._options.timing.sleep(UNSERVED_RETRY_S)

    def _ask_again(self) -> None:
        """The connection broke: the server may be another one now."""
        if self._served is not None:
            self._served.ask_soon()

    def _list_next(self, restart: Restart) -> None:
        if restart is Restart.RELIST_NEWEST:
            self._not_older_than = ""
        elif restart is Restart.RELIST and not self._must_list:
            self._not_older_than = self._mirror.version or None
        self._must_list |= restart is not Restart.RESUME

    async def _pause(self) -> None:
        await self._options.timing.sleep(self._pace.wait_s())

    def _complain(self, fault: Exception) -> None:
        """Report that the watch failed. An expired watch is only logged, and the same text is not reported twice in a row. A
        definite refusal of a kind that is not required settles the reflector, so that the start does not wait for it."""
        self.refusal = fault if isinstance(fault, ApiError) and is_definite(fault) else None
        if self.refusal is not None and not self.is_required:
            self.settled.set()
        text = f"Failed to watch {self.spec.resource}: {fault}"
        if self.refusal is not None:
            text = advice(self.kind, self.refusal)
        if is_expired(fault):
            log.info("%s", text)
        elif text != self._trouble:
            self._trouble = text
            self._options.report(text, None)

    def _is_well(self) -> None:
        self.refusal = None
        if self._trouble:
            self._trouble = ""
            log.info("Watching %s again", self.spec.resource)


def _present(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


# ---- all resources


def watched_with(gates: Mapping[str, bool]) -> tuple[KindSpec, ...]:
    """The kinds that a scheduler with these feature gates watches, the required ones first. A gate that is not named is
    off."""
    required_first = sorted(kinds.WATCHED.items(), key=lambda entry: not entry[1].is_required)
    return tuple(spec for spec, watch in required_first if watch.is_on(gates))


WATCHED: tuple[KindSpec, ...] = watched_with({})
"""The kinds that every scheduler watches."""


class Reflectors:
    """One reflector for each resource, each with its own connection. Scheduling may begin when all have settled.

    Lists arrive in any order, as in kube-scheduler: pods may come before their nodes.
    """

    def __init__(
        self,
        source: WatchSource,
        listen: Listen,
        watched: Sequence[KindSpec] = WATCHED,
        reflector_options: ReflectorOptions | None = None,
        served: ServedKinds | None = None,
    ) -> None:
        self._served = served
        self.members = tuple(Reflector(source, spec, listen, reflector_options, served) for spec in watched)

    async def run(self) -> None:
        """Run all reflectors until cancelled. A bug in one ends all, because a stale cache is worse than a restart."""
        async with asyncio.TaskGroup() as tasks:
            if self._served is not None:
                tasks.create_task(self._served.run(), name="discovery")
            for member in self.members:
                tasks.create_task(member.run(), name=f"reflector of {member.spec.resource}")

    async def settle(self) -> None:
        """Return when each resource has synced, or is optional and the server rejects it."""
        for member in self.members:
            await member.settled.wait()

    @property
    def is_settled(self) -> bool:
        return all(member.settled.is_set() for member in self.members)

    def waited_for(self) -> list[str]:
        """The resources that scheduling still waits for."""
        return [member.spec.resource for member in self.members if not member.settled.is_set()]

    def unwatched(self) -> list[str]:
        """For each resource that the server does not show: its name and the reason, in a few words."""
        return [unwatched_text(member.kind, member.refusal) for member in self.members if member.refusal is not None]
