"""Leader election without I/O: time and answers of the API server go in, the next request comes out.

Two safeguards keep two instances from leading at once:

- A candidate treats another instance's lease as expired only after it has seen the lease unchanged for its full duration on
  its own monotonic clock. It compares no clock of another machine.
- A leader counts its time from the moment when it sent its last successful renewal, not from the answer, so it stops before
  a candidate may take over.

With coordinated leader election the API server picks the leader from LeaseCandidates and writes it into the lease. An
instance then never takes a lease: it renews one that names it, and lets it expire when another is preferred.

`leader_elector.py` makes the requests; tests drive this module on a virtual clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.kit.logs import Log
from mooring.serve.lease.lease_record import LeaseName, LeaseRecord, changed_lease, new_lease

JITTER = 1.2
"""Parity: a candidate waits one retry period and up to 1.2 periods more, so that candidates do not ask all at once."""

Lost = Literal["another instance leads", "the lease could not be renewed in time"]


class ElectionError(ValueError):
    """Settings with which leader election cannot work; the texts are upstream's."""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Upstream's three durations with upstream's defaults and checks.

    Each must be larger than the next: a leader has to give up (renew deadline) before a candidate may take the lease (lease
    duration), and needs several tries (retry period) before it gives up.
    """

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration_s <= self.renew_deadline_s:
            raise ElectionError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline_s <= self.retry_period_s * JITTER:
            raise ElectionError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period_s <= 0:
            raise ElectionError("retryPeriod must be greater than zero")
        if self.written_s < 1:
            raise ElectionError("leaseDuration must be at least one second: a Lease counts in whole seconds")

    @property
    def written_s(self) -> int:
        """The duration in the Lease, for which candidates wait: the API has whole seconds."""
        return int(self.lease_duration_s)

    @property
    def request_s(self) -> float:
        """How long one request may take."""
        return max(1.0, self.renew_deadline_s / 2)


# ---- requests: what to do next


class Read(msgspec.Struct, frozen=True):
    """GET the lease."""


class Create(msgspec.Struct, frozen=True):
    """POST this lease."""

    lease: JsonObject


class Update(msgspec.Struct, frozen=True):
    """PUT this lease."""

    lease: JsonObject


class ElectionPause(msgspec.Struct, frozen=True):
    """Nothing to do until `until_s`, which is monotonic like all times here."""

    until_s: float


class Over(msgspec.Struct, frozen=True):
    """This instance lost the lease. It does not stand again: the process exits, and a new one starts with a fresh cache."""

    why: Lost


Ask = Read | Create | Update
Step = Ask | ElectionPause | Over


# ---- answers: what came of a request


class Found(msgspec.Struct, frozen=True):
    """The lease as it is now."""

    lease: JsonObject


class NoLease(msgspec.Struct, frozen=True):
    """There is no such lease."""


class Unfulfilled(msgspec.Struct, frozen=True):
    """The API server refused or did not answer; without an answer, a write may have been carried out."""

    error: str


Heard = Found | NoLease | Unfulfilled


class Candidate(msgspec.Struct, frozen=True):
    """An instance that stands for election, its lease, and what it needs from outside."""

    identity: str
    lease: LeaseName
    times: ElectionTimes
    now_text: Callable[[], str]
    """The wall clock as the Lease shows it."""
    random: Callable[[], float]
    """Draws from 0 (included) to 1 (excluded), for the jitter."""
    is_coordinated: bool = False
    """Whether the API server picks the leader (the gate CoordinatedLeaderElection)."""


class Election:
    """The state machine of one instance.

    Call `step` for what to do, do it, and report the answer to `hear`; there is at most one request at a time. `leads` may be
    called at any time and needs no I/O.
    """

    def __init__(self, candidate: Candidate, notes: Log) -> None:
        if not candidate.identity:
            raise ElectionError("Lock identity is empty")
        self._candidate = candidate
        self._times = candidate.times
        self._notes = notes
        self._lock = {"lock": str(candidate.lease)}
        """A part of every log line."""
        self._lease: JsonObject | None = None
        self._record = LeaseRecord()
        self._observed_s = 0.0
        """When this instance first saw the record; the lease expires its duration after that."""
        self._due_s = float("-inf")
        self._round_s = 0.0
        self._ask: Ask | None = None
        self._is_asked = False
        self._asked_s = 0.0
        self._is_optimistic = False
        self._written = LeaseRecord()
        self._is_leader = False
        self._ends_s = float("-inf")
        """Until when a leader leads without another renewal."""
        self._over: Over | None = None

    @property
    def holder(self) -> str:
        """The identity in the lease when it was last seen; may be empty."""
        return self._record.holder

    @property
    def lease(self) -> JsonObject | None:
        """The lease as it was last seen."""
        return self._lease

    @property
    def ends_s(self) -> float:
        """When this leader stops unless it renews; minus infinity for a candidate."""
        return self._ends_s if self._is_leader else float("-inf")

    def leads(self, now_s: float) -> bool:
        """Whether this instance leads at `now_s`. Never true for two instances at the same moment."""
        return self._is_leader and now_s < self._ends_s

    # ---- what to do

    def step(self, now_s: float) -> Step:
        """The next thing to do: a request, a pause, or Over. Raises RuntimeError while a request is open."""
        self._check_deadline(now_s)
        if self._over is not None:
            return self._over
        if self._is_asked:
            raise RuntimeError("the last request is still open")
        if self._ask is None and now_s < self._due_s:
            return ElectionPause(min(self._due_s, self._ends_s) if self._is_leader else self._due_s)
        if self._ask is None:
            self._begin_round(now_s)
        assert self._ask is not None
        self._is_asked, self._asked_s = True, now_s
        return self._ask

    def _begin_round(self, now_s: float) -> None:
        """A leader renews from the lease as it last saw it, without reading it first; if the lease has changed, the API
        server refuses, and the leader reads it. A candidate reads. With coordination everyone reads first."""
        self._round_s = now_s
        self._is_optimistic = self._is_leader and not self._candidate.is_coordinated
        renewal = self._is_optimistic
        self._ask = self._update(self._record.acquire_time, self._record.transitions) if renewal else Read()

    def _check_deadline(self, now_s: float) -> None:
        if self._is_leader and now_s >= self._ends_s:
            self._stop("the lease could not be renewed in time")

    def _stop(self, why: Lost) -> None:
        self._is_leader = False
        self._ask, self._is_asked = None, False
        self._over = Over(why)
        self._notes.info("Failed to renew lease", **self._lock, err=why)

    def _update(self, acquire_time: str, transitions: int) -> Update:
        assert self._lease is not None
        self._written = self._ours(acquire_time, transitions)
        return Update(changed_lease(self._lease, self._written))

    def _ours(self, acquire_time: str, transitions: int) -> LeaseRecord:
        now, strategy = self._candidate.now_text(), self._record.strategy if self._candidate.is_coordinated else ""
        return LeaseRecord(
            self._candidate.identity, self._times.written_s, acquire_time or now, now, transitions, strategy
        )

    # ---- answers

    def hear(self, now_s: float, answer: Heard) -> None:
        """Take the answer to the last request. A leader that is past its deadline stops, whatever the answer is."""
        asked, is_asked = self._ask, self._is_asked
        self._ask, self._is_asked = None, False
        if asked is None or not is_asked:
            raise RuntimeError("an answer came to a question that was not asked")
        self._check_deadline(now_s)
        if self._over is not None:
            return
        if isinstance(asked, Read):
            self._hear_read(now_s, answer)
        elif isinstance(answer, Found):
            self._hear_written(now_s, answer.lease)
        else:
            self._hear_refused(now_s, asked, answer)

    def _hear_read(self, now_s: float, answer: Heard) -> None:
        """Continue after the lease was read. A candidate of a coordinated election waits to be assigned; others create the
        lease, take it when it has expired, or try again later."""
        match answer:
            case Found(lease):
                self._observe(now_s, lease)
                if self._candidate.is_coordinated:
                    self._renew_if_assigned(now_s)
                else:
                    self._take_or_wait(now_s)
            case NoLease() if self._candidate.is_coordinated:
                self._notes.info("Lease lock not found", **self._lock)
                self._try_later(now_s)
            case NoLease():
                self._written = self._ours("", 0)
                self._ask = Create(new_lease(self._candidate.lease, self._written))
            case Unfulfilled(error):
                self._notes.error("Error retrieving lease lock", None, **self._lock, err=error)
                self._try_later(now_s)

    def _observe(self, now_s: float, lease: JsonObject) -> None:
        record = LeaseRecord.of(lease)
        if record != self._record or self._lease is None:
            self._record, self._observed_s = record, now_s
        self._lease = lease

    def _take_or_wait(self, now_s: float) -> None:
        """Renew our own lease, take an expired or empty one, wait for another's. A leader that finds another holder stops."""
        record, identity = self._record, self._candidate.identity
        if record.holder == identity:
            self._ask = self._update(record.acquire_time, record.transitions)
        elif self._is_leader and record.holder:
            self._stop("another instance leads")
        elif record.holder and now_s < self._observed_s + record.duration_s:
            self._notes.v(4, "Lease is held by and has not yet expired", **self._lock, holder=record.holder)
            self._try_later(now_s)
        else:
            self._ask = self._update("", record.transitions + 1)

    def _renew_if_assigned(self, now_s: float) -> None:
        """Renew a lease that names us and is not over. Everything else is the API server's business."""
        record, keys = self._record, self._lock
        if self._is_leader and record.holder and record.holder != self._candidate.identity:
            self._stop("another instance leads")
        elif now_s >= self._observed_s + record.duration_s:
            self._notes.info("Lease has expired", **keys)
            self._try_later(now_s)
        elif record.holder != self._candidate.identity:
            self._notes.v(6, "Lease is held and has not yet expired", **keys, holder=record.holder)
            self._try_later(now_s)
        elif record.preferred_holder:
            self._notes.v(4, "Lease is marked as 'end of term'", **keys)
            self._try_later(now_s)
        else:
            self._ask = self._update(record.acquire_time, record.transitions)

    def _hear_written(self, now_s: float, lease: JsonObject) -> None:
        """The write succeeded: this instance leads from now on, counted from when it sent the request."""
        self._lease = lease
        self._record, self._observed_s = self._written, now_s
        ends_s = min(
            self._asked_s + self._times.written_s, now_s + self._times.retry_period_s + self._times.renew_deadline_s
        )
        if now_s >= ends_s:
            # The answer took longer than the lease lasts: another instance may have taken it, so ask again.
            self._try_later(now_s)
            return
        if not self._is_leader:
            self._notes.info("Successfully acquired lease", **self._lock)
        else:
            self._notes.v(5, "Successfully renewed lease", **self._lock)
        self._is_leader, self._ends_s = True, ends_s
        self._due_s = now_s + self._times.retry_period_s

    def _hear_refused(self, now_s: float, asked: Create | Update, answer: NoLease | Unfulfilled) -> None:
        """The write failed. After an optimistic renewal, read the lease at once; otherwise try again later."""
        error = answer.error if isinstance(answer, Unfulfilled) else "the lease is gone"
        keys = {**self._lock, "err": error}
        if self._is_optimistic:
            self._notes.v(2, "Failed to update lease optimistically, falling back to slow path", **keys)
            self._is_optimistic, self._ask = False, Read()
            return
        is_new = isinstance(asked, Create)
        message = "Error initially creating lease lock" if is_new else "Failed to update lease"
        self._notes.error(message, None, **keys)
        self._try_later(now_s)

    def _try_later(self, now_s: float) -> None:
        period_s = self._times.retry_period_s
        if self._is_leader:
            self._due_s = max(now_s, self._round_s + period_s)
        else:
            self._due_s = now_s + period_s * (1 + self._candidate.random() * JITTER)
