"""Requests that no usable answer came to, in our own words rather than those of the HTTP library.

That library's exceptions carry the request with its headers, and so the token; these carry texts only.
"""

import asyncio
import ssl

import aiohttp


class Unanswered(Exception):
    """No usable answer came; the request may have been carried out all the same."""


class ConnectionRefused(Unanswered):
    """Nobody listens: the request was not carried out."""


class ConnectionLost(Unanswered):
    """The connection was reset or ended in the middle."""


class TimedOut(Unanswered):
    """The time limit passed."""


class NotTrusted(Unanswered):
    """TLS failed: one side does not take the other's certificate."""


class TooLarge(Unanswered):
    """The answer, or one line of a watch, is longer than we read."""


class Unreadable(Unanswered):
    """An answer that is not what the API promises."""


def unanswered(error: Exception, request: str) -> Unanswered:
    """What an error of the HTTP library means; `request` says what was asked (`GET /api/v1/pods`)."""
    if isinstance(error, asyncio.TimeoutError):
        return TimedOut(f"{request}: no answer within the time limit")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return NotTrusted(f"{request}: the server's certificate is not trusted: {_certificate_fault(error)}")
    if isinstance(error, aiohttp.ClientSSLError) or _caused_by(error, ssl.SSLError):
        return NotTrusted(f"{request}: TLS failed: {_tls_fault(error)}")
    if isinstance(error, aiohttp.ClientConnectorError):
        kind = ConnectionRefused if isinstance(error.os_error, ConnectionRefusedError) else Unanswered
        return kind(f"{request}: cannot connect to {error.host}:{error.port}: {_told(error.os_error)}")
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError)):
        return ConnectionLost(f"{request}: the connection was lost: {_told(error)}")
    return Unanswered(f"{request}: {type(error).__name__}")


def _told(error: BaseException) -> str:
    """The system's word for it; a message of the library is not trusted to be free of secrets."""
    return getattr(error, "strerror", None) or type(error).__name__


def _certificate_fault(error: aiohttp.ClientConnectorCertificateError) -> str:
    fault = error.certificate_error
    return getattr(fault, "verify_message", "") or type(fault).__name__


def _tls_fault(error: BaseException) -> str:
    fault = _ssl_error(error)
    return (fault.reason or type(fault).__name__) if fault else type(error).__name__


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    return isinstance(error, kind) or isinstance(error.__cause__, kind)


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    candidates = (error, getattr(error, "os_error", None), error.__cause__)
    return next((item for item in candidates if isinstance(item, ssl.SSLError)), None)
