"""Pods in flight and the events that they share, against a plain list of starts and events."""

import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from queue_rig import NODE_ADD, NODE_LABEL, a_pending

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import Change, ClusterEvent
from mooring.queue.entry import QueueCounters, QueuedPod, new_entry
from mooring.queue.hints import ObservedEvent
from mooring.queue.in_flight import InFlight

CLUSTER = Cluster()


def a_happening(event: ClusterEvent = NODE_ADD) -> ObservedEvent:
    return ObservedEvent(event, Change(None, None, CLUSTER), event.label)


def an_entry(name: str) -> QueuedPod:
    return new_entry(a_pending(name), 0)


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
        self.log: list[str | ObservedEvent] = []

    @rule(uid=uids)
    def start(self, uid: str) -> None:
        assert self.flights.start(new_entry(a_pending(uid, uid=uid), 0)) == (uid not in self.log)
        if uid not in self.log:
            self.log.append(uid)

    @rule(event=st.sampled_from([NODE_ADD, NODE_LABEL]))
    def record(self, event: ClusterEvent) -> None:
        observed = a_happening(event)
        self.flights.record(observed)
        if self.log:
            self.log.append(observed)

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


def disorder(flights: InFlight, counters: QueueCounters) -> None:
    flights.started["uid-a"] = flights.started.pop("uid-a")


def start_later(flights: InFlight, counters: QueueCounters) -> None:
    flights.started["uid-a"].start += 1


def mix_up_entries(flights: InFlight, counters: QueueCounters) -> None:
    flights.started["uid-a"].uid = "uid-b"


def keep_for_nobody(flights: InFlight, counters: QueueCounters) -> None:
    flights.started.clear()
    counters.flights_ended = counters.flights_begun


def miscount(flights: InFlight, counters: QueueCounters) -> None:
    counters.kept_events["NodeAdd"] += 3


FAULTS = {
    "out of order": (
        disorder,
        [
            "in flight: the pods are not in the order of their starts",
            "in flight: events before the oldest start are kept, or later ones forgotten",
        ],
    ),
    "not forgotten": (
        start_later,
        ["in flight: events before the oldest start are kept, or later ones forgotten"],
    ),
    "under another uid": (mix_up_entries, ["in flight: an entry is filed under another pod"]),
    "kept for nobody": (
        keep_for_nobody,
        [
            "in flight: events before the oldest start are kept, or later ones forgotten",
            "in flight: 1 events are kept, but no pod is in flight",
        ],
    ),
    "miscounted": (miscount, ["in flight: 6 events are counted, 3 are there"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    counters = QueueCounters()
    flights = InFlight(counters)
    flights.start(an_entry("a"))
    flights.record(a_happening())
    flights.start(an_entry("b"))
    assert flights.check() == []
    spoil(flights, counters)
    assert flights.check() == problems


def test_forgotten_events_are_cut_off_in_large_pieces() -> None:
    """One by one would move all that follow each time."""
    flights, events = InFlight(QueueCounters()), [a_happening() for _ in range(200)]
    references = sys.getrefcount(events[0])

    def count_kept() -> int:
        return sum(sys.getrefcount(events[i]) > references for i in range(200))

    for i, event in enumerate(events):
        flights.start(an_entry(f"p{i}"))
        flights.record(event)
    del event
    kept = []
    for i in range(199):
        flights.finish(f"uid-p{i}")
        kept.append(count_kept())
        assert flights.since_start("uid-p199") == events[-1:] and flights.check() == []
    assert sorted(set(kept), reverse=True) == [200, 100, 36]
    flights.finish("uid-p199")
    assert count_kept() == 0


def test_pods_in_flight_are_told_apart() -> None:
    flights = InFlight(QueueCounters())
    flights.start(one := an_entry("a"))
    flights.start(two := an_entry("b"))
    assert (len(flights), flights.uids()) == (2, ["uid-a", "uid-b"])
    assert ("uid-a" in flights, "uid-c" in flights) == (True, False)
    assert (flights.entry("uid-a"), flights.entry("uid-b"), flights.entry("uid-c")) == (one, two, None)
