"""Functions of lists, sets and maps: cel-go's lists and sets libraries, and Kubernetes' lists library.

Lists come from users and can be long. Functions that build lists check the length first; what compares elements counts as
work (cel/budget.py).
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from mooring.cel.budget import check_length
from mooring.cel.costs import COMPARABLE
from mooring.cel.functions.times import CelDuration, span_of
from mooring.cel.language.macros import MAP_INSERT, SORT_BY_KEYS
from mooring.cel.library import Overload, member, plain
from mooring.cel.values import NO_OVERLOAD, Extension, Fault, Uint, equal, key_of, unsigned, whole

_NUMBERS = (int, Uint, float)


def order_of(value: Any) -> Any:
    """The value to sort by."""
    return value.order() if isinstance(value, Extension) else value


def _is_comparable(one: Any, other: Any) -> bool:
    """Whether the two can be ordered: values of one type, or numbers of any type."""
    if one.__class__ is other.__class__:
        return isinstance(one, bool | int | float | str | bytes | Extension)
    return one.__class__ in _NUMBERS and other.__class__ in _NUMBERS


def _is_sorted(elements: list[Any]) -> bool | Fault:
    """Stops at the first pair that is out of order or cannot be compared."""
    for one, other in pairwise(elements):
        if not _is_comparable(one, other):
            return NO_OVERLOAD
        if order_of(one) > order_of(other):
            return False
    return True


def _extreme(name: str, choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """`min` or `max`. All elements are checked first: Python would compare some types that CEL does not."""

    def extreme(elements: list[Any]) -> Any:
        if not elements:
            return Fault(f"{name} called on empty list")
        if not all(_is_comparable(elements[0], each) for each in elements):
            return NO_OVERLOAD
        return choose(elements, key=order_of)

    return extreme


def _sum_from(zero: Any) -> Callable[[list[Any]], Any]:
    """The sum of a list; `zero` decides the type, and is the sum of an empty list."""

    def total(elements: list[Any]) -> Any:
        if any(each.__class__ is not zero.__class__ for each in elements):
            return NO_OVERLOAD
        if isinstance(zero, CelDuration):
            return span_of(sum(each.nanoseconds for each in elements))
        found = sum(elements, zero)
        if zero.__class__ is int:
            return whole(found)
        return unsigned(int(found)) if zero.__class__ is Uint else found

    return total


def _includes(target: Any, wanted: Any) -> bool:
    """Whether a list has the value, or a single value is it: so a selector can be written before attributes are lists."""
    return any(equal(each, wanted) for each in target) if target.__class__ is list else equal(target, wanted)


def _slice(elements: list[Any], start: int, end: int) -> list[Any] | Fault:
    """Unlike Python's, a slice beyond the end is an error."""
    asked = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        return Fault(f"{asked}, negative indexes not supported")
    if start > end:
        return Fault(f"{asked}, start index must be less than or equal to end index")
    return elements[start:end] if end <= len(elements) else Fault(f"{asked}, list is length {len(elements)}")


def _flatten(elements: list[Any], depth: int = 1) -> list[Any] | Fault:
    """Level by level, with a check of the length before each: nested references to one list multiply its elements."""
    if depth < 0:
        return Fault("level must be non-negative")
    while depth and any(each.__class__ is list for each in elements):
        check_length(sum(len(each) if each.__class__ is list else 1 for each in elements))
        elements = [part for each in elements for part in (each if each.__class__ is list else (each,))]
        depth -= 1
    return elements


def _sort_by(elements: list[Any], keys: list[Any]) -> list[Any] | Fault:
    """The elements in the order of their keys; elements with equal keys keep their order."""
    if len(elements) != len(keys):
        told = f"but got {len(elements)} and {len(keys)} elements respectively"
        return Fault(f"{SORT_BY_KEYS}() expected a list of the same size as the associated keys list, {told}")
    if keys and not _is_comparable(keys[0], keys[0]):
        return Fault("list elements must be comparable")
    if any(key.__class__ is not keys[0].__class__ for key in keys):
        return Fault("list elements must have the same type")
    return [elements[i] for i in sorted(range(len(keys)), key=lambda i: order_of(keys[i]))]


