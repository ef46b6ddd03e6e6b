"""One file of a recording: a line that says what it is, a header, and a compressed stream of blocks.

    mooring-recording 3            the format
    {"run": ...}                   the header (SegmentHeader)
    <zstd stream>                  blocks: length, checksum, JSON lines; the last one is empty

Each block ends at a flush of the stream, so that a process that is killed loses the blocks that it has not written, and
nothing else. A block that is cut off or has another checksum ends the file for readers. The checksum is that of the
block's number as well: damage may make a block vanish.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from mooring.kit.bounded_reading import TOO_MANY_VALUES, Bomb, ZstdStream, has_too_many_values
from mooring.kit.private_files import open_private

FORMAT = 3
"""The format that is written. Files of older formats are read too. In format 2 every pod was written with its spec
(`PodTemplates`). In format 1 checksums were those of blocks alone too, and files had no end of their own: a file that was
cut between two blocks could not be told from a whole one."""
MAGIC = b"mooring-recording "
SUFFIX = ".rec"
LEVEL = 1
"""Compression level of zstd. Level 3 makes files a tenth smaller and takes half as long again."""
MAX_BLOCK = 256 << 20
"""No block is longer: a length beyond it is damage, not a reason to ask for memory. The state of 100,000 nodes takes a
third of it."""
_FRAME = struct.Struct("<II")
"""The length of a block and its checksum (CRC-32)."""


class SegmentHeader(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The description of a file, which stands before its blocks."""

    run: str
    """The process that wrote it. The files of a run follow each other by number."""
    number: int
    source: str = "scheduler"
    """`scheduler`: steps of a scheduler of ours, with its decisions. `observer`: changes of a cluster that another
    scheduler runs."""
    begins: str = "empty"
    """`empty`: with a scheduler that knows nothing; `state`: the first block has its state; `objects`: the first `known`
    steps add all objects as they were then; `steps`: it goes on where the segment before ended, and has no state."""
    known: int = 0
    """How many steps at its beginning add objects that were there before: who comes from the segment before skips them."""
    lost: int = 0
    """How many steps were lost before it."""
    started_ns: int = 0
    """The time from which the first step counts."""
    version: str = ""
    """Version of Mooring that wrote the segment. The settings name the rules by which it decided."""
    server: str = ""
    """Of a cluster that another scheduler runs: the version of its API server, such as `v1.37.0`."""
    settings: dict[str, Any] = {}
    """The configuration and the feature gates, as in a snapshot."""
    tie_break: str = "seed"
    seed: int = 0
    """The seed of each attempt is its number plus this one."""
    max_unschedulable_s: float = 300
    plugins: list[str] = []
    """Plugins that do not come with Mooring."""
    annotations: list[str] = []
    """Patterns of annotation keys whose values are in the recording, beside those that Mooring reads itself."""


class RecordingError(Exception):
    """A file that is no recording, or one of another version, with the file in its text."""


# ---- writing


