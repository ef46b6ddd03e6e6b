"""Leader election: the machine under every schedule of delays, the runner on virtual time, and two over real HTTP."""

import asyncio
import heapq
import logging
import selectors
from collections.abc import Callable, Coroutine
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_api import an_api
from mooring.api.client import ApiClient
from mooring.api.errors import ApiError, already_exists, conflict, internal_error, not_found
from mooring.api.reach import Access
from mooring.api.server.http import HttpServer
from mooring.api.throttle import Timing
from mooring.api.unanswered import ConnectionRefused
from mooring.app.leader_election import (
    Answer,
    Ask,
    Candidate,
    Create,
    Election,
    ElectionError,
    ElectionTimes,
    Failed,
    Found,
    Missing,
    Over,
    Read,
    Update,
    Wait,
)
from mooring.app.leader_elector import (
    Callbacks,
    ElectorSettings,
    LeaderElector,
    Outcome,
    Surroundings,
    elector_settings,
    lease_client,
    new_identity,
)
from mooring.app.lease_record import JsonObject, LeaseName, LeaseRecord, changed_lease
from mooring.framework.config import default as default_configuration
from mooring.framework.config.durations import Duration
from mooring.kit.clock import NS_PER_S, WallClock
from mooring.kit.logs import Log

T = TypeVar("T")

LEASE = LeaseName("kube-system", "kube-scheduler")
TIMES = ElectionTimes(15, 10, 2)
SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))


def a_candidate(identity: str = "a", random: Callable[[], float] = lambda: 0.0) -> Candidate:
    return Candidate(identity, LEASE, TIMES, lambda: "2026-11-15T07:17:46.000123Z", random)


def a_lease(holder: str, duration_s: int = 15, renew_time: str = "r", version: str = "7") -> JsonObject:
    spec = LeaseRecord(holder, duration_s, "acquired", renew_time, 3).spec()
    metadata = {"name": LEASE.name, "namespace": LEASE.namespace, "resourceVersion": version, "labels": {"kept": "yes"}}
    return {"metadata": metadata, "spec": spec}


def a_leader(at_s: float = 0.0) -> Election:
    """One that created its lease, and had the answer at this moment."""
    election = Election(a_candidate(), SILENT)
    assert election.step(at_s) == Read()
    election.hear(at_s, Missing())
    created = election.step(at_s)
    assert isinstance(created, Create)
    election.hear(at_s, Found(with_version(created.lease, "1")))
    assert election.leads(at_s)
    return election


def with_version(lease: JsonObject, version: str) -> JsonObject:
    return {**lease, "metadata": {**lease["metadata"], "resourceVersion": version}}


# ---- the machine


def test_a_lease_that_is_missing_is_created_as_upstream_writes_it() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, Missing())
    step = election.step(0)
    assert isinstance(step, Create)
    assert step.lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-15T07:17:46.000123Z",
            "renewTime": "2026-11-15T07:17:46.000123Z",
            "leaseTransitions": 0,
        },
    }


def test_a_free_lease_is_taken_at_once_and_counts_as_a_transition() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, Found(a_lease("")))
    step = election.step(0)
    assert isinstance(step, Update)
    assert step.lease["metadata"] == a_lease("")["metadata"]
    assert step.lease["spec"]["holderIdentity"] == "a"
    assert step.lease["spec"]["leaseTransitions"] == 4
    assert step.lease["spec"]["acquireTime"] == "2026-11-15T07:17:46.000123Z"


def test_another_holder_is_given_its_time_from_when_its_record_was_seen_to_change() -> None:
    """Whatever renewTime says: the record of a holder whose clock is years behind counts in full."""
    election = Election(a_candidate(), SILENT)
    for now_s, renew_time in ((0, "1970"), (10, "1970"), (14, "1971"), (28.5, "1971")):
        assert election.step(now_s) == Read()
        election.hear(now_s, Found(a_lease("b", renew_time=renew_time)))
        assert isinstance(election.step(now_s), Wait), now_s
    election.step(31)
    election.hear(31, Found(a_lease("b", renew_time="1971")))
    assert isinstance(election.step(31), Update)


def test_a_change_of_something_else_does_not_prolong_a_lease() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, Found(a_lease("b", version="7")))
    election.step(15)
    election.hear(15, Found(a_lease("b", version="8")))
    step = election.step(15)
    assert isinstance(step, Update)
    assert step.lease["metadata"]["resourceVersion"] == "8"


