"""Renews the lease in a thread with its own event loop and connections.

An attempt on a large cluster may keep the main loop busy for longer than a lease lasts; the interpreter still lets this
thread run every few milliseconds. The threads share the deadline of the fence and nothing else. This thread reports to the
main loop with `call_soon_threadsafe`, and the fence stops writes even while the main loop is too busy to get the report.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.framework.config.types import ClientConnectionConfiguration
from mooring.kit.clock import Clock, WallClock
from mooring.kit.logs import Log
from mooring.kit.tasks import Fence
from mooring.serve.lease.leader_elector import (
    Callbacks,
    ElectorSettings,
    LeaderElector,
    Outcome,
    TimeAndChance,
    lease_client,
)


class LeaseThread:
    """The main loop makes and uses it, and runs the callbacks. `over` ends when the thread does."""

    def __init__(
        self,
        access: ConnectionSettings,
        connection: ClientConnectionConfiguration,
        user_agent: str,
        settings: ElectorSettings,
        callbacks: Callbacks,
        fence: Fence,
        log: Log,
        wall: Clock | None = None,
    ) -> None:
        """`access` must not be used by the main loop: credentials keep state that belongs to one event loop. The times in
        the lease come from `wall`."""
        self._access = access
        self._connection = connection
        self._user_agent = user_agent
        self._settings = settings
        self._callbacks = callbacks
        self._fence = fence
        self._log = log
        self._around = TimeAndChance(wall=wall or WallClock())
        self._main = asyncio.get_running_loop()
        self.over: asyncio.Future[Outcome] = self._main.create_future()
        self._own: asyncio.AbstractEventLoop | None = None
        self._elector: LeaderElector | None = None
        self._is_stopping = False
        # A daemon: a second SIGTERM, or a bug on the main loop, ends the process without waiting for a request.
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to release the lease; `over` is done when it has."""
        self._is_stopping = True
        if self._elector is not None and self._own is not None:
            with suppress(RuntimeError):  # the loop is closed: the thread has stopped already
                self._own.call_soon_threadsafe(self._elector.stop)

    # ---- in the thread

    def _work(self) -> None:
        """The body of the thread. An exception shuts the fence before it is reported: nothing renews the lease any
        more."""
        try:
            outcome = asyncio.run(self._stand())
        except BaseException as fault:
            self._fence.shut()
            self._tell(lambda fault=fault: self._settle(fault))  # type: ignore[misc]
        else:
            self._tell(lambda: self._settle(outcome))

    async def _stand(self) -> Outcome:
        """Connect, and run the elector until it stops or loses the lease."""
        connection, callbacks = self._connection, self._callbacks
        async with (
            lease_client(self._access, self._user_agent, connection, self._settings.times) as leases,
            ApiClient(self._access, self._user_agent, connection.qps, connection.burst) as events,
        ):
            told = Callbacks(
                lambda: self._tell(callbacks.on_started_leading),
                lambda: self._tell(callbacks.on_stopped_leading),
                lambda leads: self._tell(lambda: callbacks.on_master_status(leads)),
            )
            elector = LeaderElector(leases, self._settings, told, self._log, self._around, events, self._fence)
            self._own, self._elector = asyncio.get_running_loop(), elector
            if self._is_stopping:  # `stop` was called before there was an elector
                elector.stop()
            return await elector.run()

    def _tell(self, news: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the main loop is closed: the process ends
            self._main.call_soon_threadsafe(news)

    def _settle(self, outcome: Outcome | BaseException) -> None:
        """On the main loop."""
        if self.over.done():
            return
        if isinstance(outcome, BaseException):
            self.over.set_exception(outcome)
        else:
            self.over.set_result(outcome)
