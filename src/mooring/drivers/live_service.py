"""The scheduler on a real cluster: reflectors feed it, and its writes go out on connections of their own.

`app/run.py` makes one LiveScheduler for a process. It watches from the start, so that a candidate has a warm cache when it
becomes the leader, and schedules only while it leads.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from mooring.api.json_objects import JSON
from mooring.apiclient.client import ApiClient, ClientOptions, Observe
from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts
from mooring.apiclient.lean_client import LeanClient
from mooring.apiclient.reflectors.reflector import ReflectorOptions, Reflectors, WatchSource, watched_with
from mooring.apiclient.served_kinds import ServedKinds
from mooring.drivers.api_writer import ApiWriter, WriteClients
from mooring.drivers.binder import BINDERS
from mooring.drivers.driver import input_of
from mooring.drivers.dry_run import DryRun, DrySender
from mooring.drivers.event_writer import SENDERS, EventWriter
from mooring.drivers.listed_versions import METADATA_ONLY, ListedVersions
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.self_checks import CheckedScheduler, SelfCheckMetrics, SelfChecks, SelfCheckSettings
from mooring.drivers.status_writer import StatusWriter
from mooring.drivers.traced_requests import NO_TRACES, RequestTraces
from mooring.kit.clock import Clock, SteadyClock, WallClock
from mooring.kit.logs import Log
from mooring.kit.tasks import NO_FENCE, Fence, first_of, settle
from mooring.model.meta import KubeObject
from mooring.model.release import KUBERNETES_VERSION
from mooring.scheduler.inputs import ConfigurationChanged
from mooring.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

USER_AGENT = f"kube-scheduler/v{KUBERNETES_VERSION} (mooring)"
STATUS_WRITERS = 16
OBJECT_WRITERS = 16
"""Connections for statuses, and for claims and volumes. Each purpose has its own connections and rate limit, as have binds
(binder.BINDERS) and events (event_writer.SENDERS): a flood of statuses or events must not delay binds."""


def _tell(text: str, fault: Exception | None) -> None:
    log.warning("%s%s", text, f": {fault}" if fault is not None else "")


class ClientLimits(msgspec.Struct, frozen=True):
    """Requests a second of each client (a negative number: no limit), how long one write may take, and its form."""

    qps: float = -1.0
    burst: int = 100
    time_limit_s: float = 30.0
    content_type: str = JSON
    """The form of binds: JSON or PROTOBUF."""


class SelfCheckPlan(msgspec.Struct, frozen=True):
    """The self-checks of a scheduler: when, how another one like it is built, and where it counts."""

    settings: SelfCheckSettings
    make: Callable[[], Scheduler]
    log: Log
    metrics: SelfCheckMetrics | None = None


class LiveOptions(msgspec.Struct, frozen=True):
    """Clocks, clients and instruments around a live scheduler."""

    clock: Clock = msgspec.field(default_factory=SteadyClock)
    """The scheduler's clock, by which timers go."""
    wall: Clock = msgspec.field(default_factory=WallClock)
    """For the times in objects."""
    is_dry_run: bool = False
    reflectors: ReflectorOptions = msgspec.field(default_factory=lambda: ReflectorOptions(report=_tell))
    observe: Observe | None = None
    """Gets every request with its duration, for metrics."""
    fence: Fence = NO_FENCE
    """Connections check it before every write."""
    traces: RequestTraces = NO_TRACES
    self_check: SelfCheckPlan | None = None
    """None: the scheduler does not check itself."""


