"""Leader election against an API server: makes the requests of `leader_election`, calls back when leading starts or stops,
and releases the lease at the end.

The elector runs on any event loop, so tests run it on virtual time; `mooring run` renews the lease in a thread of its own,
with its own loop and connections.
"""

import asyncio
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import SystemRandom
from typing import Literal, TypeVar

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.throttle import Timing
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.types import ClientConnectionConfiguration, LeaderElectionConfiguration
from mooring.kit.clock import Clock, WallClock, elapsed_s, in_micros
from mooring.kit.logs import Log
from mooring.kit.tasks import Fence, TaskSet, settle, sooner
from mooring.serve.lease.leader_election import (
    Ask,
    Candidate,
    Create,
    Election,
    ElectionError,
    ElectionPause,
    ElectionTimes,
    Found,
    Heard,
    NoLease,
    Over,
    Read,
    Unfulfilled,
    Update,
)
from mooring.serve.lease.lease_record import (
    CandidateName,
    LeaseCandidacy,
    LeaseName,
    LeaseRecord,
    changed_lease,
    leader_event,
)

T = TypeVar("T")

Outcome = Literal["stopped", "lost"]

COORDINATION_GATE = "CoordinatedLeaderElection"

_LAST_EVENTS_S = 1.0
"""How long `run` waits at the end for events that are still on their way."""
_LEASE_BYTES = 1 << 20
"""The largest answer that is read. A Lease is small, but anyone who may write it can add annotations."""


class ElectorSettings(msgspec.Struct, frozen=True):
    """The instance, the lease that it stands for, and how long everything takes."""

    identity: str
    lease: LeaseName = msgspec.field(default_factory=lambda: LeaseName("kube-system", "kube-scheduler"))
    times: ElectionTimes = msgspec.field(default_factory=ElectionTimes)
    component: str = "default-scheduler"
    """The source of events: the schedulerName of the first profile, as upstream."""
    is_coordinated: bool = False
    """Whether the API server picks the leader from LeaseCandidates."""


class TimeAndChance(msgspec.Struct, frozen=True):
    """Clocks and random numbers, so that tests can pass their own."""

    timing: Timing = msgspec.field(default_factory=lambda: Timing(elapsed_s))
    """Must use the same monotonic clock as the fence."""
    wall: Clock = msgspec.field(default_factory=WallClock)
    """For the times in the lease and in events. No decision depends on it."""
    random: Callable[[], float] = msgspec.field(default_factory=lambda: SystemRandom().random)


class Callbacks(msgspec.Struct, frozen=True):
    """They must return at once. Each on_started_leading is followed by one on_stopped_leading, whatever happens."""

    on_started_leading: Callable[[], None]
    on_stopped_leading: Callable[[], None]
    on_master_status: Callable[[bool], None] = lambda leads: None
    """For the metric leader_election_master_status."""


def new_identity(hostname: str = "") -> str:
    return f"{hostname or socket.gethostname()}_{uuid.uuid4()}"


def elector_settings(
    config: LeaderElectionConfiguration, identity: str, component: str, gates: Mapping[str, bool] | None = None
) -> ElectorSettings:
    """The settings in a configuration, with these feature gates. Raises ElectionError with upstream's texts."""
    if config.resource_lock in ("endpoints", "configmaps", "endpointsleases", "configmapsleases"):
        raise ElectionError(f"couldn't create resource lock: {config.resource_lock} lock is removed, migrate to leases")
    if config.resource_lock != "leases":
        raise ElectionError(f"couldn't create resource lock: Invalid lock-type {config.resource_lock}")
    durations = (config.lease_duration, config.renew_deadline, config.retry_period)
    try:
        times = ElectionTimes(*(duration.seconds for duration in durations))
    except ElectionError as error:
        raise ElectionError(f"couldn't create leader elector: {error}") from None
    lease = LeaseName(config.resource_namespace, config.resource_name)
    return ElectorSettings(identity, lease, times, component, with_defaults(gates)[COORDINATION_GATE])


def lease_client(
    access: ConnectionSettings, base_user_agent: str, connection: ClientConnectionConfiguration, times: ElectionTimes
) -> ApiClient:
    """A client for the lease alone: a flood of other requests must not keep a leader from renewing.

    Two connections, so that a request that hangs does not block the next try.
    """
    limits = Limits(request_s=times.request_s, answer_bytes=_LEASE_BYTES, connections=2)
    return ApiClient(access, f"{base_user_agent}/leader-election", connection.qps, connection.burst, limits=limits)