def test_candidates_wait_between_one_and_two_point_two_periods() -> None:
    for random, expected in ((0.0, 2.0), (0.5, 3.2), (0.999999, 4.4)):
        election = Election(a_candidate(random=lambda random=random: random), SILENT)  # type: ignore[misc]
        election.step(0)
        election.hear(0, Failed("500"))
        step = election.step(0)
        assert isinstance(step, Wait)
        assert step.until_s == pytest.approx(expected, abs=1e-4)


def test_a_leader_renews_each_period_without_reading_and_keeps_what_does_not_change() -> None:
    election = a_leader()
    assert election.step(0) == Wait(2)
    step = election.step(2)
    assert isinstance(step, Update)
    assert step.lease["metadata"]["resourceVersion"] == "1"
    assert step.lease["spec"]["leaseTransitions"] == 0
    election.hear(3, Found(with_version(step.lease, "2")))
    assert election.step(3) == Wait(5)
    assert election.leads(3)


def test_a_refused_renewal_is_tried_again_from_a_fresh_lease() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, Failed("conflict"))
    assert election.step(2) == Read()
    election.hear(2, Found(a_lease("a", version="9")))
    step = election.step(2)
    assert isinstance(step, Update)
    assert step.lease["metadata"]["resourceVersion"] == "9"
    assert step.lease["spec"]["acquireTime"] == "acquired"
    assert step.lease["spec"]["leaseTransitions"] == 3
    election.hear(2, Failed("conflict"))
    assert election.step(2) == Wait(4), "one slow try a round"


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, Failed("conflict"))
    election.step(2)
    election.hear(2.5, Found(a_lease("b")))
    assert election.step(2.5) == Over("another instance leads")
    assert not election.leads(2.5)


def test_a_leader_whose_lease_was_deleted_makes_a_new_one() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, Missing())
    assert election.step(2) == Read()
    election.hear(2, Missing())
    step = election.step(2)
    assert isinstance(step, Create)
    election.hear(2, Found(with_version(step.lease, "1")))
    assert election.leads(2)


def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    """Parity: renewing starts a period after the last success, and goes on for renewDeadline."""
    election = a_leader()
    now_s, tries = 2.0, 0
    while isinstance(step := election.step(now_s), (Read, Update, Wait)):
        if isinstance(step, Wait):
            now_s = step.until_s
        else:
            tries += 1
            election.hear(now_s, Failed("refused"))
    assert (now_s, tries, step) == (12, 10, Over("the lease could not be renewed in time"))
    assert election.step(99) == step, "it never leads again"


def test_a_slow_answer_counts_from_when_the_renewal_was_sent() -> None:
    """Or else another may take over while this one still leads: it waits 15 s from 2 on, not from 7 on."""
    election = a_leader()
    step = election.step(2)
    assert isinstance(step, Update)
    election.hear(7, Found(with_version(step.lease, "2")))
    assert election.leads(16.999)
    assert not election.leads(17)


def test_an_answer_that_comes_after_the_lease_is_over_makes_no_leader() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, Found(a_lease("")))
    step = election.step(0)
    assert isinstance(step, Update)
    election.hear(15, Found(step.lease))
    assert not election.leads(15)
    assert isinstance(election.step(15), Wait)


def test_a_lease_that_names_us_though_we_do_not_know_why_is_ours_once_renewed() -> None:
    """An acquisition whose answer was lost."""
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, Found(a_lease("a")))
    assert not election.leads(0)
    step = election.step(0)
    assert isinstance(step, Update)
    assert step.lease["spec"]["leaseTransitions"] == 3


def test_a_second_question_before_the_answer_is_a_bug() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    with pytest.raises(RuntimeError, match="still out"):
        election.step(1)
    election.hear(1, Failed("x"))
    with pytest.raises(RuntimeError, match="not asked"):
        election.hear(1, Failed("x"))


BAD_TIMES = {
    "leaseDuration must be greater than renewDeadline": (10, 10, 2),
    "renewDeadline must be greater than retryPeriod*JitterFactor": (15, 2.4, 2),
    "retryPeriod must be greater than zero": (15, 10, 0),
    "leaseDuration must be at least one second: a Lease counts in whole seconds": (0.9, 0.5, 0.1),
}


@pytest.mark.parametrize(("text", "times"), BAD_TIMES.items(), ids=BAD_TIMES)
def test_times_that_cannot_work(text: str, times: tuple[float, float, float]) -> None:
    with pytest.raises(ElectionError) as caught:
        ElectionTimes(*times)
    assert str(caught.value) == text


