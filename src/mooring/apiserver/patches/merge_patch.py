"""JSON Merge Patch (RFC 7386): a document of the same form, in which null removes.

Nothing is changed in place: the result shares with its inputs whatever is the same as there.
"""

from typing import Any

from mooring.model.api_errors import bad_request, shallow_enough, undecodable


def apply_merge_patch(document: dict[str, Any], patch: object) -> dict[str, Any]:
    """The document with the patch merged in. Raises ApiError 400 if the patch is no object."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise undecodable(patch, "value of type map[string]interface {}", "error decoding patch: ")
    with shallow_enough():
        return _merged(document, patch)


def _merged(target: object, patch: dict[str, Any]) -> dict[str, Any]:
    """Lists are replaced whole, and nulls inside them stay: they are data there."""
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value) if isinstance(value, dict) else value
    return result
