"""Leases and LeaseCandidates as objects: who leads, and what an instance writes next.

No time of a Lease is ever compared with a clock: clocks of two machines differ. `leader_election.py` only asks whether a
record has changed.
"""

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject, at
from mooring.apiclient.client import ApiClient
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.throttle import Timing
from mooring.kit.clock import Clock, in_micros, in_seconds
from mooring.kit.logs import Log
from mooring.model.release import KUBERNETES_VERSION

API_VERSION = "coordination.k8s.io/v1"


class LeaseName(msgspec.Struct, frozen=True):
    """The Lease that the instances compete for, with its paths at the API server."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def collection(self) -> str:
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


class _WrittenRecord(msgspec.Struct):
    """A LeaseRecord as the API has it."""

    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    duration_s: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    acquire_time: str | None = msgspec.field(default=None, name="acquireTime")
    renew_time: str | None = msgspec.field(default=None, name="renewTime")
    transitions: int | None = msgspec.field(default=None, name="leaseTransitions")
    strategy: str | None = None
    preferred_holder: str | None = msgspec.field(default=None, name="preferredHolder")


class _Lease(msgspec.Struct):
    spec: _WrittenRecord | None = None


_OF_COORDINATION = ("strategy", "preferredHolder")
"""Fields that a Lease has only where the API server picks leaders."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """The spec of a Lease. Times are texts as the Lease has them: people read them, and only a change of them matters."""

    holder: str = ""
    duration_s: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0
    strategy: str = ""
    """How the API server picks leaders (coordinated leader election); empty: it does not."""
    preferred_holder: str = ""
    """Who is to lead next: the holder lets the lease expire."""

    @classmethod
    def of(cls, lease: object) -> "LeaseRecord":
        """The record in a Lease as the API server returns it. Raises ValueError for something else."""
        written = msgspec.structs.asdict(msgspec.convert(lease, _Lease).spec or _WrittenRecord())
        return cls(**{name: value for name, value in written.items() if value is not None})

    def spec(self) -> JsonObject:
        """The spec of the Lease with this record."""
        written = msgspec.to_builtins(_WrittenRecord(**msgspec.structs.asdict(self)))
        return {name: value for name, value in written.items() if value or name not in _OF_COORDINATION}


def new_lease(name: LeaseName, record: LeaseRecord) -> JsonObject:
    metadata = {"name": name.name, "namespace": name.namespace}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": record.spec()}


def changed_lease(lease: JsonObject, record: LeaseRecord) -> JsonObject:
    """The lease with another record. It keeps its resourceVersion, so the API server refuses it if another instance has
    written the lease since."""
    return {**lease, "apiVersion": API_VERSION, "kind": "Lease", "spec": record.spec()}


def leader_event(lease: JsonObject, of: LeaseName, component: str, message: str, now_ns: int) -> JsonObject:
    """The event about who leads. Parity: an event of the core group (v1), though all other events of a scheduler are of
    events.k8s.io."""
    metadata, now = lease.get("metadata") or {}, in_seconds(now_ns)
    name, namespace = of.name, of.namespace
    of_lease = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{now_ns:x}", "namespace": namespace},
        "involvedObject": {
            "kind": "Lease", "namespace": namespace, "name": name, "apiVersion": API_VERSION, **of_lease
        },
        "reason": "LeaderElection",
        "message": message,
        "source": {"component": component},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }  # fmt: skip


# ---- A LeaseCandidate: this instance stands for a lease whose holder the API server picks (coordinated leader
# election).
#
# The server asks its candidates for a sign of life by writing `pingTime`; one that does not renew within five seconds
# is not picked. Upstream watches its candidate; here it is read every retry period, which takes no right to list or
# watch.


CANDIDATE_VERSION = "coordination.k8s.io/v1beta1"
STRATEGY = "OldestEmulationVersion"
"""The server picks the oldest emulation version, then the oldest binary, then the candidate that came first."""
RENEWED_AFTER_S = 300.0
"""Upstream's requeueInterval: a candidate renews as often as that without being asked."""
LONGEST_PAUSE_S = 30.0
"""Between tries while the API server refuses or does not answer."""
_MAJOR_MINOR = KUBERNETES_VERSION.rpartition(".")[0]


