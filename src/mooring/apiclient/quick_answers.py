"""Reads answers of HTTP/1.1 out of the pieces in which they come. No I/O."""

from dataclasses import dataclass

from mooring.apiclient.unanswered import TooLarge

MAX_ANSWER_BYTES = 4 << 20
_MAX_HEAD_BYTES = 64 << 10
_MAX_LINE_BYTES = 1 << 10
_HEAD_END = b"\r\n\r\n"
_BODILESS = (204, 304)
_HEX = frozenset(b"0123456789abcdefABCDEF")


@dataclass(slots=True)
class Reply:
    """An answer: its status, the seconds of Retry-After (None: not asked to), its body."""

    status: int
    retry_after_s: int | None
    body: bytes


@dataclass(slots=True)
class _Head:
    status: int
    length: int | None = None
    is_chunked: bool = False
    retry_after_s: int | None = None
    closes: bool = False

    def reply(self, body: bytes) -> Reply:
        return Reply(self.status, self.retry_after_s, body)


class AnswerReader:
    """Give it what was received, in order; one answer at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.is_last = False
        """The server said that it will close after this answer."""

    def take(self, data: bytes) -> Reply | None:
        """The answer if it is all here. Raises ValueError for what is not HTTP, TooLarge for more than we read."""
        received = self._received
        received += data
        while (end := received.find(_HEAD_END)) >= 0:
            head = _head(bytes(received[:end]))
            start = end + len(_HEAD_END)
            if head.status >= 200:
                return self._whole(head, start)
            del received[:start]  # such as 100 Continue: the answer is yet to come
        if len(received) > _MAX_HEAD_BYTES:
            raise ValueError("no end of headers")
        return None

    def end(self) -> Reply | None:
        """The server has closed the connection: an answer that says nothing of its length is all here then."""
        end = self._received.find(_HEAD_END)
        if end < 0:
            return None
        head = _head(bytes(self._received[:end]))
        if head.length is not None or head.is_chunked:
            return None
        return head.reply(bytes(self._received[end + len(_HEAD_END) :]))

    def _whole(self, head: _Head, start: int) -> Reply | None:
        received = self._received
        if head.is_chunked:
            found = _dechunked(received, start)
        elif head.length is not None:
            found = _measured(received, start, head.length)
        else:
            found = None  # it ends with the connection
        if found is None:
            _check_size(len(received) - start)
            return None
        body, end = found
        self.is_last = head.closes
        del received[:end]
        if received:
            raise ValueError("more than one answer")
        return head.reply(body)


def _head(head: bytes) -> _Head:
    lines = head.split(b"\r\n")
    version, status = lines[0].split(b" ", 2)[:2]
    if not version.startswith(b"HTTP/1.") or len(status) != 3 or not status.isdigit() or status < b"100":
        raise ValueError("not HTTP/1")
    found = _Head(int(status), closes=version == b"HTTP/1.0")
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        value = value.strip()
        match name.lower():
            case b"content-length":
                found.length = _length(value, found.length)
            case b"transfer-encoding":
                found.is_chunked = b"chunked" in value.lower()
            case b"connection":
                found.closes = b"close" in value.lower() or (found.closes and b"keep-alive" not in value.lower())
            case b"retry-after" if value.isdigit():
                found.retry_after_s = int(value)
    if found.length is None and found.status in _BODILESS:
        found.length = 0
    return found


def _length(value: bytes, before: int | None) -> int:
    if not value.isdigit() or before not in (None, int(value)):
        raise ValueError("no length, or two of them")
    _check_size(int(value))
    return int(value)


def _measured(received: bytearray, start: int, length: int) -> tuple[bytes, int] | None:
    end = start + length
    return (bytes(received[start:end]), end) if len(received) >= end else None


def _dechunked(received: bytearray, start: int) -> tuple[bytes, int] | None:
    """The body and where it ends; None if it is not all here."""
    parts: list[bytes] = []
    while True:
        line_end = received.find(b"\r\n", start)
        if line_end < 0:
            if len(received) - start > _MAX_LINE_BYTES:
                raise ValueError("no end of a chunk's length")
            return None
        size = _chunk_size(bytes(received[start:line_end]))
        if size == 0:  # headers may follow, of which none concerns us; then an empty line
            end = received.find(_HEAD_END, line_end)
            return (b"".join(parts), end + len(_HEAD_END)) if end >= 0 else None
        start = line_end + 2
        end = start + size
        if len(received) < end + 2:
            return None
        if received[end : end + 2] != b"\r\n":
            raise ValueError("a chunk is longer than it says")
        parts.append(bytes(received[start:end]))
        start = end + 2


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or not _HEX.issuperset(digits):
        raise ValueError("no length of a chunk")
    size = int(digits, 16)
    _check_size(size)
    return size


def _check_size(length: int) -> None:
    if length > MAX_ANSWER_BYTES:
        raise TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes, which is all we read")
