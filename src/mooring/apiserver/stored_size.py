"""How much room an object takes in etcd, which stores most kinds as protobuf: names of fields are numbers there."""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode

_TAG_BYTES = 2
"""A field's number and the length of what follows, as a rule."""
_NUMBER_BYTES = 3
_LONGEST_FIELD_NAME = 64
_AS_JSON = "fieldsV1"
"""Stored as the text that it is in JSON."""


def stored_bytes(value: Any) -> int:
    """An estimate, without the table of fields: what looks like the name of a field counts as its number.

    | value                         | bytes |
    | {"image": "nginx"}            | 7     |
    | {"example.com/role": "web"}   | 21    |
    """
    match value:
        case dict():
            return sum(_entry_bytes(key, part) for key, part in value.items())
        case list():
            return sum(_TAG_BYTES + stored_bytes(part) for part in value)
        case str():
            return len(value.encode(errors="surrogatepass"))
        case None:
            return 0
    return _NUMBER_BYTES


def _entry_bytes(key: str, part: Any) -> int:
    if key == _AS_JSON:
        return _TAG_BYTES + len(_encode(part))
    is_field = len(key) <= _LONGEST_FIELD_NAME and key.isidentifier()
    if isinstance(part, list):  # each item has the tag
        return stored_bytes(part)
    return _TAG_BYTES + (0 if is_field else len(key)) + stored_bytes(part)
