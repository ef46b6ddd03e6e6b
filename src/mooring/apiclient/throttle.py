"""How fast a client may send requests (a token bucket), how long it waits after failures (exponential backoff), and how long
a server may make it wait (Retry-After).

All follow client-go, and take the passing of time as an argument, so that tests run without waiting.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import msgspec

from mooring.apiclient.credentials import Credentials, Grant

DEFAULT_QPS, DEFAULT_BURST = 5.0, 10
"""Parity: client-go uses these for a qps or burst of zero."""


class Timing(msgspec.Struct, frozen=True):
    """A clock and a way to sleep. Tests pass virtual ones."""

    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Throttle:
    """A token bucket: `burst` requests at once, `qps` of them a second in the long run; a negative qps is no limit.

    A request that finds the bucket empty takes a future token and sleeps until that exists, so that requests are sent in
    the order in which they came.
    """

    def __init__(self, qps: float, burst: int, timing: Timing) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = burst or DEFAULT_BURST
        self._timing = timing
        self._tokens = float(self._burst)
        self._filled_at_s = timing.monotonic_s()

    @property
    def is_limited(self) -> bool:
        return self._qps >= 0

    async def take(self) -> float:
        """Take a token and wait until the request may be sent. Returns the seconds waited."""
        if not self.is_limited:
            return 0.0
        self._fill()
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        wait_s = -self._tokens / self._qps
        try:
            await self._timing.sleep(wait_s)
        except asyncio.CancelledError:
            self._tokens += 1  # the request is not sent, so the token goes back
            raise
        return wait_s

    def _fill(self) -> None:
        now_s = self._timing.monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_at_s) * self._qps)
        self._filled_at_s = now_s


# ---- Retry-After


MAX_RETRIES = 10
"""client-go's number: so often a request is repeated after the delay that the server asks for."""
LONGEST_WAITS_S = 30.0
"""How long one request waits in all because a server asks for it. client-go has no such limit, so that a proxy that answers
with a delay of a day holds a pod for a day. An API server asks for 1 s, and for at most 32 s under heavy load."""
_MOST_DIGITS = 9
"""Longer numbers of seconds are decades, and int() refuses very long ones."""


def retry_after_s(status: int, written: str) -> int | None:
    """The seconds of a Retry-After header; None: the request is not to be repeated.

    Parity: client-go repeats only after 429 and 5xx, and ignores a date in the header.
    """
    if not (status == 429 or status >= 500) or not (written.isascii() and written.isdigit()):
        return None
    return int(written) if len(written) <= _MOST_DIGITS else 10**_MOST_DIGITS


class RequestRetries:
    """The retries of one request: once more with new credentials after a 401, otherwise as often as client-go."""

    def __init__(self, credentials: Credentials) -> None:
        self.count = 0
        self._credentials = credentials
        self._is_renewed = False
        self._waited_s = 0.0

    def wait_after(self, code: int, grant: Grant, wait_s: int | None) -> float | None:
        """How long to wait before a request is repeated that the server answered with this code and Retry-After; None: the
        answer is final."""
        if code == 401 and not self._is_renewed and self._credentials.reject(grant):
            self._is_renewed = True
            return 0.0
        return wait_s if wait_s is not None and self.allows(wait_s) else None

    def allows(self, wait_s: float) -> bool:
        """Whether the request may be repeated after this wait, which then counts. If not, the caller gets the refusal now,
        and continues by its own backoff."""
        if self.count == MAX_RETRIES or self._waited_s + wait_s > LONGEST_WAITS_S:
            return False
        self.count += 1
        self._waited_s += wait_s
        return True


# ---- backoff


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.8, 30.0
RESET_AFTER_S = 120.0
"""Parity: the backoff of client-go's reflector. Without a failure for RESET_AFTER_S, it starts over."""

_MOST_FAILURES = 30
"""Failures are counted up to here: the pause is at its maximum long before, and 2.0 ** n must stay finite."""

Random = Callable[[], float]
"""Draws from [0, 1)."""


class RetryBackoff:
    """The pause doubles from one failure to the next; up to as much again is added at random, so that many clients do not
    come back at the same moment after an outage.

    It starts over after `forget`, or after two minutes without a failure.
    """

    def __init__(self, timing: Timing, draw: Random = random.random) -> None:
        self._timing = timing
        self._draw = draw
        self._failures = 0
        self._paused_until_s = timing.monotonic_s()

    def failures(self) -> int:
        """How many failures there were in a row."""
        if self._timing.monotonic_s() - self._paused_until_s > RESET_AFTER_S:
            self._failures = 0
        return self._failures

    def forget(self) -> None:
        """Report a success: the next failure counts as the first."""
        self._failures = 0

    def wait_s(self) -> float:
        """Report a failure. Returns how long to wait."""
        pause_s = min(FIRST_PAUSE_S * 2.0 ** self.failures(), LONGEST_PAUSE_S) * (1 + self._draw())
        self._failures = min(self._failures + 1, _MOST_FAILURES)
        self._paused_until_s = self._timing.monotonic_s() + pause_s
        return pause_s
