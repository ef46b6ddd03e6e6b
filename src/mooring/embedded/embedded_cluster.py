"""The embedded cluster: store, API server, controllers, simulated kubelets and the scheduler, all on one event loop.

One step does a slice of what is due and never waits, so tests run the whole cluster on a virtual clock. `run` steps
whenever something changes or falls due.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.journal import Journal, JournalError
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.dispatch import STORAGE
from mooring.apiserver.store import Store, StoreWrite
from mooring.controllers.all_controllers import all_controllers
from mooring.controllers.control_loop import ControlLoop
from mooring.drivers.embedded_driver import EmbeddedDriver, StoreFeed, whole_in_store
from mooring.drivers.extender_calls import ExtenderCaller
from mooring.drivers.self_checks import CheckedScheduler, SelfCheckMetrics, SelfChecks, SelfCheckSettings
from mooring.embedded.seeding import create_initial_objects
from mooring.framework.config import default as default_configuration
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.callbacks import ReportFault
from mooring.kit.clock import NS_PER_S, Clock, SteadyClock, elapsed_ns
from mooring.kit.logs import Log
from mooring.kit.tasks import settle
from mooring.queue.entry import TellPod
from mooring.rules.conditions import condition_of
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.inputs import Input
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import by_seed
from mooring.serve.service_metrics import ServiceMetrics
from mooring.serve.tracing import Tracing
from mooring.state.recording.recorder import RecordingSettings, record_live
from mooring.state.scheduler_assembly import Recorder, build_scheduler, configuration_change

log = logging.getLogger(__name__)


SLICE = 50
"""How many pods a step tries, and how many objects it looks at, before others get their turn on the event loop: some
milliseconds of work."""

LONGEST_SLEEP_S = 1.0
"""Between steps, even if nothing is due: the event loop does not count the time in which the machine is suspended, and the
clock of the cluster does."""


def cluster_clock() -> Clock:
    """A clock for an embedded cluster: steady, and counting the time in which the machine is suspended, because objects get
    their times from it."""
    return SteadyClock(elapsed_ns=elapsed_ns)


@dataclass(slots=True)
class EmbeddedSettings:
    """The settings of an embedded cluster."""

    config: KubeSchedulerConfiguration = field(default_factory=default_configuration)
    registry: Registry | None = None
    data_dir: Path | None = None
    """Where objects are kept; None: in memory only."""
    taints_new_nodes: bool = False
    """Whether a new node is tainted until the node controller finds it ready, as in real clusters."""
    schedules: bool = True
    """False: another process schedules, such as `mooring run`. The scheduler here then only counts what nodes hold."""
    gates: Mapping[str, bool] | None = None
    """The feature gates that the configuration was made for."""
    recording: RecordingSettings | None = None
    """Where the scheduler is recorded; None: it is not."""
    accepts_loss: bool = False
    """Whether to go on with what is left of a damaged data directory."""
    tracing: Tracing = field(default_factory=Tracing)
    """The cluster closes it."""
    self_check: SelfCheckSettings | None = None
    """None: the scheduler does not check itself."""
    observer: Observer = field(default_factory=Observer)
    """The observer of the scheduler besides tracing."""
    metrics: ServiceMetrics | None = None
    """The metrics that the API server shows at /metrics; `observer` is or contains theirs. None: there is no such page."""
    tell: TellPod | None = None
    """Gets the stories of pods; None: nobody reads them."""


class EmbeddedCluster:
    """A cluster in this process. `step` moves it on; `run` does that until it is cancelled."""

    def __init__(
        self,
        settings: EmbeddedSettings | None = None,
        clock: Clock | None = None,
        report: ReportFault = lambda text, error: None,
    ) -> None:
        """Raises JournalError where the data directory cannot be used, ConfigError for what cannot be configured.

        Controllers compare times in objects with `clock`, so that both come from it, and it must be steady: a machine whose
        clock is set back would otherwise keep terminating pods for as long.
        """
        settings, clock = settings or EmbeddedSettings(), clock or cluster_clock()
        self.settings = settings
        self._journal = None
        if settings.data_dir is not None:
            self._journal = Journal(settings.data_dir, settings.accepts_loss)
            for loss in self._journal.losses:
                report(loss, None)
        self.api = ResourceApi(
            self._journal.open_store() if self._journal is not None else Store(),
            clock,
            taints_new_nodes=settings.taints_new_nodes,
            gates=with_defaults(settings.gates),
        )
        self.is_new = not self.api.store.version
        """Whether nothing was kept from an earlier time."""
        self._report = report
        self._create_initial_objects()
        self.recorder = record_live(settings.recording, settings.config, settings.gates, clock.now_ns())
        observer, requests = settings.tracing.observe(settings.observer, clock)
        self.scheduler = self._build(clock, SchedulerListeners(settings.tell, report, observer=observer), self.recorder)
        self._feed = StoreFeed(self.api.store, self.scheduler, report, settings.schedules)
        self.checked = CheckedScheduler(self.scheduler, lambda: self._build(clock), lambda: (self._feed.known,))
        self.checks: SelfChecks | None = None
        if settings.self_check is not None and settings.schedules:
            counted = None if settings.metrics is None else SelfCheckMetrics(settings.metrics.registry)
            self.checks = SelfChecks(self.checked, settings.self_check, Log(log), wake=self._wake, metrics=counted)
            self._feed.follow = self.checks.follow
        self.driver = EmbeddedDriver(self.api, self.scheduler, socket.gethostname(), requests)
        if self.scheduler.extenders:
            whole = whole_in_store(self.api)
            self.driver.extenders = ExtenderCaller(self.scheduler, whole, self._go_on, traces=requests)
        self.controllers = ControlLoop(self.api, all_controllers(self.api), report)
        self._schedules = settings.schedules
        self._tracing = settings.tracing
        self._news = asyncio.Event()
        self.api.store.listen(self._wake)

    def _build(
        self, clock: Clock, listeners: SchedulerListeners | None = None, recorder: Recorder | None = None
    ) -> Scheduler:
        """A scheduler with this configuration. Without listeners it is not observed and tells nothing, for self-checks."""
        settings, options = self.settings, DecideOptions(tie_break=by_seed)
        return build_scheduler(
            settings.config, clock, settings.registry, options, listeners, settings.gates, recorder=recorder
        )

    def reconfigure(self, config: KubeSchedulerConfiguration) -> None:
        """Have the scheduler go by another configuration. Raises ConfigError or ValueError before anything has changed."""
        change = configuration_change(self.scheduler, config, self.settings.registry, self.settings.gates)
        self.driver.reconfigure(change)
        self.settings.config = config
        if self.checks is not None:
            self.checks.follow(change)
        self._wake()

    def _create_initial_objects(self) -> None:
        """Raises JournalError where the data directory takes no writes from the beginning."""
        try:
            create_initial_objects(self.api)
        except ApiError as refused:
            if self._journal is None or not self._journal.fault:
                raise
            raise JournalError(self._journal.fault) from refused
        if self._journal is not None:
            self._journal.on_fault = self._note_storage

    def follow(self, follow: Callable[[Input], None] | None) -> None:
        """Have something get every input of the scheduler after it."""
        self._feed.follow = follow

    def _wake(self, _: StoreWrite | None = None) -> None:
        self._news.set()

    def step(self, limit: int = SLICE) -> int:
        """Let the scheduler and the controllers do what is due, within a limit. Returns how much they did."""
        return self.controllers.step(limit) + (self.driver.step(limit) if self._schedules else 0)

    def _go_on(self) -> None:
        """An extender has replied: carry out what follows."""
        self.driver.carry_out()
        self._wake()

    def _note_storage(self, fault: str) -> None:
        """The disk refuses writes, or accepts them again. Meanwhile reads are answered, and writers try again later."""
        if fault:
            self.api.failing |= STORAGE
            self._report(f"{fault}. Reads are answered; writes fail until there is room", None)
        else:
            self.api.failing -= STORAGE
            self._report("the data directory can be written again", None)

    def next_ns(self) -> int | None:
        """When there is something to do again: 0 for now, None for never unless something changes."""
        times = [self.controllers.next_ns(), self.driver.next_ns() if self._schedules else None]
        return min((when for when in times if when is not None), default=None)

    def settle(self, limit: int = 1_000_000) -> None:
        """Step until nothing is left to do right now."""
        for _ in range(limit):
            if not self.step() and self.next_ns() != 0:
                return

    async def run(self) -> None:
        """Step whenever something is due, until cancelled. A fault is reported, and not the end of the cluster."""
        checking = asyncio.create_task(self.checks.run()) if self.checks is not None else None
        try:
            await self._run()
        finally:
            if checking is not None:
                checking.cancel()
                await settle((checking,))
            if self.driver.extenders is not None:
                await self.driver.extenders.close()

    async def _run(self) -> None:
        """Step, then rest until there is something to do. A fault is reported, and the loop continues after a pause."""
        while True:
            self._news.clear()
            try:
                done = self.step()
            except Exception as fault:
                self._report("the cluster met an unexpected error and tries again", fault)
                await asyncio.sleep(LONGEST_SLEEP_S)
                continue
            if done:
                await asyncio.sleep(0)
            else:
                await self._rest()

    async def _rest(self) -> None:
        """Wait until something changes or falls due."""
        next_ns = self.next_ns()
        pause_s = LONGEST_SLEEP_S
        if next_ns is not None:
            pause_s = min(max(next_ns - self.api.clock.now_ns(), 0) / NS_PER_S, LONGEST_SLEEP_S)
        if self._news.is_set():
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._news.wait()

    def close(self) -> None:
        """Write what the recording has left, let go of all files, and export the last traces."""
        if self._journal is not None:
            self._journal.close()
        if self.recorder is not None:
            self.recorder.close()
        self._tracing.close()


# ---- a running cluster at a glance: pods by state, how many are created and bound a second, how full nodes are


WINDOW_NS = 3 * NS_PER_S
"""Over how long rates are averaged: short enough to follow a change, long enough not to flicker."""
_RECENT = 5
"""How many events and pending pods the view has room for."""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Shares of what is allocatable, between 0 and 1 (or above, where pods were forced onto a node)."""

    name: str
    cpu: float
    memory: float
    pods: int


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """One frame of the view of `mooring up`."""

    pods: dict[str, int]
    """How many pods are Pending, Running, Succeeded, Failed, Terminating."""
    created_per_s: float
    bound_per_s: float
    nodes: list[NodeUsage]
    pending: list[tuple[str, str]]
    """Pods that found no node, with the reason: the latest ones."""
    events: list[str]


