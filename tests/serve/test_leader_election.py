"""The machine of leader election, one answer at a time."""

import pytest

from electing import LEASE, SILENT, TIMES, a_candidate, a_lease, with_version
from mooring.framework.config import default as default_configuration
from mooring.framework.config.durations import Duration
from mooring.serve.lease.leader_election import (
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
from mooring.serve.lease.leader_elector import ElectorSettings, elector_settings, new_identity


def a_leader(at_s: float = 0.0) -> Election:
    """One that created its lease, and had the answer at this moment."""
    election = Election(a_candidate(), SILENT)
    assert election.step(at_s) == Read()
    election.hear(at_s, NoLease())
    created = election.step(at_s)
    assert isinstance(created, Create)
    election.hear(at_s, Found(with_version(created.lease, "1")))
    assert election.leads(at_s)
    return election


def test_a_lease_that_is_missing_is_created_as_upstream_writes_it() -> None:
    election = Election(a_candidate(), SILENT)
    election.step(0)
    election.hear(0, NoLease())
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
        assert isinstance(election.step(now_s), ElectionPause), now_s
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
        election.hear(0, Unfulfilled("500"))
        step = election.step(0)
        assert isinstance(step, ElectionPause)
        assert step.until_s == pytest.approx(expected, abs=1e-4)


def test_a_leader_renews_each_period_without_reading_and_keeps_what_does_not_change() -> None:
    election = a_leader()
    assert election.step(0) == ElectionPause(2)
    step = election.step(2)
    assert isinstance(step, Update)
    assert step.lease["metadata"]["resourceVersion"] == "1"
    assert step.lease["spec"]["leaseTransitions"] == 0
    election.hear(3, Found(with_version(step.lease, "2")))
    assert election.step(3) == ElectionPause(5)
    assert election.leads(3)


def test_a_refused_renewal_is_tried_again_from_a_fresh_lease() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, Unfulfilled("conflict"))
    assert election.step(2) == Read()
    election.hear(2, Found(a_lease("a", version="9")))
    step = election.step(2)
    assert isinstance(step, Update)
    assert step.lease["metadata"]["resourceVersion"] == "9"
    assert step.lease["spec"]["acquireTime"] == "acquired"
    assert step.lease["spec"]["leaseTransitions"] == 3
    election.hear(2, Unfulfilled("conflict"))
    assert election.step(2) == ElectionPause(4), "one slow try a round"


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, Unfulfilled("conflict"))
    election.step(2)
    election.hear(2.5, Found(a_lease("b")))
    assert election.step(2.5) == Over("another instance leads")
    assert not election.leads(2.5)


def test_a_leader_whose_lease_was_deleted_makes_a_new_one() -> None:
    election = a_leader()
    election.step(2)
    election.hear(2, NoLease())
    assert election.step(2) == Read()
    election.hear(2, NoLease())
    step = election.step(2)
    assert isinstance(step, Create)
    election.hear(2, Found(with_version(step.lease, "1")))
    assert election.leads(2)


def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    """Parity: renewing starts a period after the last success, and goes on for renewDeadline."""
    election = a_leader()
    now_s, tries = 2.0, 0
    while isinstance(step := election.step(now_s), (Read, Update, ElectionPause)):
        if isinstance(step, ElectionPause):
            now_s = step.until_s
        else:
            tries += 1
            election.hear(now_s, Unfulfilled("refused"))
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
    assert isinstance(election.step(15), ElectionPause)


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
    with pytest.raises(RuntimeError, match="^the last request is still open$"):
        election.step(1)
    election.hear(1, Unfulfilled("x"))
    with pytest.raises(RuntimeError, match="^an answer came to a question that was not asked$"):
        election.hear(1, Unfulfilled("x"))


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


def test_an_identity_is_the_host_and_something_unique() -> None:
    first, second = new_identity("host"), new_identity("host")
    assert first.startswith("host_")
    assert len(first) == len("host_") + 36
    assert first != second
