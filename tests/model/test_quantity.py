"""Quantities against the worked examples and against exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.quantity import (
    MAX_AMOUNT,
    NANO,
    QuantityError,
    parse,
    parse_or,
    show_bytes,
    show_cpu,
    to_amount,
    to_int,
    to_milli,
    to_milli_amount,
)

SCALES = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Fraction(10) ** power for suffix, power in zip("kMGTPE", range(3, 19, 3), strict=True)},
    **{suffix: Fraction(2) ** power for suffix, power in zip(("Ki", "Mi", "Gi", "Ti"), (10, 20, 30, 40), strict=True)},
    "": Fraction(1),
}

MILLI_EXAMPLES = [
    pytest.param("0.1m", 1, id="less than a milli rounds up to one"),
    pytest.param("100.5m", 101, id="half a milli rounds up"),
    pytest.param("-0.1m", -1, id="negatives round away from zero"),
    pytest.param("2", 2000, id="a whole core is a thousand milli"),
    pytest.param("0", 0, id="zero stays zero"),
]

WHOLE_EXAMPLES = [
    pytest.param("1500m", 2, id="memory in milli rounds up to whole bytes"),
    pytest.param("0.1Ki", 103, id="a tenth of a Ki is 102.4 and rounds up"),
    pytest.param("1e3", 1000, id="a small e is a power of ten"),
    pytest.param("1E3", 1000, id="a capital E with digits is a power of ten"),
    pytest.param("1E", 10**18, id="a bare E is exa"),
    pytest.param("1.5Gi", 1610612736, id="fractions of binary units"),
    pytest.param("100Ei", 2**63 - 1, id="binary units are capped at the largest int64"),
    pytest.param("007", 7, id="leading zeros are ignored"),
    pytest.param(".5k", 500, id="no digit before the point"),
    pytest.param("1.", 1, id="no digit after the point"),
    pytest.param("1.G", 10**9, id="no digit between point and suffix"),
    pytest.param("+1", 1, id="an explicit plus"),
    pytest.param(" 12 ", 12, id="blanks around it are trimmed"),
    pytest.param("\xa012", 12, id="other blanks too"),
    pytest.param("+", 0, id="a sign alone"),
    pytest.param(".", 0, id="a point alone"),
    pytest.param("m", 0, id="a suffix alone"),
    pytest.param("-Ti", 0, id="a sign and a suffix"),
    pytest.param("e3", 0, id="an exponent alone"),
    pytest.param("1e+0000000000000000000000003", 1000, id="zeros before an exponent"),
    pytest.param(3, 3, id="a JSON integer"),
    pytest.param(0.5, 1, id="a JSON number with a fraction"),
    pytest.param("-1.5", -2, id="negatives round away from zero"),
]

REFUSED = [
    "",
    " ",
    "Pi",
    "+Ei",
    "e-10",
    ".e-10",
    "1K",
    "1ki",
    "1B",
    "1KB",
    "1Kib",
    "1 m",
    "1e",
    "1e3m",
    "1e3Ki",
    "1m3",
    "1ee3",
    "1e++3",
    "1E+",
    "1Ei3",
    "\n1",
    "\x1c1",
    "1\u00a0k",
    "1e9223372036854775808",
    "1e-9223372036854775809",
    "1e1.5",
    "2x",
    "0x10",
    "1_0",
    "--1",
]
REFUSED += [f"1e{'9' * 20}", f"1e-{'9' * 5000}", "nan", "inf", "١"]


@pytest.mark.parametrize(("text", "milli"), MILLI_EXAMPLES)
def test_milli_value(text: str, milli: int) -> None:
    assert to_milli(parse(text)) == milli


@pytest.mark.parametrize(("text", "whole"), WHOLE_EXAMPLES)
def test_value(text: str | float, whole: int) -> None:
    assert to_int(parse(text)) == whole


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


def test_refusal_is_worded_as_users_know_it() -> None:
    with pytest.raises(QuantityError) as refusal:
        parse("2x")
    assert str(refusal.value) == (
        "'2x': quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', e.g. 500m, 2, 1.5Gi"
    )


@given(st.sampled_from(["", "+", "-"]), st.integers(0, 10**7), st.integers(0, 10**11), st.sampled_from(sorted(SCALES)))
def test_parse_is_exact_to_nine_decimals(sign: str, whole: int, fraction: int, suffix: str) -> None:
    text = f"{sign}{whole}.{fraction}{suffix}"
    exact = Fraction(f"{whole}.{fraction}") * SCALES[suffix]
    if suffix.endswith("i"):
        exact = min(exact, Fraction(2**63 - 1))
    assert parse(text) == away_from_zero(exact * NANO * (-1 if sign == "-" else 1))


@given(st.integers(-(10**12), 10**12), st.integers(-9, 9))
def test_exponents_are_powers_of_ten(mantissa: int, exponent: int) -> None:
    assert parse(f"{mantissa}e{exponent}") == away_from_zero(Fraction(mantissa) * Fraction(10) ** exponent * NANO)


@given(st.integers(-(10**20), 10**20))
def test_units_round_away_from_zero(nano: int) -> None:
    assert to_int(nano) == away_from_zero(Fraction(nano, NANO))
    assert to_milli(nano) == away_from_zero(Fraction(nano, NANO // 1000))


def away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


@pytest.mark.parametrize(("milli", "text"), [(2000, "2"), (1500, "1500m"), (0, "0"), (1, "1m")])
def test_cpu_as_people_write_it(milli: int, text: str) -> None:
    assert show_cpu(milli) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1610612736, "1.5Gi"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1 << 20, "1Mi"),
        (5 << 50, "5Pi"),
        (1047527424, "999Mi"),
    ],
)
def test_bytes_as_people_write_them(count: int, text: str) -> None:
    assert show_bytes(count) == text


HUGE = 10**400
BOUNDS = {
    "1e400": HUGE,
    "1e999999999999": HUGE,
    "-1e999999999999": -HUGE,
    "1" * 5000: HUGE,
    "0." + "0" * 5000 + "1": 1,
    "1e-999999999999": 1,
    "-1e-400": -1,
    "0e999999999999": 0,
    "0" * 5000: 0,
    "0" * 5000 + "1": NANO,
    "1." + "0" * 5000: NANO,
    "1." + "0" * 5000 + "1": NANO + 1,
    "1e391": 10**400,
    "1e390": 10**399,
    "9" * 30 + "Ei": (2**63 - 1) * NANO,
}


@pytest.mark.parametrize(("text", "nano"), BOUNDS.items(), ids=[text[:24] for text in BOUNDS])
def test_numbers_of_any_length_are_read_and_bounded(text: str, nano: int) -> None:
    assert parse(text) == nano


@pytest.mark.parametrize(
    ("number", "nano"),
    [(10**5000, HUGE), (-(10**5000), -HUGE), (10**30, 10**39), (1e300, 10**309)],
    ids=["long", "long and negative", "int", "float"],
)
def test_numbers_of_json_may_have_any_size(number: float, nano: int) -> None:
    assert parse(number) == nano


@given(st.text("0123456789", min_size=1, max_size=900), st.integers(-900, 900))
def test_what_is_cut_off_a_long_number_is_rounded_away_from_zero(digits: str, exponent: int) -> None:
    exact = away_from_zero(Fraction(int(digits)) * Fraction(10) ** exponent * NANO)
    found = parse(f"{digits}e{exponent}")
    assert found == min(exact, HUGE) or (
        len(digits.lstrip("0")) > 400 and exact <= found <= exact * (1 + Fraction(1, 10**399))
    )


def test_long_texts_are_not_kept() -> None:
    """A cache of texts of a megabyte would be larger than the cluster."""
    assert parse("7" * 65) is not parse("7" * 65)
    assert parse("7" * 64) is parse("7" * 64)


AMOUNTS = {
    "what fits stays": ("1500m", 2, 1500),
    "nothing less than nothing": ("-5", 0, 0),
    "the largest amount": (str(MAX_AMOUNT), MAX_AMOUNT, MAX_AMOUNT),
    "one more than the largest": (str(MAX_AMOUNT + 1), MAX_AMOUNT, MAX_AMOUNT),
    "2^63": (str(1 << 63), MAX_AMOUNT, MAX_AMOUNT),
    "beyond every column": ("1e400", MAX_AMOUNT, MAX_AMOUNT),
    "far below zero": ("-1e400", 0, 0),
}


@pytest.mark.parametrize(("text", "whole", "milli"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_amounts_are_bounded(text: str, whole: int, milli: int) -> None:
    assert (to_amount(parse(text)), to_milli_amount(parse(text))) == (whole, milli)


def test_what_is_no_quantity_has_an_answer_where_one_is_needed() -> None:
    assert (parse_or("2x", 7), parse_or("2", 7)) == (7, 2 * NANO)
