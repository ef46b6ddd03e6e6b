"""Reads answers of HTTP/1.1 out of the pieces in which they come, with httptools (ADR 11). No I/O."""

from dataclasses import dataclass
from typing import Any

import httptools

from mooring.apiclient.unanswered import TooLarge

MAX_ANSWER_BYTES = 4 << 20
"""The largest object that an API server stores is 1.5 MiB; a body without a limit would take all memory."""
_MAX_HEAD_BYTES = 64 << 10
_CHUNK_BYTES = 5
"""What a chunk takes beside its content, at the least: a digit and two ends of lines. Tiny chunks count as well."""
_LENGTHS = (b"content-length", b"transfer-encoding")


@dataclass(slots=True)
class Reply:
    """An answer: its status, the seconds of Retry-After (None: not asked to), its body."""

    status: int
    retry_after_s: int | None
    body: bytes


class AnswerReader:
    """Give it what was received, in order; one answer at a time."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self.is_last = False
        """The server said that it will close after this answer."""
        self._reply: Reply | None = None
        self._head_bytes = 0
        """What has come of a head that is not all here yet."""
        self._fault: Exception | None = None
        self.on_message_begin()

    def take(self, data: bytes) -> Reply | None:
        """The answer if it is all here. Raises ValueError for what is not HTTP, TooLarge for more than we read."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise self._fault or ValueError("not HTTP/1") from error
        if self._fault is not None:
            raise self._fault
        if self._is_in_head and self._head_bytes > _MAX_HEAD_BYTES:
            raise ValueError("no end of headers")
        reply, self._reply = self._reply, None
        return reply

    def end(self) -> Reply | None:
        """The server has closed the connection: an answer that says nothing of its length is all here then."""
        return None if self._is_in_head or self._has_length else self._made()

    def _made(self) -> Reply:
        return Reply(self._parser.get_status_code(), self._retry_after_s, b"".join(self._parts))

    # ---- the parser calls these. An exception in them would lose its type, so they note a fault instead.

    def on_message_begin(self) -> None:
        if self._reply is not None:
            self._fault = ValueError("more than one answer")
        self._parts: list[bytes] = []
        self._body_bytes = 0
        self._retry_after_s: int | None = None
        self._is_in_head, self._has_length = True, False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _LENGTHS:
            self._has_length = True
            if value.isdigit():
                self._check_size(int(value))
        elif name == b"retry-after" and value.strip().isdigit():
            self._retry_after_s = int(value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        if self._parser.get_status_code() < 100:
            self._fault = ValueError("no status of HTTP")

    def on_chunk_header(self) -> None:
        self._body_bytes += _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._check_size(self._body_bytes)
        if self._fault is None:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self._is_in_head = True
        if self._parser.get_status_code() >= 200:  # such as 100 Continue: the answer is yet to come
            self._reply = self._made()
            self.is_last = not self._parser.should_keep_alive()

    def _check_size(self, length: int) -> None:
        if length > MAX_ANSWER_BYTES:
            self._fault = TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes, which is all we read")
