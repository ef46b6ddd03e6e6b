"""Exact Kubernetes quantities: a quantity is an integer count of nano-units (10^-9), never a float."""

import re
from functools import lru_cache

NANO = 1_000_000_000
_MAX_INT64 = (1 << 63) - 1

_SYNTAX = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, None: 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

QuantityText = str | int | float


class QuantityError(ValueError):
    """Not a quantity; the text is the one users know from the API server."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r}: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', e.g. 500m, 2, 1.5Gi"
        )


@lru_cache(maxsize=65536)
def parse(text: QuantityText) -> int:
    """The quantity in nano-units, rounded away from zero where it is finer than that.

    | text    | nano-units          |
    | 1500m   | 1_500_000_000       |
    | 0.1Ki   | 102_400_000_000     |
    | 1e3     | 1_000_000_000_000   |
    """
    found = _SYNTAX.fullmatch(str(text).strip()) if not isinstance(text, bool) else None
    if found is None or not (found[2] or found[3]):
        raise QuantityError(text)
    sign, whole, fraction, suffix, exponent = found.groups()
    fraction = fraction or ""
    digits = int((whole + fraction) or "0")
    if suffix in _BINARY:
        magnitude = _ceil_div((digits << _BINARY[suffix]) * NANO, 10 ** len(fraction))
        magnitude = min(magnitude, _MAX_INT64 * NANO)
    else:
        power = (int(exponent) if exponent is not None else _DECIMAL[suffix]) + 9 - len(fraction)
        if abs(power) > 400:
            raise QuantityError(text)
        magnitude = digits * 10**power if power >= 0 else _ceil_div(digits, 10**-power)
    return -magnitude if sign == "-" else magnitude


def to_int(nano: int) -> int:
    """Whole units, rounded away from zero: what upstream calls Value()."""
    return _away_from_zero(nano, NANO)


def to_milli(nano: int) -> int:
    """Thousandths, rounded away from zero: what upstream calls MilliValue()."""
    return _away_from_zero(nano, NANO // 1000)


def _away_from_zero(nano: int, unit: int) -> int:
    return _ceil_div(nano, unit) if nano >= 0 else -_ceil_div(-nano, unit)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def show_cpu(milli: int) -> str:
    """Milli-CPU as people write it: 1500 -> 1500m, 2000 -> 2."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def show_bytes(count: int) -> str:
    """A byte count rounded to three significant digits with a binary suffix: 1610612736 -> 1.5Gi."""
    power = min(max(abs(count).bit_length() - 1, 0) // 10, 5)
    size = count / (1 << 10 * power)
    suffix = ("", "Ki", "Mi", "Gi", "Ti", "Pi")[power]
    return f"{size:.3g}{suffix}" if abs(size) < 1000 else f"{size:.0f}{suffix}"
