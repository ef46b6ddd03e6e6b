"""Reads what nodes really use again and again, for the map of the dashboard. Scheduling does not depend on it."""

from collections.abc import Awaitable, Callable

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.inputs.input_errors import InputError
from mooring.inputs.real_use import RealUse, read_node_use
from mooring.kit.logs import Log

EVERY_S = 30.0
"""A metrics-server has new figures every 15 to 60 seconds."""
STALE_READINGS = 10
"""After so many readings in a row that failed, five minutes, the last figures are not shown any more."""


class RealUseReadings:
    """`latest` is the last reading: another object after each one, and empty before the first."""

    def __init__(self, source: str, connection: ConnectionSettings, log: Log) -> None:
        self._source, self._connection, self._log = source, connection, log
        self.latest: RealUse = {}
        self._failed = 0

    async def follow(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await sleep(EVERY_S)

    async def read(self) -> None:
        """Read once. The first of several failures is logged, and the end of them."""
        try:
            found = await read_node_use(self._source, self._connection)
        except InputError as fault:
            self._failed += 1
            if self._failed == 1:
                self._log.warning("Real use of nodes cannot be read", problem=str(fault))
            if self._failed == STALE_READINGS:
                self.latest = {}
            return
        if self._failed:
            self._log.info("Real use of nodes is read again", failures=self._failed)
        self._failed, self.latest = 0, found
