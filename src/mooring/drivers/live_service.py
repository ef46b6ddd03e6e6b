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

from mooring.apiclient.client import ApiClient, Observe
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.lean_client import LeanClient
from mooring.apiclient.reflectors.known import ChangeListener
from mooring.apiclient.reflectors.reflector import ReflectorOptions, Reflectors, WatchSource
from mooring.apiclient.reflectors.watched import watched_with
from mooring.apiclient.throttle import Timing
from mooring.apiclient.tls_contexts import TlsContexts
from mooring.drivers.api_writer import ApiWriter, Writer
from mooring.drivers.dry_run import DryRun, DryWriter
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.extender_calls import ExtenderCaller, Originals
from mooring.drivers.listed_versions import METADATA_ONLY, ListedVersions
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.self_checks import CheckedScheduler, SelfCheckMetrics, SelfChecks, SelfCheckSettings
from mooring.drivers.status_writer import StatusWriter
from mooring.drivers.traced_requests import RequestTraces
from mooring.kit.clock import Clock, SteadyClock, WallClock
from mooring.kit.logs import Log
from mooring.kit.tasks import NO_FENCE, Fence, first_of, settle
from mooring.model.meta import KubeObject
from mooring.model.release import KUBERNETES_VERSION
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

USER_AGENT = f"kube-scheduler/v{KUBERNETES_VERSION} (mooring)"
BINDERS = 64
"""Connections for binds. Each purpose has its own connections and rate limit: a flood of statuses or events must not delay
binds. 64 carry more than 5,000 binds a second at 10 ms each, which is more than one process decides."""
STATUS_WRITERS = 16
OBJECT_WRITERS = 16
EVENT_WRITERS = 8
"""Events may wait; `event_writer.py` keeps them in a queue with a bound."""


class ClientLimits(msgspec.Struct, frozen=True):
    """Requests a second of each client (a negative number: no limit), and how long one write may take."""

    qps: float = -1.0
    burst: int = 100
    time_limit_s: float = 30.0


class SelfCheckPlan(msgspec.Struct, frozen=True):
    """How a scheduler checks itself: when, how another one like it is built, and where it counts."""

    settings: SelfCheckSettings
    make: Callable[[], Scheduler]
    log: Log
    metrics: SelfCheckMetrics | None = None


class SchedulerListener:
    """Passes each change from the reflectors to the scheduler, and wakes the driver."""

    def __init__(self, scheduler: Scheduler, wake: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._wake = wake

    def added(self, item: KubeObject) -> None:
        self._scheduler.handle(ObjectAdded(item))
        self._wake()

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        self._scheduler.handle(ObjectUpdated(old, new))
        self._wake()

    def removed(self, item: KubeObject) -> None:
        self._scheduler.handle(ObjectRemoved(item))
        self._wake()


class LiveScheduler:
    """A scheduler with its connections. Inside `async with` the watches run; `schedule` is for the leader only."""

    def __init__(
        self,
        scheduler: Scheduler,
        access: ConnectionSettings,
        limits: ClientLimits | None = None,
        clock: Clock | None = None,
        is_dry_run: bool = False,
        reflector_options: ReflectorOptions | None = None,
        observe: Observe | None = None,
        fence: Fence = NO_FENCE,
        requests: RequestTraces | None = None,
        self_check: SelfCheckPlan | None = None,
        wall: Clock | None = None,
    ) -> None:
        """`observe` gets every request with its duration, for metrics; connections check `fence` before every write.
        `requests` traces them. Timers go by `clock`, which has to be the scheduler's; times in objects come from `wall`."""
        self.scheduler = scheduler
        clock, wall = clock or SteadyClock(), wall or WallClock()
        self._stack = AsyncExitStack()
        limits, reflector_options = limits or ClientLimits(), reflector_options or ReflectorOptions(report=_tell)
        timing = reflector_options.timing
        agent = f"{USER_AGENT}/scheduler"
        tls = TlsContexts(access)
        self._watcher = ApiClient(access, agent, limits.qps, limits.burst, timing=timing, observe=observe, tls=tls)
        quick = partial(
            LeanClient,
            access,
            agent,
            qps=limits.qps,
            burst=limits.burst,
            time_limit_s=limits.time_limit_s,
            timing=timing,
            observe=observe,
            fence=fence,
            tls=tls,
        )
        self._binder, self._statuses = quick(connections=BINDERS), quick(connections=STATUS_WRITERS)
        self._objects, self._event_client = quick(connections=OBJECT_WRITERS), quick(connections=EVENT_WRITERS)
        writer: Writer = ApiWriter(self._binder, self._statuses, self._objects, self._event_client, timing)
        requests = requests or RequestTraces()
        writer = DryWriter() if is_dry_run else requests.writer(writer)
        events = EventWriter(writer, clock, wall, socket.gethostname(), timing)
        statuses = StatusWriter(writer, wall)
        self.driver = LiveDriver(scheduler, clock, writer, events, statuses, timing, fence)
        listener: ChangeListener = SchedulerListener(scheduler, self.driver.wake)
        self.dry_run = DryRun() if is_dry_run else None
        if self.dry_run is not None:
            self.dry_run.watch(scheduler)
            self.driver.report, listener = self.dry_run.report, self.dry_run.listen(listener)
        self._clients: list[ApiClient | LeanClient] = [
            *(self._watcher, self._binder, self._statuses, self._objects, self._event_client)
        ]
        self.checks: SelfChecks | None = None
        if self_check is not None:
            lister = ApiClient(
                access, agent, limits.qps, limits.burst, METADATA_ONLY, timing=timing, observe=observe, tls=tls
            )
            self._clients.append(lister)
            self.checks = self._self_checks(self_check, lister, timing)
            listener = self.checks.listen(listener)
        source = self._with_extenders(is_dry_run, fence, requests) if scheduler.extenders else self._watcher
        self.reflectors = Reflectors(source, listener, watched_with(scheduler.cluster.gates), reflector_options)
        self._watching: asyncio.Task[None] | None = None

    def _with_extenders(self, is_dry_run: bool, fence: Fence, requests: RequestTraces) -> WatchSource:
        """Have the driver call extenders. Returns what to watch with: extenders see objects as the API server sent them."""
        originals, driver = Originals(self._watcher), self.driver
        driver.extenders = ExtenderCaller(
            *(self.scheduler, originals.whole, driver.go_on), is_dry_run=is_dry_run, fence=fence, around=requests.asker
        )
        return originals

    def _self_checks(self, plan: SelfCheckPlan, lister: ApiClient, timing: Timing) -> SelfChecks:
        def known() -> list[Mapping[str, KubeObject]]:
            return [member.objects for member in self.reflectors.members]

        lists = ListedVersions(lambda: self.reflectors.members, lister, self._watcher)
        checked = CheckedScheduler(self.scheduler, plan.make, known)
        return SelfChecks(checked, plan.settings, plan.log, plan.metrics, lists, timing, self.driver.wake)

    async def __aenter__(self) -> Self:
        for client in self._clients:
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


def _tell(text: str, fault: Exception | None) -> None:
    log.warning("%s%s", text, f": {fault}" if fault is not None else "")