class ClusterStatistics:
    """Counts with every write, so that a frame costs the same however large the cluster is."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._states: Counter[str] = Counter()
        self._refused: dict[tuple[str, str], str] = {}
        self._events: deque[str] = deque(maxlen=_RECENT)
        self._marks: deque[tuple[int, int, int]] = deque()
        self._created = self._bound = 0
        for pod in cluster.api.store.all("/pods"):
            self._count(pod, 1)
        cluster.api.store.listen(self._hear_pod, ("/pods",))
        cluster.api.store.listen(self._hear_event, ("events",))

    def summary(self) -> ClusterSummary:
        """The present figures."""
        created, bound = self._pace()
        latest = [("/".join(key), text) for key, text in reversed(self._refused.items())][:_RECENT]
        return ClusterSummary(dict(self._states), created, bound, self._loads(), latest, list(self._events))

    def _hear_event(self, write: StoreWrite) -> None:
        """Keep the latest events."""
        if write.type == "ADDED":
            event, about = write.object, write.object.get("involvedObject", {})
            self._events.append(f"{event.get('reason', '')}  {about.get('name', '')}  {event.get('message', '')}")

    def _hear_pod(self, write: StoreWrite) -> None:
        """Count a pod's change of state, and remember why it has no node."""
        before, after = write.before, write.object
        if before is not None:
            self._count(before, -1)
        else:
            self._created += 1
        if write.type != "DELETED":
            self._count(after, 1)
        if before is not None and not before["spec"].get("nodeName") and after["spec"].get("nodeName"):
            self._bound += 1
        reason = "" if write.type == "DELETED" else _refusal(after)
        if reason:
            self._refused[write.key] = reason
        else:
            self._refused.pop(write.key, None)

    def _count(self, pod: JsonObject, change: int) -> None:
        """A pod in its state counts once more, or once less."""
        state = "Terminating" if pod["metadata"].get("deletionTimestamp") else pod.get("status", {}).get("phase", "")
        self._states[state] += change

    def _pace(self) -> tuple[float, float]:
        """Pods a second, created and bound, over the last few seconds."""
        now_ns = self._cluster.api.clock.now_ns()
        self._marks.append((now_ns, self._created, self._bound))
        while len(self._marks) > 2 and self._marks[1][0] <= now_ns - WINDOW_NS:
            self._marks.popleft()
        then_ns, created, bound = self._marks[0]
        if now_ns == then_ns:
            return 0.0, 0.0
        passed_s = (now_ns - then_ns) / NS_PER_S
        return (self._created - created) / passed_s, (self._bound - bound) / passed_s

    def _loads(self) -> list[NodeUsage]:
        """The usage of all nodes, by name, from the columns of the scheduler's table."""
        table = self._cluster.scheduler.cluster.nodes
        rows = np.flatnonzero(table.alive)
        cpu, memory = table.amounts.resource("cpu"), table.amounts.resource("memory")
        room = np.maximum(table.amounts.allocatable[:, rows], 1)
        shares = table.amounts.requested[:, rows] / room
        return sorted(
            (
                NodeUsage(table.names[row], float(shares[cpu, i]), float(shares[memory, i]), int(table.pod_count[row]))
                for i, row in enumerate(rows.tolist())
            ),
            key=lambda load: load.name,
        )


def _refusal(pod: JsonObject) -> str:
    """Why a pod has no node; empty if it has one, or if no scheduler has said why."""
    if pod["spec"].get("nodeName"):
        return ""
    condition = condition_of(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return ""
    return condition.get("message") or condition.get("reason") or ""
