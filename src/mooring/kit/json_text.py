"""JSON of anything, also of texts that are no proper Unicode: a plugin may say anything."""

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_bytes(document: Any) -> bytes:
    """The document as JSON without line ends. Half characters (lone surrogates) are escaped; unknown values are texts."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document, enc_hook=str), separators=(",", ":")).encode()


def whole_characters(text: str) -> str:
    """A text of HTTP in which U+FFFD stands for bytes that are no UTF-8. aiohttp has surrogates there, and text that has one
    cannot be encoded again."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
