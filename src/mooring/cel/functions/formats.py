"""Named formats of Kubernetes: `format.dns1123Label().validate(text)` returns the faults of a text, or no value.

Upstream: apiserver's cel/library/format.go.
"""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from mooring.cel.functions.networks import why_not_uri
from mooring.cel.library import Overload, member, plain
from mooring.cel.values import NOTHING, Extension, Maybe, Type
from mooring.model.names import (
    dns_1035_faults,
    dns_label_faults,
    label_value_faults,
    qualified_name_faults,
    subdomain_faults,
)

FORMAT = Type("kubernetes.NamedFormat")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class NamedFormat(Extension):
    """A format as a value; `faults` lists what is wrong with a text."""

    name: str
    faults: Callable[[str], Sequence[str]]
    pattern_size: int
    """The length that upstream assumes for its regular expression (MaxRegexSize): it decides the cost."""
    type: ClassVar[Type] = FORMAT

    def order(self) -> str:
        return self.name

    def validate(self, text: str) -> Maybe:
        found = self.faults(text)
        return Maybe(list(found), True) if found else NOTHING


def _prefixed(faults: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """The check of a prefix, to which something is appended. Parity: upstream replaces the last two letters by `a` if the
    text ends with a dash."""
    return lambda text: faults(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _or_else(is_valid: Callable[[str], bool], fault: str) -> Callable[[str], Sequence[str]]:
    return lambda text: () if is_valid(text) else (fault,)


def _is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    """Standard base64 with padding; an empty text is not valid, as upstream has it."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


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


# The numbers are upstream's MaxRegexSize of each format: its cost, not a limit of ours.
FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", dns_label_faults, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", subdomain_faults, 60),
    "dns1035Label": NamedFormat("DNS1035Label", dns_1035_faults, 30),
    "qualifiedName": NamedFormat("QualifiedName", qualified_name_faults, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefixed(dns_label_faults), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefixed(subdomain_faults), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefixed(dns_1035_faults), 30),
    "labelValue": NamedFormat("LabelValue", label_value_faults, 40),
    "uri": NamedFormat("URI", _uri_faults, 1103),
    "uuid": NamedFormat("uuid", _or_else(_is_uuid, "does not match the UUID format"), 70),
    "byte": NamedFormat("byte", _or_else(_is_base64, "invalid base64"), 84),
    "date": NamedFormat("date", _or_else(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _or_else(_is_moment, "invalid datetime"), 71),
}  # fmt: skip


def _named(name: str) -> Maybe:
    return Maybe(FORMATS[name], True) if name in FORMATS else NOTHING


def _constant(format: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: format


NAMED_FORMATS: tuple[Overload, ...] = (
    member(
        "format-validate", "validate", f"{FORMAT.name}, string", "optional_type(list(string))", NamedFormat.validate
    ),
    plain("format-named", "format.named", "string", f"optional_type({FORMAT.name})", _named),
    *(plain(f"format.{name}", f"format.{name}", "", FORMAT.name, _constant(each)) for name, each in FORMATS.items()),
)
