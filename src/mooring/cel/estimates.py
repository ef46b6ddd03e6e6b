"""The most that an expression can cost, found out from its checked tree alone: API servers reject expressions by it.

The rules are those of cel-go's cost estimator and of Kubernetes' functions, exact to the unit (checker/cost.go and ext of
cel-go, cel/library/cost.go of apiserver). Costs stop at the largest number of 64 bits, which stands for "without a limit".
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from mooring.cel.costs import CALL, COMPARABLE, LIST_LITERAL, PATTERN, TRAVERSAL
from mooring.cel.language.syntax import Literal, SyntaxNode
from mooring.cel.values import MAX_UINT64, Type

LIMITLESS = MAX_UINT64
_LONGEST_FORMAT, _LONGEST_FORMAT_PATTERN = 64, 128
"""MaxFormatSize and MaxNameFormatRegexSize."""

Path = tuple[str, ...]
"""How a value is reached from a variable: `("device", "attributes", "@values")`."""


class LengthBounds(NamedTuple):
    """The bounds of a length: of characters, of bytes, of elements or of entries."""

    least: int
    most: int

    def joined(self, other: "LengthBounds") -> "LengthBounds":
        return LengthBounds(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: "LengthBounds") -> "LengthBounds":
        return LengthBounds(added(self.least, other.least), added(self.most, other.most))

    def times(self, other: "LengthBounds") -> "LengthBounds":
        return LengthBounds(multiplied(self.least, other.least), multiplied(self.most, other.most))


UNKNOWN = LengthBounds(0, LIMITLESS)
LengthsAt = Callable[[Path, Type], LengthBounds | None]
"""Path and type of a value in, bounds of its length out; None if nothing is known. A path is empty if no variable leads
there."""


def added(*costs: int) -> int:
    return min(sum(costs), LIMITLESS)


def multiplied(one: int, other: int) -> int:
    return min(one * other, LIMITLESS)


def scaled(amount: int, factor: float) -> int:
    """A length times a cost, rounded up."""
    return min(ceil(amount * factor), LIMITLESS)


class Operand(NamedTuple):
    """An operand of a call, as rules see it."""

    node: SyntaxNode | None
    type: Type
    path: Path
    size: LengthBounds
    cost: int


Estimate = tuple[int, LengthBounds | None]
"""The cost of a call without its arguments, and the length of its result, if it has one that is known."""
Rule = Callable[[Sequence[Operand], LengthsAt], Estimate]
"""Operands (that of `a.f(b)` are a and b) and known lengths in, estimate out."""


# ---- rules of functions


def _nominal(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return CALL, None


def _traversed(factor: float = TRAVERSAL, keeps: bool = False, place: int = 0) -> Rule:
    """The cost of a walk over the operand at a place; `keeps`: the result is as long."""
    return lambda args, at: (scaled(args[place].size.most, factor), args[place].size if keeps else None)


def _element(operand: Operand, at: LengthsAt) -> tuple[Type, LengthBounds] | None:
    """The type and the length of the elements of a list; None for a value that is no list."""
    if not operand.type.params:
        return None
    kind, path = operand.type.params[0], (*operand.path, "@items") if operand.path else ()
    return kind, at(path, kind) or UNKNOWN


def _searched(is_any: bool) -> Rule:
    """Functions that walk over a list or a text once; `is_any`: `includes`, which takes values of any type."""

    def rule(args: Sequence[Operand], at: LengthsAt) -> Estimate:
        most, element = args[0].size.most, _element(args[0], at)
        if element is None:
            return scaled(most, 1 if is_any else TRAVERSAL), None
        is_text = element[0].name in ("string", "bytes")
        each = added(1, scaled(element[1].most, TRAVERSAL)) if is_text else 1
        return multiplied(most, each), None

    return rule


def _replaced(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    """The longest result has the most replacements of the shortest text that is replaced, by the longest one."""
    size, old, new = args[0].size, args[1].size, args[2].size
    if old.least == 0:
        most = added(multiplied(added(size.most, 1), new.most), size.most)
    elif new.most <= old.least:
        most = size.most
    else:
        most = multiplied(ceil(size.most / old.least), new.most)
    return scaled(size.most, 2 * TRAVERSAL), LengthBounds(0, most)


def _split(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    """With an empty separator each character is an element; a literal limits how many there are."""
    length = args[0].size.most
    most = _whole(args[2], length, keeps_sign=True) if len(args) > 2 else length
    return scaled(length, 2 * TRAVERSAL), LengthBounds(0, most)


def _joined(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    texts, element = args[0].size, _element(args[0], at)
    size = texts.times(element[1]) if element else LengthBounds(0, 0)
    if len(args) > 1:
        gaps = LengthBounds(max(texts.least - 1, 0), max(texts.most - 1, 0))
        size = size.plus(args[1].size.times(gaps))
    return scaled(size.most, TRAVERSAL), size


def _matched(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    text, pattern = args[0].size.most, args[1].size.most
    return multiplied(scaled(added(text, 1), TRAVERSAL), scaled(pattern, PATTERN)), None


def _found(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return _matched(args, at)[0], LengthBounds(0, args[0].size.most)


def _within(extra: int, is_text: bool) -> Rule:
    """Addresses have at most 16 bytes: two are compared, and a text is read first."""

    def rule(args: Sequence[Operand], at: LengthsAt) -> Estimate:
        read = scaled(args[1].size.most, TRAVERSAL) if is_text else 0
        return added(scaled(32, TRAVERSAL), extra, read), None

    return rule


def _validated(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return scaled(scaled(args[1].size.most, TRAVERSAL), _LONGEST_FORMAT_PATTERN * PATTERN), None


# ---- rules of lists and sets


def _whole(operand: Operand, otherwise: int, keeps_sign: bool = False) -> int:
    """The value of an integer literal; `otherwise` for anything else."""
    node = operand.node
    if not isinstance(node, Literal) or node.value.__class__ is not int:
        return otherwise
    value: int = node.value
    return value % (LIMITLESS + 1) if keeps_sign else max(value, 0)


def _new_list(factor: float, size: LengthBounds) -> Estimate:
    return added(scaled(size.most, factor), CALL, LIST_LITERAL), size


def _slice(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    length = (_whole(args[2], args[0].size.most) - _whole(args[1], 0)) % (LIMITLESS + 1)
    return _new_list(1, LengthBounds(length, length))


def _range(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    length = _whole(args[0], LIMITLESS)
    return _new_list(1, LengthBounds(length, length))


def _flatten(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return _new_list(_whole(args[1], LIMITLESS) if len(args) > 1 else 1, args[0].size)


def _against_itself(factor: float, place: int = 0) -> Rule:
    """Upstream charges as if each element of the operand at `place` were compared with each other one."""
    return lambda args, at: _new_list(factor, args[place].size.times(args[place].size))


def _of_sets(factor: int) -> Rule:
    return lambda args, at: (added(scaled(args[0].size.times(args[1].size).most, factor), CALL), None)


_SORT_FACTOR = {kind: 2 + TRAVERSAL * (kind in ("string", "bytes")) for kind in COMPARABLE}
BY_OVERLOAD: dict[str, Rule] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": lambda args, at: _new_list(1, args[0].size),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _against_itself(2),
    **{f"list_{kind}_sort": _against_itself(factor) for kind, factor in _SORT_FACTOR.items()},
    **{f"list_{kind}_sortByAssociatedKeys": _against_itself(factor, 1) for kind, factor in _SORT_FACTOR.items()},
    "list_sets_contains_list": _of_sets(1),
    "list_sets_intersects_list": _of_sets(1),
    "list_sets_equivalent_list": _of_sets(2),
    "cidr_ip": _nominal,
    "cidr_contains_ip_string": _within(0, True),
    "cidr_contains_ip_ip": _within(0, False),
    "cidr_contains_cidr_string": _within(3, True),
    "cidr_contains_cidr": _within(3, False),
}
"""Rules of overloads, which go before those of functions. A CIDR is masked first, which costs 3: 16 bytes and 1."""
BY_FUNCTION: dict[str, Rule] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _searched(False)),
    "includes": _searched(True),
    "url": _traversed(keeps=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traversed(keeps=True)),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _found),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _traversed()),
    "ip.isCanonical": _traversed(2 * TRAVERSAL),
    "validate": _validated,
}


# ---- rules of operators and of the standard functions


def _compared(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    """Values of Kubernetes' own types are compared at once; other values up to the shorter one's end."""
    names = {operand.type.name for operand in args}
    if len(names) == 1 and names <= {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}:
        return CALL, None
    return _ordered(args, at)


def _equals(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    names = {operand.type.name for operand in args}
    if names == {"kubernetes.NamedFormat"}:
        return scaled(_LONGEST_FORMAT, TRAVERSAL), None
    if names == {"kubernetes.URL"}:
        known = args[1].size
        return scaled(1 if known == UNKNOWN else known.most, TRAVERSAL), None
    return _compared(args, at)


def _ordered(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return scaled(min(operand.size.most for operand in args), TRAVERSAL), None


def _concatenated(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    size = args[0].size.plus(args[1].size)
    return scaled(size.most, TRAVERSAL), size


def _contains(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    return multiplied(scaled(args[0].size.most, TRAVERSAL), scaled(args[1].size.most, TRAVERSAL)), None


def _to_bytes(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    """A character has at most four bytes."""
    size = args[0].size
    return scaled(size.most, TRAVERSAL), LengthBounds(size.least, size.most * 4 % (LIMITLESS + 1))


def _to_text(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    size = args[0].size
    return scaled(size.most, TRAVERSAL), LengthBounds(size.least // 4, size.most)


def _quoted(args: Sequence[Operand], at: LengthsAt) -> Estimate:
    size = args[0].size
    return scaled(size.most, TRAVERSAL), LengthBounds(size.least + 2, (size.most * 2 + 2) % (LIMITLESS + 1))


STANDARD: dict[str, Rule] = {
    "string_format": _traversed(),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quoted,
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _traversed(place=1)),
    "in_list": _traversed(1, place=1),
    **dict.fromkeys(("matches", "matches_string"), _matched),
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenated),
    "add_list": lambda args, at: (CALL, args[0].size.plus(args[1].size)),
    **{
        f"{order}_{kind}": _ordered
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    },
    "equals": _equals,
    "not_equals": _ordered,
}


def rule_of(function: str, overload: str) -> Rule:
    return BY_OVERLOAD.get(overload) or BY_FUNCTION.get(function) or STANDARD.get(overload) or _nominal
