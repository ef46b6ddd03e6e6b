"""Reservations that are on their way out: the pod that gives one back, and the pods beside it."""

from test_dynamic_resources_binding import a_late, a_pod_with, claim_in, pending, pod_in, wait

from device_building import a_claim
from late_claims import LateClaims
from mooring.framework.contract.intents import Bind, Write


def a_failed_binding() -> LateClaims:
    """The claim is reserved for the pod, the bind failed, and the reservation is about to be given back."""
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.settle(lambda: bool(late.wanted) and isinstance(late.wanted[0], Bind))
    late.carry_out(refuse=True)
    late.settle(lambda: bool(late.wanted))
    return late


def attempts_for(late: LateClaims, seconds: int) -> None:
    """Time passes and pods are tried, and no write gets to the server."""
    for _ in range(seconds):
        late.second()
        while late.attempt() is not None:
            pass


def test_a_pod_that_is_tried_again_waits_until_its_reservation_is_given_back() -> None:
    late = a_failed_binding()
    (patch,) = late.wanted
    attempts_for(late, 3)
    assert late.wanted == [patch], "the pod is bound only with a reservation that stays"
    late.carry_out()
    assert not claim_in(late).status.reserved_for
    late.settle()
    wait(late, 3)
    assert pod_in(late).spec.node_name == "a"
    assert [user.uid for user in claim_in(late).status.reserved_for or ()] == ["pod-p"]
    assert pending(late) == set()


def test_a_claim_is_read_after_an_answer_that_is_not_to_be_relied_on() -> None:
    late = a_failed_binding()
    late.carry_out(lose=True)
    late.answer()
    (question,) = late.wanted
    assert isinstance(question, Write)
    assert (question.method, question.name, question.body, question.subresource) == ("PATCH", "c", {}, "")
    attempts_for(late, 3)
    assert late.wanted == [question]
    late.settle()
    wait(late, 3)
    assert [user.uid for user in claim_in(late).status.reserved_for or ()] == ["pod-p"]