def test_the_configuration_is_taken_over_and_checked() -> None:
    config = default_configuration().leader_election
    assert elector_settings(config, "me", "s") == ElectorSettings("me", LEASE, TIMES, "s")
    config.lease_duration = Duration.of_seconds(5)
    with pytest.raises(ElectionError) as caught:
        elector_settings(config, "me", "s")
    assert str(caught.value) == "couldn't create leader elector: leaseDuration must be greater than renewDeadline"
    config.resource_lock = "endpoints"
    with pytest.raises(ElectionError) as caught:
        elector_settings(config, "me", "s")
    assert str(caught.value) == "couldn't create resource lock: endpoints lock is removed, migrate to leases"


def test_an_identity_is_the_host_and_something_unique() -> None:
    first, second = new_identity("host"), new_identity("host")
    assert first.startswith("host_")
    assert len(first) == len("host_") + 36
    assert first != second


# ---- the machine under every schedule


@dataclass
class Server:
    """One lease with optimistic concurrency."""

    lease: JsonObject | None = None
    version: int = 0

    def carry_out(self, ask: Ask) -> Answer:
        match ask:
            case Read():
                return Found(deepcopy(self.lease)) if self.lease else Missing()
            case Create(lease):
                return Failed("exists") if self.lease else self._store(lease)
            case Update(lease):
                is_current = self.lease and self.lease["metadata"]["resourceVersion"] == _version(lease)
                return self._store(lease) if is_current else Failed("conflict")

    def _store(self, lease: JsonObject) -> Answer:
        self.version += 1
        self.lease = with_version(deepcopy(lease), str(self.version))
        return Found(deepcopy(self.lease))


def _version(lease: JsonObject) -> str:
    return str(lease["metadata"]["resourceVersion"])


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
    def __init__(self, instances: list[Instance]) -> None:
        self.instances = instances
        self.server = Server()
        self.leaders: list[int] = []
        self._now_s = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (when_s, self._count, do))

    def run(self, until_s: float) -> None:
        for instance in self.instances:
            self.at(instance.starts_at_s, lambda instance=instance: self._drive(instance))  # type: ignore[misc]
        while self._queue and self._queue[0][0] <= until_s:
            self._now_s, _, do = heapq.heappop(self._queue)
            do()
            leading = [number for number, one in enumerate(self.instances) if self._leads(one)]
            assert len(leading) <= 1, f"at {self._now_s} s these lead: {leading}"
            if leading and leading != self.leaders[-1:]:
                self.leaders += leading

    def _leads(self, one: Instance) -> bool:
        return not one.is_dead and one.election.leads(self._now_s + one.offset_s)

    def _drive(self, one: Instance) -> None:
        if one.is_dead or self._now_s >= one.crashes_at_s:
            one.is_dead = True
            return
        step = one.election.step(self._now_s + one.offset_s)
        if isinstance(step, Wait):
            self.at(step.until_s - one.offset_s, lambda: self._drive(one))
        elif not isinstance(step, Over):
            self._send(one, step, next(one.ways))

    def _send(self, one: Instance, ask: Ask, way: Way) -> None:
        """A request that is given up may still be carried out later."""
        limit_s = self._now_s + TIMES.request_s
        if one.election.leads(self._now_s + one.offset_s):
            limit_s = min(limit_s, one.election.ends_s - one.offset_s)
        is_waiting = [True]

        def answer(given: Answer) -> None:
            if is_waiting.pop() if is_waiting else False:
                self._heard(one, given, way.stall / 4)

        def arrive() -> None:
            given = Failed("500") if way.fate == "500" else self.server.carry_out(ask)
            if way.fate != "answer lost":
                self.at(self._now_s + way.back / 4, lambda: answer(given))

        self.at(limit_s, lambda: answer(Failed("too late")))
        if way.fate != "never sent" and self._now_s < one.cut_off_at_s:
            self.at(self._now_s + way.there / 4, arrive)

    def _heard(self, one: Instance, given: Answer, stall_s: float) -> None:
        """The stall may fall between the answer's arrival and its being read."""

        def go_on() -> None:
            if not one.is_dead:
                one.election.hear(self._now_s + one.offset_s, given)
                self._drive(one)

        self.at(self._now_s + stall_s, go_on)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    instances = []
    for identity in "abc"[: draw(st.integers(2, 3))]:
        chance = cycle(draw(st.lists(st.sampled_from([0.0, 0.3125, 0.625]), min_size=1, max_size=4)))
        instances.append(
            Instance(
                Election(a_candidate_who_counts(identity, lambda chance=chance: next(chance)), SILENT),  # type: ignore[misc]
                float(draw(st.integers(-1000, 1000))),
                cycle(draw(st.one_of(CHAOTIC, STEADY))),
                float(draw(st.one_of(st.just(1e9), st.just(1e9), st.integers(0, 100)))),
                float(draw(st.one_of(st.just(1e9), st.integers(0, 30)))),
                draw(st.integers(0, 40)) / 4,
            )
        )
    return World(instances)


