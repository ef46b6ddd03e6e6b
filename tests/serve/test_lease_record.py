"""The record in a lease: read leniently, written in full, and everything else of the object left as it was."""

import pytest

from mooring.serve.lease.lease_record import LeaseName, LeaseRecord, changed_lease, new_lease

NAME = LeaseName("kube-system", "kube-scheduler")
RECORD = LeaseRecord("me", 15, "acquired", "renewed", 3)
SPEC = {
    "holderIdentity": "me",
    "leaseDurationSeconds": 15,
    "acquireTime": "acquired",
    "renewTime": "renewed",
    "leaseTransitions": 3,
}


def test_a_lease_is_named_and_found() -> None:
    assert str(NAME) == "kube-system/kube-scheduler"
    assert NAME.collection == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert NAME.path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {}}, {"spec": dict.fromkeys(SPEC)}])
def test_what_a_lease_does_not_say_is_empty(lease: dict[str, object]) -> None:
    assert LeaseRecord.of(lease) == LeaseRecord() == LeaseRecord("", 0, "", "", 0)


def test_a_record_is_read_as_it_was_written() -> None:
    assert RECORD.spec() == SPEC
    assert LeaseRecord.of({"spec": SPEC, "metadata": {}}) == RECORD


@pytest.mark.parametrize("lease", [None, [], "lease", {"spec": 1}, {"spec": {"leaseDurationSeconds": "many"}}])
def test_what_is_no_lease_is_an_error(lease: object) -> None:
    with pytest.raises(ValueError):
        LeaseRecord.of(lease)


def test_a_new_lease_has_a_name_and_a_record() -> None:
    assert new_lease(NAME, RECORD) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": SPEC,
    }


def test_a_changed_lease_keeps_all_but_its_record() -> None:
    read = {"metadata": {"resourceVersion": "7", "labels": {"a": "b"}}, "spec": {"holderIdentity": "you"}, "more": 1}
    assert changed_lease(read, RECORD) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"resourceVersion": "7", "labels": {"a": "b"}},
        "spec": SPEC,
        "more": 1,
    }
    assert read["spec"] == {"holderIdentity": "you"}, "what was read stays as it was"
