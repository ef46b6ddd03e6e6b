"""Lists and watches one resource of an API server for as long as it is wanted, whatever goes wrong on the way."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.reflectors.known import ChangeListener
from mooring.apiclient.reflectors.mirror import Mirror, Report, Statistics
from mooring.apiclient.reflectors.watch_ends import (
    Restart,
    SilenceLimit,
    Silent,
    WatchEnd,
    WatchRecord,
    end_by,
    is_expired,
    restart_after,
    rules_out_streaming,
)
from mooring.apiclient.reflectors.watched import WATCHED, Watched, advice, is_definite
from mooring.apiclient.request_errors import ConnectionLost, TimedOut, Unanswered
from mooring.apiclient.throttle import Random, RetryBackoff, Timing
from mooring.model.api_errors import ApiError
from mooring.model.meta import KubeObject

log = logging.getLogger(__name__)

BOOKMARK_S = 60.0
"""How often servers promise to tell where a watch stands, when nothing else is told."""
UNSERVED_RETRY_S = 60.0
SHORTEST_S, LONGEST_S = 300, 600
"""Parity: a watch is asked for this long, at random, so that those of many clients do not end together."""
TURN = 64
"""How many events are taken in before others get their turn on the event loop: some 4 ms."""
SHORT_LIFE_S = 1.0
"""Parity: a stream that ends sooner and told nothing says that its version is of no use. It is followed by a pause."""


class WatchSource(Protocol):
    """The part of an ApiClient that a reflector uses."""

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]: ...

    def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        """Lines, as many at a time as have come; none at first, to say that the server has answered."""
        ...


def _log(text: str, fault: Exception | None) -> None:
    log.warning("%s", text, exc_info=fault)


@dataclass(frozen=True, slots=True)
class ReflectorOptions:
    """How reflectors pass time, draw lots and complain."""

    timing: Timing = field(default_factory=Timing)
    draw: Random = random.random
    silence_s: float = 120.0
    """How much longer than bookmarks promise a watch may be silent before we take it for dead."""
    report: Report = _log
    """Hears of every trouble once, until it is over. The exception is given where it is a bug of ours."""


class Reflector:
    """One resource. `run` goes on until it is cancelled; no failure of the server ends it.

    A list is streamed where the server can do that, and else comes in pages. Every list is compared with what was
    known, so that changes which no watch has told come out all the same. What follows which failure is said in
    `watch_faults`.
    """

    def __init__(
        self,
        source: WatchSource,
        watched: Watched,
        listener: ChangeListener,
        reflector_options: ReflectorOptions | None = None,
    ) -> None:
        self.watched = watched
        self.settled = asyncio.Event()
        """Set once nobody needs to wait for this resource: it has synced, or is optional and was refused."""
        self.refusal: ApiError | None = None
        """Why the server does not show this resource at all; None while it does, or may."""
        self._source = source
        self._options = reflector_options or ReflectorOptions()
        self.record = WatchRecord(self._options.timing)
        self._mirror = Mirror(watched, listener, self._options.report)
        self._pace = RetryBackoff(self._options.timing, self._options.draw)
        self._must_list = True
        self._not_older_than: str | None = None
        """Of the next list. None: any will do, as none was seen; empty: the newest."""
        self._can_stream = True
        """Whether the server may know of streaming lists."""
        self._trouble = ""
        """What was reported last and is not over."""

    @property
    def has_synced(self) -> bool:
        """Whether the listener was told of a whole list."""
        return self._mirror.has_synced

    @property
    def version(self) -> str:
        """The latest that was seen, from which a watch can go on."""
        return self._mirror.version

    @property
    def objects(self) -> Mapping[str, KubeObject]:
        """What is known, by key; not to be changed."""
        return self._mirror.known.objects

    @property
    def statistics(self) -> Statistics:
        return self._mirror.statistics

    async def run(self) -> None:
        while True:
            try:
                await (self._list() if self._must_list else self._watch())
            except (ApiError, Unanswered, CredentialsError) as fault:
                await self._recover(fault)

    # Lists

    async def _list(self) -> None:
        """A list, and the watch that a streamed one goes on as."""
        self.statistics.lists += 1
        self._mirror.begin_list()
        if self._can_stream:
            try:
                await self._stream({**self._streaming_list(), **_present(resourceVersion=self._not_older_than)})
            except ApiError as refusal:
                if not self._mirror.is_listing or not rules_out_streaming(refusal):
                    raise
                log.info("%s: no streaming list, but one in pages: %s", self.watched.name, refusal)
                self._can_stream = refusal.code >= 500
                self._mirror.begin_list()
        if self._mirror.is_listing:
            await self._list_in_pages()

    def _streaming_list(self) -> dict[str, str]:
        return {**self._lasting(), "resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}

    async def _list_in_pages(self) -> None:
        version = "0" if self._not_older_than is None else self._not_older_than
        asked = _present(fieldSelector=self.watched.field_selector, resourceVersion=version)
        listed_at = ""
        for page in await self._source.list_pages(self.watched.path, asked):
            listed_at = self._mirror.take_page(page)
            await asyncio.sleep(0)
        await self._complete(listed_at)

    async def _complete(self, version: str) -> None:
        for _ in self._mirror.complete(version, self._not_older_than or ""):
            await asyncio.sleep(0)
        self._must_list = False
        self._is_well()
        self.settled.set()

    # Watches

    async def _watch(self) -> None:
        await self._stream({**self._lasting(), **_present(resourceVersion=self._mirror.version)})

    def _lasting(self) -> dict[str, str]:
        asked_s = SHORTEST_S + int(self._options.draw() * (LONGEST_S - SHORTEST_S))
        lasting = {"allowWatchBookmarks": "true", "timeoutSeconds": str(asked_s)}
        return {**lasting, **_present(fieldSelector=self.watched.field_selector)}

    async def _stream(self, params: Mapping[str, str]) -> None:
        """One stream to its end, and what that end means for the next.

        A server may end a watch at any time, and ends those that fall behind. So one that told something is resumed at
        once: with a pause we would fall behind further.
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
        """Returns how the connection of a watch broke, if the server did not end it in due form.

        Raises what calls for more than another watch.
        """
        try:
            await self._follow(params)
        except (ApiError, Unanswered, CredentialsError) as fault:
            is_listing, is_cut = self._mirror.is_listing, isinstance(fault, ConnectionLost | TimedOut)
            # A list that went silent is one of which the server does not tell the end: pages have one.
            self._can_stream &= not (is_listing and isinstance(fault, TimedOut))
            if is_listing or not is_cut or not self.record.is_watching:
                self.record.ended(end_by(fault))
                raise
            log.info("The watch of %s broke: %s", self.watched.name, fault)
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
        silence_s = BOOKMARK_S + self._options.silence_s
        limit = SilenceLimit(silence_s, self._options.timing, f"GET {self.watched.path}")
        stream: Any = self._source.watch(self.watched.path, params)
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
        for count, line in enumerate(lines, start=1):
            if listed_at := self._mirror.take(line):
                await self._complete(listed_at)
            if count % TURN == 0:
                await asyncio.sleep(0)
        if self._trouble and not self._mirror.is_listing:
            self._is_well()

    # Failures

    async def _recover(self, fault: Exception) -> None:
        """Tell what is wrong, choose where to start again, and wait as long as that calls for."""
        was_newest = self._not_older_than == ""
        restart = restart_after(fault, self._mirror.is_listing, self._pace.failures())
        self._list_next(restart)
        self._complain(fault)
        if self._mirror.is_listing and restart is Restart.RELIST_NEWEST and not was_newest:
            return
        if self.refusal is not None and not self.watched.is_required:
            await self._options.timing.sleep(UNSERVED_RETRY_S)
        else:
            await self._pause()

    def _list_next(self, restart: Restart) -> None:
        if restart is Restart.RELIST_NEWEST:
            self._not_older_than = ""
        elif restart is Restart.RELIST and not self._must_list:
            self._not_older_than = self._mirror.version or None
        self._must_list |= restart is not Restart.RESUME

    async def _pause(self) -> None:
        await self._options.timing.sleep(self._pace.wait_s())

    def _complain(self, fault: Exception) -> None:
        self.refusal = fault if isinstance(fault, ApiError) and is_definite(fault) else None
        if self.refusal is not None and not self.watched.is_required:
            self.settled.set()
        text = f"Failed to watch {self.watched.name}: {fault}"
        if self.refusal is not None:
            text = advice(self.watched, self.refusal)
        if is_expired(fault):
            log.info("%s", text)
        elif text != self._trouble:
            self._trouble = text
            self._options.report(text, None)

    def _is_well(self) -> None:
        self.refusal = None
        if self._trouble:
            self._trouble = ""
            log.info("%s: watched again", self.watched.name)


