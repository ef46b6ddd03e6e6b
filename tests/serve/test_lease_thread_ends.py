"""How the thread of the lease ends: with what the elector says, or with its bug, told on the main loop."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.framework.config.types import ClientConnectionConfiguration
from mooring.kit.logs import Log
from mooring.kit.tasks import Fence
from mooring.serve.lease import leader_elector
from mooring.serve.lease.leader_elector import Callbacks, ElectorSettings, LeaseThread

SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))


class Elector:
    """An elector that asks no server: it stands until it is stopped, or fails at once."""

    fault: Exception | None = None

    def __init__(self, *_: Any) -> None:
        self.ends = asyncio.Event()

    async def run(self) -> str:
        if self.fault is not None:
            raise self.fault
        await self.ends.wait()
        return "stopped"

    def stop(self) -> None:
        assert threading.current_thread().name == "lease"
        self.ends.set()


@pytest.fixture
def a_thread(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fence], LeaseThread]:
    monkeypatch.setattr(leader_elector, "LeaderElector", Elector)

    def make(fence: Fence) -> LeaseThread:
        callbacks = Callbacks(lambda: None, lambda: None, lambda leads: None)
        access, connection = ConnectionSettings("http://x"), ClientConnectionConfiguration()
        return LeaseThread(access, connection, "test", ElectorSettings("me"), callbacks, fence, SILENT)

    return make


def worker() -> threading.Thread:
    (found,) = (each for each in threading.enumerate() if each.name == "lease")
    return found


@pytest.mark.parametrize("fault", [None, ValueError("boom")], ids=["as asked", "with a bug"])
def test_the_end_of_the_thread_is_told_on_the_main_loop(
    fault: Exception | None, a_thread: Callable[[Fence], LeaseThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Elector, "fault", fault)

    async def main() -> None:
        fence = Fence(float("inf"))
        thread = a_thread(fence)
        thread.start()
        async with asyncio.timeout(20):
            if fault is None:
                assert worker().daemon
                thread.stop()
                assert await thread.over == "stopped" and fence.is_open
            else:
                with pytest.raises(ValueError, match="boom"):
                    await thread.over
                assert not fence.is_open

    asyncio.run(main())


def test_an_end_that_nobody_waits_for_changes_nothing(a_thread: Callable[[Fence], LeaseThread]) -> None:
    faults: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        thread = a_thread(Fence())
        thread.start()
        running = worker()
        thread.over.cancel()
        thread.stop()
        running.join(20)
        await asyncio.sleep(0)  # now the end is told
        await asyncio.sleep(0)
        assert thread.over.cancelled() and not running.is_alive()

    asyncio.run(main())
    assert faults == []


@pytest.mark.parametrize("when", ["before it begins", "while it runs"])
def test_a_stop_goes_to_the_elector_and_is_remembered(when: str, a_thread: Callable[[Fence], LeaseThread]) -> None:
    async def main() -> None:
        thread = a_thread(Fence())
        if when == "before it begins":
            thread.stop()
        thread.start()
        if when == "while it runs":
            assert worker().is_alive(), "it stands until it is stopped"
            thread.stop()
        async with asyncio.timeout(20):
            assert await thread.over == "stopped"

    asyncio.run(main())
