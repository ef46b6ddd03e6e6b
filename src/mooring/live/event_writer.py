"""Events on their way to the API server: queued within a bound, sent by a few, never in the way of a bind."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.request_errors import Unanswered
from mooring.apiclient.throttle import Random, Timing
from mooring.framework.intents import Record
from mooring.kit.clock import Clock
from mooring.kit.tasks import settle
from mooring.live.api_writer import Writer
from mooring.live.event_series import EventSeries, NewEvent, Repetition
from mooring.model.api_errors import ApiError

log = logging.getLogger(__name__)

MAX_QUEUED = 10_000
"""Ten times what kube-scheduler keeps: a burst of binds is a burst of events, and they are small."""
SENDERS = 8
MAX_TRIES = 12
RETRY_S = 10.0
"""Between two tries of an event, and up to a quarter more: schedulers shall not come back all at once."""


@dataclass(slots=True)
class _Letter:
    told: NewEvent | Repetition
    tries: int = 0


class EventWriter:
    """Takes records at once; what does not fit into the queue is dropped and counted."""

    def __init__(
        self, writer: Writer, clock: Clock, instance: str, timing: Timing, draw: Random = random.random
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._series = EventSeries(instance)
        self._timing = timing
        self._draw = draw
        self._queue: deque[_Letter] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._resting: set[asyncio.Task[None]] = set()
        """Events that wait for their next try."""
        self.dropped = 0

    def record(self, record: Record) -> None:
        told = self._series.tell(record, self._clock.now_ns())
        if told is not None:
            self._enqueue(_Letter(told))

    def sweep(self) -> None:
        """Once a minute: series that are over, or have gone on for long."""
        for repetition in self._series.sweep(self._clock.now_ns()):
            self._enqueue(_Letter(repetition))

    async def close(self, patience_s: float = 2.0) -> None:
        """Send what is queued, if that is quickly done."""
        await settle(self._senders, patience_s)
        self.halt()

    def halt(self) -> None:
        """Leave off at once, in the middle of whatever is under way."""
        self._queue.clear()
        for task in (*self._senders, *self._resting):
            task.cancel()

    def _enqueue(self, letter: _Letter) -> None:
        if len(self._queue) + len(self._resting) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._queue.append(letter)
        if len(self._senders) < SENDERS:
            _keep(self._senders, self._send_all())

    async def _send_all(self) -> None:
        while self._queue:
            await self._send(self._queue.popleft())

    async def _send(self, letter: _Letter) -> None:
        """A refusal is final; a server that cannot be reached is tried again for two minutes."""
        letter.tries += 1
        try:
            await self._write(letter.told)
        except ApiError as refused:
            is_ours = refused.reason == "AlreadyExists"  # an earlier try was carried out, but its answer was lost
            log.log(logging.DEBUG if is_ours else logging.WARNING, "Server rejected event: %s", refused)
        except (Unanswered, CredentialsError) as fault:
            if letter.tries == MAX_TRIES:
                log.warning("Unable to write event after %d tries: %s", MAX_TRIES, fault)
                return
            log.info("Unable to write event, retrying: %s", fault)
            _keep(self._resting, self._send_again(letter))

    async def _send_again(self, letter: _Letter) -> None:
        """Others need not wait meanwhile."""
        await self._timing.sleep(RETRY_S * (1 + 0.25 * self._draw()))
        self._enqueue(letter)

    async def _write(self, told: NewEvent | Repetition) -> None:
        if isinstance(told, NewEvent):
            await self._writer.create_event(told.event)
            return
        try:
            await self._writer.patch_event(told.namespace, told.name, told.series)
        except ApiError as refused:
            if refused.code != 404:
                raise
            await self._writer.create_event(told.event)


def _keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
