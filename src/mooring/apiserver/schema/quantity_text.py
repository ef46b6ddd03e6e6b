"""What an API server reads as a quantity, and its words for what it does not: the form of the text, not the amount."""

import re
from typing import Any

from mooring.model.quantity import parse

BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_SUFFIX = "unable to parse quantity's suffix"

_FORM = re.compile(r"[+-]?[0-9]*(?:\.[0-9]*)?([eEinumkKMGTP]*[+-]?[0-9]*)")
_SUFFIX = re.compile(r"[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,19}")
_EXPONENTS = range(-(1 << 63), 1 << 63)


def quantity_fault(value: Any) -> str:
    """Why a value of JSON is no quantity; nothing where it is one.

    | value   | fault      |
    | " 1 "   |            |
    | "1\\n"  | BAD_FORM   |
    | "1ki"   | BAD_SUFFIX |
    | true    | BAD_FORM   |
    """
    if type(value) in (int, float):
        return ""
    # Parity: blanks around it are let pass, because Go's reader takes them off; others come escaped, and are not seen.
    found = _FORM.fullmatch(value.strip(" ")) if type(value) is str else None
    if found is None or not value.strip(" "):
        return BAD_FORM
    return _amount_fault(value) if _is_suffix(found[1]) else BAD_SUFFIX


def _is_suffix(text: str) -> bool:
    if not _SUFFIX.fullmatch(text):
        return False
    is_exponent = len(text) > 1 and text[0] in "eE" and text != "Ei"
    return not is_exponent or int(text[1:]) in _EXPONENTS


def _amount_fault(text: str) -> str:
    """What passes here must be an amount to everything behind it."""
    try:
        parse(text)
    except ValueError:
        return BAD_FORM
    return ""
