"""What a candidate writes into the log, word for word in upstream's words, and the limits at which it changes its mind."""

from typing import Any, cast

import pytest

from electing import LEASE, a_candidate, a_lease, with_version
from mooring.kit.logs import Log
from mooring.serve.lease.leader_election import (
    Candidate,
    Create,
    Election,
    ElectionError,
    ElectionPause,
    ElectionTimes,
    Found,
    NoLease,
    Over,
    Read,
    Unfulfilled,
    Update,
)

LOCK = {"lock": "kube-system/kube-scheduler"}


class Notes:
    """Keeps each line with its verbosity; -1 is an error."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, dict[str, Any]]] = []

    def info(self, message: str, /, **keys: Any) -> None:
        self.lines.append((0, message, keys))

    def v(self, verbosity: int, message: str, /, **keys: Any) -> None:
        self.lines.append((verbosity, message, keys))

    def error(self, message: str, error: BaseException | None = None, /, **keys: Any) -> None:
        assert error is None
        self.lines.append((-1, message, keys))


def an_election() -> tuple[Election, Notes]:
    notes = Notes()
    return Election(a_candidate(), cast(Log, notes)), notes


def a_leader() -> tuple[Election, Notes]:
    election, notes = an_election()
    election.step(0)
    election.hear(0, NoLease())
    step = election.step(0)
    assert isinstance(step, Create)
    election.hear(0, Found(with_version(step.lease, "1")))
    return election, notes


# ---- notes


def test_a_lease_that_is_acquired_and_renewed_is_noted() -> None:
    election, notes = a_leader()
    assert notes.lines == [(0, "Successfully acquired lease", LOCK)]
    step = election.step(2)
    assert isinstance(step, Update)
    election.hear(2, Found(step.lease))
    assert notes.lines[1:] == [(5, "Successfully renewed lease", LOCK)]


def test_a_lease_of_another_is_noted_with_its_holder() -> None:
    election, notes = an_election()
    election.step(0)
    election.hear(0, Found(a_lease("b")))
    assert notes.lines == [(4, "Lease is held by and has not yet expired", {**LOCK, "holder": "b"})]


def test_failures_are_noted_with_their_reason() -> None:
    election, notes = an_election()
    election.step(0)
    election.hear(0, Unfulfilled("500"))
    election.step(9)
    election.hear(9, NoLease())
    election.step(9)
    election.hear(9, Unfulfilled("exists"))
    election.step(19)
    election.hear(19, Found(a_lease("")))
    election.step(19)
    election.hear(19, NoLease())
    assert notes.lines == [
        (-1, "Error retrieving lease lock", {**LOCK, "err": "500"}),
        (-1, "Error initially creating lease lock", {**LOCK, "err": "exists"}),
        (-1, "Failed to update lease", {**LOCK, "err": "the lease is gone"}),
    ]


def test_a_leader_notes_its_slow_path_and_its_end() -> None:
    election, notes = a_leader()
    election.step(2)
    election.hear(2, Unfulfilled("conflict"))
    assert notes.lines[1:] == [
        (2, "Failed to update lease optimistically, falling back to slow path", {**LOCK, "err": "conflict"})
    ]
    election.step(2)
    election.hear(2, Found(a_lease("b")))
    assert notes.lines[2:] == [(0, "Failed to renew lease", {**LOCK, "err": "another instance leads"})]


def test_a_leader_that_runs_out_of_time_notes_it() -> None:
    election, notes = a_leader()
    assert election.step(12) == Over("the lease could not be renewed in time")
    assert notes.lines[1:] == [(0, "Failed to renew lease", {**LOCK, "err": "the lease could not be renewed in time"})]


# ---- limits


def test_the_times_are_upstreams_unless_somebody_sets_them() -> None:
    times = ElectionTimes()
    assert (times.lease_duration_s, times.renew_deadline_s, times.retry_period_s) == (15, 10, 2)
    assert (times.written_s, times.request_s) == (15, 5)


def test_the_shortest_lease_is_one_second_and_a_request_may_always_take_one() -> None:
    times = ElectionTimes(1, 0.5, 0.1)
    assert (times.written_s, times.request_s) == (1, 1)
    assert ElectionTimes(2.9, 2.5, 0.1).written_s == 2, "whole seconds, and never more than are meant"
    assert ElectionTimes(2.9, 2.5, 0.1).request_s == 1.25


def test_nobody_can_stand_without_an_identity() -> None:
    with pytest.raises(ElectionError) as caught:
        Election(Candidate("", LEASE, ElectionTimes(), lambda: "", lambda: 0.0), cast(Log, Notes()))
    assert str(caught.value) == "Lock identity is empty"


def test_before_it_leads_a_candidate_knows_no_holder_and_no_end() -> None:
    election, _ = an_election()
    assert (election.holder, election.lease, election.ends_s) == ("", None, float("-inf"))
    assert not election.leads(-1e300)
    election.step(0)
    election.hear(0, Found(a_lease("b")))
    assert (election.holder, election.lease) == ("b", a_lease("b"))
    assert election.ends_s == float("-inf")


def test_a_leader_knows_when_it_ends_and_no_longer_does_when_it_has_lost() -> None:
    election, _ = a_leader()
    assert (election.holder, election.ends_s) == ("a", 12)
    assert election.leads(11.999) and not election.leads(12)
    assert election.step(11.999) != Over("the lease could not be renewed in time")
    election.hear(12, Unfulfilled("late"))
    assert isinstance(election.step(12), Over)
    assert election.ends_s == float("-inf")
    assert not election.leads(1)


def test_a_lease_of_another_is_taken_at_the_moment_at_which_it_runs_out() -> None:
    for now_s, is_taken in ((14.999, False), (15, True)):
        election, _ = an_election()
        election.step(0)
        election.hear(0, Found(a_lease("b")))
        election.step(10)
        election.hear(now_s, Found(a_lease("b")))
        assert isinstance(election.step(now_s), Update) is is_taken, now_s


def test_a_lease_that_is_seen_for_the_first_time_counts_from_then() -> None:
    """An empty record is what a candidate begins with; it does not count as having been seen."""
    election, _ = an_election()
    election.step(100)
    election.hear(100, Found({"metadata": {"name": "x"}, "spec": {}}))
    assert isinstance(election.step(100), Update), "nobody holds it"
    other, _ = an_election()
    other.step(100)
    other.hear(100, Found(a_lease("b", duration_s=1)))
    assert other.step(100) == ElectionPause(102)
    assert other.step(102) == Read()


def test_an_answer_that_comes_just_in_time_makes_a_leader() -> None:
    for now_s, leads in ((14.999, True), (15, False)):
        election, _ = an_election()
        election.step(0)
        election.hear(0, Found(a_lease("")))
        step = election.step(0)
        assert isinstance(step, Update)
        election.hear(now_s, Found(step.lease))
        assert election.leads(now_s) is leads
        assert election.holder == "a"


def test_a_leader_rests_no_longer_than_its_lease_lasts() -> None:
    """Answers that take as long as requests may: the next renewal would be due after the end."""
    times = ElectionTimes(3, 2.9, 2.4)
    notes = Notes()
    election = Election(Candidate("a", LEASE, times, lambda: "now", lambda: 0.0), cast(Log, notes))
    election.step(0)
    election.hear(0, NoLease())
    step = election.step(0)
    assert isinstance(step, Create)
    election.hear(1, Found(step.lease))
    assert election.step(1) == ElectionPause(3), "due at 3.4, but the lease of 0 ends at 3"


def test_a_slow_try_of_a_leader_is_followed_by_the_next_without_a_rest() -> None:
    election, _ = a_leader()
    election.step(2)
    election.hear(5, Unfulfilled("slow"))
    assert election.step(5) == Read()
    election.hear(7, Unfulfilled("slow"))
    assert isinstance(election.step(7), Update), "the period of this round, which began at 2, has passed"


def test_a_leader_whose_lease_was_emptied_takes_it_again() -> None:
    election, _ = a_leader()
    election.step(2)
    election.hear(2, Unfulfilled("conflict"))
    election.step(2)
    election.hear(2, Found(a_lease("")))
    step = election.step(2)
    assert isinstance(step, Update)
    assert step.lease["spec"]["leaseTransitions"] == 4
    assert election.leads(2)


def test_an_answer_after_the_end_changes_nothing() -> None:
    election, notes = a_leader()
    step = election.step(2)
    assert isinstance(step, Update)
    election.hear(30, Found(with_version(step.lease, "2")))
    assert election.step(30) == Over("the lease could not be renewed in time")
    assert election.lease is not None and election.lease["metadata"]["resourceVersion"] == "1"
    assert len(notes.lines) == 2
