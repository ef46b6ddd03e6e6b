"""The kinds that a server serves, kept up to date: servers are upgraded, and groups come and go, while a scheduler runs."""

import asyncio
import logging
import random
from collections.abc import Iterable

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.discovery import Discovery, DiscoverySource, ServedVersions
from mooring.apiclient.request_errors import Unanswered
from mooring.apiclient.throttle import Random, RetryBackoff, Timing
from mooring.kit.tasks import sooner

log = logging.getLogger(__name__)

PERIOD_S = 60.0
"""How often the server is asked, and up to half as much later at random, so that clients do not all ask at once."""
SHORTEST_PAUSE_S = 2.0
"""The time between two questions, whatever asks for one: all watches of a server that restarts end together."""


class NotServed(ApiError):
    """The server serves a kind in no version that Mooring reads."""

    def __init__(self, kind: KindSpec, served: Iterable[str]) -> None:
        others = ", ".join(served)
        read = ", ".join(written.rpartition("/")[2] for written in kind.api_versions)
        detail = f"the server has {others}, Mooring reads {read}" if others else f"Mooring reads {read}"
        super().__init__(404, "NotFound", f"the server does not serve {kind.resource}: {detail}")
        self.served = others
        """The versions that the server has, as text; empty if it has none."""


class ServedKinds:
    """Asks for discovery while `run` runs: at the start, every minute or so, and whenever `ask_soon` is called.

    A failure changes nothing that is known, and another question follows soon. While nothing is known at all, versions are
    tried one after another.
    """

    def __init__(
        self,
        source: DiscoverySource,
        kinds: Iterable[KindSpec],
        timing: Timing | None = None,
        draw: Random = random.random,
    ) -> None:
        self._discovery = Discovery(source, kinds)
        self._timing = timing or Timing()
        self._draw = draw
        self._pace = RetryBackoff(self._timing, draw)
        self.known: ServedVersions | None = None
        """The last answer; None before the first."""
        self._answered = asyncio.Event()
        """Set with each answer or failure, and replaced then: it stands for the next one."""
        self._changed = asyncio.Event()
        """As `_answered`, for answers that differ from the one before."""
        self._has_asked = asyncio.Event()
        self._wanted = asyncio.Event()
        self._last_fault = ""
        self._missing: dict[str, set[str]] = {}
        """By resource, the apiVersions that the server answered with 404. They count only while discovery does not work."""

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            pause_s, longest_s = await self._ask()
            await self._timing.sleep(pause_s)
            rest_s = longest_s - pause_s
            await sooner(self._wanted.wait(), self._timing.sleep(max(rest_s, 0.0)))

    async def _ask(self) -> tuple[float, float]:
        """Ask once. A failure is logged once, until another follows or an answer comes. Returns the shortest pause before the
        next question, which grows while the server does not answer, and the longest, which grows while questions fail: a
        server that starts refuses them until it has read its roles."""
        pause_s, is_new = SHORTEST_PAUSE_S, False
        try:
            found = await self._discovery.ask()
        except (ApiError, Unanswered, CredentialsError) as fault:
            if str(fault) != self._last_fault:
                self._last_fault = str(fault)
                log.warning("Failed to discover what the server serves: %s", fault)
            longest_s = self._pace.wait_s()
            if isinstance(fault, Unanswered):
                pause_s = max(pause_s, longest_s)
        else:
            self._last_fault = ""
            self._pace.forget()
            longest_s = PERIOD_S * (1 + self._draw() / 2)
            is_new, self.known = found != self.known, found
        self._has_asked.set()
        self._answered.set()
        self._answered = asyncio.Event()
        if is_new:
            self._changed.set()
            self._changed = asyncio.Event()
        return pause_s, longest_s

    # ---- for reflectors and writers

    def ask_soon(self) -> None:
        """Ask again when the shortest pause is over: a connection broke, and another server may answer now."""
        self._wanted.set()

    async def recheck(self, missing: KindSpec) -> None:
        """A version of a kind was answered with 404: ask again, and return when the server has answered, or failed to."""
        self._missing.setdefault(missing.resource, set()).add(missing.api_version)
        answered = self._answered
        self.ask_soon()
        await answered.wait()

    async def wait_for_change(self, kind: KindSpec, longest_s: float) -> None:
        """Return when the server serves other kinds or versions than now, or after `longest_s`: then all versions of the kind
        are worth another try."""
        await sooner(self._changed.wait(), self._timing.sleep(longest_s))
        self._missing.pop(kind.resource, None)

    async def find(self, kind: KindSpec) -> KindSpec:
        """The kind in the best version that is served. Raises NotServed."""
        await self._has_asked.wait()
        return self.found(kind)

    def found(self, kind: KindSpec) -> KindSpec:
        """As `find`, from what is known now."""
        if self.known is not None:
            best, served = self.known.best(kind), self.known.of(kind)
        else:
            missing = self._missing.get(kind.resource, ())
            untried = next((written for written in kind.api_versions if written not in missing), None)
            best, served = None if untried is None else kind.in_version(untried), []
        if best is None:
            raise NotServed(kind, served)
        return best
