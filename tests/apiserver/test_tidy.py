"""Objects as a server writes them back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.admission.admit import tidy
from mooring.model.quantity import canonical, parse

ROWS = {
    "a fraction": ("0.5", "500m"),
    "a plain number": (2, "2"),
    "a number with a fraction": (1.5, "1500m"),
    "thousandths that are whole": ("2000m", "2"),
    "thousands": ("1000000", "1M"),
    "a binary suffix that can be larger": ("1024Mi", "1Gi"),
    "a binary suffix that cannot": ("1500Mi", "1500Mi"),
    "a small binary amount": ("0.5Ki", "512"),
    "an exponent stays": ("1e3", "1e3"),
    "nothing": ("0Gi", "0"),
    "what is no quantity stays": ("abc", "abc"),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_a_quantity_has_one_form(text: object, expected: str) -> None:
    assert canonical(text) == expected


@given(st.integers(0, 10**12), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi", "e2"]))
def test_the_canonical_form_is_the_same_amount_and_its_own_canonical_form(count: int, suffix: str) -> None:
    written = canonical(f"{count}{suffix}")
    assert parse(written) == parse(f"{count}{suffix}")
    assert canonical(written) == written


def test_what_says_nothing_is_left_out_and_empty_objects_stay() -> None:
    written: dict[str, object] = {
        "spec": {"a": None, "taints": [], "nodeSelector": {}, "emptyDir": {}, "lastProbeTime": None, "l": [None]}
    }
    assert tidy(written) == {"spec": {"emptyDir": {}, "lastProbeTime": None, "l": [{}]}}


def test_what_is_opaque_is_left_alone() -> None:
    written: dict[str, object] = {"data": {"a": "1024Mi", "b": None}, "allocatable": {"count": 5}}
    assert tidy(written) == written
