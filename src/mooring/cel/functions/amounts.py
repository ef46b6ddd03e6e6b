"""Quantities and semantic versions as values of CEL.

Upstream: apiserver's cel/library/quantity.go and semverlib.go, with the messages of Go's parsers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from mooring.cel.library import Overload, member, plain, succeeds
from mooring.cel.values import MAX_INT64, MAX_UINT64, Extension, Fault, Type
from mooring.model.quantity import NANO, QuantityError, parse_untrimmed

QUANTITY, SEMVER = Type("kubernetes.Quantity"), Type("kubernetes.Semver")
MAX_DIGITS = 1000
"""How many digits of a number in a pre-release are compared as a number; Python raises for more than 4,300."""
_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")


@dataclass(frozen=True, slots=True)
class Quantity(Extension):
    """A quantity, exact in nano-units."""

    nano: int
    type: ClassVar[Type] = QUANTITY

    def order(self) -> int:
        return self.nano


@dataclass(frozen=True, slots=True)
class Semver(Extension):
    """A semantic version. Build metadata is left out, because it does not count in comparisons."""

    numbers: tuple[int, int, int]
    before: tuple[tuple[int, int, str], ...] = ()
    """The identifiers of a pre-release, as sort keys: numeric ones come before others."""
    type: ClassVar[Type] = SEMVER

    def order(self) -> Any:
        """A pre-release comes before its release."""
        return (*self.numbers, not self.before, self.before)


def quantity_of(text: str) -> Quantity | Fault:
    """`quantity(text)`."""
    try:
        return Quantity(parse_untrimmed(text))
    except QuantityError as error:
        return Fault(error.fault)


def _as_integer(value: Quantity) -> int | Fault:
    """`asInteger()`: only for whole numbers of 64 bits."""
    if value.nano % NANO or abs(value.nano) > MAX_INT64 * NANO:
        return Fault("cannot convert value to integer")
    return value.nano // NANO


# ---- versions


def semver_of(text: str, is_lenient: bool = False) -> Semver | Fault:
    """`semver(text)` and `semver(text, lenient)`; a Fault for a text that is not a version."""
    try:
        return _semver(_normal(text) if is_lenient else text)
    except ValueError as fault:
        return Fault(str(fault))


def _semver(text: str) -> Semver:
    """A strict semantic version. Raises ValueError with the messages of blang/semver, which upstream uses."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    last, plus, build = parts[2].partition("+")
    patch, minus, before = last.partition("-")
    numbers = (_number(parts[0], "major"), _number(parts[1], "minor"), _number(patch, "patch"))
    words = tuple(_word(word) for word in before.split(".")) if minus else ()
    for word in build.split(".") if plus else ():
        if not word:
            raise ValueError("Build meta data is empty")
        if not _WORD.issuperset(word):
            raise ValueError(f'Invalid character(s) found in build meta data "{word}"')
    return Semver(numbers, words)


def _number(text: str, name: str) -> int:
    """Major, minor or patch: 64 bits, without leading zeros."""
    if not (text.isascii() and (text.isdigit() or not text)):
        raise ValueError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{name.capitalize()} number must not contain leading zeroes "{text}"')
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT64:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _word(text: str) -> tuple[int, int, str]:
    """An identifier of a pre-release as a sort key: (0, number, further digits) or (1, 0, text)."""
    if not text:
        raise ValueError("Prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return 0, int(text[:MAX_DIGITS]), text[MAX_DIGITS:]
    if not _WORD.issuperset(text):
        raise ValueError(f'Invalid character(s) found in prerelease "{text}"')
    return 1, 0, text


def _normal(text: str) -> str:
    """The lenient form of a version made strict: `v01.2` -> `1.2.0`."""
    parts = [_trimmed(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, *["0"] * (3 - len(parts))])


def _trimmed(part: str) -> str:
    """A part of a version without leading zeros; the last part may continue with a pre-release."""
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part[:1].isdigit() and part.isascii() else f"0{part}"


# ---- functions


def _compare(one: Extension, other: Extension) -> int:
    a, b = one.order(), other.order()
    return int(a > b) - int(a < b)


def _comparisons(kind: str, name: str) -> tuple[Overload, ...]:
    both = f"{name}, {name}"
    return (
        member(f"{kind}_is_greater_than", "isGreaterThan", both, "bool", lambda a, b: _compare(a, b) > 0),
        member(f"{kind}_is_less_than", "isLessThan", both, "bool", lambda a, b: _compare(a, b) < 0),
        member(f"{kind}_compare_to", "compareTo", both, "int", _compare),
    )


_Q, _V = QUANTITY.name, SEMVER.name

AMOUNTS: tuple[Overload, ...] = (
    plain("string_to_quantity", "quantity", "string", _Q, quantity_of),
    plain("is_quantity_string", "isQuantity", "string", "bool", succeeds(quantity_of)),
    *_comparisons("quantity", _Q),
    # Parity: the documentation writes `<quantity>.sign()`, but upstream declares `sign(<quantity>)` only.
    plain("quantity_sign", "sign", _Q, "int", lambda a: (a.nano > 0) - (a.nano < 0)),
    member("quantity_get_float", "asApproximateFloat", _Q, "double", lambda a: a.nano / NANO),
    member("quantity_get_int", "asInteger", _Q, "int", _as_integer),
    member("quantity_is_integer", "isInteger", _Q, "bool", succeeds(_as_integer)),
    member("quantity_add", "add", f"{_Q}, {_Q}", _Q, lambda a, b: Quantity(a.nano + b.nano)),
    member("quantity_add_int", "add", f"{_Q}, int", _Q, lambda a, b: Quantity(a.nano + b * NANO)),
    member("quantity_sub", "sub", f"{_Q}, {_Q}", _Q, lambda a, b: Quantity(a.nano - b.nano)),
    member("quantity_sub_int", "sub", f"{_Q}, int", _Q, lambda a, b: Quantity(a.nano - b * NANO)),
    plain("string_to_semver", "semver", "string", _V, semver_of),
    plain("string_bool_to_semver", "semver", "string, bool", _V, semver_of),
    plain("is_semver_string", "isSemver", "string", "bool", succeeds(semver_of)),
    plain("is_semver_string_bool", "isSemver", "string, bool", "bool", succeeds(semver_of)),
    *_comparisons("semver", _V),
    member("semver_major", "major", _V, "int", lambda a: a.numbers[0]),
    member("semver_minor", "minor", _V, "int", lambda a: a.numbers[1]),
    member("semver_patch", "patch", _V, "int", lambda a: a.numbers[2]),
)
