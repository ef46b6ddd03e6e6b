"""Strategic merge patches: merge patches in which some lists are merged item by item, with directives (`$patch`, ...).

Nothing is changed in place: the result shares with its inputs whatever is the same as there. It has no nulls and no
directives of the patch. What kube-apiserver answers with 500 because the patch makes no sense is 400 here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.api.api_errors import bad_request, shallow_enough, undecodable, unprocessable
from mooring.api.json_objects import JsonObject
from mooring.api.patches.merge_keys import MergePlace, root_place

PATCH = "$patch"
"""The key of a map that says whether to `replace`, `delete` or `merge` this map or item."""
RETAIN_KEYS = "$retainKeys"
"""The key of a map that lists the keys that stay; all others go. For unions, in which two members must not stay."""
ORDER = "$setElementOrder"
"""`$setElementOrder/x`: how to order the list `x` after the merge."""
DELETIONS = "$deleteFromPrimitiveList"
"""`$deleteFromPrimitiveList/x`: which values leave the list `x`."""

_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_DELETIONS = "invalid patch format of primitive list"
_BAD_RETAINED = "invalid patch format of retainKeys"
_DROPPED = object()
"""Stands for a value that is to go."""


def apply_strategic_merge_patch(document: JsonObject, patch: object) -> JsonObject:
    """The document with the patch merged in. Raises ApiError: 400 the patch makes no sense, 422 it has lists of lists.

    The document's kind decides on some lists (`ports` of a Service), so it should have one.
    """
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise undecodable(patch, "value of type map[string]interface {}")
    with shallow_enough():
        root = root_place(str(document.get("kind", "")), str(document.get("apiVersion", "")))
        return _merged_map(document, patch, root)


@dataclass(slots=True)
class _Fields:
    """A map of a patch, taken apart: what is to be merged, and what is said about it."""

    values: JsonObject = field(default_factory=dict)
    orders: dict[str, list[Any]] = field(default_factory=dict)
    deletions: dict[str, list[Any]] = field(default_factory=dict)
    retained: list[Any] | None = None


def _fields(patch: JsonObject) -> _Fields:
    """A map of a patch, taken apart. Raises 400 for directives of the wrong form."""
    fields = _Fields()
    for key, value in patch.items():
        if key.startswith(ORDER):
            fields.orders[_subject(key, ORDER, _BAD_ORDER)] = _list(value, _BAD_ORDER)
        elif key.startswith(DELETIONS):
            fields.deletions[_subject(key, DELETIONS, _BAD_DELETIONS)] = _list(value, _BAD_DELETIONS)
        elif key == RETAIN_KEYS:
            fields.retained = _list(value, _BAD_RETAINED)
        elif key != PATCH:
            fields.values[key] = value
    return fields


def _subject(key: str, directive: str, otherwise: str) -> str:
    """The list that a directive is about: `x` for `$setElementOrder/x`."""
    head, slash, subject = key.partition("/")
    if head != directive or not slash:
        raise bad_request(otherwise)
    return subject


def _list(value: object, otherwise: str) -> list[Any]:
    """The value, if it is a list. Raises 400 with the text `otherwise`."""
    if not isinstance(value, list):
        raise bad_request(otherwise)
    return value


# ---- maps


def _merged_map(original: JsonObject, patch: JsonObject, place: MergePlace) -> JsonObject:
    """A map merged with the map of a patch, by its `$patch`. Order and deletions apply to what the merge left."""
    match patch.get(PATCH, "merge"):
        case "delete":
            return {}
        case "replace":
            return _cleaned_map(patch)
        case "merge":  # what happens anyway; kube-apiserver refuses to be told
            fields = _fields(patch)
            result = _retained(original, fields)
            _merge_values(result, fields, place)
            _order_others(result, fields, place)
            _delete_values(result, fields)
            return result
        case unknown:
            raise bad_request(f"unknown patch type: {_go_text(unknown)} in map: {_go_text(patch)}")


def _retained(original: JsonObject, fields: _Fields) -> JsonObject:
    """A copy of the original with the keys that are to stay; the patch may not set others."""
    if fields.retained is None:
        return dict(original)
    retained = {key for key in fields.retained if isinstance(key, str)}
    if any(key not in retained for key, value in fields.values.items() if value is not None):
        raise bad_request(_BAD_RETAINED)
    return {key: value for key, value in original.items() if key in retained}


def _merge_values(result: JsonObject, fields: _Fields, place: MergePlace) -> None:
    """Each field of the patch into the result."""
    for key, value in fields.values.items():
        merged = _merged(result.get(key), value, place, key, fields.orders.get(key))
        if merged is _DROPPED:
            result.pop(key, None)
        else:
            result[key] = merged


def _merged(original: Any, value: Any, around: MergePlace, key: str, order: list[Any] | None) -> Any:
    """One field; what has another type than before is replaced."""
    if value is None:
        return _DROPPED
    if isinstance(original, dict) and isinstance(value, dict):
        place = around.at(key)
        return _cleaned_map(value) if place.rule.is_replaced else _merged_map(original, value, place)
    if isinstance(value, list):
        return _merged_list(original if isinstance(original, list) else None, value, around.at(key), order)
    return _cleaned(value)


def _order_others(result: JsonObject, fields: _Fields, place: MergePlace) -> None:
    """Lists of which the patch tells nothing but the order."""
    for key, order in fields.orders.items():
        current = result.get(key)
        merge_key = place.at(key).rule.patch_key
        if key not in fields.values and isinstance(current, list) and merge_key is not None:
            result[key] = _arranged(current, order, current, merge_key)


def _delete_values(result: JsonObject, fields: _Fields) -> None:
    """Values that `$deleteFromPrimitiveList` names leave their list."""
    for key, values in fields.deletions.items():
        if isinstance(current := result.get(key), list):
            doomed = {_text(value) for value in values}
            result[key] = [value for value in current if _text(value) not in doomed]


# ---- lists


def _merged_list(original: list[Any] | None, patch: list[Any], place: MergePlace, order: list[Any] | None) -> list[Any]:
    """A list merged by the rule for it: as a whole, item by item, or value by value; then put in order."""
    key = place.rule.patch_key
    if key is None:
        return _cleaned_list(patch)
    _check_alike([*(original or ()), *patch])
    if order is not None:
        _check_order(patch, order, key)
    if original is None:
        merged = _cleaned_list(patch)
    elif any(isinstance(item, dict) and item.get(PATCH) == "replace" for item in patch):
        original = merged = _cleaned_list(patch)
    elif isinstance((original or patch or [None])[0], dict):
        merged = _merged_items(original, patch, key, place)
    else:
        merged = list({_text(value): value for value in [*original, *patch]}.values())
    wanted = order if order is not None else [item for item in patch if not _is_directive(item)]
    return _arranged(merged, wanted, original or [], key)


def _merged_items(original: list[Any], patch: list[Any], key: str, place: MergePlace) -> list[Any]:
    """Items of the patch go into the first item of the same identity, or to the end; a deletion takes all of them.

    The places of all identities are looked up once, so that a patch of every item of a long list takes linear time.
    """
    result, inside = list(original), place.inside("")
    places: dict[str, list[int]] = {}
    for i, known in enumerate(result):
        places.setdefault(_text(known.get(key)), []).append(i)
    for item in patch:
        _merge_item(result, places, item, key, inside)
    return [item for item in result if item is not _DROPPED]


def _merge_item(result: list[Any], places: dict[str, list[int]], item: Any, key: str, inside: MergePlace) -> None:
    """`result` has _DROPPED where an item is deleted, so that the places of others stay true."""
    identity = _identity(item, key)
    found = places.get(identity)
    match item.get(PATCH):
        case None if found:
            result[found[0]] = _merged_map(result[found[0]], item, inside)
        case None:
            places[identity] = [len(result)]
            result.append(_cleaned_map(item))
        case "delete":
            for place in places.pop(identity, ()):
                result[place] = _DROPPED
        case "merge":
            raise bad_request("merging lists cannot yet be specified in the patch")
        case unknown:
            raise bad_request(f"unknown patch type: {_go_text(unknown)} in map: {_go_text(item)}")


def _check_alike(items: Sequence[Any]) -> None:
    """A list that is merged has maps or has values of one type."""
    if any(isinstance(item, list) for item in items):
        raise unprocessable()
    if len({type(item) for item in items}) > 1 or None in items:
        raise bad_request(f"list element types are not identical: {_go_text(list(items))}")


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The items of the patch must be named by its order, and stand in that order themselves."""
    _check_alike([*patch, *order])
    rest = iter([_identity(item, key) for item in order])
    wanted = [_identity(item, key) for item in patch if not _is_directive(item)]
    if order and not all(identity in rest for identity in wanted):
        raise bad_request(
            f"The order in patch list:\n{_go_text(patch)}\n doesn't match {ORDER} list:\n{_go_text(order)}\n"
        )


