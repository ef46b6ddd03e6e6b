"""Reads input of unknown size within a limit. A few bytes can stand for gigabytes: a compressed or sparse file, a device.

Every reader checks before it takes the memory. A file beyond its limit is an OSError, so that a caller reports it in the
words in which it reports every other file that cannot be read.
"""

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

MIB = 1 << 20
SETTINGS_BYTES = 16 * MIB
"""The limit for configurations, kubeconfigs, certificates, tokens and plugin files. The largest of them, kubeconfigs of a
thousand clusters with their certificates, have 5 MiB."""
_PIECE = MIB


def read_file(path: str | os.PathLike[str], max_bytes: int = SETTINGS_BYTES) -> bytes:
    """The content of a file. Raises OSError, with EFBIG for a file beyond the limit, and ValueError for a path with a NUL."""
    with open(path, "rb") as file:
        return read_stream(file, max_bytes, path)


def read_stream(file: BinaryIO, max_bytes: int, name: str | os.PathLike[str]) -> bytes:
    """The rest of an open file. Raises OSError. A regular file that is too large is not read at all: it may be sparse."""
    status = _status(file)
    if status is not None and stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
        raise too_large(name, max_bytes)
    pieces: list[bytes] = []
    left = max_bytes
    while left >= 0 and (piece := file.read(min(_PIECE, left + 1))):
        pieces.append(piece)
        left -= len(piece)
    if left < 0:
        raise too_large(name, max_bytes)
    return b"".join(pieces)


def _status(file: BinaryIO) -> os.stat_result | None:
    """None for a file that is not one of the operating system, such as standard input in a test."""
    try:
        return os.fstat(file.fileno())
    except OSError:
        return None


def too_large(name: str | os.PathLike[str], max_bytes: int) -> OSError:
    """The error for a file beyond its limit."""
    return OSError(
        errno.EFBIG, f"the file has more than {shown_bytes(max_bytes)}, the limit for such a file", str(name)
    )


def shown_bytes(count: int) -> str:
    """A limit in words: `16 MiB`, `1000 bytes`."""
    return f"{count // MIB:,} MiB" if count and count % MIB == 0 else f"{count} bytes"


# ---- decoded data


_VALUES_GRACE = 250_000
"""How many values may be of any size."""
_BYTES_OF_A_VALUE = 8
"""Values of Kubernetes objects, with their keys, have some 25 bytes of JSON on average. `{},` has 3, and takes hundreds of
bytes once it is decoded."""
TOO_MANY_VALUES = f"it has more than one value for each {_BYTES_OF_A_VALUE} bytes, which no Kubernetes object has"


def has_too_many_values(text: bytes) -> bool:
    """Whether JSON would take far more memory than its length suggests. A comma stands between any two values;
    those in strings count too, which only makes the check stricter."""
    return text.count(b",") > _VALUES_GRACE + len(text) // _BYTES_OF_A_VALUE


# ---- compressed data


GRACE_BYTES = 32 * MIB
"""How far data may expand by any ratio: a small file of blanks is no danger."""


class Bomb(ValueError):
    """Compressed data that expand beyond what any real content does. The text says by how much."""


class Expansion:
    """Compares what came out of a decompressor with what went in. Raises Bomb."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = self._given = 0

    def note(self, taken: int, given: int) -> None:
        self._taken += taken
        self._given += given
        if self._given > GRACE_BYTES + self._most * self._taken:
            raise Bomb(f"its first {self._taken:,} compressed bytes expand more than {self._most:,}-fold")


GZIP_SUFFIX = ".gz"
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of every gzip file; no manifest begins with them."""
GZIP_RATIO = 250
"""DEFLATE copies at most 258 bytes at a time, and needs 10 bits to name a place 512 bytes back: 206 to 1. Kubernetes
objects are longer than that, so that even equal objects do not shrink more. Runs of one character do: 1,032 to 1."""
_GZIP = 16 + zlib.MAX_WBITS
"""The format that zlib expects: with the header and the checksum of gzip."""


class BadGzip(ValueError):
    """The text is for the user: what is wrong with the file."""


def is_gzip(raw: bytes) -> bool:
    return raw.startswith(GZIP_MAGIC)


