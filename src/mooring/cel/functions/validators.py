"""What is wrong with literals in calls, said before anything is evaluated: patterns, moments, spans and formats."""

from collections.abc import Callable, Mapping

from mooring.cel.functions.regex import compiled
from mooring.cel.functions.texts import FormatFault, clauses, formatted
from mooring.cel.functions.times import read_duration, read_timestamp
from mooring.cel.language.syntax import CallExpression, ListLiteral, Literal, SyntaxFault
from mooring.cel.values import Fault

Validator = Callable[[CallExpression], None]
"""Raises SyntaxFault."""


def _literal(read: Callable[[str], object]) -> Validator:
    """Parity: the first argument counts, also where that is not the one that is read."""

    def validate(call: CallExpression) -> None:
        argument = call.args[0] if call.args else None
        if (
            isinstance(argument, Literal)
            and isinstance(argument.value, str)
            and isinstance(read(argument.value), Fault)
        ):
            raise SyntaxFault(f"invalid {call.function} argument", argument.position)

    return validate


def _format(call: CallExpression) -> None:
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
    "matches": _literal(compiled),
    "duration": _literal(read_duration),
    "timestamp": _literal(read_timestamp),
    "format": _format,
}
