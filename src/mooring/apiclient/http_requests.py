"""Requests of a client: what is sent, what comes back, and the errors of requests without a usable answer. `client`
decides what an answer means and whether to try again.

Exceptions of HTTP libraries hold the request with its headers, and therefore the token. These errors hold only texts,
so that they can be logged.
"""

import errno
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import Any, Protocol

import msgspec

from mooring.api.api_errors import ApiError, Cause, StatusDetails
from mooring.kit.bounded_reading import Message
from mooring.kit.shown_text import quoted


class Unanswered(Exception):
    """There is no usable answer. The server may have carried out the request."""


class ConnectionRefused(Unanswered):
    """No server listens at the address, so that the request was not carried out."""


class ConnectionLost(Unanswered):
    """The connection was reset, or ended before the end of the answer."""


class TimedOut(Unanswered):
    """The time limit passed."""


class NotTrusted(Unanswered):
    """TLS failed: one side does not accept the other's certificate."""


class TooLarge(Unanswered):
    """The answer, or one line of a watch, exceeds the client's limit."""


class Unreadable(Unanswered):
    """The answer does not have the form that the API specifies."""


def unanswered(error: Exception, request: str) -> Unanswered:
    """The Unanswered for an error of a connection; `request` is for the text (`GET /api/v1/pods`)."""
    if isinstance(error, TimeoutError):
        return TimedOut(f"{request}: no answer within the time limit")
    cause = next((each for each in (error, error.__cause__) if isinstance(each, ssl.SSLError)), None)
    if cause is not None:
        return NotTrusted(f"{request}: TLS failed: {cause.reason or type(cause).__name__}")
    if isinstance(error, OSError):
        return ConnectionLost(f"{request}: the connection was lost: {told(error)}")
    return Unanswered(f"{request}: {type(error).__name__}")


def untrusted(error: Exception, request: str) -> NotTrusted:
    """The certificate of the server is not trusted."""
    why = getattr(error, "verify_message", "") or type(error).__name__
    return NotTrusted(f"{request}: the server's certificate is not trusted: {why}")


def unconnected(error: OSError, request: str, host: str, port: int | None) -> Unanswered:
    """There is no connection to the host."""
    kind = ConnectionRefused if is_refused(error) else Unanswered
    return kind(f"{request}: cannot connect to {host}:{port}: {told(error)}")


def is_refused(error: Exception) -> bool:
    """For a host with several addresses there is one OSError with all failures in its text."""
    return isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error)


def told(error: BaseException) -> str:
    """The text of the operating system. Messages of the library may contain secrets, so only the type is shown."""
    return getattr(error, "strerror", None) or type(error).__name__


# ---- answers that are errors


_SHOWN_BODY_CHARS = 2048
"""client-go's limit for the body of an unexplained error in a message."""

_BY_CODE: dict[int, tuple[str, str]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", ""),
    409: ("Conflict", "the server reported a conflict"),
    410: ("Gone", "the server could not find the requested resource"),
    413: ("RequestEntityTooLarge", "the server rejected our request because it is too large"),
    415: ("UnsupportedMediaType", ""),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}
