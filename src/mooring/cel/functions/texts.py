"""Functions of strings: cel-go's strings library in version 2, Kubernetes' `find` and `findAll`, and the checks of literals
at compile time.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite, isnan
from typing import Any

from mooring.cel.budget import WORK, check_length
from mooring.cel.functions.regex import compiled, find, find_all
from mooring.cel.functions.standard import shown_double, type_of
from mooring.cel.functions.times import (
    CelDuration,
    Timestamp,
    read_duration,
    read_timestamp,
    shown_duration,
    shown_timestamp,
)
from mooring.cel.language.syntax import CallExpression, ListLiteral, Literal, SyntaxFault
from mooring.cel.library import Overload, member, plain
from mooring.cel.values import Fault, TypeName, Uint, keys_of, size_of

# Characters that Go's strings.TrimSpace removes (unicode.IsSpace); Python's strip() removes a few more.
_SPACE = " \t\n\v\f\r\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'
}  # fmt: skip
# lowerAscii and upperAscii change ASCII letters only; Python's lower() would change others, and even lengths.
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}
PRECISION = 6
"""Digits after the decimal point if a clause of a format has no precision: C's default."""


def _out_of_range(place: int) -> Fault:
    return Fault(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str | Fault:
    if not 0 <= place <= len(text):
        return _out_of_range(place)
    return text[place : place + 1]


def _index_of(text: str, part: str, start: int = 0) -> int | Fault:
    """Parity: an empty part is found at `start`, even beyond the end."""
    if not part:
        return start
    return _out_of_range(start) if start < 0 else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int | Fault:
    """Parity: a start beyond the end finds nothing, and an empty part is found at the start."""
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if start < 0:
        return _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The length is checked first: replacing every letter by a long text multiplies lengths."""
    times = text.count(old) if count < 0 else min(count, text.count(old))
    check_length(len(text) + times * len(new))
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    """Go's strings.SplitN: `count` limits the parts, 0 gives none, and a negative number all."""
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    return list(text) if count < 0 or count >= len(text) else [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str | Fault:
    """Unlike Python's, a range outside of the text is an error."""
    if end is not None and start > end:
        return Fault(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, end):
        if place is not None and not 0 <= place <= len(text):
            return _out_of_range(place)
    return text[start:end]


def _join(texts: list[Any], separator: str = "") -> str | Fault:
    """Lists of dynamic type may have elements that are not texts."""
    for text in texts:
        if text.__class__ is not str:
            return Fault(f"join: invalid input: {text}")
    check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def quote(text: str) -> str:
    """`strings.quote(text)`, and texts in messages."""
    return '"' + "".join(_QUOTED.get(letter, letter) for letter in text) + '"'


# ---- formats: "%s has %d".format([...])


class FormatFault(Exception):
    """A format that cannot be parsed, or a value that does not fit its clause; the text is cel-go's."""


def _format(text: str, args: list[Any]) -> str | Fault:
    """Too few arguments are an error; surplus ones are checked only for literals, at compile time."""
    parts: list[str] = []
    used = 0
    try:
        for part in _parts(text):
            if isinstance(part, str):
                parts.append(part)
                continue
            if used == len(args):
                raise FormatFault(f"index {used} out of range")
            parts.append(formatted(*part, args[used]))
            used += 1
    except FormatFault as fault:
        return Fault(str(fault))
    check_length(sum(map(len, parts)))
    return "".join(parts)


def formatted(verb: str, precision: int, value: Any) -> str:
    """A value as a clause of a format writes it. Raises FormatFault."""
    return _VERBS[verb](value, precision)


def clauses(text: str) -> Iterator[tuple[str, int]]:
    """The clauses of a format as (verb, precision), in order. Raises FormatFault."""
    return (part for part in _parts(text) if not isinstance(part, str))


def _parts(text: str) -> Iterator[str | tuple[str, int]]:
    """Plain texts and clauses of a format, in order; `%%` is a percent sign."""
    at = 0
    while at < len(text):
        sign = text.find("%", at)
        if sign < 0:
            yield text[at:]
            return
        if text[sign : sign + 2] == "%%":
            yield text[at : sign + 1]
            at = sign + 2
            continue
        yield text[at:sign]
        verb, precision, at = _clause(text, sign + 1)
        yield verb, precision


def _clause(text: str, at: int) -> tuple[str, int, int]:
    """The verb after a percent sign, its precision, and where the text continues."""
    precision = PRECISION
    if text[at : at + 1] == ".":
        end = at + 1
        while text[end : end + 1].isdecimal():
            end += 1
        precision, at = int(text[at + 1 : end][:9] or PRECISION), end  # nine digits: the rest is too large anyway
        if precision > 100:
            raise FormatFault(f"error while parsing precision: precision {precision} is too large")
    verb = text[at : at + 1]
    if not verb:
        raise FormatFault("unexpected end of string")
    if verb not in _VERBS:
        raise FormatFault(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return verb, precision, at + 1


def _as_text(value: Any, _: int = 0) -> str:
    """The clause `%s`. Maps are sorted by the text of their keys, so that the result does not depend on their order."""
    WORK.spend(size_of(value))
    if value.__class__ is list:
        return f"[{', '.join(map(_nested, value))}]"
    if isinstance(value, dict):
        pairs = sorted((_nested(key), _nested(value[key])) for key in keys_of(value))
        return "{" + ", ".join(f"{key}:{each}" for key, each in pairs) + "}"
    shown = _PLAIN.get(value.__class__)
    if shown is None:
        raise FormatFault(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
            f"and timestamps, was given {type_of(value).name}"
        )
    return shown(value)


def _nested(value: Any) -> str:
    """A value inside a list or a map: texts are quoted, and times name their type."""
    if value.__class__ is float:
        return f"{value:.{PRECISION}f}" if isfinite(value) else quote(shown_double(value))
    if isinstance(value, Timestamp | CelDuration):
        return f'{"timestamp" if isinstance(value, Timestamp) else "duration"}("{_as_text(value)}")'
    text = _as_text(value)
    if value.__class__ is str:
        return quote(text)
    return f"b{quote(text)}" if value.__class__ is bytes else text


_PLAIN: dict[type, Callable[[Any], str]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: str,
    float: shown_double,
    bytes: lambda value: value.decode("utf-8", "replace"),
    type(None): lambda value: "null",
    TypeName: lambda value: value.name,
    Timestamp: shown_timestamp,
    CelDuration: shown_duration,
}


def _of(kinds: tuple[type, ...], what: str, shown: Callable[[Any, int], str]) -> Callable[[Any, int], str]:
    """A clause for values of some types; `what` is the message for any other."""

    def clause(value: Any, precision: int) -> str:
        if value.__class__ not in kinds:
            raise FormatFault(f"{what}, was given {type_of(value).name}")
        return shown(value, precision)

    return clause


def _fixed(letter: str) -> Callable[[Any, int], str]:
    """`%f` and `%e`, with the precision of the clause; infinities as upstream writes them."""

    def shown(value: float, precision: int) -> str:
        if not isfinite(value):
            return "NaN" if isnan(value) else "∞" if value > 0 else "-∞"
        return f"{value:.{precision}{letter}}"

    return shown


def _hexadecimal(value: Any, is_upper: bool) -> str:
    encoded = value.encode() if isinstance(value, str) else value
    shown = encoded.hex() if isinstance(encoded, bytes) else f"{value:x}"
    return shown.upper() if is_upper else shown


_WHOLE = (int, Uint)
_HEX = "only integers, byte buffers, and strings can be formatted as hex"
_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _as_text,
    "d": _of(_WHOLE, "decimal clause can only be used on integers", lambda value, _: str(int(value))),
    "f": _of((float,), "fixed-point clause can only be used on doubles", _fixed("f")),
    "e": _of((float,), "scientific clause can only be used on doubles", _fixed("e")),
    "b": _of((*_WHOLE, bool), "only integers and bools can be formatted as binary", lambda value, _: f"{int(value):b}"),
    "o": _of(_WHOLE, "octal clause can only be used on integers", lambda value, _: f"{int(value):o}"),
    "x": _of((*_WHOLE, str, bytes), _HEX, lambda value, _: _hexadecimal(value, False)),
    "X": _of((*_WHOLE, str, bytes), _HEX, lambda value, _: _hexadecimal(value, True)),
}

TEXTS: tuple[Overload, ...] = (
    member("string_char_at_int", "charAt", "string, int", "string", _char_at),
    member("string_index_of_string", "indexOf", "string, string", "int", _index_of),
    member("string_index_of_string_int", "indexOf", "string, string, int", "int", _index_of),
    member("string_last_index_of_string", "lastIndexOf", "string, string", "int", _last_index_of),
    member("string_last_index_of_string_int", "lastIndexOf", "string, string, int", "int", _last_index_of),
    member("string_lower_ascii", "lowerAscii", "string", "string", lambda text: text.translate(_LOWER)),
    member("string_upper_ascii", "upperAscii", "string", "string", lambda text: text.translate(_UPPER)),
    member("string_replace_string_string", "replace", "string, string, string", "string", _replace),
    member("string_replace_string_string_int", "replace", "string, string, string, int", "string", _replace),
    member("string_split_string", "split", "string, string", "list(string)", _split),
    member("string_split_string_int", "split", "string, string, int", "list(string)", _split),
    member("string_substring_int", "substring", "string, int", "string", _substring),
    member("string_substring_int_int", "substring", "string, int, int", "string", _substring),
    member("string_trim", "trim", "string", "string", lambda text: text.strip(_SPACE)),
    member("string_format", "format", "string, list(dyn)", "string", _format),
    plain("strings_quote", "strings.quote", "string", "string", quote),
    member("list_join", "join", "list(string)", "string", _join),
    member("list_join_string", "join", "list(string), string", "string", _join),
    member("string_find_string", "find", "string, string", "string", find),
    member("string_find_all_string", "findAll", "string, string", "list(string)", find_all),
    member("string_find_all_string_int", "findAll", "string, string, int", "list(string)", find_all),
)


# ---- checks of literals at compile time


Validator = Callable[[CallExpression], None]
"""Checks a call; raises SyntaxFault."""


def _check_literal(read: Callable[[str], object]) -> Validator:
    """A check of the first argument, if it is a literal. Parity: in `matches(text, pattern)` that is the text."""

    def validate(call: CallExpression) -> None:
        argument = call.args[0] if call.args else None
        if (
            isinstance(argument, Literal)
            and isinstance(argument.value, str)
            and isinstance(read(argument.value), Fault)
        ):
            raise SyntaxFault(f"invalid {call.function} argument", argument.position)

    return validate


def _check_format(call: CallExpression) -> None:
    """The clauses of a literal format against its arguments, as far as these are literals."""
    target, listed = call.target, call.args[0] if call.args else None
    if not isinstance(target, Literal) or not isinstance(target.value, str) or not isinstance(listed, ListLiteral):
        return
    used = 0
    try:
        for verb, precision in clauses(target.value):
            if used == len(listed.elements):
                raise SyntaxFault(f"index {used} out of range", call.position)
            argument = listed.elements[used]
            used += 1
            if isinstance(argument, Literal):
                try:
                    formatted(verb, precision, argument.value)
                except FormatFault as fault:
                    raise SyntaxFault(f"error during formatting: {fault}", argument.position) from None
    except FormatFault as fault:
        raise SyntaxFault(str(fault), call.position) from None
    if used < len(listed.elements):
        told = f"(expected {used}, got {len(listed.elements)})"
        raise SyntaxFault(f"too many arguments supplied to string.format {told}", call.position)


VALIDATORS: Mapping[str, Validator] = {
    "matches": _check_literal(compiled),
    "duration": _check_literal(read_duration),
    "timestamp": _check_literal(read_timestamp),
    "format": _check_format,
}
