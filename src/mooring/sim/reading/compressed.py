"""Input that is compressed with gzip: dumps of large clusters shrink to a twentieth.

The limit of the input counts decompressed bytes: a file of a megabyte can expand to a gigabyte.
"""

import zlib

MAGIC = b"\x1f\x8b"
"""The first bytes of every gzip file; no manifest begins with them."""
SUFFIX = ".gz"
_GZIP = 16 + zlib.MAX_WBITS
"""The format that zlib expects: with the header and the checksum of gzip."""


class BadGzip(ValueError):
    """The text is for the user: what is wrong with the file."""


def is_compressed(raw: bytes) -> bool:
    return raw.startswith(MAGIC)


def decompressed(raw: bytes, max_bytes: int) -> bytes:
    """The content of all members, cut after `max_bytes` + 1 bytes: so the caller sees that there is more. Raises BadGzip."""
    parts: list[bytes] = []
    left = max_bytes + 1
    while raw and left > 0:
        # gzip(1) pads files with zeros on some devices, and ignores what follows the last member.
        if parts and not is_compressed(raw):
            break
        content, raw = _member(raw, left)
        parts.append(content)
        left -= len(content)
    return b"".join(parts)


def _member(raw: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    """The content of the first member, and what follows it."""
    reader = zlib.decompressobj(_GZIP)
    try:
        content = reader.decompress(raw, max_bytes)
    except zlib.error:
        raise BadGzip("the gzip file is damaged: compress it again") from None
    if not reader.eof and len(content) < max_bytes:
        raise BadGzip("the gzip file is cut off: copy it again")
    return content, reader.unused_data