def a_candidate_who_counts(identity: str, random: Callable[[], float]) -> Candidate:
    """Each of its writes differs from the one before, as the time of day does."""
    moments = iter(range(1_000_000))
    return Candidate(identity, LEASE, TIMES, lambda: f"{identity}{next(moments)}", random)


@given(worlds())
@settings(max_examples=300)
def test_at_no_moment_do_two_lead(world: World) -> None:
    world.run(until_s=150)


def test_a_slow_leader_that_is_cut_off_stops_before_the_next_begins() -> None:
    """The narrowest case, looked at closely: each renewal is written at once, but its answer takes almost 5 s."""

    def an_instance(identity: str, back: int, cut_off_at_s: float, starts_at_s: float) -> Instance:
        election = Election(a_candidate_who_counts(identity, lambda: 0.0), SILENT)
        return Instance(election, 0.0, cycle([Way(0, back, "answered", 0)]), 1e9, cut_off_at_s, starts_at_s)

    for cut_off_s in range(10, 18):
        for start in range(8):
            world = World([an_instance("a", 19, cut_off_s, 0.0), an_instance("b", 0, 1e9, 9 + start / 4)])
            world.run(until_s=60)
            assert world.leaders == [0, 1]


@given(st.lists(QUARTERS.filter(lambda delay: delay < 8), min_size=1, max_size=10), st.integers(0, 100))
@settings(max_examples=50)
def test_while_answers_come_somebody_leads_soon_after_a_crash(delays: list[int], crash_s: int) -> None:
    def an_instance(identity: str, crashes_at_s: float) -> Instance:
        ways = cycle([Way(delay, 0, "answered", 0) for delay in delays])
        return Instance(Election(a_candidate_who_counts(identity, lambda: 0.625), SILENT), 0.0, ways, crashes_at_s)

    world = World([an_instance("a", float(crash_s)), an_instance("b", 1e9)])
    # To see the change, 15 s, one jittered period, and the requests of a round: up to 2 s each.
    world.run(until_s=crash_s + 2 + 15 + 4 + 10)
    assert world.leaders[-1] == 1


# ---- the runner on virtual time


class _Skipping(selectors.DefaultSelector):
    """Instead of waiting, time is moved on."""

    now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that never comes")
        self.now_s += 0 if ready else timeout or 0
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def on_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main())


def now_s() -> float:
    return asyncio.get_running_loop().time() - 1000.0


class Skewed:
    """A wall clock that is wrong."""

    def __init__(self, skew_s: float) -> None:
        self._skew_s = skew_s

    def now_ns(self) -> int:
        return round((1_800_000_000 + now_s() + self._skew_s) * NS_PER_S)


@dataclass
class FakeApi:
    """A lease and events. `faults` are met by requests in turn: a delay, an error, or None for an answer at once."""

    objects: dict[str, JsonObject] = field(default_factory=dict)
    faults: list[float | Exception | None] = field(default_factory=list)
    always: Exception | None = None
    asked: list[str] = field(default_factory=list)
    events: list[JsonObject] = field(default_factory=list)
    version: int = 0

    async def get(self, path: str, params: Any = None) -> Any:
        await self._meet("GET", params)
        if path not in self.objects:
            raise not_found("leases", LEASE.name, "coordination.k8s.io")
        return deepcopy(self.objects[path])

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        if path.endswith("/events"):
            self.events.append(body)
            return body
        await self._meet("POST", params)
        if LEASE.path in self.objects:
            raise already_exists("leases", LEASE.name, "coordination.k8s.io")
        return self._store(body)

    async def put(self, path: str, body: Any, params: Any = None) -> Any:
        await self._meet("PUT", params)
        if path not in self.objects:
            raise not_found("leases", LEASE.name, "coordination.k8s.io")
        if _version(body) != _version(self.objects[path]):
            raise conflict("leases", LEASE.name, group="coordination.k8s.io")
        return self._store(body)

    def _store(self, body: JsonObject) -> JsonObject:
        self.version += 1
        self.objects[LEASE.path] = with_version(deepcopy(body), str(self.version))
        return deepcopy(self.objects[LEASE.path])

    async def _meet(self, method: str, params: Any) -> None:
        self.asked.append(method)
        assert params == {"timeout": "5s"}
        fault = self.faults.pop(0) if self.faults else self.always
        if isinstance(fault, Exception):
            raise fault
        if fault:
            await asyncio.sleep(fault)

    def spec(self) -> JsonObject:
        spec: JsonObject = self.objects[LEASE.path]["spec"]
        return spec


