"""The cost of calls at run time: the rules of cel-go and of Kubernetes' functions, exact to the unit.

Upstream aborts an evaluation that exceeds its cost limit, so that a cost that is off by one can change a decision.
Sources: cel-go's interpreter/runtimecost.go and ext packages, apiserver's cel/library/cost.go.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from mooring.cel.values import Extension, size_of, traversal_of

Cost = Callable[[Sequence[Any], Any], int]
"""Arguments and result in, cost out."""

TRAVERSAL, PATTERN = 0.1, 0.25
"""The cost of a text for each character, and of a regular expression for each character of the pattern
(StringTraversalCostFactor, RegexStringLengthCostFactor)."""
LIST_LITERAL, MAP_LITERAL = 10, 30
"""ListCreateBaseCost and MapCreateBaseCost."""
CALL = 1
"""The cost of a call that has no rule of its own."""
COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""Types whose lists can be sorted, by their names in overloads."""


# ---- rules


def nominal(args: Sequence[Any], result: Any) -> int:
    return CALL


def _traversed(factor: float = TRAVERSAL) -> Cost:
    return lambda args, result: ceil(size_of(args[0]) * factor)


def _compared(args: Sequence[Any], result: Any) -> int:
    return ceil(min(size_of(args[0]), size_of(args[1])) * TRAVERSAL)


def _matched(args: Sequence[Any], result: Any) -> int:
    return ceil((1 + size_of(args[0])) * TRAVERSAL) * ceil(size_of(args[1]) * PATTERN)


def _within(has_prefix: bool, is_text: bool) -> Cost:
    """The cost of containsIP (`has_prefix` false) and containsCIDR, with a text or a parsed value as argument."""

    def cost(args: Sequence[Any], result: Any) -> int:
        own = size_of(args[0])
        return (
            ceil(2 * own * TRAVERSAL)
            + (ceil(own * TRAVERSAL) + 1 if has_prefix else 0)
            + (ceil(size_of(args[1]) * TRAVERSAL) if is_text else 0)
        )

    return cost


def _of_sets(factor: int) -> Cost:
    return lambda args, result: size_of(args[0]) * size_of(args[1]) * factor + CALL


def _of_new_list(factor: float, size: int) -> int:
    return int(size * factor) + CALL + LIST_LITERAL


def _against_itself(place: int) -> Cost:
    """Upstream charges as if each element of the argument at `place` were compared with each other one."""

    def cost(args: Sequence[Any], result: Any) -> int:
        elements = args[place]
        is_text = bool(elements) and isinstance(elements[0], str | bytes)
        return _of_new_list(2 + TRAVERSAL * is_text, len(elements) ** 2)

    return cost


# ---- which rule is for which call; `cost_of` has the order of the three tables

BY_OVERLOAD: dict[str, Cost] = {
    "list_sets_contains_list": _of_sets(1),
    "list_sets_intersects_list": _of_sets(1),
    "list_sets_equivalent_list": _of_sets(2),
    **dict.fromkeys(
        ("list_slice", "lists_range", "list_reverse"), lambda args, result: _of_new_list(1, size_of(result))
    ),
    "list_flatten": lambda args, result: _of_new_list(1, size_of(args[0])),
    "list_flatten_int": lambda args, result: _of_new_list(args[1], size_of(args[0])),
    "list_distinct": _against_itself(0),
    **{f"list_{kind}_sort": _against_itself(0) for kind in COMPARABLE},
    **{f"list_{kind}_sortByAssociatedKeys": _against_itself(1) for kind in COMPARABLE},
    "cidr_ip": nominal,
    "cidr_contains_ip_string": _within(False, True),
    "cidr_contains_ip_ip": _within(False, False),
    "cidr_contains_cidr_string": _within(True, True),
    "cidr_contains_cidr": _within(True, False),
}
BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"),
        lambda args, result: traversal_of(args[0]),
    ),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _traversed()),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _traversed()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traversed(2 * TRAVERSAL)),
    "join": lambda args, result: ceil(size_of(result) * 2 * TRAVERSAL),
    **dict.fromkeys(("find", "findAll"), _matched),
    "validate": lambda args, result: (
        ceil((1 + size_of(args[1])) * TRAVERSAL) * ceil(getattr(args[0], "pattern_size", 0) * PATTERN)
    ),
    "_==_": lambda args, result: CALL if isinstance(args[0], Extension) else _compared(args, result),
    "_!=_": _compared,
}
STANDARD: dict[str, Cost] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _traversed()),
    **dict.fromkeys(("strings_quote", "string_format"), _traversed()),
    "in_list": lambda args, result: size_of(args[1]),
    **dict.fromkeys(
        (
            f"{order}_{kind}"
            for order in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compared,
    ),
    **dict.fromkeys(
        ("add_string", "add_bytes"), lambda args, result: ceil((size_of(args[0]) + size_of(args[1])) * TRAVERSAL)
    ),
    "matches_string": _matched,
    "matches": _matched,
    "contains_string": lambda args, result: ceil(size_of(args[0]) * TRAVERSAL) * ceil(size_of(args[1]) * TRAVERSAL),
}


def cost_of(function: str, overload: str) -> Cost:
    """The rule for a call. `overload` is empty if the types allow several: cel-go then falls back to the function."""
    return BY_OVERLOAD.get(overload) or BY_FUNCTION.get(function) or STANDARD.get(overload) or nominal
