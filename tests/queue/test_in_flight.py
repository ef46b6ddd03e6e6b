"""Pods in flight and the events that they share, against a plain list of starts and events."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from queue_rig import NODE_ADD, NODE_LABEL, a_pending

from mooring.cluster.cluster import Cluster
from mooring.framework.events import Change, ClusterEvent
from mooring.queue.counters import QueueCounters
from mooring.queue.entry import QueuedPod
from mooring.queue.hints import Happening
from mooring.queue.in_flight import InFlight

CLUSTER = Cluster()


def a_happening(event: ClusterEvent = NODE_ADD) -> Happening:
    return Happening(event, Change(None, None, CLUSTER), event.label)


def an_entry(name: str) -> QueuedPod:
    return QueuedPod(a_pending(name), 0)


def test_a_pod_gets_the_events_since_its_own_start() -> None:
    flights = InFlight(QueueCounters())
    first, second, third = a_happening(), a_happening(), a_happening()
    flights.start(an_entry("a"))
    flights.record(first)
    flights.start(an_entry("b"))
    flights.record(second)
    flights.finish("uid-a")
    flights.record(third)
    assert flights.since_start("uid-b") == [second, third]
    assert flights.since_start("uid-a") is None


def test_events_are_forgotten_with_the_last_pod_that_could_ask() -> None:
    counters = QueueCounters()
    flights = InFlight(counters)
    flights.start(an_entry("a"))
    flights.record(a_happening())
    flights.start(an_entry("b"))
    flights.record(a_happening(NODE_LABEL))
    assert +counters.in_flight_events == {"PodPopped": 2, "NodeAdd": 1, "NodeUpdateNodeLabel": 1}
    flights.finish("uid-a")
    assert +counters.in_flight_events == {"PodPopped": 1, "NodeUpdateNodeLabel": 1}
    flights.finish("uid-b")
    assert +counters.in_flight_events == {}
    assert flights.check() == []


def test_nothing_is_kept_while_nothing_is_in_flight() -> None:
    flights = InFlight(QueueCounters())
    flights.record(a_happening())
    flights.start(an_entry("a"))
    assert flights.since_start("uid-a") == []


def test_finishing_twice_does_nothing() -> None:
    flights = InFlight(QueueCounters())
    flights.start(an_entry("a"))
    flights.finish("uid-a")
    flights.finish("uid-a")
    flights.finish("never started")
    assert (len(flights), flights.check()) == (0, [])


def test_a_second_start_is_refused() -> None:
    flights = InFlight(QueueCounters())
    entry = an_entry("a")
    assert (flights.start(entry), flights.start(an_entry("a")), len(flights)) == (True, False, 1)
    assert (flights.entry("uid-a"), "uid-a" in flights, flights.uids()) == (entry, True, ["uid-a"])


class FlightMachine(RuleBasedStateMachine):
    """The shared list gives every pod what a list of starts and events would."""

    uids = st.integers(0, 5).map(str)

    def __init__(self) -> None:
        super().__init__()
        self.counters = QueueCounters()
        self.flights = InFlight(self.counters)
        self.flights.TRIM = 4
        self.log: list[str | Happening] = []

    @rule(uid=uids)
    def start(self, uid: str) -> None:
        assert self.flights.start(QueuedPod(a_pending(uid, uid=uid), 0)) == (uid not in self.log)
        if uid not in self.log:
            self.log.append(uid)

    @rule(event=st.sampled_from([NODE_ADD, NODE_LABEL]))
    def record(self, event: ClusterEvent) -> None:
        happening = a_happening(event)
        self.flights.record(happening)
        if self.log:
            self.log.append(happening)

    @rule(uid=uids)
    def finish(self, uid: str) -> None:
        self.flights.finish(uid)
        if uid in self.log:
            self.log.remove(uid)
        while self.log and not isinstance(self.log[0], str):
            self.log.pop(0)

    @invariant()
    def agrees(self) -> None:
        assert self.flights.check() == []
        assert self.flights.uids() == [item for item in self.log if isinstance(item, str)]
        for uid in self.flights.uids():
            after = self.log[self.log.index(uid) :]
            seen = self.flights.since_start(uid)
            expected = [item for item in after if not isinstance(item, str)]
            assert seen is not None
            assert [id(item) for item in seen] == [id(item) for item in expected]
        labels = ["PodPopped" if isinstance(item, str) else item.label for item in self.log]
        assert +self.counters.in_flight_events == {label: labels.count(label) for label in set(labels)}


TestFlightMachine = FlightMachine.TestCase
TestFlightMachine.settings = settings(stateful_step_count=60, deadline=None)