@dataclass
class Contender:
    api: FakeApi
    identity: str
    skew_s: float = 0.0
    story: list[tuple[float, str]] = field(default_factory=list)
    status: list[bool] = field(default_factory=list)
    elector: LeaderElector = field(init=False)
    task: "asyncio.Task[Outcome]" = field(init=False)

    def __post_init__(self) -> None:
        timing = Timing(lambda: asyncio.get_running_loop().time(), asyncio.sleep)
        callbacks = Callbacks(lambda: self._note("leads"), lambda: self._note("stops"), self.status.append)
        around = Surroundings(timing, Skewed(self.skew_s), lambda: 0.5)
        settings = ElectorSettings(self.identity, LEASE, TIMES)
        self.elector = LeaderElector(self.api, settings, callbacks, SILENT, around, events=self.api)
        self.task = asyncio.ensure_future(self.elector.run())

    def _note(self, what: str) -> None:
        self.story.append((round(now_s(), 3), what))


def test_a_clean_stop_hands_over_within_about_a_period() -> None:
    async def main() -> None:
        api = FakeApi()
        first = Contender(api, "first")
        await asyncio.sleep(1)
        second = Contender(api, "second")
        await asyncio.sleep(20)
        assert (first.elector.is_leading(), second.elector.is_leading()) == (True, False)
        first.elector.stop()
        assert await first.task == "stopped"
        assert api.spec() | {"acquireTime": "", "renewTime": ""} == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "",
            "renewTime": "",
            "leaseTransitions": 0,
        }
        assert api.spec()["acquireTime"] == api.spec()["renewTime"] == "2027-01-15T08:00:21.000000Z"
        await asyncio.sleep(4.4)
        assert second.elector.is_leading()
        assert api.spec()["leaseTransitions"] == 1
        assert first.story == [(0, "leads"), (21, "stops")]
        assert first.status == [False, True, False]
        messages = [event["message"] for event in api.events]
        assert messages == ["first became leader", "first stopped leading", "second became leader"]
        second.elector.stop()
        await second.task

    on_virtual_time(main)


def test_a_crash_hands_over_after_the_lease_and_a_jittered_period() -> None:
    async def main() -> None:
        api = FakeApi()
        first, second = Contender(api, "first", skew_s=-86400), Contender(api, "second", skew_s=+86400)
        await asyncio.sleep(10.5)
        first.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.task
        assert first.story[-1] == (10.5, "stops")
        assert api.spec()["holderIdentity"] == "first"
        await asyncio.sleep(30)
        [(took_s, what)] = second.story
        assert what == "leads"
        assert 10 + 15 <= took_s <= 10 + 3.2 + 15 + 3.2, "the last renewal was at 10"
        second.elector.stop()
        await second.task

    on_virtual_time(main)


def test_errors_shorter_than_the_deadline_do_not_end_a_reign() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.always = internal_error("etcd")
        await asyncio.sleep(9)
        api.always = None
        await asyncio.sleep(20)
        assert only.story == [(0, "leads")]
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


UNUSABLE: dict[str, Exception] = {
    "500": internal_error("etcd"),
    "nobody listens": ConnectionRefused("cannot connect"),
    "forbidden": ApiError(403, "Forbidden", "no"),
}


@pytest.mark.parametrize("error", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_leader_that_cannot_renew_stops_and_has_lost(error: Exception) -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.always = error
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (12, "stops")]
        assert not only.elector.is_leading()

    on_virtual_time(main)


def test_a_server_that_hangs_does_not_make_a_leader_late() -> None:
    async def main() -> None:
        api = FakeApi(faults=[None, None, *[3600.0] * 20])
        only = Contender(api, "only")
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (12, "stops")]
        assert api.asked[:5] == ["GET", "POST", "PUT", "GET", "GET"], "5 s each; the last is to let go"

    on_virtual_time(main)