class LiveScheduler:
    """A scheduler with its connections. Inside `async with` the watches run; `schedule` is for the leader only."""

    def __init__(
        self,
        scheduler: Scheduler,
        access: ConnectionSettings,
        limits: ClientLimits | None = None,
        options: LiveOptions | None = None,
    ) -> None:
        limits, options = limits or ClientLimits(), options or LiveOptions()
        self.scheduler = scheduler
        self._stack = AsyncExitStack()
        timing, agent = options.reflectors.timing, f"{USER_AGENT}/scheduler"
        reading = ClientOptions(timing, options.observe, tls=TlsContexts(access))
        quick = partial(
            LeanClient,
            *(access, agent),
            qps=limits.qps,
            burst=limits.burst,
            time_limit_s=limits.time_limit_s,
            options=msgspec.structs.replace(reading, fence=options.fence),
        )
        watcher = ApiClient(access, agent, limits.qps, limits.burst, options=reading)
        self.clients: list[ApiClient | LeanClient] = [watcher]
        watched = watched_with(scheduler.cluster.gates)
        served = ServedKinds(watcher, watched, timing, options.reflectors.draw)
        if options.is_dry_run:
            silent = DrySender()
            writer = ApiWriter(WriteClients(silent, silent, DrySender(is_told=True), silent), timing)
        else:
            writing = [quick(connections=each) for each in (BINDERS, STATUS_WRITERS, OBJECT_WRITERS, SENDERS)]
            self.clients += writing
            clients = WriteClients(*writing)
            writer = ApiWriter(clients, timing, traces=options.traces, served=served, content_type=limits.content_type)
        events = EventWriter(writer, options.clock, options.wall, socket.gethostname(), timing)
        statuses = StatusWriter(writer, options.wall)
        self.driver = LiveDriver(scheduler, options.clock, writer, events, statuses, timing, options.fence)
        self.dry_run = DryRun() if options.is_dry_run else None
        if self.dry_run is not None:
            self.dry_run.watch(scheduler)
            self.driver.report = self.dry_run.report
        self.checks: SelfChecks | None = None
        if options.self_check is not None:
            lister = ApiClient(access, agent, limits.qps, limits.burst, METADATA_ONLY, options=reading)
            self.clients.append(lister)
            lists = ListedVersions(lambda: self.reflectors.members, lister, watcher)
            self.checks = self._self_checks(options.self_check, lists, options)
        source: WatchSource = watcher
        if scheduler.extenders:
            source = self._with_extenders(watcher, options)
        self.reflectors = Reflectors(source, self.take_change, watched, options.reflectors, served)
        self._watching: asyncio.Task[None] | None = None

    def _with_extenders(self, watcher: ApiClient, options: LiveOptions) -> WatchSource:
        """Have the driver call extenders, which see objects as the API server sent them. Returns what to watch with."""
        from mooring.drivers.extender_calls import ExtenderCaller, Originals  # Hot: aiohttp takes 70 ms to import

        originals = Originals(watcher)
        self.driver.extenders = ExtenderCaller(
            *(self.scheduler, originals.whole, self.driver.go_on),
            is_dry_run=options.is_dry_run,
            fence=options.fence,
            traces=options.traces,
        )
        return originals

    def _self_checks(self, plan: SelfCheckPlan, lists: ListedVersions, options: LiveOptions) -> SelfChecks:
        def known() -> list[Mapping[str, KubeObject]]:
            return [member.objects for member in self.reflectors.members]

        checked, timing = CheckedScheduler(self.scheduler, plan.make, known), options.reflectors.timing
        return SelfChecks(checked, plan.settings, plan.log, plan.metrics, lists, timing, self.driver.wake)

    def take_change(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Pass a change from the reflectors to the scheduler, wake the driver, and have the others follow."""
        if self.dry_run is not None:
            self.dry_run.saw(old, new)
        change = input_of(old, new)
        try:
            self.scheduler.handle(change)
            self.driver.wake()
        finally:
            if self.checks is not None:
                self.checks.follow(change)

    def reconfigure(self, change: ConfigurationChanged) -> None:
        """Have the scheduler go by another configuration. Raises ConfigError for extenders that cannot be called."""
        self.driver.reconfigure(change)
        self.driver.wake()
        if self.checks is not None:
            self.checks.follow(change)

    async def __aenter__(self) -> Self:
        for client in self.clients:
            await self._stack.enter_async_context(client)
        self._watching = asyncio.create_task(self.reflectors.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await settle((self._watching,))
        await self.driver.close()
        await self._stack.aclose()

    async def settle(self) -> None:
        """Return when the reflectors have listed all kinds once. Before that, decisions would miss nodes and pods."""
        await self._while_watching(self.reflectors.settle())

    async def schedule(self) -> None:
        """Schedule until cancelled, with self-checks beside it where they are on."""
        checking = asyncio.create_task(self.checks.run()) if self.checks is not None else None
        try:
            await self._while_watching(self.driver.run())
        finally:
            if checking is not None:
                checking.cancel()
                await settle((checking,))

    async def _while_watching(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` while the watches run. A bug that ends the watches ends `work`, and this method raises it:
        a scheduler that does not see the cluster must not act on it."""
        assert self._watching is not None
        acting = asyncio.ensure_future(work)
        try:
            await first_of(acting, self._watching)
            if self._watching.done():
                self._watching.result()
            if acting.done():
                acting.result()
        finally:
            acting.cancel()
            await settle((acting,))