def _present(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


# ---- All that a scheduler watches, each resource on its own connection.


class Reflectors:
    """One reflector for each resource, all at once. Scheduling may begin when all have settled.

    Pods may be told before their nodes: lists come in any order, as they do to kube-scheduler.
    """

    def __init__(
        self,
        source: WatchSource,
        listener: ChangeListener,
        watched: Sequence[Watched] = WATCHED,
        reflector_options: ReflectorOptions | None = None,
    ) -> None:
        self.members = tuple(Reflector(source, resource, listener, reflector_options) for resource in watched)

    async def run(self) -> None:
        """Until cancelled, or until a bug of ours ends one of them."""
        async with asyncio.TaskGroup() as tasks:
            for member in self.members:
                tasks.create_task(member.run(), name=f"reflector of {member.watched.name}")

    async def settle(self) -> None:
        """Return when nobody needs to wait any longer: each has synced, or is optional and refused by the server."""
        for member in self.members:
            await member.settled.wait()

    @property
    def is_settled(self) -> bool:
        return all(member.settled.is_set() for member in self.members)

    def waited_for(self) -> list[str]:
        """The resources that scheduling still waits for."""
        return [member.watched.name for member in self.members if not member.settled.is_set()]

    def refused(self) -> list[str]:
        """What the server does not show us, why, and what to do about it."""
        return [advice(member.watched, member.refusal) for member in self.members if member.refusal is not None]
