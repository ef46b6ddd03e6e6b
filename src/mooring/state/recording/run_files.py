"""The files of one run, written by a thread of their own: segments follow each other, and old ones are removed.

    DIR/20261116T080000Z-4f3a/000001.rec, 000002.rec, ...

A run is one process. Every segment but the first begins with the state of the scheduler where that was possible, so that
replay can begin there and older segments are not needed.
"""

import logging
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep

import msgspec

from mooring.kit.clock import NS_PER_S, SteadyClock, elapsed_ns
from mooring.kit.private_files import make_private, make_private_folders
from mooring.state.recording.segment_file import SUFFIX, SegmentHeader, SegmentWriter

log = logging.getLogger(__name__)

MAX_WAITING = 1024
"""Blocks that wait for a disk that is too slow, 64 MiB of steps. Beyond that steps are dropped until it has caught up: a
recording must not fill the memory."""
SYNC_S = 5.0
"""How often what was written is brought to the disk: so much is lost at most if the machine itself stops."""


class RecordingLimits(msgspec.Struct, frozen=True):
    """When a segment ends, and what is kept of all runs in a directory."""

    segment_bytes: int = 64 << 20
    interval_s: float = 900
    """How long a segment lasts: replay begins at most this long before a moment."""
    total_bytes: int = 1 << 30
    age_s: float = 7 * 24 * 3600
    drops: bool = True
    """Whether steps are dropped when the disk cannot keep up. A live scheduler must not wait; a simulation may."""


class RecordingFigures(msgspec.Struct):
    """Counts of all that was recorded so far; metrics read them."""

    steps: int = 0
    bytes: int = 0
    segments: int = 0
    lost_steps: int = 0
    faults: int = 0


Encode = Callable[[], bytes | bytearray]
"""Makes a block; called by the writing thread."""


class RunFiles:
    """Takes blocks and new segments, in order, and writes them in a thread. Nothing here raises to the caller: a disk
    that is full ends the segment, and `is_failed` says so until a new segment could be begun."""

    def __init__(self, directory: Path, limits: RecordingLimits, started_ns: int, figures: RecordingFigures) -> None:
        moment = datetime.fromtimestamp(started_ns // NS_PER_S, UTC)
        self.run = f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        self.path = directory / self.run
        make_private_folders(self.path)
        for older in {path.parent for path in segments_in(directory)}:  # earlier versions let everybody read them
            make_private(older)
        self._directory, self._limits, self._figures = directory, limits, figures
        self._work: SimpleQueue[Encode | SegmentHeader | None] = SimpleQueue()
        """Blocks, the headers of new segments, and None for the end."""
        self._segment: SegmentWriter | None = None
        self._synced_s = 0.0
        self._clock = SteadyClock(elapsed_ns=elapsed_ns)
        """Steady: a clock that is set ahead must not make all segments too old."""
        self.is_failed = False
        self._is_told = False
        """Whether a failure was logged that is not over: a full disk fails at every new segment."""
        self.segment_size = 0
        self._thread = threading.Thread(target=self._write_all, name="recording", daemon=True)
        self._thread.start()

    def begin(self, header: SegmentHeader) -> None:
        """End the segment and begin another one."""
        self.is_failed = False
        self.segment_size = 0
        self._work.put(header)

    def write(self, encode: Encode) -> None:
        """Append a block to the segment."""
        self._work.put(encode)

    @property
    def waiting(self) -> int:
        """How many blocks have yet to be written."""
        return self._work.qsize()

    def has_room(self) -> bool:
        """Whether another block may wait. Where nothing is dropped this returns when there is room."""
        while not self._limits.drops and self.waiting >= MAX_WAITING:
            sleep(0.001)
        return self.waiting < MAX_WAITING

    def close(self, patience_s: float = 10.0) -> None:
        """Write what waits, and end. A simulation waits for as long as that takes, a live scheduler for `patience_s`."""
        self._work.put(None)
        self._thread.join(patience_s if self._limits.drops else None)
        if self._thread.is_alive():
            log.error("the recording in %s lacks its end: the disk took longer than %g s", self.path, patience_s)

    # ---- in the thread

    def _write_all(self) -> None:
        while (work := self._next()) is not None:
            try:
                self._write(work)
            except Exception as fault:  # an object that cannot be written must not end the recording for good
                self._fail(fault)
        self._end_segment()

    def _next(self) -> Encode | SegmentHeader | None:
        while True:
            try:
                return self._work.get(timeout=SYNC_S)
            except Empty:
                self._sync()

    def _write(self, work: Encode | SegmentHeader) -> None:
        """Begin the segment of a header, or append a block to the present one."""
        if isinstance(work, SegmentHeader):
            self._end_segment()
            path = self.path / f"{work.number:06d}{SUFFIX}"
            self._segment = SegmentWriter(path, work)
            self._figures.segments += 1
            _remove_old(self._directory, self._limits, path, self._clock.now_ns() // NS_PER_S)
        elif self._segment is not None:
            before = self._segment.size
            self._segment.write(work())
            self._recovered()
            self.segment_size = self._segment.size
            self._figures.bytes += self._segment.size - before
            if monotonic() - self._synced_s >= SYNC_S:
                self._sync()

    def _sync(self) -> None:
        self._synced_s = monotonic()
        if self._segment is not None:
            self._segment.sync()

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _fail(self, fault: Exception) -> None:
        """The segment ends here. What follows is lost until the next one begins."""
        self._figures.faults += 1
        self.is_failed = True
        if not self._is_told:
            self._is_told = True
            log.error("the recording in %s stops until it can be written again: %s", self.path, fault)
        segment, self._segment = self._segment, None
        if segment is None:
            return
        with suppress(OSError):  # most likely the same fault; readers find the last whole block without an end
            segment.discard() if segment.is_empty else segment.close()

    def _recovered(self) -> None:
        """A block was written. After failures, say that they are over."""
        if self._is_told:
            self._is_told = False
            log.warning("the recording in %s goes on; the steps before are missing", self.path)


# ---- what is kept


def segments_in(directory: Path) -> list[Path]:
    """The segments of all runs in a directory, in order of their runs and numbers. Other files are not ours."""
    return sorted(path for path in directory.glob(f"*T*Z-*/*{SUFFIX}") if path.stem.isdigit())


def _remove_old(directory: Path, limits: RecordingLimits, present: Path, now_s: float) -> None:
    """Remove segments that are too old, or too much; never the present one. A folder goes with its last segment."""
    sizes: list[tuple[Path, os.stat_result]] = []
    for path in segments_in(directory):
        try:
            sizes.append((path, path.stat()))
        except FileNotFoundError:
            continue  # another process that records here removed it
    total = sum(status.st_size for _, status in sizes)
    oldest_s = now_s - limits.age_s
    for path, status in sizes:
        if path != present and (total > limits.total_bytes or status.st_mtime < oldest_s):
            path.unlink(missing_ok=True)
            total -= status.st_size
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
