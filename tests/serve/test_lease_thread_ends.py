"""How the thread of the lease ends: with what the elector says, or with its bug, told on the main loop."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.framework.config.types import ClientConnectionConfiguration
from mooring.kit.logs import Log
from mooring.kit.tasks import Fence
from mooring.serve.lease.leader_elector import Callbacks, ElectorSettings, LeaseThread

SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))


def a_thread(fence: Fence) -> LeaseThread:
    callbacks = Callbacks(lambda: None, lambda: None, lambda leads: None)
    settings = cast(ElectorSettings, None)
    connection = ClientConnectionConfiguration()
    return LeaseThread(ConnectionSettings("http://x"), connection, "test", settings, callbacks, fence, SILENT)


@pytest.mark.parametrize("fault", [None, ValueError("boom")], ids=["as asked", "with a bug"])
def test_the_end_of_the_thread_is_told_on_the_main_loop(fault: Exception | None) -> None:
    async def main() -> None:
        fence = Fence(float("inf"))
        thread = a_thread(fence)

        async def stand() -> Any:
            if fault is not None:
                raise fault
            return "stopped"

        thread._stand = stand  # type: ignore[method-assign]
        assert thread._thread.daemon and thread._thread.name == "lease"
        thread.start()
        async with asyncio.timeout(20):
            if fault is None:
                assert cast(Any, await thread.over) == "stopped" and fence.is_open
            else:
                with pytest.raises(ValueError, match="boom"):
                    await thread.over
                assert not fence.is_open
        thread._settle(RuntimeError("late"))  # what comes after the end changes nothing

    asyncio.run(main())


def test_a_stop_goes_to_the_elector_and_is_remembered() -> None:
    async def main() -> None:
        thread = a_thread(Fence())
        stops: list[str] = []
        assert not thread._is_stopping
        thread.stop()
        assert thread._is_stopping
        thread._elector = cast(Any, SimpleNamespace(stop=lambda: stops.append("stop")))
        thread._own = asyncio.get_running_loop()
        thread.stop()
        assert stops == []
        await asyncio.sleep(0)
        assert stops == ["stop"]

    asyncio.run(main())
