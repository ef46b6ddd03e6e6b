"""Reads the scheduler for the stream, once a second, and its counters for the history also while nobody looks.

Two tasks share the work. The quick one reads counts and columns, some 0.2 ms on 5,000 nodes. The slow one reads every node or
every pending pod, in slices, at most every five seconds and only when something changed.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.cluster.nodes.table import NodeTable
from mooring.dashboard.interfaces import DashboardSource, Refused, TimeLine
from mooring.dashboard.slices import timed_slices
from mooring.dashboard.views.node_map import (
    IdleShare,
    MappedNodes,
    NodesInUse,
    idle_shares,
    in_use_columns,
    map_nodes,
    use_of,
)
from mooring.dashboard.views.pending_pods import pending_groups
from mooring.dashboard.views.scheduling_flow import SampleHistory, queue_activity, queue_sample
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.clock import in_millis
from mooring.kit.shown_text import json_bytes
from mooring.queue.entry import ReportFault

# ---- The clients of the stream, and what each has still to be sent.
#
# A client has at most one waiting event of each kind, the newest: a client that reads slowly sees fewer of them,
# and costs no more memory than one that reads quickly. The bytes are shared by all clients.


MAX_STREAMS = 8
RETRY_S = 10
"""When a client may ask again that found too many streams open; the page polls meanwhile."""
ORDER = ("replay", "nodes", "use", "queue", "pending", "flow")
"""In which order events are sent that wait together: a client must know the nodes before their use."""


def event_bytes(name: str, data: bytes) -> bytes:
    """An event as text/event-stream has it. JSON has no line ends, so that it takes one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


class StreamClient:
    """One client: what is to be sent to it, and what wakes its sender."""

    def __init__(self) -> None:
        self._waiting: dict[str, bytes] = {}
        self.news = asyncio.Event()

    def put(self, name: str, event: bytes) -> None:
        self._waiting[name] = event
        self.news.set()

    def take(self) -> bytes:
        """All that waits, in order."""
        self.news.clear()
        waiting, self._waiting = self._waiting, {}
        return b"".join(waiting[name] for name in ORDER if name in waiting)


class Streams:
    """All clients, and the newest event of each kind for those that come."""

    def __init__(self) -> None:
        self._clients: set[StreamClient] = set()
        self._newest: dict[str, bytes] = {}
        self.is_closed = False
        self.is_watched = asyncio.Event()
        """Whether there are clients: nothing is read for the stream otherwise."""

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def newest(self) -> Mapping[str, bytes]:
        return self._newest

    def join(self) -> StreamClient:
        """A new client, which gets the newest events first. Raises Refused (503) if there are too many."""
        if self.is_closed or len(self._clients) >= MAX_STREAMS:
            raise Refused(503, f"{len(self._clients)} streams are open, and no more are allowed", RETRY_S)
        client = StreamClient()
        self._clients.add(client)
        for name, event in self._newest.items():
            client.put(name, event)
        self.is_watched.set()
        return client

    def leave(self, client: StreamClient) -> None:
        """The last one takes the newest events along: when somebody comes again they would be old."""
        self._clients.discard(client)
        if not self._clients:
            self._newest.clear()
            self.is_watched.clear()

    def publish(self, name: str, data: bytes) -> None:
        """Send an event to everyone. Without clients nothing is kept."""
        if not self._clients:
            return
        event = self._newest[name] = event_bytes(name, data)
        for client in self._clients:
            client.put(name, event)

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for client in self._clients:
            client.news.set()


QUICK_S = 1.0
SLOW_S = 5.0
LEAST_S = 0.05
"""Between two readings, also if clients come and go or a recording moves all the time."""
NODES_A_SECOND = 10_000
"""Above so many nodes their use is sent less often, so that its cost stays the same."""
SLOW_SHARE = 0.01
"""The share of the processor that slow readings take: with 100,000 pending pods they pause longer."""

FAULT_S = 30.0
"""The pause after a reading that failed: the same fault comes again as a rule, and each one is logged."""


