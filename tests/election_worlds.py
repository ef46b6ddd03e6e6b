"""Instances that stand for a lease under whatever delays, losses, stalls and crashes, on virtual time."""

import heapq
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

from electing import LEASE, TIMES, version_of, with_version
from mooring.api.json_objects import JsonObject
from mooring.serve.lease.leader_election import (
    Ask,
    Candidate,
    Create,
    Election,
    ElectionPause,
    Found,
    Heard,
    NoLease,
    Over,
    Read,
    Unfulfilled,
    Update,
)


class LeaseServer(Protocol):
    """What a world needs of its API server."""

    def carry_out(self, ask: Ask) -> Heard: ...


@dataclass
class Server:
    """One lease with optimistic concurrency."""

    lease: JsonObject | None = None
    version: int = 0

    def carry_out(self, ask: Ask) -> Heard:
        match ask:
            case Read():
                return Found(deepcopy(self.lease)) if self.lease else NoLease()
            case Create(lease):
                return Unfulfilled("exists") if self.lease else self._store(lease)
            case Update(lease):
                is_current = self.lease and self.lease["metadata"]["resourceVersion"] == version_of(lease)
                return self._store(lease) if is_current else Unfulfilled("conflict")

    def _store(self, lease: JsonObject) -> Heard:
        self.version += 1
        self.lease = with_version(deepcopy(lease), str(self.version))
        return Found(deepcopy(self.lease))


@dataclass(frozen=True)
class Way:
    """What happens to one request. Delays are quarters of a second: sums of them are exact."""

    there: int
    back: int
    fate: str
    stall: int
    """How long this instance then sleeps, as a process that gets no processor does."""


QUARTERS = st.one_of(st.just(0), st.just(19), st.integers(0, 8), st.integers(0, 80))
"""19 is the slowest answer that is still waited for."""
WAYS = st.builds(
    Way,
    QUARTERS,
    QUARTERS,
    st.sampled_from(["answered", "answered", "answered", "never sent", "answer lost", "500"]),
    st.one_of(st.just(0), st.just(0), st.integers(0, 80)),
)
CHAOTIC = st.lists(WAYS, min_size=1, max_size=30)
STEADY = st.builds(lambda back: [Way(0, back, "answered", 0)], st.one_of(st.integers(0, 2), st.integers(15, 19)))
"""Always as slow: such a leader, once cut off, comes closest to leading too long."""


@dataclass
class Instance:
    election: Election
    offset_s: float
    """How far its clock is from that of the others."""
    ways: Any
    crashes_at_s: float
    cut_off_at_s: float = 1e9
    """From then on nothing that it sends arrives."""
    starts_at_s: float = 0.0
    is_dead: bool = False


class World:
    """`server` is where requests arrive; `now_s` is the time of the world."""

    def __init__(self, instances: list[Instance], server: LeaseServer | None = None) -> None:
        self.instances = instances
        self.server = server or Server()
        self.leaders: list[int] = []
        self.now_s = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (when_s, self._count, do))

    def run(self, until_s: float) -> None:
        for instance in self.instances:
            self.at(instance.starts_at_s, lambda instance=instance: self._drive(instance))  # type: ignore[misc]
        while self._queue and self._queue[0][0] <= until_s:
            self.now_s, _, do = heapq.heappop(self._queue)
            do()
            leading = [number for number, one in enumerate(self.instances) if self._leads(one)]
            assert len(leading) <= 1, f"at {self.now_s} s these lead: {leading}"
            if leading and leading != self.leaders[-1:]:
                self.leaders += leading

    def _leads(self, one: Instance) -> bool:
        return not one.is_dead and one.election.leads(self.now_s + one.offset_s)

    def _drive(self, one: Instance) -> None:
        if one.is_dead or self.now_s >= one.crashes_at_s:
            one.is_dead = True
            return
        step = one.election.step(self.now_s + one.offset_s)
        if isinstance(step, ElectionPause):
            self.at(step.until_s - one.offset_s, lambda: self._drive(one))
        elif not isinstance(step, Over):
            self._send(one, step, next(one.ways))

    def _send(self, one: Instance, ask: Ask, way: Way) -> None:
        """A request that is given up may still be carried out later."""
        limit_s = self.now_s + TIMES.request_s
        if one.election.leads(self.now_s + one.offset_s):
            limit_s = min(limit_s, one.election.ends_s - one.offset_s)
        is_waiting = [True]

        def answer(given: Heard) -> None:
            if is_waiting.pop() if is_waiting else False:
                self._heard(one, given, way.stall / 4)

        def arrive() -> None:
            given = Unfulfilled("500") if way.fate == "500" else self.server.carry_out(ask)
            if way.fate != "answer lost":
                self.at(self.now_s + way.back / 4, lambda: answer(given))

        self.at(limit_s, lambda: answer(Unfulfilled("too late")))
        if way.fate != "never sent" and self.now_s < one.cut_off_at_s:
            self.at(self.now_s + way.there / 4, arrive)

    def _heard(self, one: Instance, given: Heard, stall_s: float) -> None:
        """The stall may fall between the answer's arrival and its being read."""

        def go_on() -> None:
            if not one.is_dead:
                one.election.hear(self.now_s + one.offset_s, given)
                self._drive(one)

        self.at(self.now_s + stall_s, go_on)


def a_candidate_who_counts(identity: str, random: Callable[[], float]) -> Candidate:
    """Each of its writes differs from the one before, as the time of day does."""
    moments = iter(range(1_000_000))
    return Candidate(identity, LEASE, TIMES, lambda: f"{identity}{next(moments)}", random)