def test_a_lease_that_somebody_took_is_lost_at_once_and_left_alone() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        taken = changed_lease(api.objects[LEASE.path], LeaseRecord("thief", 15, "", "", 1))
        await api.put(LEASE.path, taken, {"timeout": "5s"})
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (2, "stops")]
        assert api.spec()["holderIdentity"] == "thief"

    on_virtual_time(main)


def test_a_conflict_by_an_edit_of_something_else_is_overcome_within_the_round() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        edited = api.objects[LEASE.path]
        edited["metadata"]["labels"] = {"by": "hand"}
        await api.put(LEASE.path, edited, {"timeout": "5s"})
        api.asked.clear()
        await asyncio.sleep(1.5)
        assert api.asked == ["PUT", "GET", "PUT"]
        assert api.objects[LEASE.path]["metadata"]["labels"] == {"by": "hand"}
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


def test_a_release_that_meets_a_conflict_looks_again() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.faults = [None, conflict("leases", LEASE.name), None, None]
        only.elector.stop()
        assert await only.task == "stopped"
        assert api.spec()["holderIdentity"] == ""

    on_virtual_time(main)


def test_who_stops_while_its_acquisition_is_under_way_lets_go_of_it() -> None:
    """The write was carried out although nobody waited for the answer."""

    async def main() -> None:
        api = FakeApi()

        async def slow_put(path: str, body: Any, params: Any = None) -> Any:
            api.put = FakeApi.put.__get__(api)  # type: ignore[method-assign]
            api._store(body)
            await asyncio.sleep(3)

        api._store({**a_lease("")})
        api.put = slow_put  # type: ignore[method-assign]
        only = Contender(api, "only")
        await asyncio.sleep(1)
        assert api.spec()["holderIdentity"] == "only"
        only.elector.stop()
        assert await only.task == "stopped"
        assert only.story == []
        assert api.spec()["holderIdentity"] == ""

    on_virtual_time(main)


def test_a_standby_that_stops_touches_nothing() -> None:
    async def main() -> None:
        api = FakeApi()
        api._store(a_lease("other"))
        standby = Contender(api, "standby")
        await asyncio.sleep(5)
        standby.elector.stop()
        assert await standby.task == "stopped"
        assert set(api.asked) == {"GET"}
        assert api.events == []

    on_virtual_time(main)


def test_an_answer_that_is_no_lease_is_a_failure_and_no_crash() -> None:
    async def main() -> None:
        api = FakeApi()
        api.objects[LEASE.path] = {"metadata": {"resourceVersion": "1"}, "spec": {"leaseDurationSeconds": "many"}}
        only = Contender(api, "only")
        await asyncio.sleep(10)
        assert only.story == []
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


# ---- over HTTP


def test_two_over_http_hand_over_when_the_first_lets_go() -> None:
    async def main() -> None:
        api = an_api()
        server = HttpServer(api)
        access = Access(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
        config = default_configuration()
        times = ElectionTimes(3, 1.5, 0.1)
        started: list[str] = []

        def an_elector(client: ApiClient, identity: str) -> LeaderElector:
            callbacks = Callbacks(lambda: started.append(identity), lambda: started.append(f"{identity} stops"))
            settings = ElectorSettings(identity, LEASE, times, "default-scheduler")
            return LeaderElector(client, settings, callbacks, SILENT, Surroundings(clock=WallClock()), client)

        async with lease_client(access, "mooring-tests", config.client_connection, times) as client:
            first, second = an_elector(client, "first"), an_elector(client, "second")
            running = [asyncio.ensure_future(first.run())]
            await _until(first.is_leading)
            running.append(asyncio.ensure_future(second.run()))
            await asyncio.sleep(0.3)
            assert not second.is_leading()
            first.stop()
            await _until(second.is_leading)
            lease = await client.get(LEASE.path)
            assert lease["spec"]["holderIdentity"] == "second"
            assert lease["spec"]["leaseTransitions"] == 1
            second.stop()
            assert await asyncio.gather(*running) == ["stopped", "stopped"]
            events = (await client.get("/api/v1/namespaces/kube-system/events"))["items"]
            assert {event["message"] for event in events} == {
                "first became leader", "first stopped leading", "second became leader", "second stopped leading",
            }  # fmt: skip
            assert {(event["reason"], event["source"]["component"], event["count"]) for event in events} == {
                ("LeaderElection", "default-scheduler", 1)
            }
        await server.stop()
        assert started == ["first", "first stops", "second", "second stops"]

    asyncio.run(main())


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.01)
