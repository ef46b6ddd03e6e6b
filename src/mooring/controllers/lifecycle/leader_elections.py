"""Coordinated leader election: picks the holders of leases from their LeaseCandidates.

Upstream's leader election controller of kube-apiserver. It compares times that instances write with its own clock; this
one counts from when it saw a write, so that an instance whose clock is wrong does not lose its lease.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.api.json_objects import JsonObject, at
from mooring.api.kinds.nodes import LEASE_CANDIDATE as CANDIDATES
from mooring.api.kinds.nodes import NO_VERSION, OLDEST_EMULATION, Version, version_of
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import LEASES
from mooring.controllers.control_loop import Controller
from mooring.kit.clock import NS_PER_S, in_micros, moment_ns

GATE = "CoordinatedLeaderElection"

# Upstream's times.
LOOK_NS = 5 * NS_PER_S
"""A lease with candidates is looked at this often: nothing is written when it expires."""
ELECTION_NS = 5 * NS_PER_S
"""How long candidates have to answer a ping, and how long an answer counts."""
ASSIGNED_S = 5
"""The duration of a lease that was assigned, until its holder renews it with its own."""
VALID_NS = 1800 * NS_PER_S
"""A candidate that does not renew is deleted after this, and pinged after half of it."""


@dataclass(slots=True)
class _Standing:
    """One candidate of a lease."""

    key: Key
    emulation: Version
    binary: Version
    strategy: str
    created: str
    renewed_ns: int
    """When its renewTime was seen to change."""
    pinged_ns: int = 0
    """When it was last asked to renew; 0: never."""

    def rank(self) -> tuple[Version, Version, str, Key]:
        """The lowest is elected: the oldest emulation version, then the oldest binary, then the first candidate."""
        return self.emulation, self.binary, self.created, self.key

    def is_silent(self) -> bool:
        """Whether it has not answered the last ping."""
        return self.renewed_ns < self.pinged_ns


class LeaderElections(Controller):
    """Keys are leases that have candidates."""

    name = "leader-election"

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        # Hot: nodes renew their leases all the time; without the gate no write of one comes here.
        self.storages: Sequence[str] = (CANDIDATES.storage, LEASES.storage) if api.is_on(GATE) else ()
        self._standing: dict[Key, dict[Key, _Standing]] = {}
        """By lease: its candidates."""
        self._changed_ns: dict[Key, int] = {}
        """By lease that has candidates: when it was seen to be assigned or renewed."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Keys of the leases that an election may have to decide about after a write. The time of the last renewal of each
        lease is noted here."""
        if write.storage == CANDIDATES.storage:
            return self._candidate_changed(write)
        if write.key not in self._standing:
            return ()
        if write.type == "DELETED":
            self._changed_ns.pop(write.key, None)
        elif write.before is None or _renewal(write.before) != _renewal(write.object):
            self._changed_ns[write.key] = self._api.clock.now_ns()
        return (write.key,)

    def _candidate_changed(self, write: StoreWrite) -> Iterable[Key]:
        """Add, update or remove a LeaseCandidate. Returns the key of its lease, or nothing while the candidate has not
        answered the last ping."""
        spec, key = write.object["spec"], write.key
        lease = key[0], spec["leaseName"]
        held = self._standing.setdefault(lease, {})
        if write.type == "DELETED":
            held.pop(key, None)
            if not held:
                del self._standing[lease]
                self._changed_ns.pop(lease, None)
            return (lease,)
        held[key] = self._standing_of(write, held.get(key))
        return () if held[key].is_silent() else (lease,)

    def _standing_of(self, write: StoreWrite, old: _Standing | None) -> _Standing:
        """A renewal counts from when it is seen. A candidate that is new may be old already: then its own time counts."""
        spec, renewed_ns = write.object["spec"], self._api.clock.now_ns()
        written = spec.get("renewTime")
        if old is None:
            renewed_ns = min(renewed_ns, moment_ns(written)) if written else 0
        elif written == at(write.before or {}, "spec.renewTime"):
            renewed_ns = old.renewed_ns
        return _Standing(
            write.key,
            version_of(spec.get("emulationVersion")) or NO_VERSION,
            version_of(spec["binaryVersion"]) or NO_VERSION,
            spec["strategy"],
            write.object["metadata"]["creationTimestamp"],
            renewed_ns,
            0 if old is None else old.pinged_ns,
        )

    # ---- elections

    def sync(self, key: Key) -> int | None:
        """One step of an election: nothing, pings, or a holder. Raises ApiError after a conflict: the loop tries again."""
        now_ns = self._api.clock.now_ns()
        self._changed_ns.setdefault(key, now_ns)
        self._drop_expired(key, now_ns)
        candidates = [*self._standing.get(key, {}).values()]
        if not candidates:
            return None
        if self._is_needed(key, candidates, now_ns) and not self._wait_for_answers(candidates, now_ns):
            answered = [each for each in candidates if each.renewed_ns + ELECTION_NS > now_ns]
            strategy = _best_strategy(answered)
            if strategy:
                self._assign(key, strategy, min(answered, key=_Standing.rank).key[1], now_ns)
        return now_ns + LOOK_NS

    def _drop_expired(self, key: Key, now_ns: int) -> None:
        expired = [each.key for each in self._standing.get(key, {}).values() if each.renewed_ns + VALID_NS < now_ns]
        for namespace, name in expired:
            self._api.delete(CANDIDATES, namespace, name)

    def _is_needed(self, key: Key, candidates: Sequence[_Standing], now_ns: int) -> bool:
        """Whether the lease has no holder, or not the best one, or nothing was heard of a candidate for long."""
        lease = self._api.find(LEASES, *key)
        if lease is None or not at(lease, "spec.holderIdentity") or self._is_expired(key, lease, now_ns):
            return True
        if any(each.renewed_ns + VALID_NS // 2 < now_ns for each in candidates):
            return True
        is_best = min(candidates, key=_Standing.rank).key[1] == lease["spec"]["holderIdentity"]
        return _best_strategy(candidates) == OLDEST_EMULATION and not is_best

    def _is_expired(self, key: Key, lease: JsonObject, now_ns: int) -> bool:
        duration_s = at(lease, "spec.leaseDurationSeconds", 0)
        return not at(lease, "spec.renewTime") or self._changed_ns[key] + duration_s * NS_PER_S < now_ns

    def _wait_for_answers(self, candidates: Iterable[_Standing], now_ns: int) -> bool:
        """Ping the candidates of which nothing was heard lately. Returns whether there is an answer to wait for."""
        waits = False
        for each in candidates:
            is_open = each.pinged_ns + ELECTION_NS > now_ns
            if is_open and each.is_silent():
                waits = True
            elif each.renewed_ns + ELECTION_NS > now_ns or each.is_silent() or is_open:
                continue  # it has answered, or it did not in time and is not asked again until it renews
            else:
                self._ping(each, now_ns)
                waits = True
        return waits

    def _ping(self, candidate: _Standing, now_ns: int) -> None:
        candidate.pinged_ns = now_ns
        text = in_micros(now_ns)
        self._api.change(CANDIDATES, *candidate.key, lambda held: {**held, "spec": {**held["spec"], "pingTime": text}})

    def _assign(self, key: Key, strategy: str, electee: str, now_ns: int) -> None:
        """Make the electee the holder of a lease that is free; tell the holder of another one that its term is over. With
        a strategy of others, only the lease and its strategy are ours to write."""
        fresh = {"leaseDurationSeconds": ASSIGNED_S, "renewTime": in_micros(now_ns), "strategy": strategy}
        is_ours = strategy == OLDEST_EMULATION
        if is_ours:
            fresh["holderIdentity"] = electee
        lease = self._api.find(LEASES, *key)
        if lease is None:
            metadata = {"name": key[1], "namespace": key[0]}
            self._api.create(LEASES, key[0], {"metadata": metadata, "spec": fresh})
            return
        spec = {**(lease.get("spec") or {}), "strategy": strategy}
        if is_ours and (not spec.get("holderIdentity") or self._is_expired(key, lease, now_ns)):
            spec = {
                name: value for name, value in spec.items() if name not in ("preferredHolder", "acquireTime")
            } | fresh
        elif is_ours and spec["holderIdentity"] != electee:
            spec["preferredHolder"] = electee
        if spec != lease.get("spec"):
            self._api.change(LEASES, *key, lambda held: {**lease, "spec": spec})


def _renewal(lease: JsonObject) -> tuple[object, object]:
    """The parts of a lease that change when it is assigned or renewed, and not when its term is marked as over."""
    return at(lease, "spec.holderIdentity"), at(lease, "spec.renewTime")


def _best_strategy(candidates: Iterable[_Standing]) -> str:
    """The strategy of the newest binary; empty where binaries of one version do not agree, or there is no candidate."""
    best, strategies = NO_VERSION, {""}
    for each in candidates:
        if each.binary > best:
            best, strategies = each.binary, {each.strategy}
        elif each.binary == best:
            strategies.add(each.strategy)
    return next(iter(strategies)) if len(strategies) == 1 else ""


CONTROLLERS = (LeaderElections,)