class CandidateName(msgspec.Struct, frozen=True):
    """The place of the LeaseCandidate of an instance: it is named after the identity that the lease has of its holder."""

    lease: LeaseName
    identity: str

    @property
    def collection(self) -> str:
        return f"/apis/{CANDIDATE_VERSION}/namespaces/{self.lease.namespace}/leasecandidates"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.identity}"


def new_candidate(name: CandidateName, now: str) -> JsonObject:
    """A LeaseCandidate as kube-scheduler creates it."""
    return {
        "apiVersion": CANDIDATE_VERSION,
        "kind": "LeaseCandidate",
        "metadata": {"name": name.identity, "namespace": name.lease.namespace},
        "spec": {
            "leaseName": name.lease.name,
            "binaryVersion": KUBERNETES_VERSION,
            "emulationVersion": f"{_MAJOR_MINOR}.0",
            "strategy": STRATEGY,
            "renewTime": now,
        },
    }


def is_pinged(candidate: JsonObject) -> bool:
    """Whether the server waits for a renewal. Both times are texts in UTC of one form, so that their order is that of
    time."""
    return _ping(candidate) > (at(candidate, "spec.renewTime") or "")


def _ping(candidate: JsonObject) -> str:
    return at(candidate, "spec.pingTime") or ""


class LeaseCandidacy:
    """Keeps the candidate of this instance alive: creates it, answers pings, and renews it every five minutes."""

    def __init__(self, client: ApiClient, name: CandidateName, timing: Timing, wall: Clock, log: Log) -> None:
        self._client = client
        self._name = name
        self._timing = timing
        self._wall = wall
        self._log = log
        self._renewed_s = float("-inf")
        self._answered = ""
        """The ping that was answered last."""

    async def run(self, period_s: float) -> None:
        """Look after the candidate every period until cancelled. No fault ends it: the server then picks another. After
        faults the pause doubles: a server without the gate does not know candidates at all."""
        pause_s = period_s
        while True:
            try:
                await self.look_after()
                pause_s = period_s
            except (ApiError, Unanswered, CredentialsError) as error:
                self._log.error("Ensuring lease failed", None, candidate=self._name.identity, err=error)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            await self._timing.sleep(pause_s)

    async def look_after(self) -> None:
        """Create the candidate if it is missing; renew it if the server asks, or if five minutes have passed.

        The server wrote the ping by its clock. A ping that is new counts even if it is older than our renewal, and the
        renewal is not older than the ping: otherwise a machine whose clock is wrong would never answer one.
        """
        now_s = self._timing.monotonic_s()
        found = await self._find()
        if found is None:
            self._log.v(2, "Creating lease candidate")
            await self._client.post(self._name.collection, new_candidate(self._name, self._now()))
        elif self._is_due(found, now_s):
            self._log.v(2, "Lease candidate exists. Renewing.")
            spec = {**(at(found, "spec") or {}), "renewTime": max(self._now(), _ping(found))}
            await self._client.put(self._name.path, {**found, "spec": spec})
            self._answered = _ping(found)
        else:
            return
        self._renewed_s = now_s

    def _is_due(self, found: JsonObject, now_s: float) -> bool:
        is_new = _ping(found) not in ("", self._answered)
        return is_new or is_pinged(found) or now_s >= self._renewed_s + RENEWED_AFTER_S

    async def _find(self) -> JsonObject | None:
        """Read the LeaseCandidate of this process; None if it does not exist."""
        try:
            found = await self._client.get(self._name.path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        if not isinstance(found, dict):
            raise Unanswered("the answer is no LeaseCandidate")
        return found

    def _now(self) -> str:
        return in_micros(self._wall.now_ns())