class SegmentWriter:
    """Writes one file. A block that `write` returned from is with the operating system: killing the process does not
    lose it."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self._file: BinaryIO = os.fdopen(open_private(path, os.O_EXCL), "wb", buffering=0)
        self._stream = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        self.size = 0
        self._count = 0
        try:
            self.put(MAGIC + b"%d\n" % FORMAT + msgspec.json.encode(header) + b"\n")
        except BaseException:
            self.discard()
            raise

    def write(self, block: bytes | bytearray) -> None:
        """Append a block of lines."""
        stream, frame = self._stream, _FRAME.pack(len(block), _checksum(FORMAT, self._count + 1, block))
        self.put(stream.compress(frame) + stream.compress(block) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._count += 1

    def sync(self) -> None:
        """Bring what was written to the disk."""
        os.fsync(self._file.fileno())

    @property
    def is_empty(self) -> bool:
        """Whether no block was written whole."""
        return not self._count

    def discard(self) -> None:
        """Remove the file: without a block it says nothing."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        try:
            self.write(b"")
            self.put(self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
            self.sync()
        finally:
            self._file.close()

    def put(self, data: bytes) -> None:
        """Write all of it: a raw file may take less."""
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            view = view[written:]
        self.size += len(data)


# ---- reading


class SegmentReader:
    """Reads one file. After the last block `damage` says why it ended early; None: it is whole, or still written to."""

    def __init__(self, path: Path) -> None:
        """Raises RecordingError where the file is not a recording that this version can read."""
        self.path = path
        self.damage: str | None = None
        self._count = 0
        self.is_ended = False
        """Whether `blocks` has come to the end that a writer put there."""
        with path.open("rb") as file:
            self.format = _format_of(path, file.readline(64))
            self.header = _header_of(path, file.readline(16 << 20))
            self._start = file.tell()

    def blocks(self) -> Iterator[bytes]:
        """All blocks that are whole."""
        self.damage, self._count, self.is_ended = None, 0, False
        held = bytearray()
        with self.path.open("rb") as file:
            file.seek(self._start)
            stream = ZstdStream(file)
            pieces = stream.pieces()
            while self.damage is None and (piece := self._next(pieces)):
                held += piece
                yield from self._whole(held)
        if self.damage is None and held:
            self.damage = f"its last {len(held):,} bytes are not a whole block"
        if self.format == 1:
            self.is_ended = stream.is_ended
        if self.damage is None and stream.is_ended and (stream.has_rest or not self.is_ended):
            self.damage = "its compressed data end too early"

    def _next(self, pieces: Iterator[bytes]) -> bytes:
        """The next piece of the stream; an empty one at its end, or at damage."""
        try:
            return next(pieces, b"")
        except (zstandard.ZstdError, Bomb) as fault:
            self.damage = f"its compressed data are damaged ({fault})"
            return b""

    def _whole(self, held: bytearray) -> Iterator[bytes]:
        """Take whole blocks from the beginning of what is held."""
        while self.damage is None and len(held) >= _FRAME.size:
            length, checksum = _FRAME.unpack_from(held)
            if length > MAX_BLOCK:
                self.damage = f"a block claims to have {length:,} bytes"
                return
            end = _FRAME.size + length
            if len(held) < end:
                return
            with memoryview(held) as view:
                block = bytes(view[_FRAME.size : end])
            self._count += 1
            if _checksum(self.format, self._count, block) != checksum:
                self.damage = "a block has another checksum than it should"
                return
            if has_too_many_values(block):
                self.damage = f"a block cannot be meant: {TOO_MANY_VALUES}"
                return
            del held[:end]
            if length:
                yield block
            else:
                self.is_ended = True


def _checksum(version: int, number: int, block: bytes | bytearray) -> int:
    if version == 1:
        return zlib.crc32(block)
    return zlib.crc32(block, zlib.crc32(number.to_bytes(8, "little")))


def _format_of(path: Path, line: bytes) -> int:
    """Read the number of the format from the first line of a segment. Raises RecordingError if the file is no recording, or
    is from a newer version."""
    if not line.startswith(MAGIC):
        raise RecordingError(f"{path}: this is not a recording of Mooring")
    text = line[len(MAGIC) :].strip()
    if not text.isdigit():
        raise RecordingError(f"{path}: the format of the recording cannot be read")
    if not 1 <= int(text) <= FORMAT:
        raise RecordingError(
            f"{path}: the recording has format {int(text)}; this version reads 1 to {FORMAT}: upgrade Mooring"
        )
    return int(text)


def _header_of(path: Path, line: bytes) -> SegmentHeader:
    try:
        return msgspec.json.decode(line, type=SegmentHeader)
    except msgspec.MsgspecError as fault:
        raise RecordingError(f"{path}: the header of the recording cannot be read: {fault}") from fault
