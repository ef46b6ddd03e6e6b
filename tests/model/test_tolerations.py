"""When a toleration covers a taint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.node import HARD_EFFECTS, Taint, Tolerance, covers, tolerates_hard
from mooring.model.pod_spec import Toleration

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")

ROWS = [
    pytest.param(Toleration(key="gpu", operator="Exists"), True, id="Exists asks for the key only"),
    pytest.param(Toleration(key="gpu", operator="Equal", value="a100"), True, id="Equal asks for the value"),
    pytest.param(Toleration(key="gpu", value="a100"), True, id="no operator means Equal"),
    pytest.param(Toleration(key="gpu", value="h100"), False, id="Equal with another value"),
    pytest.param(Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True, id="the same effect"),
    pytest.param(Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="another effect"),
    pytest.param(Toleration(operator="Exists"), True, id="no key and Exists covers everything"),
    pytest.param(Toleration(value="a100"), True, id="no key and Equal compares the value alone"),
    pytest.param(Toleration(key="fpga", operator="Exists"), False, id="another key"),
    pytest.param(Toleration(key="gpu", operator="Gt", value="1"), False, id="Gt never matches"),
    pytest.param(Toleration(key="gpu", operator="Lt", value="1"), False, id="Lt never matches"),
    pytest.param(Toleration(key="gpu", operator="Nope", value="a100"), False, id="an unknown operator never matches"),
]


@pytest.mark.parametrize(("toleration", "is_covered"), ROWS)
def test_one_toleration_and_one_taint(toleration: Toleration, is_covered: bool) -> None:
    assert covers(toleration, GPU) is is_covered
    assert Tolerance([Toleration(key="other", operator="Exists"), toleration]).covers(GPU) is is_covered


def test_no_toleration_tolerates_nothing() -> None:
    assert not Tolerance([]).covers(GPU)


def test_only_hard_effects_keep_pods_away() -> None:
    soft = Taint(key="spot", effect="PreferNoSchedule")
    unknown = Taint(key="odd", effect="Sometimes")
    evicting = Taint(key="down", effect="NoExecute")
    assert tolerates_hard([], [soft, unknown])
    assert not tolerates_hard([], [soft, evicting])
    assert not tolerates_hard([Toleration(key="gpu", operator="Exists")], [GPU, evicting])
    assert tolerates_hard([Toleration(operator="Exists")], [GPU, evicting])


COMPARED = [
    ("Gt", "3", "5", True),
    ("Gt", "5", "5", False),
    ("Lt", "5", "3", True),
    ("Lt", "5", "5", False),
    ("Lt", "-2", "-3", True),
    ("Lt", "9223372036854775807", "-9223372036854775808", True),
    ("Gt", "0", "9223372036854775808", False),
    ("Lt", "9223372036854775808", "0", False),
    ("Gt", "3", "+5", False),
    ("Gt", "3", "05", False),
    ("Gt", "-1", "-0", False),
    ("Gt", "3", " 5", False),
    ("Gt", "3", "5_0", False),
    ("Gt", "3", "٥", False),
    ("Gt", "", "5", False),
    ("Gt", "3", "", False),
    ("Gt", "3", "9" * 100_000, False),
]


@pytest.mark.parametrize(("operator", "limit", "value", "is_covered"), COMPARED)
def test_numbers_are_compared_where_the_gate_is_on(operator: str, limit: str, value: str, is_covered: bool) -> None:
    toleration, taint = Toleration(key="level", operator=operator, value=limit), Taint(key="level", value=value)
    assert covers(toleration, taint, compares=True) is is_covered
    assert Tolerance([toleration]).covers(taint, compares=True) is is_covered
    assert not covers(toleration, taint)
    assert not Tolerance([toleration]).covers(taint)


TEXTS = st.sampled_from(("", "a", "b", "1", "2", "3"))
EFFECTS = st.sampled_from(("", "NoSchedule", "NoExecute", "PreferNoSchedule"))
TOLERATIONS = st.builds(
    Toleration, key=TEXTS, operator=st.sampled_from(("", "Equal", "Exists", "Lt", "Gt")), value=TEXTS, effect=EFFECTS
)
TAINTS = st.builds(Taint, key=TEXTS, value=TEXTS, effect=EFFECTS)


@given(st.lists(TOLERATIONS, max_size=4), st.lists(TAINTS, max_size=4), st.booleans())
def test_looking_up_comes_to_the_same_as_going_through_them(
    tolerations: list[Toleration], taints: list[Taint], compares: bool
) -> None:
    tolerance = Tolerance(tolerations)
    plain = [any(covers(toleration, taint, compares) for toleration in tolerations) for taint in taints]
    assert [tolerance.covers(taint, compares) for taint in taints] == plain
    hard = [is_covered for taint, is_covered in zip(taints, plain, strict=True) if taint.effect in HARD_EFFECTS]
    assert tolerance.covers_hard(taints, compares) is all(hard)