"""Reason and message by status code, for answers without a Status (a proxy answered): client-go's texts. Without a message
the body is shown."""


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list; a Status has the same."""

    resource_version: str | None = None
    token: str | None = msgspec.field(default=None, name="continue")
    """For the next page; empty after the last."""


class _RefusalStatus(msgspec.Struct):
    kind: str
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None
    metadata: ListMeta | None = None


def refusal(code: int, body: bytes, request: str, retry_after_s: int = 0) -> ApiError:
    """The ApiError of an answer that is not a success: the way back from `ApiError.status`."""
    try:
        status = msgspec.json.decode(body, type=_RefusalStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unexplained(code, body, request, retry_after_s)
    if status.kind != "Status" or status.status == "Success":
        return _unexplained(code, body, request, retry_after_s)
    return _rebuilt(status, code, retry_after_s)


class _Success(msgspec.Struct):
    """The field that tells a Status from other objects of the API. The rest is skipped."""

    kind: str | None = None


def check_success(body: bytes, request: str) -> None:
    """Check the body of an answer with a status of success. Raises Unreadable if it is not a JSON object, such as the page
    of a proxy, and ApiError if it is a Status that reports a failure."""
    try:
        found = msgspec.json.decode(body, type=_Success)
        if found.kind == "Status" and (error := failed_status(msgspec.json.decode(body))):
            raise error
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable(f"{request}: the answer is not an object of the API") from None


def failed_status(value: Any) -> ApiError | None:
    """The ApiError of a Status that reports a failure: the object of an ERROR event, or the body of an answer with 200."""
    if not isinstance(value, dict) or value.get("kind") != "Status" or value.get("status") != "Failure":
        return None
    try:
        return _rebuilt(msgspec.convert(value, _RefusalStatus), HTTPStatus.INTERNAL_SERVER_ERROR, 0)
    except msgspec.ValidationError:
        return ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "the server sent a Status that cannot be read"
        )


def _rebuilt(status: _RefusalStatus, code: int, retry_after_s: int) -> ApiError:
    details = _details(status.details, retry_after_s)
    token = (status.metadata.token if status.metadata else None) or ""
    reason = status.reason or ""
    message = status.message or reason or f"the server answered with code {code}"
    return ApiError(status.code or code, reason, message, details, token)


def _details(written: _Details | None, retry_after_s: int) -> StatusDetails | None:
    """The details of a Status. The Retry-After header counts only if the Status has no delay of its own."""
    if written is None:
        return StatusDetails(retry_after_s=retry_after_s) if retry_after_s else None
    causes = tuple(Cause(item.reason or "", item.message or "", item.field or "") for item in written.causes or ())
    wait_s = written.retry_after_seconds or retry_after_s
    return StatusDetails(written.name or "", written.group or "", written.kind or "", causes, wait_s)


def _unexplained(code: int, body: bytes, request: str, retry_after_s: int) -> ApiError:
    """The error of an answer without a Status, in client-go's words."""
    told = body[: _SHOWN_BODY_CHARS * 4].decode(errors="replace").strip()[:_SHOWN_BODY_CHARS] or "unknown"
    reason, message = _BY_CODE.get(code, ("", ""))
    if code not in _BY_CODE and code >= 500:
        reason = "InternalError"
        message = f"an error on the server ({quoted(told)}) has prevented the request from succeeding"
    elif code not in _BY_CODE:
        reason = "Unknown"
        message = f"the server responded with the status code {code} but did not return more details"
    details = StatusDetails(causes=(Cause("UnexpectedServerResponse", told),), retry_after_s=retry_after_s)
    return ApiError(code, reason, f"{message or told} ({request})", details)


Params = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request without credentials, which each attempt adds. Its body does not show in its repr."""

    method: str
    path: str
    params: Params = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = ""
    time_limit_s: float | None = None
    """For the whole attempt with its body; None for no limit."""
    traceparent: str = ""
    """The header of W3C Trace Context; empty: none is sent."""
    accept: str = ""
    """The forms of answers that this request takes; empty: those of the client."""
    etag: str = ""
    """The answer that the client has already (If-None-Match); the server answers with 304 if it would send the same."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class HttpAnswer(Message, Protocol):
    """An answer whose body is still to be read. Names of headers are in lower case, or in any."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


# ---- lines of a watch


class LineSplitter:
    """Splits a stream that comes in chunks into lines; a watch is one JSON document a line.

    Hot: `readlines` finds line ends with memchr. An event of 3 KB in a large chunk takes 3,600 instructions, and 16,800 with
    bytes.split, which compares byte by byte. aiohttp's own iteration by lines costs 1 µs more.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without line ends and empty lines. Raises TooLarge."""
        lines = BytesIO(chunk).readlines()
        last = lines.pop() if lines and not chunk.endswith(b"\n") else b""
        if lines and self._begun:
            lines[0] = self.rest() + lines[0]
        if last:
            self._begun.append(last)
            self._begun_bytes += len(last)
        if self._begun_bytes > self._max_line_bytes or (lines and max(map(len, lines)) > self._max_line_bytes + 1):
            raise TooLarge(f"one line of the stream is longer than {self._max_line_bytes} bytes")
        return [line[:-1] for line in lines if len(line) > 1]

    def rest(self) -> bytes:
        """Remove and return the beginning of a line that has not ended."""
        rest = b"".join(self._begun)
        self._begun.clear()
        self._begun_bytes = 0
        return rest
