"""The ledger of claims: which version of a claim counts, and whose devices are taken."""

from counted_lines import lines_run
from device_building import DRIVER, a_claim, an_allocation
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import ResourceClaim
from mooring.model.quantity import parse

D0 = (DRIVER, "a", "d0")
GIVEN = {"allocation": an_allocation("a/d0")}


def version(number: int, is_given: bool = False, uid: str = "u") -> ResourceClaim:
    metadata = {"uid": uid, "resourceVersion": str(number)}
    return a_claim("c", metadata=metadata, status=GIVEN if is_given else {})


def a_ledger(*claims: ResourceClaim) -> tuple[ClaimLedger, dict[str, ResourceClaim]]:
    shown = {claim.key: claim for claim in claims}
    ledger = ClaimLedger(shown)
    for key in shown:
        ledger.changed(key)
    return ledger, shown


def test_what_was_written_counts_until_the_watch_catches_up() -> None:
    ledger, shown = a_ledger(version(1))
    assert ledger.wrote(version(3, is_given=True))
    assert D0 in ledger.exclusive
    shown["default/c"] = version(2)
    ledger.changed("default/c")
    assert D0 in ledger.exclusive, "the watch is behind"
    shown["default/c"] = version(4)
    ledger.changed("default/c")
    assert ledger.exclusive == {}
    assert not ledger.wrote(version(3, is_given=True)), "an answer that comes too late"
    assert ledger.check() == []


def test_what_was_written_of_a_claim_that_is_gone_does_not_count() -> None:
    ledger, shown = a_ledger(version(1))
    ledger.wrote(version(3, is_given=True))
    del shown["default/c"]
    ledger.changed("default/c")
    assert ledger.exclusive == {}
    assert not ledger.wrote(version(3, is_given=True))
    shown["default/c"] = version(5, uid="another")
    ledger.changed("default/c")
    assert not ledger.wrote(version(6, is_given=True))
    assert ledger.check() == []


def test_a_claim_counts_once_while_it_is_being_written() -> None:
    ledger, shown = a_ledger(version(1))
    ledger.begin(version(1, is_given=True))
    assert ledger.pending(version(1)) is not None
    shown["default/c"] = version(2, is_given=True)
    ledger.changed("default/c")
    assert ledger.exclusive == {D0: 1}
    assert ledger.end("u")
    assert ledger.exclusive == {D0: 1}
    assert not ledger.end("u")


def test_a_claim_in_doubt_stays_pending_until_all_is_settled() -> None:
    ledger, _ = a_ledger(version(1))
    ledger.begin(version(1, is_given=True))
    ledger.doubt("u")
    ledger.doubt("u")
    assert not ledger.end("u")
    ledger.settle("u")
    assert ledger.exclusive == {D0: 1}
    ledger.settle("u")
    assert ledger.exclusive == {}
    ledger.doubt("u")
    assert ledger.check() == [], "what is not pending is not in doubt"


def test_shares_add_up() -> None:
    shares = [
        a_claim(name, status={"allocation": an_allocation("a/d0", shareID=name, consumedCapacity={"memory": "1Gi"})})
        for name in ("c", "d")
    ]
    ledger, shown = a_ledger(*shares)
    assert ledger.shares == {D0: 2}
    assert ledger.consumed[D0].amounts == {"memory": parse("2Gi")}
    del shown["default/c"]
    ledger.changed("default/c")
    assert ledger.consumed[D0].amounts == {"memory": parse("1Gi")}
    del shown["default/d"]
    ledger.changed("default/d")
    assert (ledger.shares, ledger.consumed, ledger.exclusive) == ({}, {}, {})


def test_admin_access_takes_nothing() -> None:
    ledger, _ = a_ledger(a_claim("c", status={"allocation": an_allocation("a/d0", adminAccess=True)}))
    assert ledger.exclusive == {}


def test_a_reservation_that_is_given_back() -> None:
    ledger, _ = a_ledger(version(1, is_given=True))
    answered = ledger.give_back(version(1), "pod")
    assert ledger.is_given_back(version(1), "pod")
    assert not ledger.is_given_back(version(1), "other")
    answered(version(2, is_given=True))
    assert not ledger.is_given_back(version(1), "pod")
    assert ledger.get("default/c") == version(2, is_given=True)


