"""Which version of an object an update is for: what optimistic concurrency asks of writers."""

import re

from mooring.model.api_errors import ApiError, conflict, field_invalid, invalid, quoted, unexplained
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

_DIGITS = re.compile(r"[0-9]+")
_MAX_VERSION = (1 << 64) - 1


def check_version(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """Refuse an update that is for another version than the present one, or for none where there must be one.

    Parity: "0" is as good as nothing, and means whatever is there. Raises ApiError: 409, 422, and 500 for what is no
    version.
    """
    metadata = new.get("metadata")
    text = str((metadata.get("resourceVersion") if isinstance(metadata, dict) else None) or "0")
    version = _parsed(text)
    if version == 0 and resource.needs_version:
        fault = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.plural, old["metadata"]["name"], [fault], resource.group)
    if version and version != int(old["metadata"]["resourceVersion"]):
        raise conflict(resource.plural, old["metadata"]["name"], group=resource.group)


def _parsed(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise _unparsed(text, "invalid syntax")
    if len(text.lstrip("0")) > len(str(_MAX_VERSION)) or int(text) > _MAX_VERSION:
        raise _unparsed(text, "value out of range")
    return int(text)


def _unparsed(text: str, why: str) -> ApiError:
    return unexplained(f"strconv.ParseUint: parsing {quoted(text)}: {why}")
