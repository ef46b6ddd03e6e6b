"""What an HTTP server says of connections that do not speak HTTP: one short line, not too often.

aiohttp logs each such request with a traceback and with the bytes that it could not read. Anyone can send those without
a token, so that they can fill a disk, and they may hold a token: a header that is malformed is shown whole.
"""

import logging
import time
from collections.abc import Callable

QUIET_S = 10.0
"""After a line, others are only counted for so long."""

Tell = Callable[[str], None]


class _Teller(logging.Handler):
    """Tells which kind of fault came from where. Nothing that a client sent is told."""

    def __init__(self, tell: Tell, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._tell = tell
        self._now_s = now_s
        self._quiet_until_s = float("-inf")
        self._untold = 0

    def emit(self, record: logging.LogRecord) -> None:
        now_s = self._now_s()
        if now_s < self._quiet_until_s:
            self._untold += 1
            return
        more = f"; {self._untold} more were rejected before" if self._untold else ""
        self._quiet_until_s, self._untold = now_s + QUIET_S, 0
        error = record.exc_info[1] if record.exc_info else None
        kind = type(error).__name__ if error is not None else "unknown fault"
        self._tell(f"rejected a request{_origin(record)} that is no proper HTTP ({kind}){more}")


def _origin(record: logging.LogRecord) -> str:
    """aiohttp names the remote address as the only argument of its message, where it knows one."""
    remote = record.args[0] if isinstance(record.args, tuple) and len(record.args) == 1 else None
    return f" from {remote}" if isinstance(remote, str) else ""


def connection_log(tell: Tell, now_s: Callable[[], float] = time.monotonic) -> logging.Logger:
    """A logger for `web.Server(logger=...)`. It is known by no name, so that nothing else hears of what it is told."""
    logger = logging.Logger("connections", logging.WARNING)
    logger.addHandler(_Teller(tell, now_s))
    return logger
