"""Reads one zstd frame of a file within limits: a frame of a few kilobytes can claim, or expand to, gigabytes."""

from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from mooring.kit.bounded_reading import MIB, Expansion

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
