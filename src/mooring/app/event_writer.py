"""Events on their way to the API server: queued within a bound, sent by a few, never in the way of a bind."""

import asyncio
import logging
from collections import deque

from mooring.api.errors import ApiError
from mooring.api.throttle import Timing
from mooring.api.unanswered import Unanswered
from mooring.app.api_writer import Writer
from mooring.app.event_series import EventSeries, NewEvent, Repetition
from mooring.framework.intents import Record
from mooring.kit.clock import Clock

log = logging.getLogger(__name__)

MAX_QUEUED = 10_000
"""Ten times what kube-scheduler keeps: a burst of binds is a burst of events, and they are small."""
SENDERS = 8
MAX_TRIES = 12
RETRY_S = 10.0


class EventWriter:
    """Takes records at once; what does not fit into the queue is dropped and counted."""

    def __init__(self, writer: Writer, clock: Clock, instance: str, timing: Timing) -> None:
        self._writer = writer
        self._clock = clock
        self._series = EventSeries(instance)
        self._timing = timing
        self._queue: deque[NewEvent | Repetition] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self.dropped = 0

    def record(self, record: Record) -> None:
        told = self._series.tell(record, self._clock.now_ns())
        if told is not None:
            self._enqueue(told)

    def sweep(self) -> None:
        """Once a minute: series that are over, or have gone on for long."""
        for repetition in self._series.sweep(self._clock.now_ns()):
            self._enqueue(repetition)

    async def close(self, patience_s: float = 2.0) -> None:
        """Send what is queued, if that is quickly done."""
        if self._senders:
            await asyncio.wait(self._senders, timeout=patience_s)
        for sender in self._senders:
            sender.cancel()

    def _enqueue(self, told: NewEvent | Repetition) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._queue.append(told)
        if len(self._senders) < SENDERS:
            sender = asyncio.create_task(self._send_all())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    async def _send_all(self) -> None:
        while self._queue:
            await self._send(self._queue.popleft())

    async def _send(self, told: NewEvent | Repetition) -> None:
        """A refusal is final; a server that cannot be reached is tried again for two minutes."""
        for _ in range(MAX_TRIES):
            try:
                await self._write(told)
                return
            except ApiError as refused:
                log.warning("Server rejected event: %s", refused)
                return
            except Unanswered as fault:
                log.info("Unable to write event, it is tried again: %s", fault)
                await self._timing.sleep(RETRY_S)
        log.warning("Unable to write event after %d tries", MAX_TRIES)

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