def _range(length: int) -> list[int]:
    check_length(length)
    return list(range(length))


def _distinct(elements: list[Any]) -> list[Any]:
    """The elements without repetitions, in the order of their first occurrence."""
    found: list[Any] = []
    seen: set[Any] = set()
    for each in elements:
        try:
            key = key_of(each)
            is_new = key not in seen
            seen.add(key)
        except TypeError:  # lists and maps are not hashable: compare with each
            is_new = not any(equal(each, other) for other in found)
        if is_new:
            found.append(each)
    return found


def _has(elements: list[Any], others: list[Any]) -> bool:
    """`sets.contains(elements, others)`."""
    return all(any(equal(each, other) for other in elements) for each in others)


def _merge(mapping: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any] | Fault:
    """Merge two maps. A key that is in both is an error. The planner does this in place where it can
    (evaluation.inserting)."""
    for key in more:
        if key in mapping:
            return Fault(f"insert failed: key {key} already exists")
    return {**mapping, **more}


def _compared() -> Iterator[Overload]:
    """Functions that compare or add elements: one overload for each type of elements, as upstream declares them."""
    for kind in COMPARABLE:
        yield member(f"list_{kind}_is_sorted_bool", "isSorted", f"list({kind})", "bool", _is_sorted)
        yield member(f"list_{kind}_max_{kind}", "max", f"list({kind})", kind, _extreme("max", max))
        yield member(f"list_{kind}_min_{kind}", "min", f"list({kind})", kind, _extreme("min", min))
        yield member(f"list_{kind}_sort", "sort", f"list({kind})", f"list({kind})", lambda each: _sort_by(each, each))
        yield member(f"list_{kind}_sortByAssociatedKeys", SORT_BY_KEYS, f"list(A), list({kind})", "list(A)", _sort_by)
    for kind, zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", CelDuration(0))):
        yield member(f"list_{kind}_sum_{kind}", "sum", f"list({kind})", kind, _sum_from(zero))


LISTS: tuple[Overload, ...] = (
    *_compared(),
    member("list_a_index_of_int", "indexOf", "list(A), A", "int",
           lambda each, value: next((i for i, other in enumerate(each) if equal(other, value)), -1)),
    member("list_a_last_index_of_int", "lastIndexOf", "list(A), A", "int",
           lambda each, value: next((i for i in reversed(range(len(each))) if equal(each[i], value)), -1)),
    member("list_includes_dyn_dyn", "includes", "dyn, dyn", "bool", _includes),
    member("list_slice", "slice", "list(A), int, int", "list(A)", _slice),
    member("list_flatten", "flatten", "list(list(A))", "list(A)", _flatten),
    member("list_flatten_int", "flatten", "list(dyn), int", "list(dyn)", _flatten),
    plain("lists_range", "lists.range", "int", "list(int)", _range),
    member("list_reverse", "reverse", "list(A)", "list(A)", lambda each: each[::-1]),
    member("list_distinct", "distinct", "list(A)", "list(A)", _distinct),
    plain("list_sets_contains_list", "sets.contains", "list(A), list(A)", "bool", _has),
    plain("list_sets_equivalent_list", "sets.equivalent", "list(A), list(A)", "bool",
          lambda one, other: _has(one, other) and _has(other, one)),
    plain("list_sets_intersects_list", "sets.intersects", "list(A), list(A)", "bool",
          lambda one, other: any(equal(each, wanted) for each in one for wanted in other)),
    plain("@mapInsert_map_key_value", MAP_INSERT, "map(A, B), A, B", "map(A, B)",
          lambda mapping, key, value: _merge(mapping, {key_of(key): value})),
    plain("@mapInsert_map_map", MAP_INSERT, "map(A, B), map(A, B)", "map(A, B)", _merge),
)  # fmt: skip