def test_answers_may_come_in_another_order_than_the_writes_were_carried_out() -> None:
    ledger, _ = a_ledger(version(1))
    assert ledger.wrote(version(3))
    assert ledger.wrote(version(2, is_given=True))
    assert ledger.exclusive == {}, "the devices were given back after they were given"
    known = ledger.get("default/c")
    assert known is not None and known.metadata.resource_version == "3"


def test_an_allocation_that_is_shared_stays_pending_until_the_last_pod_has_left() -> None:
    ledger, _ = a_ledger(version(1))
    assert not ledger.share("u", "p0"), "it is not pending"
    ledger.begin(version(1, is_given=True))
    assert ledger.share("u", "p0")
    assert ledger.share("u", "p1")
    assert ledger.sharers("u") == ["p0", "p1"]
    assert not ledger.end("u")
    assert not ledger.leave("u", "p0")
    assert not ledger.leave("u", "p0"), "a pod leaves once"
    assert ledger.exclusive == {D0: 1}
    assert ledger.check() == []
    assert ledger.leave("u", "p1")
    assert ledger.exclusive == {}


def test_an_answer_that_was_awaited_does_not_take_the_allocation_from_the_other_pods() -> None:
    ledger, _ = a_ledger(version(1))
    ledger.begin(version(1, is_given=True))
    ledger.share("u", "p0")
    ledger.share("u", "p1")
    ledger.doubt("u")
    ledger.leave("u", "p0")
    ledger.settle("u")
    assert ledger.exclusive == {D0: 1}
    assert ledger.end_for_all("u")
    assert ledger.exclusive == {}
    assert ledger.check() == []


def test_another_view_of_the_claims_learns_who_shares_what() -> None:
    ledger, shown = a_ledger(version(1))
    ledger.begin(version(1, is_given=True))
    ledger.share("u", "p0")
    other = ClaimLedger(shown)
    other.adopt(ledger)
    assert other.sharers("u") == ["p0"]
    other.leave("u", "p0")
    assert ledger.sharers("u") == ["p0"]


# ---- claims by their controller


def owned(name: str, uid: str | None, controller: bool = True, version: int = 1) -> ResourceClaim:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller}
    owners = [] if uid is None else [owner]
    return a_claim(name, metadata={"resourceVersion": str(version), "ownerReferences": owners})


def names_of(ledger: ClaimLedger, uid: str) -> list[str]:
    assert ledger.check() == []
    return [claim.name for claim in ledger.owned_by(uid)]


def test_claims_are_found_by_their_controller() -> None:
    ledger, shown = a_ledger(owned("b", "p1"), owned("a", "p1"), owned("c", "p2"), owned("d", None))
    assert (names_of(ledger, "p1"), names_of(ledger, "p2"), names_of(ledger, "p3")) == (["a", "b"], ["c"], [])
    for claim in (owned("a", "p2"), owned("b", "p1", controller=False)):
        shown[claim.key] = claim
        ledger.changed(claim.key)
    del shown["default/c"]
    ledger.changed("default/c")
    assert (names_of(ledger, "p1"), names_of(ledger, "p2")) == ([], ["a"])


def test_the_controller_of_a_claim_is_the_one_that_was_written_last() -> None:
    ledger, shown = a_ledger(owned("a", None))
    assert ledger.wrote(owned("a", "p1", version=2))
    assert names_of(ledger, "p1") == ["a"]
    other = ClaimLedger(shown)
    other.changed("default/a")
    other.adopt(ledger)
    assert names_of(other, "p1") == ["a"]


def test_one_owner_is_looked_up_without_the_claims_of_others() -> None:
    few, many = (a_ledger(*(owned(f"c{i}", f"p{i}") for i in range(size)))[0] for size in (10, 500))
    assert lines_run(lambda: few.owned_by("p7")) == lines_run(lambda: many.owned_by("p7"))