def _arranged(items: list[Any], wanted: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items in the order that the patch wants; those it does not name go before the first that they stood before."""
    wanted_ranks = _ranks(wanted, key)
    live_ranks = _ranks(live, key)
    known = [(_identity(item, key), item) for item in items]
    named = sorted((pair for pair in known if pair[0] in wanted_ranks), key=lambda pair: wanted_ranks[pair[0]])
    others = [pair for pair in known if pair[0] not in wanted_ranks][::-1]
    result = []
    for identity, item in named:
        while others and live_ranks.get(others[-1][0], len(live)) < live_ranks.get(identity, -1):
            result.append(others.pop()[1])
        result.append(item)
    return result + [item for _, item in others[::-1]]


def _ranks(items: list[Any], key: str) -> dict[str, int]:
    """The first position of each identity."""
    return {_identity(item, key): i for i, item in reversed(list(enumerate(items)))}


def _identity(item: Any, key: str) -> str:
    """The identity of an item among others: the text of its merge key, or of itself if it is a plain value."""
    if not key and not isinstance(item, dict):
        return _text(item)
    if not key or not isinstance(item, dict) or key not in item:
        raise bad_request(f"map: {_go_text(item)} does not contain declared merge key: {key}")
    return _text(item[key])


# ---- values


def _is_directive(item: object) -> bool:
    return isinstance(item, dict) and PATCH in item


def _cleaned(value: Any) -> Any:
    """A value of the patch that takes a place where nothing of its kind was: without nulls and directives."""
    if isinstance(value, dict):
        return _DROPPED if PATCH in value else _cleaned_map(value)
    return _cleaned_list(value) if isinstance(value, list) else value


def _cleaned_map(value: JsonObject) -> JsonObject:
    """A map of the patch without nulls and directives."""
    cleaned = {key: _cleaned(item) for key, item in _fields(value).values.items() if item is not None}
    return {key: item for key, item in cleaned.items() if item is not _DROPPED}


def _cleaned_list(value: list[Any]) -> list[Any]:
    return [item for item in map(_cleaned, value) if item is not _DROPPED]


def _text(value: Any) -> str:
    """Different for true, 1 and 1.0, and hashable whatever the value is."""
    return json.dumps(value, sort_keys=True)


def _go_text(value: Any) -> str:
    """A value as Go's %v shows it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(item)}' for key, item in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
