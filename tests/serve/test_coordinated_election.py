"""Coordinated leader election: the API server picks the leader, and an instance only renews what was assigned to it."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_api import an_api
from electing import LEASE, SILENT, TIMES, a_lease
from election_worlds import CHAOTIC, STEADY, Instance, Way, World
from how_many import examples
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.nodes import LEASE as LEASES
from mooring.api.kinds.nodes import LEASE_CANDIDATE
from mooring.controllers.control_loop import ControlLoop
from mooring.controllers.lifecycle.leader_elections import LeaderElections
from mooring.kit.clock import NS_PER_S, VirtualClock, in_micros
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
from mooring.serve.lease.lease_record import CandidateName, is_pinged, new_candidate

GATES = {"CoordinatedLeaderElection": True}


def an_election(identity: str = "a") -> Election:
    return Election(Candidate(identity, LEASE, TIMES, lambda: "now", lambda: 0.0, is_coordinated=True), SILENT)


def assigned(holder: str, **spec: Any) -> JsonObject:
    lease = a_lease(holder, duration_s=5)
    return {**lease, "spec": {**lease["spec"], "strategy": "OldestEmulationVersion", **spec}}


def a_leader() -> Election:
    """It read at 0 s that it was assigned, and renewed."""
    election = an_election()
    assert isinstance(election.step(0.0), Read)
    election.hear(0.0, Found(assigned("a")))
    asked = election.step(0.0)
    assert isinstance(asked, Update)
    election.hear(0.0, Found(asked.lease))
    assert election.leads(0.0)
    return election


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(NoLease(), id="there is no lease"),
        pytest.param(Found(assigned("")), id="nobody holds it"),
        pytest.param(Found(assigned("b")), id="another holds it"),
        pytest.param(Found(assigned("a", preferredHolder="b")), id="another is preferred"),
        pytest.param(Unfulfilled("500"), id="the server fails"),
    ],
)
def test_no_lease_is_taken_that_was_not_assigned(answer: Heard) -> None:
    election = an_election()
    for moment in range(0, 100, 2):
        assert isinstance(election.step(float(moment)), Read)
        election.hear(float(moment), answer)
        assert election.step(float(moment)) == ElectionPause(moment + 2.0)
        assert not election.leads(float(moment))


def test_an_assigned_lease_is_renewed_with_our_duration_and_its_strategy() -> None:
    election = an_election()
    election.step(0.0)
    election.hear(0.0, Found(assigned("a", acquireTime=None)))
    asked = election.step(0.0)
    assert isinstance(asked, Update)
    assert asked.lease["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "now",
        "renewTime": "now",
        "leaseTransitions": 3,
        "strategy": "OldestEmulationVersion",
    }


def test_an_assignment_that_is_over_is_not_renewed() -> None:
    election = an_election()
    election.step(0.0)
    election.hear(0.0, Unfulfilled("500"))
    election.step(2.0)
    election.hear(2.0, Found(assigned("b")))
    election.step(4.0)
    election.hear(4.0, Found(assigned("a")))
    update = election.step(4.0)
    election.hear(4.0, Unfulfilled("500"))
    assert isinstance(update, Update)
    assert isinstance(election.step(10.0), Read)
    election.hear(10.0, Found(assigned("a")))  # as it was at 4 s: five seconds are over
    assert isinstance(election.step(10.0), ElectionPause)


def test_a_leader_reads_before_it_renews() -> None:
    assert isinstance(a_leader().step(2.0), Read)


def test_a_leader_whose_term_ends_lets_the_lease_expire() -> None:
    election = a_leader()
    stopped = None
    for quarter in range(8, 100):
        moment = quarter / 4
        step = election.step(moment)
        if isinstance(step, Over):
            stopped = moment
            break
        if isinstance(step, Read):
            election.hear(moment, Found(assigned("a", preferredHolder="b", leaseDurationSeconds=15)))
        assert not isinstance(step, Update)
    assert stopped is not None and stopped <= 15.0


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    election = a_leader()
    election.step(2.0)
    election.hear(2.0, Found(assigned("b")))
    assert election.step(2.0) == Over("another instance leads")


# ---- instances, and the controller that picks among them


class CoordinatingServer:
    """A real API with the controller of elections, at the time of a world. Candidates of living instances answer pings."""

    def __init__(self) -> None:
        self._clock = VirtualClock(1_800_000_000 * NS_PER_S)
        self._api = an_api(self._clock, gates=GATES)
        self._loop = ControlLoop(self._api, [LeaderElections(self._api)], _raise)
        self.world: World | None = None
        self.transitions: list[str] = []

    def stand(self, identity: str, emulation: str) -> None:
        made = new_candidate(CandidateName(LEASE, identity), self._now())
        made["spec"] |= {"emulationVersion": emulation}
        self._api.create(LEASE_CANDIDATE, LEASE.namespace, made)

    def tick(self) -> None:
        """Every half second: candidates answer, and the controller does what is due."""
        world = self._keep_time()
        for number, instance in enumerate(world.instances):
            found = self._api.find(LEASE_CANDIDATE, LEASE.namespace, "abc"[number])
            is_alive = not instance.is_dead and world.now_s < min(instance.crashes_at_s, instance.cut_off_at_s)
            if found is not None and is_alive and is_pinged(found):
                renewed = {**found, "spec": {**found["spec"], "renewTime": self._now()}}
                self._api.change(LEASE_CANDIDATE, LEASE.namespace, "abc"[number], partial(_replaced, renewed))
        self._loop.step()
        world.at(world.now_s + 0.5, self.tick)

    def carry_out(self, ask: Ask) -> Heard:
        self._keep_time()
        try:
            return Found(self._carry_out(ask))
        except ApiError as error:
            return NoLease() if error.code == 404 else Unfulfilled(error.message)
        finally:
            self._loop.step()

    def _carry_out(self, ask: Ask) -> JsonObject:
        match ask:
            case Read():
                return self._api.get(LEASES, LEASE.namespace, LEASE.name)
            case Create(lease):
                return self._api.create(LEASES, LEASE.namespace, lease)
            case Update(lease):
                return self._api.change(LEASES, LEASE.namespace, LEASE.name, lambda held: lease)

    def _keep_time(self) -> World:
        assert self.world is not None
        behind_ns = round((1_800_000_000 + self.world.now_s) * NS_PER_S) - self._clock.now_ns()
        self._clock.advance_ns(behind_ns)
        return self.world

    def _now(self) -> str:
        return in_micros(self._clock.now_ns())


def _replaced(new: JsonObject, held: JsonObject) -> JsonObject:
    return new


def _raise(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


def an_instance(identity: str, random: Callable[[], float], *rest: Any, is_coordinated: bool = True) -> Instance:
    """Each of its writes differs from the one before, as the time of day does."""
    now = (f"2026-01-01T00:00:00.{number:06}Z" for number in range(1_000_000))
    candidate = Candidate(identity, LEASE, TIMES, lambda: next(now), random, is_coordinated)
    return Instance(Election(candidate, SILENT), *rest)


def coordinated(instances: list[Instance], emulations: list[str]) -> World:
    """Instances without an emulation version have no candidate."""
    server = CoordinatingServer()
    world = server.world = World(instances, server)
    for identity, emulation in zip("abc", emulations, strict=False):
        if emulation:
            server.stand(identity, emulation)
    world.at(0.0, server.tick)
    return world


@st.composite
def stands(draw: st.DrawFn, versions: tuple[str, ...]) -> tuple[list[Instance], list[str]]:
    """Instances, and the emulation versions of their candidates; one without a version is not coordinated."""
    instances, emulations = [], []
    for identity in "abc"[: draw(st.integers(2, 3))]:
        emulation = draw(st.sampled_from(versions))
        chance = cycle(draw(st.lists(st.sampled_from([0.0, 0.3125, 0.625]), min_size=1, max_size=4)))
        instances.append(
            an_instance(
                identity,
                partial(next, chance),
                float(draw(st.integers(-1000, 1000))),
                cycle(draw(st.one_of(CHAOTIC, STEADY))),
                float(draw(st.one_of(st.just(1e9), st.just(1e9), st.integers(0, 100)))),
                float(draw(st.one_of(st.just(1e9), st.integers(0, 30)))),
                draw(st.integers(0, 40)) / 4,
                is_coordinated=bool(emulation),
            )
        )
        emulations.append(emulation)
    return instances, emulations


@given(stands(("1.35.0", "1.36.0")))
@settings(max_examples=examples(100), deadline=None)
def test_at_no_moment_do_two_lead_whom_the_server_picks(stands: tuple[list[Instance], list[str]]) -> None:
    coordinated(*stands).run(until_s=100)


@given(stands(("", "1.36.0")))
@settings(max_examples=examples(100), deadline=None)
def test_at_no_moment_do_two_lead_while_some_take_leases_themselves(stands: tuple[list[Instance], list[str]]) -> None:
    """As during an upgrade."""
    coordinated(*stands).run(until_s=100)


def a_prompt_instance(identity: str, crashes_at_s: float = 1e9) -> Instance:
    return an_instance(identity, lambda: 0.0, 0.0, cycle([Way(0, 0, "answered", 0)]), crashes_at_s)


def test_the_oldest_emulation_version_leads() -> None:
    world = coordinated([a_prompt_instance("a"), a_prompt_instance("b")], ["1.36.0", "1.35.0"])
    world.run(until_s=60)
    assert world.leaders == [1]


def test_after_a_crash_the_other_leads() -> None:
    world = coordinated([a_prompt_instance("a", 30.0), a_prompt_instance("b")], ["1.35.0", "1.36.0"])
    world.run(until_s=80)
    assert world.leaders == [0, 1]