class LeaderElector:
    """Call `run` once; `stop` makes it release the lease and return."""

    def __init__(
        self,
        client: ApiClient,
        settings: ElectorSettings,
        callbacks: Callbacks,
        log: Log,
        around: TimeAndChance | None = None,
        events: ApiClient | None = None,
        fence: Fence | None = None,
    ) -> None:
        """`events` is the client for events; None writes none. The elector keeps `fence` open while it leads."""
        self._client = client
        self._settings = settings
        self._callbacks = callbacks
        self._log = log
        self._around = around or TimeAndChance()
        self._events = events
        self._fence = fence or Fence()
        chance = self._around.random
        who = (settings.identity, settings.lease, settings.times)
        candidate = Candidate(*who, self._now_text, chance, settings.is_coordinated)
        self._election = Election(candidate, log)
        self._params = {"timeout": f"{settings.times.request_s:g}s"}
        self._stopping = asyncio.Event()
        self._has_told = False
        self._may_hold = False
        """Whether the lease may have our identity: a write was sent, and it is not known to have failed. Then `run` releases
        the lease at the end."""
        self._posting = TaskSet()

    def is_leading(self) -> bool:
        """Whether this instance leads now, by the clock. Never true for two instances at the same moment."""
        return self._election.leads(self._now_s())

    @property
    def holder(self) -> str:
        """The identity in the lease when it was last seen; may be empty."""
        return self._election.holder

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> Outcome:
        """Acquire the lease, renew it, and return when `stop` was called or the lease is lost.

        If it is cancelled, it stops leading at once and lets the lease expire.
        """
        self._callbacks.on_master_status(False)
        self._log.info("Attempting to acquire leader lease...", lock=str(self._settings.lease))
        try:
            outcome = await self._stand()
        finally:
            self._fence.shut()  # before another instance can acquire the lease
            self._tell(leads=False)
        times = self._settings.times
        if self._may_hold:
            limit_s = times.renew_deadline_s if outcome == "stopped" else times.request_s
            await self._within(self._release(), limit_s)
        await self._posting.settle(_LAST_EVENTS_S)
        self._posting.cancel()
        return outcome

    async def _stand(self) -> Outcome:
        """Take part in the election; with coordination, with a LeaseCandidate that lives as long."""
        if not self._settings.is_coordinated:
            return await self._campaign()
        name = CandidateName(self._settings.lease, self._settings.identity)
        candidacy = LeaseCandidacy(self._client, name, self._around.timing, self._around.wall, self._log)
        looking_after = asyncio.ensure_future(candidacy.run(self._settings.times.retry_period_s))
        try:
            return await self._campaign()
        finally:
            looking_after.cancel()
            await settle((looking_after,))

    async def _campaign(self) -> Outcome:
        """Follow the election step by step. After each answer the fence gets the new deadline."""
        while not self._stopping.is_set():
            step = self._election.step(self._now_s())
            match step:
                case Over():
                    return "lost"
                case ElectionPause(until_s):
                    await self._unless_stopped(self._around.timing.sleep(max(0.0, until_s - self._now_s())))
                case _:
                    answer = await self._unless_stopped(self._answer(step))
                    if answer is not None:
                        self._election.hear(self._now_s(), answer)
                        self._fence.open_until(self._election.ends_s)
                        self._tell(self.is_leading())
        return "stopped"

    # ---- requests

    async def _answer(self, ask: Ask) -> Heard:
        """The answer to a request; a leader waits for it no longer than until it must stop."""
        limit_s = self._settings.times.request_s
        if self._election.ends_s > float("-inf"):
            limit_s = min(limit_s, self._election.ends_s - self._now_s())
        self._may_hold |= not isinstance(ask, Read)
        answer = await self._within(self._ask(ask), limit_s)
        return answer or Unfulfilled(f"no answer within {limit_s:g} s")

    async def _ask(self, ask: Ask) -> Heard:
        """Make one request. Every failure is an answer: the election decides what it means."""
        lease = self._settings.lease
        try:
            match ask:
                case Read():
                    found = await self._client.get(lease.path, self._params)
                case Create(new):
                    found = await self._client.post(lease.collection, new, self._params)
                case Update(changed):
                    found = await self._client.put(lease.path, changed, self._params)
            LeaseRecord.of(found)
        except ApiError as error:
            return NoLease() if error.code == 404 else Unfulfilled(error.message)
        except (Unanswered, CredentialsError) as error:
            return Unfulfilled(str(error))
        except ValueError as error:
            return Unfulfilled(f"the answer is no Lease: {error}")
        return Found(found)

    async def _release(self) -> None:
        """Empty the lease if it has our identity, so that a candidate can take it at once; after a conflict, read again."""
        while isinstance(read := await self._ask(Read()), Found):
            record = LeaseRecord.of(read.lease)
            if record.holder != self._settings.identity:
                return
            now = self._now_text()
            free = LeaseRecord("", 1, now, now, record.transitions)
            if isinstance(failed := await self._ask(Update(changed_lease(read.lease, free))), Found):
                return
            keys = {"lock": str(self._settings.lease), "err": getattr(failed, "error", "the lease is gone")}
            self._log.v(4, "Failed to release lease, retrying", **keys)
            await self._around.timing.sleep(min(0.1, self._settings.times.retry_period_s))
        if isinstance(read, Unfulfilled):
            self._log.error("error retrieving resource lock", None, lock=str(self._settings.lease), err=read.error)

    # ---- callbacks and events

    def _tell(self, leads: bool) -> None:
        """Report a change of leadership: metric, event, callback."""
        if leads == self._has_told:
            return
        self._has_told = leads
        self._callbacks.on_master_status(leads)
        self._post_event("became leader" if leads else "stopped leading")
        if leads:
            self._callbacks.on_started_leading()
        else:
            self._callbacks.on_stopped_leading()

    def _post_event(self, what: str) -> None:
        if self._events is None or self._election.lease is None:
            return
        settings, now_ns = self._settings, self._around.wall.now_ns()
        message = f"{settings.identity} {what}"
        event = leader_event(self._election.lease, settings.lease, settings.component, message, now_ns)
        self._posting.start(self._post(self._events, event))

    async def _post(self, events: ApiClient, event: JsonObject) -> None:
        """A failure is only logged: nothing depends on events."""
        try:
            await events.post(f"/api/v1/namespaces/{self._settings.lease.namespace}/events", event)
        except (ApiError, Unanswered, CredentialsError) as error:
            self._log.v(2, "Unable to write event", err=error)

    # ---- time

    def _now_s(self) -> float:
        return self._around.timing.monotonic_s()

    def _now_text(self) -> str:
        return in_micros(self._around.wall.now_ns())

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        return await sooner(work, self._stopping.wait())

    async def _within(self, work: Awaitable[T], limit_s: float) -> T | None:
        return await sooner(work, self._around.timing.sleep(max(0.0, limit_s)))


