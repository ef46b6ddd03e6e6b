"""How much a ConfigMap or a Secret may hold: less than etcd takes, and refused with other words."""

from base64 import b64decode
from binascii import Error

from mooring.apiserver.lookups import JsonObject
from mooring.model.api_errors import Cause, field_too_long

MAX_DATA_BYTES = 1024 * 1024
HOLDERS = ("configmaps", "secrets")


def data_faults(plural: str, item: JsonObject) -> list[Cause]:
    if plural not in HOLDERS:
        return []
    encoded = item.get("binaryData" if plural == "configmaps" else "data") or {}
    plain = (item.get("data") or {}) if plural == "configmaps" else {}
    size_bytes = sum(map(_text_bytes, plain.values())) + sum(map(_decoded_bytes, encoded.values()))
    # Parity: a ConfigMap is refused as a whole, which has no path.
    return [field_too_long("[]" if plural == "configmaps" else "data", MAX_DATA_BYTES)] * (size_bytes > MAX_DATA_BYTES)


def _text_bytes(value: object) -> int:
    return len(value.encode()) if isinstance(value, str) else 0


def _decoded_bytes(value: object) -> int:
    """What is no base64 counts as what it is; others refuse it."""
    try:
        return len(b64decode(value)) if isinstance(value, str) else 0
    except (Error, ValueError):
        return _text_bytes(value)
