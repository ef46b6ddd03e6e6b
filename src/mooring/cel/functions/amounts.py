"""Quantities, semantic versions and named formats as values of CEL.

Upstream: apiserver's cel/library/quantity.go, semverlib.go and format.go, with the messages of Go's parsers.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar

from mooring.cel.functions.networks import why_not_uri
from mooring.cel.library import Overload, member, plain, succeeds
from mooring.cel.values import MAX_INT64, MAX_UINT64, NOTHING, Extension, Fault, Maybe, Type
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
    """A semantic version."""

    numbers: tuple[int, int, int]
    before: tuple[tuple[int, int, str], ...] = ()
    """The identifiers of a pre-release, as sort keys: numeric ones come before others."""
    build: str = field(default="", compare=False)
    """Build metadata, which does not count in comparisons."""
    type: ClassVar[Type] = SEMVER

    @property
    def text(self) -> str:
        """The version as it is written."""
        words = ".".join(word if kind else f"{number}{word}" for kind, number, word in self.before)
        numbers = ".".join(map(str, self.numbers))
        return f"{numbers}{'-' if words else ''}{words}{'+' if self.build else ''}{self.build}"

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
    return Semver(numbers, words, build)


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


# ---- Named formats of Kubernetes: `format.dns1123Label().validate(text)` returns the faults of a text, or no value.


FORMAT = Type("kubernetes.NamedFormat")
Faults = Callable[[str], Sequence[str]]
"""Text in, what is wrong with it out."""
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class NamedFormat(Extension):
    """A format as a value; `faults` lists what is wrong with a text."""

    name: str
    faults: Faults
    pattern_size: int
    """The length that upstream assumes for its regular expression (MaxRegexSize): it decides the cost."""
    type: ClassVar[Type] = FORMAT

    def order(self) -> str:
        return self.name

    def validate(self, text: str) -> Maybe:
        found = self.faults(text)
        return Maybe(list(found), True) if found else NOTHING


def _prefixed(faults: Faults) -> Faults:
    """The check of a prefix, to which something is appended. Parity: upstream replaces the last two letters by `a` if the
    text ends with a dash."""
    return lambda text: faults(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _or_else(is_valid: Callable[[str], object], fault: str) -> Faults:
    return lambda text: () if is_valid(text) else (fault,)


def is_base64(text: str) -> bool:
    """Standard base64 with padding."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_moment(text: str) -> bool:
    """RFC 3339, in upper or lower case, without leap seconds."""
    day, letter, time = text.lower().partition("t")
    found = _TIME.fullmatch(time)
    if not letter or found is None or not _is_date(day):
        return False
    return int(found[1]) <= 23 and int(found[2]) <= 59 and int(found[3]) <= 59


def _uri_faults(text: str) -> Sequence[str]:
    why = why_not_uri(text)
    return () if why is None else (why,)


_OWN: Mapping[str, Faults] = {
    "uri": _uri_faults,
    "uuid": _or_else(_UUID.fullmatch, "does not match the UUID format"),
    "byte": _or_else(lambda text: text and is_base64(text), "invalid base64"),  # Parity: an empty text is not valid
    "date": _or_else(_is_date, "invalid date"),
    "datetime": _or_else(_is_moment, "invalid datetime"),
}
_FORMATS = {
    "dns1123Label": ("DNS1123Label", 30), "dns1123Subdomain": ("DNS1123Subdomain", 60),
    "dns1035Label": ("DNS1035Label", 30), "qualifiedName": ("QualifiedName", 60),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", 30), "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", 60),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", 30), "labelValue": ("LabelValue", 40), "uri": ("URI", 1103),
    "uuid": ("uuid", 70), "byte": ("byte", 84), "date": ("date", 71), "datetime": ("datetime", 71),
}  # fmt: skip
"""By function: the name of a format, and upstream's MaxRegexSize, which is its cost and not a limit of ours."""


def named_formats(checks: Mapping[str, Faults]) -> tuple[Overload, ...]:
    """The functions of named formats. `checks` are those of names: `dns1123Label`, `dns1123Subdomain`, `dns1035Label`,
    `qualifiedName` and `labelValue`."""
    prefixes = {f"{name}Prefix": _prefixed(faults) for name, faults in checks.items()}
    faults = {**_OWN, **checks, **prefixes}
    formats = {name: NamedFormat(shown, faults[name], size) for name, (shown, size) in _FORMATS.items()}

    def named(name: str) -> Maybe:
        return Maybe(formats[name], True) if name in formats else NOTHING

    def constant(value: NamedFormat) -> Callable[[], NamedFormat]:
        return lambda: value

    listed = f"{FORMAT.name}, string", "optional_type(list(string))"
    return (
        member("format-validate", "validate", *listed, NamedFormat.validate),
        plain("format-named", "format.named", "string", f"optional_type({FORMAT.name})", named),
        *(plain(f"format.{name}", f"format.{name}", "", FORMAT.name, constant(each)) for name, each in formats.items()),
    )