class Sampler:
    """`run` until cancelled; `wake` when what is shown has jumped."""

    def __init__(
        self,
        source: DashboardSource,
        streams: Streams,
        report: ReportFault,
        timeline: TimeLine | None = None,
        in_use: Callable[[], NodesInUse] | None = None,
        prices: PriceList = NO_PRICES,
    ) -> None:
        """`in_use` returns what nodes really use: the same object until there is a newer reading."""
        self._prices = prices
        self._source, self._streams, self._timeline = source, streams, timeline
        self._report = report
        self.history = SampleHistory()
        self._mapped: MappedNodes | None = None
        self._table: NodeTable | None = None
        """The table that the map was made from."""
        self._facts_seen: tuple[int, ...] = ()
        self._use_seen: tuple[object, ...] = ()
        self._use_due_s = 0.0
        self._queue_seen: tuple[object, ...] = ()
        self._moment_seen = -1
        self._in_use = in_use
        self._in_use_of: tuple[object, object] = (None, None)
        """The map and the reading that the columns are of."""
        self._in_use_columns: dict[str, str] = {}
        self._idle: dict[str, IdleShare] = {}
        self._idle_of: tuple[object, object] = (None, None)
        """The table and the reading that the shares are of."""
        self._hurry = asyncio.Event()
        self._slow_hurry = asyncio.Event()

    def wake(self) -> None:
        """Read everything now."""
        self._use_due_s = 0.0
        self._use_seen = self._queue_seen = ()
        self._hurry.set()
        self._slow_hurry.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_quick())
            group.create_task(self._run_slow())

    async def _run_quick(self) -> None:
        """Read the quick figures every QUICK_S seconds, or earlier when something hurries it. A fault is reported and delays
        the next reading."""
        while True:
            self._hurry.clear()
            pause_s = QUICK_S - LEAST_S
            try:
                self.read_quickly()
            except Exception as fault:  # one object that cannot be read must not end the dashboard
                self._report("the dashboard could not read the scheduler", fault)
                pause_s = FAULT_S
            await _until(self._hurry, pause_s)
            await asyncio.sleep(LEAST_S)

    async def _run_slow(self) -> None:
        """Read nodes and pending pods while a browser watches. The pause grows with the time of the reading, so that it takes
        at most the share SLOW_SHARE of the time."""
        while True:
            await self._streams.is_watched.wait()
            self._slow_hurry.clear()
            pause_s = FAULT_S
            try:
                pause_s = max(SLOW_S, await self.read_slowly() / SLOW_SHARE)
            except Exception as fault:
                self._report("the dashboard could not read nodes and pending pods", fault)
            await _until(self._slow_hurry, pause_s)
            await asyncio.sleep(LEAST_S)

    # ---- every second

    def read_quickly(self) -> None:
        """Sample queue and flow; where somebody looks, send them and the use of nodes."""
        if not self._has_moved():
            return
        source = self._source
        time = in_millis(source.now_ns())
        flow = source.flow
        counts, passed = self.history.add(
            queue_sample(source.scheduler, time), flow.sample(source.self_check()) if flow is not None else None
        )
        self._streams.publish("queue", counts)
        if passed:
            self._streams.publish("flow", passed)
        if len(self._streams):
            self._send_use(time)

    def _has_moved(self) -> bool:
        """Whether there is something to read: a recording stands still between two moves."""
        if self._timeline is None:
            return True
        version = self._timeline.version
        is_new = version != self._moment_seen or (len(self._streams) > 0 and "replay" not in self._streams.newest)
        self._moment_seen = version
        if is_new:
            self._streams.publish("replay", json_bytes(self._timeline.state()))
        return is_new

    def _send_use(self, time: str) -> None:
        """Publish the utilization of nodes if a row was touched. On large clusters this happens less often, so that about
        NODES_A_SECOND nodes are sent in a second."""
        mapped, table = self._mapped, self._source.scheduler.cluster.nodes
        if mapped is None or table is not self._table:
            self._slow_hurry.set()  # another table has other rows
            return
        in_use = None if self._in_use is None else self._in_use()
        seen = (mapped.map.version, table.touches.end, id(in_use))
        if seen == self._use_seen or monotonic() < self._use_due_s:
            return
        self._use_seen = seen
        self._use_due_s = monotonic() + QUICK_S * (len(mapped.rows) / NODES_A_SECOND - 0.5)
        if in_use is not None and not (mapped is self._in_use_of[0] and in_use is self._in_use_of[1]):
            self._in_use_of, self._in_use_columns = (mapped, in_use), in_use_columns(table, mapped, in_use)
        self._streams.publish("use", json_bytes(use_of(table, mapped, time, self._in_use_columns, self._idle)))

    # ---- every five seconds

    async def read_slowly(self) -> float:
        """Send the map of nodes and the groups of pending pods, as far as they changed. Returns the processor time that
        it took, in seconds."""
        worked_s = await self._send_map() + await self._count_idle()
        scheduler = self._source.scheduler
        activity = (scheduler, *queue_activity(scheduler))
        if activity != self._queue_seen or "pending" not in self._streams.newest:
            self._queue_seen = activity
            groups, taken_s = await timed_slices(pending_groups(scheduler))
            worked_s += taken_s
            self._streams.publish("pending", json_bytes(groups))
        return worked_s

    async def _count_idle(self) -> float:
        """Count what is idle by real use after each reading of it. Returns the seconds of work that this took."""
        in_use = {} if self._in_use is None else self._in_use()
        core = self._source.scheduler.core
        table = self._source.scheduler.cluster.nodes
        if not in_use or (table is self._idle_of[0] and in_use is self._idle_of[1]):
            return 0.0
        self._idle, worked_s = await timed_slices(idle_shares(table, [*core.pods.values()], in_use))
        self._idle_of, self._use_seen = (table, in_use), ()
        return worked_s

    async def _send_map(self) -> float:
        """Publish the map of nodes if a node or the set of resources changed. Returns the seconds of work that this took."""
        worked_s = 0.0
        table = self._source.scheduler.cluster.nodes
        facts = (table.node_touches.end, table.node_set_version, table.amounts.resources_version)
        is_known = table is self._table and facts == self._facts_seen
        if is_known and "nodes" in self._streams.newest:
            return worked_s
        if not is_known:
            version = 1 if self._mapped is None else self._mapped.map.version + 1
            shows_use = self._in_use is not None
            work = map_nodes(table, version, shows_use=shows_use, prices=self._prices)
            self._mapped, worked_s = await timed_slices(work)
            self._table, self._facts_seen = table, facts
        assert self._mapped is not None
        self._streams.publish("nodes", json_bytes(self._mapped.map))
        self._use_seen, self._use_due_s = (), 0.0
        self._send_use(in_millis(self._source.now_ns()))
        return worked_s


async def _until(event: asyncio.Event, pause_s: float) -> None:
    """Wait for an event, at most so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await event.wait()