def gunzipped(raw: bytes, max_bytes: int) -> bytes:
    """The content of all members of a gzip file, cut after `max_bytes` + 1 bytes: so the caller sees that there is more.

    Raises BadGzip, Bomb.
    """
    content = _Inflating(raw, max_bytes + 1)
    content.take(zlib.decompressobj(_GZIP))
    # gzip(1) pads files with zeros on some devices, and ignores what follows the last member.
    while content.left > 0 and content.rest[:2] == GZIP_MAGIC:
        content.take(zlib.decompressobj(_GZIP))
    return b"".join(content.pieces)


def inflated(raw: bytes, max_bytes: int) -> bytes:
    """The content of zlib's own format. Raises ValueError: BadGzip, Bomb, or one for content beyond the limit."""
    content = _Inflating(raw, max_bytes + 1)
    content.take(zlib.decompressobj())
    if content.left <= 0:
        raise ValueError(f"its content has more than {shown_bytes(max_bytes)}")
    return b"".join(content.pieces)


class _Inflating:
    """Compressed data, and the pieces of content that were taken from them."""

    def __init__(self, raw: bytes, most: int) -> None:
        self.rest = memoryview(raw)
        self.left = most
        self.pieces: list[bytes] = []
        self._expansion = Expansion(GZIP_RATIO)

    def take(self, reader: "zlib._Decompress") -> None:
        """Take the pieces of one member, up to the limit. Raises BadGzip, Bomb."""
        while not reader.eof and self.left > 0:
            given = self.rest[:_PIECE]
            try:
                piece = reader.decompress(given, min(_PIECE, self.left))
            except zlib.error:
                raise BadGzip("the gzip file is damaged: compress it again") from None
            used = len(given) - len(reader.unconsumed_tail) - len(reader.unused_data)
            if not piece and not used and not reader.eof:
                raise BadGzip("the gzip file is cut off: copy it again")
            self._expansion.note(used, len(piece))
            self.pieces.append(piece)
            self.left -= len(piece)
            self.rest = self.rest[used:]


# ---- Reads one zstd frame of a file within limits: a frame of a few kilobytes can claim, or expand to, gigabytes.


ZSTD_RATIO = 2000
"""zstd copies up to 128 KiB at a time. Objects that differ only in a name shrink to a few hundredths, those of a
large recording to a fiftieth. A run of one character shrinks to a thirty-thousandth."""
_ZSTD_FEED = 512
"""A decompressor answers what it is given with one piece of memory: 4 bytes may stand for 128 KiB, so these for 16 MiB."""
_ZSTD_WINDOW = 8 * MIB
"""The memory that a frame may claim for what it refers back to: all decoders support so much (RFC 8878).
Level 1 needs 512 KiB."""


class ZstdStream:
    """The content of one zstd frame in a file, piece by piece. After the last piece, `is_ended` says whether the frame has
    come to its end, and `has_rest` whether anything follows it."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard  # only recordings need it, and the import takes 11 ms

        self._file = file
        self._engine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        self.has_rest = False

    @property
    def is_ended(self) -> bool:
        return self._engine.eof

    def pieces(self) -> Iterator[bytes]:
        """Pieces of at most 16 MiB. Raises zstandard.ZstdError for damage, Bomb, OSError."""
        expansion = Expansion(ZSTD_RATIO)
        while chunk := self._file.read(MIB):
            for at in range(0, len(chunk), _ZSTD_FEED):
                fed = chunk[at : at + _ZSTD_FEED]
                if self._engine.eof:
                    self.has_rest = True
                    return
                piece = self._engine.decompress(fed)
                expansion.note(len(fed), len(piece))
                if piece:
                    yield piece
                self.has_rest = bool(self._engine.unused_data)


# ---- bodies of HTTP messages


class Message(Protocol):
    """A request or an answer of HTTP, whose body is read as it arrives."""

    @property
    def content_length(self) -> int | None: ...

    @property
    def content(self) -> Any:
        """Its `iter_any` gives pieces of the body, as large as they have arrived."""


async def read_body(message: Message, max_bytes: int) -> bytes | None:
    """The whole body of a request or an answer; None as soon as it is known to be larger than that. Raises
    what the message raises for a body that cannot be read."""
    if (message.content_length or 0) > max_bytes:
        return None
    body = bytearray()
    async for chunk in message.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)
