"""Shares are rounded by one rule. web/test/text.test.ts reads the same cases for the rule of the dashboard."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.quantity import show_percent

CASES = json.loads((Path(__file__).parent / "percents.json").read_text())


@pytest.mark.parametrize(("share", "whole", "tenths"), CASES)
def test_half_of_the_last_digit_is_rounded_up(share: float, whole: str, tenths: str) -> None:
    assert (show_percent(share, decimals=0), show_percent(share)) == (whole, tenths)


def test_a_share_that_is_not_known_is_a_dash() -> None:
    assert show_percent(None) == show_percent(float("nan")) == "-"


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_the_map_of_the_dashboard_shows_the_whole_percent_of_the_command(requested: int, allocatable: int) -> None:
    """The stream has half percents, rounded down; a half percent more than a whole one is shown as the next whole one."""
    requested = min(requested, allocatable)
    exact = Fraction(100 * requested, allocatable)
    half_up = (exact + Fraction(1, 2)).__floor__()
    assert show_percent(requested / allocatable, decimals=0) == f"{half_up}%"
    step = 200 * requested // allocatable
    assert show_percent(step / 200, decimals=0) == f"{half_up}%"
