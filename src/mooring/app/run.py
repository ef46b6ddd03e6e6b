"""`mooring run`: one process with a scheduler, its pages, its lease and its signals, from start to exit status.

The order matters. Pages are served first, so that probes work while the cache fills. Reflectors run before the lease is
acquired, so that a new leader has a warm cache (unless delayCacheUntilActive). The scheduler runs only while the process
leads; a process that loses the lease exits with status 1, as kube-scheduler does.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.app.config_reload import ConfigReloads, ConfigSource, LoggedReloads
from mooring.drivers.driver import pod_ref
from mooring.drivers.live_service import USER_AGENT, ClientLimits, LiveOptions, LiveScheduler, SelfCheckPlan
from mooring.drivers.self_checks import SelfCheckMetrics, SelfCheckSettings
from mooring.framework.config.feature_gates import told_gates, with_defaults
from mooring.framework.config.settings import as_shown_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import Clock, SteadyClock, WallClock
from mooring.kit.logs import Log, Logs
from mooring.kit.process import expect_lists, on_stop_signals, raise_descriptor_limit, relax_collector
from mooring.kit.tasks import NO_FENCE, Fence, settle, sooner
from mooring.model.pod import Pod
from mooring.model.release import GIT_VERSION
from mooring.queue.entry import TellPod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import by_seed
from mooring.serve.cache_debugger import compare, dump, snapshot
from mooring.serve.lease.leader_elector import Callbacks, LeaseThread, elector_settings, new_identity
from mooring.serve.pages.access import AccessSettings, request_authorizer, review_client
from mooring.serve.pages.pages import Health, Pages, Sources, health_pages, json_document
from mooring.serve.pages.server import WebLimits, WebServer
from mooring.serve.pages.server_tls import ClientAuthorities, ServerTls, serving_pair
from mooring.serve.service_metrics import ServiceMetrics, read_recording, read_watches
from mooring.serve.tracing import Tracing
from mooring.state.recording.recorder import RecordingSettings, record_live
from mooring.state.scheduler_assembly import Recorder, SchedulerLimits, build_scheduler, configuration_change

if TYPE_CHECKING:  # 40 ms of the start, where there is no dashboard
    from mooring.app.dashboards import SchedulerSource
    from mooring.dashboard.questions.child_questions import ChildQuestions
    from mooring.dashboard.serving.dashboard_handler import DashboardHandler
    from mooring.inputs.offers.price_list import PriceList
    from mooring.inputs.real_use import RealUse

Work = Coroutine[Any, Any, None]

STORY_VERBOSITY = 3
"""From this verbosity on the log has the story of each pod. Read once at the start: building texts that are not logged would
cost time in every attempt."""

SNAPSHOT_PATH = "/debug/mooring/snapshot"
"""The path at which `mooring snapshot` gets the state."""


class ServingSettings(msgspec.Struct, frozen=True):
    """How the pages are served; the flags have the same names. Port 0 serves none."""

    address: str = "0.0.0.0"
    port: int = 10259
    certificate: Path | None = None
    key: Path | None = None
    directory: Path | None = None
    client_authority: Path | None = None
    authentication: ConnectionSettings | None = None
    authorization: ConnectionSettings | None = None
    looks_up: bool = True
    """Whether to read the client authority that the cluster publishes."""
    is_lookup_needed: bool = False
    access: AccessSettings = msgspec.field(default_factory=AccessSettings)


class RunSettings(msgspec.Struct, frozen=True):
    """Settings of a run, from the command line and the configuration."""

    config: KubeSchedulerConfiguration
    access: ConnectionSettings
    lease_access: ConnectionSettings
    """Connection settings of the lease thread. Credentials keep state that belongs to one event loop, so the two threads
    share none."""
    registry: Registry | None = None
    limits: ClientLimits = msgspec.field(default_factory=ClientLimits)
    serving: ServingSettings = msgspec.field(default_factory=ServingSettings)
    max_unschedulable_s: float = 300.0
    flags: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_dry_run: bool = False
    gates: Mapping[str, bool] | None = None
    kept_answers_limit_bytes: int | None = None
    """None: the default, which grows with the number of nodes."""
    recording: RecordingSettings | None = None
    """Where the scheduler is recorded; None: it is not."""
    tracing: Tracing = msgspec.field(default_factory=Tracing)
    """Exporter of traces. Its owner closes it after the run."""
    self_check: SelfCheckSettings | None = None
    """None: the scheduler does not check itself."""
    has_dashboard: bool = False
    """Whether the pages include the dashboard."""
    use: str = ""
    """Where the map of the dashboard gets what nodes really use: as `read_node_use` takes it. Empty: from nowhere."""
    prices: "PriceList | None" = None
    """Prices of nodes for the dashboard, beside those that nodes tell themselves."""
    source: ConfigSource | None = None
    """The file that the configuration is from, which is read again when it changes; None: there is none."""


class Running:
    """One process of `mooring run`. Make it inside the event loop, and call `run` once.

    Raises ConfigError, ListenError, CertificateError, AuthorityError, ElectionError before it schedules anything.
    """

    def __init__(self, settings: RunSettings, logs: Logs, wall: Clock | None = None) -> None:
        """`wall` is the clock of the machine; times in objects come from it, timers go by a steady clock."""
        self._settings = settings
        self._config = settings.config
        """The configuration that the scheduler has now."""
        self._logs = logs
        self._log: Log = logs.log
        self._wall = wall or WallClock()
        self._clock = SteadyClock(self._wall)
        self._metrics = ServiceMetrics(self._clock, has_native=with_defaults(settings.gates)["NativeHistograms"])
        self._fence = Fence() if self._elects else NO_FENCE
        self._recorder = record_live(
            settings.recording, settings.config, settings.gates, self._clock.now_ns(), settings.max_unschedulable_s
        )
        self._shown = self._source() if settings.has_dashboard else None
        counted = self._metrics.of_scheduler
        observer, requests = settings.tracing.observe(
            counted if self._shown is None else self._shown.counting(counted), self._clock
        )
        self._scheduler = self._build(
            DecideOptions(tie_break=by_seed),  # no node is preferred, as upstream; simulations use the lowest name
            SchedulerListeners(self._story_teller(), self._report, self._queue_log(), observer),
            self._recorder,
        )
        self._live = LiveScheduler(
            self._scheduler,
            settings.access,
            settings.limits,
            LiveOptions(
                self._clock,
                self._wall,
                settings.is_dry_run,
                observe=self._metrics.answered,
                fence=self._fence,
                traces=requests,
                self_check=self._self_check(settings.self_check),
            ),
        )
        if self._shown is not None:
            self._shown.show(self._scheduler, self._live.checks)
        read_watches(self._live.reflectors.members, self._metrics.registry)
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        """Set when the process has to stop: the lease is lost, the scheduler has ended, or a signal arrived."""
        self._leading: asyncio.Task[None] | None = None

    def _build(
        self,
        options: DecideOptions | None = None,
        listeners: SchedulerListeners | None = None,
        recorder: Recorder | None = None,
    ) -> Scheduler:
        """A scheduler with this configuration. Without listeners it is not observed and tells nothing, for self-checks."""
        settings = self._settings
        return build_scheduler(
            self._config,
            self._clock,
            settings.registry,
            options,
            listeners,
            settings.gates,
            self._limits(),
            recorder,
        )

    def _limits(self) -> SchedulerLimits:
        return SchedulerLimits(self._settings.max_unschedulable_s, self._settings.kept_answers_limit_bytes)

    def _reconfigure(self, config: KubeSchedulerConfiguration) -> None:
        """Have the scheduler, its self-checks and its pages go by another configuration. Raises ConfigError, ValueError."""
        settings = self._settings
        self._live.reconfigure(
            configuration_change(self._scheduler, config, settings.registry, settings.gates, self._limits())
        )
        self._config = config

    def _self_check(self, settings: SelfCheckSettings | None) -> SelfCheckPlan | None:
        if settings is None:
            return None
        return SelfCheckPlan(settings, self._build, self._log, SelfCheckMetrics(self._metrics.registry))

    def _story_teller(self) -> TellPod | None:
        """The receiver of the stories of pods: the log, the dashboard, both or neither."""
        logged = self._tell if self._logs.verbosity >= STORY_VERBOSITY else None
        return logged if self._shown is None else self._shown.telling(logged)

    def _queue_log(self) -> Log | None:
        """The log for lines of the queue, by the verbosity at the start."""
        return self._log if self._logs.verbosity >= STORY_VERBOSITY else None

    def _tell(self, pod: Pod, text: str) -> None:
        """Log what happens to a pod."""
        self._log.v(STORY_VERBOSITY, text, pod=pod_ref(pod))

    def _report(self, text: str, fault: Exception | None) -> None:
        self._log.error(text, fault)

    # ---- from start to end

    async def run(self) -> int:
        """Run until a signal or the loss of the lease. Returns the exit status."""
        self._log.info("Starting Kubernetes Scheduler", version=GIT_VERSION)
        for text, gates in told_gates(self._settings.gates or {}):
            self._log.info(text, gates=", ".join(gates))
        reloads = self._reloads()
        on_stop_signals(self._stop, None if reloads is None else reloads.reload)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, self._dump)
        relax_collector()
        async with AsyncExitStack() as stack:
            if self._recorder is not None:
                stack.callback(self._recorder.close)
                read_recording(self._recorder.figures, self._metrics.registry)
            await self._serve(stack)
            if reloads is not None:
                following = asyncio.create_task(reloads.follow(asyncio.sleep))
                stack.callback(following.cancel)
            if self._settings.config.delay_cache_until_active and self._elects:
                return await self._elect(self._watch_and_schedule)
            await stack.enter_async_context(self._live)
            if not await self._or_stop(self._settle()):
                return self._finished()
            if self._elects:
                return await self._elect(self._live.schedule)
            await self._or_stop(self._live.schedule())
            return self._finished()

    def _reloads(self) -> ConfigReloads | None:
        """The reader of the configuration file, which reads it again and again; None without a file."""
        source = self._settings.source
        if source is None:
            return None
        told, metrics = LoggedReloads(source.file, self._log), self._metrics.registry
        return ConfigReloads(source, self._config, self._scheduler, self._reconfigure, told, metrics)

    @property
    def _elects(self) -> bool:
        """Whether this process takes part in leader election. A dry run does not: it must not take the lease from the
        scheduler at work."""
        return self._settings.config.leader_election.leader_elect and not self._settings.is_dry_run

    def _finished(self) -> int:
        if self._live.dry_run is not None:
            self._live.dry_run.finish()
        self._log.info("Requested to terminate, exiting")
        return 0

    async def _settle(self) -> None:
        """Wait for the first lists of objects."""
        expect_lists()
        await self._live.settle()
        self._log.v(2, "Caches populated")
        relax_collector()

    async def _watch_and_schedule(self) -> None:
        async with self._live:
            await self._settle()
            await self._live.schedule()

    async def _or_stop(self, work: Work) -> bool:
        """Run `work` until it ends or the process has to stop. Returns whether it ended."""
        task = asyncio.create_task(work)
        await sooner(settle((task,)), self._stopping.wait())
        if task.done():
            task.result()
            return True
        task.cancel()
        await settle((task,))
        return False

    # ---- the lease

    async def _elect(self, schedule: Callable[[], Work]) -> int:
        """Schedule while this process holds the lease. Returns the exit status."""
        lease = self._lease_thread(schedule)
        lease.over.add_done_callback(lambda _: self._ended.set())
        lease.start()
        stopping = asyncio.create_task(self._stopping.wait())
        stopping.add_done_callback(lambda _: self._ended.set())
        await self._ended.wait()
        try:
            is_lost = await self._stop_leading(lease)
        finally:
            stopping.cancel()
            lease.stop()
            outcome = await lease.over
        if is_lost or outcome == "lost":
            self._log.error("Leaderelection lost")
            return 1
        return self._finished()

    def _lease_thread(self, schedule: Callable[[], Work]) -> LeaseThread:
        """The thread that renews the lease, with callbacks that start and stop scheduling on this loop."""
        config = self._settings.config

        def start() -> None:
            if not self._stopping.is_set():
                self._leading = asyncio.create_task(schedule())
                self._leading.add_done_callback(lambda _: self._ended.set())

        def stop() -> None:
            if self._leading is not None:
                self._leading.cancel()
            self._live.driver.halt()  # another instance may bind from now on

        component = config.profiles[0].scheduler_name or ""
        settings = elector_settings(config.leader_election, new_identity(), component, self._settings.gates)
        callbacks = Callbacks(start, stop, self._metrics.led)
        access, connection = self._settings.lease_access, config.client_connection
        return LeaseThread(access, connection, USER_AGENT, settings, callbacks, self._fence, self._log, self._wall)

    async def _stop_leading(self, lease: LeaseThread) -> bool:
        """Stop scheduling, and wait for writes that are under way while the lease is still renewed.

        Returns whether the lease was lost. Raises the exception that ended the scheduler, if that is a bug.
        """
        if self._leading is None:
            return False
        is_ended = self._leading.done()
        self._leading.cancel()
        with suppress(asyncio.CancelledError):
            await self._leading
        if not lease.over.done() and not is_ended:
            await self._live.driver.close()
        return is_ended and self._leading.cancelled()

    def leads(self) -> bool:
        """Whether this process schedules; without leader election it always does."""
        return not self._elects or (self._leading is not None and not self._leading.done())

    def _counts_pods(self) -> bool:
        """Whether /metrics/resources shows the pods: one process of a cluster does, so that sums over all are right."""
        return self.leads() and not self._settings.is_dry_run

    # ---- the pages

    async def _serve(self, stack: AsyncExitStack) -> None:
        """Start the server of the pages; `stack` stops it."""
        serving, log = self._settings.serving, self._log
        if not serving.port:
            return
        clients = []
        for access in (serving.authentication, serving.authorization):
            client = None if access is None else review_client(access, USER_AGENT)
            clients.append(client and await stack.enter_async_context(client))
        authentication, authorization = clients
        authorities = ClientAuthorities(
            serving.client_authority, authentication if serving.looks_up else None, log, serving.is_lookup_needed
        )
        await authorities.look_up()
        looking = asyncio.create_task(authorities.keep_looking(asyncio.sleep))
        stack.callback(looking.cancel)
        pair = serving_pair(
            serving.certificate, serving.key, serving.directory, ["localhost", serving.address], self._wall, log
        )
        # Hot: a certificate that is made here cannot fail, and takes 30 ms with its imports.
        at_once = bool(serving.certificate or serving.directory or authorities.has_sources)
        tls = ServerTls(pair, authorities.pem if authorities.has_sources else None, log, at_once)
        authorizer = request_authorizer(serving.access, authentication, authorization, time.monotonic, log)
        dashboard = self._dashboard(stack)
        limits = WebLimits.within(raise_descriptor_limit())
        server = WebServer(self._pages(), authorizer, log, limits, dashboard)
        await server.start(serving.address, serving.port, tls.context())
        stack.push_async_callback(server.stop)
        if dashboard is not None:
            dashboard.start()
            stack.push_async_callback(dashboard.close)  # before the server, which waits for open requests

    def _source(self) -> "SchedulerSource":
        """The source of what the dashboard shows."""
        from mooring.app.dashboards import SchedulerSource

        return SchedulerSource("run", self._clock, self.leads)

    def _dashboard(self, stack: AsyncExitStack) -> "DashboardHandler | None":
        """Read-only: it has nothing that could carry out changes."""
        if self._shown is None:
            return None
        from mooring.answers.trial.node_prices import NO_PRICES
        from mooring.app.dashboards import DashboardPlan, make_handler

        prices = self._settings.prices or NO_PRICES
        plan = DashboardPlan(self._shown, make_questions=self._questions, in_use=self._in_use(stack), prices=prices)
        return make_handler(plan, None, self._report)

    def _in_use(self, stack: AsyncExitStack) -> "Callable[[], RealUse] | None":
        """Read what nodes really use until `stack` ends, if there is a source of it. Returns the last reading."""
        if not self._settings.use:
            return None
        from mooring.inputs.real_use import RealUseReadings

        use = RealUseReadings(self._settings.use, self._settings.access, self._log)
        following = asyncio.create_task(use.follow(asyncio.sleep))
        stack.callback(following.cancel)
        return lambda: use.latest

    def _questions(self) -> "ChildQuestions":
        """Questions about what the scheduler knows, and about the workloads that they name: it watches no Deployments."""
        from mooring.answers.trial.node_prices import NO_PRICES
        from mooring.dashboard.questions.asked_cluster import AskedScheduler, workloads_at
        from mooring.dashboard.questions.child_questions import ChildQuestions

        assert self._shown is not None
        settings = self._settings
        workloads = workloads_at(settings.access, USER_AGENT)
        return ChildQuestions(
            self._shown,
            lambda: AskedScheduler.of(self._config, settings.gates, settings.registry, settings.prices or NO_PRICES),
            fetch=workloads,
            report=self._report,
        )

    def _pages(self) -> Pages:
        """All pages; each reads the current state when it is requested."""
        config, metrics = self._settings.config, self._metrics
        metrics.led(False)
        sources = Sources(
            metrics.metrics,
            lambda: metrics.resource_metrics(self._scheduler if self._counts_pods() else None),
            metrics.health_metrics,
            metrics.reset,
            lambda: as_shown_object(self._config),
            lambda: self._settings.flags,
            self._logs.set_verbosity if config.enable_profiling else None,
            metrics.protobuf_metrics,
        )
        reflectors = self._live.reflectors
        health = Health(self._elects, self._stopping.is_set, lambda: reflectors.is_settled, reflectors.unwatched)
        checks = health_pages(health, self._log, metrics.checked)
        more = {
            SNAPSHOT_PATH: lambda question: json_document(snapshot(self._scheduler, self._config, self._settings.gates))
        }
        return Pages(sources, checks, self._clock, self._clock.now_ns(), more=more, gates=self._settings.gates)

    # ---- signals

    def _stop(self, number: signal.Signals) -> None:
        """SIGTERM, SIGINT, and SIGHUP of a terminal: stop in an orderly way; a second signal ends the process at once. A
        terminal that closes may send SIGHUP more than once, so that it does not count as the second one."""
        if self._stopping.is_set() and number != signal.SIGHUP:
            os._exit(1)
        if not self._stopping.is_set():
            self._log.info("Received signal, stopping", signal=number.name)
        self._stopping.set()

    def _dump(self) -> None:
        """SIGUSR2: compare what the scheduler knows with the watches, and log its state."""
        members = {member.spec.plural: member.objects for member in self._live.reflectors.members}
        compare(self._scheduler, members["nodes"], members["pods"], self._log)
        dump(self._scheduler, self._log)