# ---- the thread
#
# An attempt on a large cluster may keep the main loop busy for longer than a lease lasts; the interpreter still lets this
# thread run every few milliseconds. The threads share the deadline of the fence and nothing else. This thread reports to
# the main loop with `call_soon_threadsafe`, and the fence stops writes even while the main loop is too busy to get the
# report.


class LeaseThread:
    """Renews the lease in a thread with its own event loop and connections. The main loop makes and uses it, and runs the
    callbacks. `over` ends when the thread does."""

    def __init__(
        self,
        access: ConnectionSettings,
        connection: ClientConnectionConfiguration,
        user_agent: str,
        settings: ElectorSettings,
        callbacks: Callbacks,
        fence: Fence,
        log: Log,
        wall: Clock | None = None,
    ) -> None:
        """`access` must not be used by the main loop: credentials keep state that belongs to one event loop. The times in
        the lease come from `wall`."""
        self._access = access
        self._connection = connection
        self._user_agent = user_agent
        self._settings = settings
        self._callbacks = callbacks
        self._fence = fence
        self._log = log
        self._around = TimeAndChance(wall=wall or WallClock())
        self._main = asyncio.get_running_loop()
        self.over: asyncio.Future[Outcome] = self._main.create_future()
        self._own: asyncio.AbstractEventLoop | None = None
        self._elector: LeaderElector | None = None
        self._is_stopping = False
        # A daemon: a second SIGTERM, or a bug on the main loop, ends the process without waiting for a request.
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to release the lease; `over` is done when it has."""
        self._is_stopping = True
        if self._elector is not None and self._own is not None:
            with suppress(RuntimeError):  # the loop is closed: the thread has stopped already
                self._own.call_soon_threadsafe(self._elector.stop)

    # ---- in the thread

    def _work(self) -> None:
        """The body of the thread. An exception shuts the fence before it is reported: nothing renews the lease any
        more."""
        try:
            outcome = asyncio.run(self._stand())
        except BaseException as fault:
            self._fence.shut()
            self._tell(lambda fault=fault: self._settle(fault))  # type: ignore[misc]
        else:
            self._tell(lambda: self._settle(outcome))

    async def _stand(self) -> Outcome:
        """Connect, and run the elector until it stops or loses the lease."""
        connection, callbacks = self._connection, self._callbacks
        async with (
            lease_client(self._access, self._user_agent, connection, self._settings.times) as leases,
            ApiClient(self._access, self._user_agent, connection.qps, connection.burst) as events,
        ):
            told = Callbacks(
                lambda: self._tell(callbacks.on_started_leading),
                lambda: self._tell(callbacks.on_stopped_leading),
                lambda leads: self._tell(lambda: callbacks.on_master_status(leads)),
            )
            elector = LeaderElector(leases, self._settings, told, self._log, self._around, events, self._fence)
            self._own, self._elector = asyncio.get_running_loop(), elector
            if self._is_stopping:  # `stop` was called before there was an elector
                elector.stop()
            return await elector.run()

    def _tell(self, news: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the main loop is closed: the process ends
            self._main.call_soon_threadsafe(news)

    def _settle(self, outcome: Outcome | BaseException) -> None:
        """On the main loop."""
        if self.over.done():
            return
        if isinstance(outcome, BaseException):
            self.over.set_exception(outcome)
        else:
            self.over.set_result(outcome)
