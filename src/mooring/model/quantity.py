"""Exact Kubernetes quantities: a quantity is an integer number of nano-units (10^-9), never a float.

Quantities are exact, amounts are bounded: a column of the node table holds whole numbers from 0 to MAX_AMOUNT. Floats
would make sums depend on the order in which pods come and go.
"""

import math
import re
from functools import lru_cache
from typing import Any

from mooring.model.meta import MAX_INT64

NANO = 1_000_000_000
"""Nano-units in one unit: the finest scale of upstream's resource.Quantity."""
_MILLI = NANO // 1000
MAX_AMOUNT = 1 << 53
"""The largest amount of a resource that a column holds: 8 PiB of memory, nine trillion CPUs.

Up to here a float64 is exact, a share in percent fits an int64 (scores multiply by 100), and so does the sum over a
thousand pods. A node that has as much is compared in plain integers (`ResourceAmounts.huge_rows`): a column cannot tell
whether a pod fits there.
"""
_MAX_DIGITS = 400
"""How many decimal digits of nano-units are kept, far more than any use needs. A text of a few bytes may name a quantity
with a billion digits (1e999999999), which must not be computed."""
_MOST: int = 10**_MAX_DIGITS
MORE_THAN_ANY: int = 10 * _MOST
"""Nano-units: more than any quantity."""
_MAX_TEXT = 64
"""Longer texts are not cached: a cache of 65,536 texts of a megabyte would be larger than the cluster."""

BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_NUMBER = "unable to parse numeric part of quantity"
BAD_SUFFIX = "unable to parse quantity's suffix"
"""Parity: upstream's texts."""

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
"""Parity: upstream first splits a number from a suffix of these letters, whether or not there is such a suffix."""
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]+)")
_MAX_EXPONENT_DIGITS = 19
_INT64 = range(-(1 << 63), 1 << 63)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
"""The powers of ten and of two that suffixes stand for."""
_BLANKS = (
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Parity: Go's reader takes these off. Other blanks come escaped in JSON, so that it does not see them."""

QuantityText = str | int | float


class QuantityError(ValueError):
    """A text that is not a quantity; `fault` is the API server's text."""

    def __init__(self, text: object, fault: str = BAD_FORM) -> None:
        super().__init__(f"{text!r}: {fault}, e.g. 500m, 2, 1.5Gi")
        self.fault = fault


def parse(text: QuantityText) -> int:
    """The quantity in nano-units, rounded away from zero if it is finer. Raises QuantityError.

    | text    | nano-units          |
    | 1500m   | 1_500_000_000       |
    | 0.1Ki   | 102_400_000_000     |
    | 1e3     | 1_000_000_000_000   |
    | 1e-99   | 1                   |
    | 1e999   | 10**400             |
    """
    return _parse_any(text) if isinstance(text, str) and len(text) > _MAX_TEXT else _parse_cached(text)


def _parse_any(text: QuantityText) -> int:
    if isinstance(text, bool):
        raise QuantityError(text)
    return parse_untrimmed(_written(text).strip(_BLANKS))


def parse_untrimmed(text: str) -> int:
    """Parse a quantity as `parse` does, from a text without blanks around it: CEL does not strip blanks.

    Parity: a quantity with a binary suffix is capped at 2^63 - 1. A text without digits is 0, if upstream's quick way to read
    it serves for its suffix.
    """
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        raise QuantityError(text)
    sign, whole, fraction, suffix = found.groups(default="")
    doublings = _BINARY.get(suffix, 0)
    power = 0 if doublings else _power(text, suffix)
    if not (whole or fraction):
        if power < _DECIMAL["n"] or doublings > _BINARY["Ti"]:
            raise QuantityError(text, BAD_NUMBER)
        return 0
    magnitude = _scaled(whole + fraction, power + 9 - len(fraction), doublings)
    if doublings:
        magnitude = min(magnitude, MAX_INT64 * NANO)
    return -magnitude if sign == "-" else magnitude


def _power(text: str, suffix: str) -> int:
    """The power of ten that a suffix stands for. Parity: an exponent must fit 64 bits. Unlike upstream, all of them count and
    not 32 of them, so that a larger exponent is a larger number."""
    power = _DECIMAL.get(suffix)
    if power is not None:
        return power
    found = _EXPONENT.fullmatch(suffix)
    power = int(found[1] + found[2]) if found is not None and len(found[2]) <= _MAX_EXPONENT_DIGITS else None
    if power is None or power not in _INT64:
        raise QuantityError(text, BAD_SUFFIX)
    return power


_parse_cached = lru_cache(maxsize=65536)(_parse_any)
"""Hot: a cluster has few distinct quantities, and every pod and node repeats them."""


def _written(text: QuantityText) -> str:
    """A quantity as text. Python raises for the text of an integer of thousands of digits, so that it is cut here."""
    if isinstance(text, int) and not isinstance(text, bool) and abs(text) >= _MOST:
        return f"{'-' if text < 0 else ''}1e{_MAX_DIGITS}"
    return str(text)


def _scaled(digits: str, power: int, doublings: int = 0) -> int:
    """digits * 2^doublings * 10^power, rounded up, at most 10^_MAX_DIGITS. The time is linear in the length of the text."""
    digits = digits.lstrip("0")
    if not digits:
        return 0
    if len(digits) > _MAX_DIGITS:  # what is cut off matters only for rounding up: one digit stands for it
        power += len(digits) - _MAX_DIGITS - 1
        digits = digits[:_MAX_DIGITS] + ("1" if digits[_MAX_DIGITS:].strip("0") else "0")
    if len(digits) + power > _MAX_DIGITS:
        return _MOST
    if len(digits) + power < -_MAX_DIGITS:
        return 1
    number = int(digits) << doublings
    scale: int = 10 ** abs(power)
    return number * scale if power >= 0 else _ceil_div(number, scale)


def to_amount(nano: int) -> int:
    """Whole units from 0 to MAX_AMOUNT: how a column holds a resource."""
    return min(-(-nano // NANO), MAX_AMOUNT) if nano > 0 else 0


def to_milli_amount(nano: int) -> int:
    """Thousandths from 0 to MAX_AMOUNT: how a column holds cpu."""
    return min(-(-nano // _MILLI), MAX_AMOUNT) if nano > 0 else 0


def parse_or(text: QuantityText, otherwise: int) -> int:
    """As `parse`, with a value for a text that is not a quantity. A server rejects such a text, but the scheduler must
    not fail if a server does not."""
    try:
        return parse(text)
    except QuantityError:
        return otherwise


def amount_of(text: QuantityText, otherwise: int) -> int:
    """A quantity as a column holds it (`to_amount`); `otherwise`, in nano-units, is that of a text that is not a quantity."""
    if isinstance(text, str) and len(text) <= _MAX_TEXT:
        return _amount_cached(text, otherwise)
    return to_amount(parse_or(text, otherwise))


def milli_amount_of(text: QuantityText, otherwise: int) -> int:
    """A quantity as a column holds cpu (`to_milli_amount`)."""
    if isinstance(text, str) and len(text) <= _MAX_TEXT:
        return _milli_amount_cached(text, otherwise)
    return to_milli_amount(parse_or(text, otherwise))


@lru_cache(maxsize=16384)
def _amount_cached(text: str, otherwise: int) -> int:
    return to_amount(parse_or(text, otherwise))


@lru_cache(maxsize=16384)
def _milli_amount_cached(text: str, otherwise: int) -> int:
    return to_milli_amount(parse_or(text, otherwise))


def to_int(nano: int) -> int:
    """Whole units, rounded away from zero: what upstream calls Value()."""
    return _away_from_zero(nano, NANO)


def to_milli(nano: int) -> int:
    """Thousandths, rounded away from zero: what upstream calls MilliValue()."""
    return _away_from_zero(nano, _MILLI)


def _away_from_zero(nano: int, unit: int) -> int:
    return _ceil_div(nano, unit) if nano >= 0 else -_ceil_div(-nano, unit)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def round_up(amounts: dict[str, QuantityText] | None) -> None:
    """Round the quantities of a resource list up to whole thousandths, in place, as the API server does before it stores
    them. What is not a quantity stays: validation reports it."""
    for name, text in (amounts or {}).items():
        try:
            nano = parse(text)
        except QuantityError:
            continue
        if amounts is not None and nano % _MILLI:
            amounts[name] = f"{to_milli(nano)}m"


def show_cpu(milli: int) -> str:
    """Milli-CPU in the usual notation: 1500 -> 1500m, 2000 -> 2."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def show_bytes(count: int) -> str:
    """A byte count rounded to three significant digits with a binary suffix: 1610612736 -> 1.5Gi."""
    power = min(max(abs(count).bit_length() - 1, 0) // 10, 5)
    size = count / (1 << 10 * power)
    suffix = ("", "Ki", "Mi", "Gi", "Ti", "Pi")[power]
    return f"{size:.3g}{suffix}" if abs(size) < 1000 else f"{size:.0f}{suffix}"


def show_amount(resource: str, amount: int) -> str:
    """An amount of a resource, in the units of the node table, as people write it."""
    if resource == "cpu":
        return show_cpu(amount)
    return show_bytes(amount) if is_in_bytes(resource) else str(amount)


def show_percent(share: float | None, decimals: int = 1) -> str:
    """A share for people: 0.125 -> 12.5%, or 13% without decimals; a dash for None.

    Half of the last digit is rounded up, as in web/src/text/amounts.ts, so that a share is the same number in the terminal,
    in reports and in the dashboard. Use of one node has no decimals, sums and means have one.
    """
    if share is None or not math.isfinite(share):
        return "-"
    unit = 10**decimals
    return f"{math.floor(round(100 * share * unit, 6) + 0.5) / unit:.{decimals}f}%"


def is_in_bytes(resource: str) -> bool:
    """Whether amounts of the resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


# ---- quantities as the API server writes them back


_WRITTEN_BINARY = re.compile(r"[0-9.]+[KMGTPE]i")
"""A quantity in powers of two stays in powers of two."""
_WRITTEN_EXPONENT = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")
"""Parity: one with an exponent is written back as it came."""


def canonical(text: Any) -> Any:
    """The one way to write a quantity. What is no quantity stays as it is: validation refuses it.

    | text   | canonical |
    | 0.5    | 500m      |
    | 2000m  | 2         |
    | 1024Mi | 1Gi       |
    """
    if text is None:
        return "0"  # Parity: in a map of quantities null is one of nothing
    if isinstance(text, bool) or not isinstance(text, QuantityText):
        return text
    try:
        nano = parse(text)
    except ValueError:
        return text
    return text if isinstance(text, str) and _WRITTEN_EXPONENT.fullmatch(text) else written_like(nano, text)


def written_like(nano: int, other: QuantityText) -> str:
    """Nano-units as upstream writes them in the format of another quantity: in powers of two, in powers of ten, or with an
    exponent.

    | nano-units | other | written |
    | 4096 * 10^9 | 1Ki  | 4Ki     |
    | 4096 * 10^9 | 1    | 4096    |
    | 4000 * 10^9 | 1e3  | 4e3     |
    | 3 * 10^8   | 1Ki   | 300m    |
    """
    if isinstance(other, str) and _WRITTEN_EXPONENT.fullmatch(other):
        return _with_exponent(nano)
    if isinstance(other, str) and _WRITTEN_BINARY.fullmatch(other) and nano >= 1024 * NANO and nano % NANO == 0:
        return _scaled_binary(nano // NANO)
    return scaled_decimal(nano)


def shorter_text(nano: int) -> str:
    """An amount of which it is not known how it was written: in the shorter of the two forms."""
    decimal = scaled_decimal(nano)
    binary = _scaled_binary(nano // NANO) if nano >= 1024 * NANO and nano % NANO == 0 else decimal
    return min(decimal, binary, key=len)


def _scaled_binary(count: int) -> str:
    """A count with the largest binary suffix that leaves a whole number."""
    suffixes = ("", *_BINARY)
    power = 0
    while power < len(suffixes) - 1 and count % 1024 == 0:
        count, power = count // 1024, power + 1
    return f"{count}{suffixes[power]}"


def _with_exponent(nano: int) -> str:
    """Nano-units with the largest exponent that is a multiple of three and leaves a whole number."""
    power = -9
    while nano and nano % 1000 == 0:
        nano, power = nano // 1000, power + 3
    return f"{nano}e{power}" if nano and power else str(nano)


def scaled_decimal(nano: int) -> str:
    """Nano-units with the largest suffix that leaves a whole number."""
    suffixes = (*_DECIMAL,)
    power = 0
    while nano and power < len(suffixes) - 1 and nano % 1000 == 0:
        nano, power = nano // 1000, power + 1
    return f"{nano}{suffixes[power]}" if nano else "0"
