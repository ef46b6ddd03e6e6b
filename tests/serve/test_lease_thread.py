"""The lease in its own thread: a busy main loop does not lose it, and what happens there is told here."""

import asyncio
import threading
import time
from collections.abc import Callable
from math import inf

import pytest

from electing import LEASE, SILENT
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.framework.config import default as default_configuration
from mooring.kit.tasks import Fence
from mooring.serve.lease.leader_election import ElectionTimes
from mooring.serve.lease.leader_elector import Callbacks, ElectorSettings, LeaseThread
from recording_server import nowhere
from running_cluster import Neighbour, a_neighbour

TIMES = ElectionTimes(2, 1.5, 0.2)
pytestmark = pytest.mark.slow


class Told:
    """What the main loop is told, in order."""

    def __init__(self) -> None:
        self.news: list[str] = []
        self.callbacks = Callbacks(
            lambda: self.news.append("leads"),
            lambda: self.news.append("stops"),
            lambda leads: self.news.append(f"master {leads}"),
        )


def a_thread(access: ConnectionSettings, fence: Fence, told: Told, times: ElectionTimes = TIMES) -> LeaseThread:
    settings = ElectorSettings("me", LEASE, times)
    connection = default_configuration().client_connection
    return LeaseThread(access, connection, "mooring-tests", settings, told.callbacks, fence, SILENT)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def _holder(cluster: Neighbour) -> str:
    return str(cluster.ask("GET", LEASE.path).body["spec"]["holderIdentity"])


async def a_leader(cluster: Neighbour) -> tuple[LeaseThread, Fence, Told]:
    """A thread that has acquired the lease."""
    fence, told = Fence(), Told()
    thread = a_thread(find_connection(cluster.kubeconfig), fence, told)
    thread.start()
    await until(lambda: "leads" in told.news)
    return thread, fence, told


def test_a_main_loop_that_is_busy_for_longer_than_a_lease_does_not_lose_it() -> None:
    with a_neighbour(nodes=1) as cluster:

        async def main() -> None:
            thread, fence, told = await a_leader(cluster)
            ends = time.monotonic() + 2 * TIMES.lease_duration_s
            spent = 0
            while time.monotonic() < ends:  # an attempt: it computes and awaits nothing
                spent += sum(range(1000))
            assert fence.is_open
            await asyncio.sleep(0.01)
            assert told.news == ["master False", "master True", "leads"]
            assert _holder(cluster) == "me"
            thread.stop()
            assert await thread.over == "stopped"
            assert not fence.is_open
            assert _holder(cluster) == ""
            assert told.news[3:] == ["master False", "stops"]

        asyncio.run(main())


def test_a_loss_is_told_to_the_main_loop_and_the_fence_is_shut() -> None:
    with a_neighbour(nodes=1) as cluster:

        async def main() -> None:
            thread, fence, told = await a_leader(cluster)
            stolen, headers = {"spec": {"holderIdentity": "thief"}}, {"Content-Type": "application/merge-patch+json"}
            assert cluster.ask("PATCH", LEASE.path, stolen, headers).code == 200
            async with asyncio.timeout(20):
                assert await thread.over == "lost"
            assert told.news[-1] == "stops"
            assert not fence.is_open
            assert _holder(cluster) == "thief"

        asyncio.run(main())


def test_a_thread_that_is_stopped_before_it_has_begun_ends_as_asked() -> None:
    async def main() -> None:
        told = Told()
        thread = a_thread(ConnectionSettings(nowhere()), Fence(), told)
        thread.stop()
        thread.start()
        async with asyncio.timeout(20):
            assert await thread.over == "stopped"
        assert told.news == ["master False"]
        thread.stop()  # once more does no harm

    asyncio.run(main())


def test_a_main_loop_that_is_closed_is_no_trouble_for_the_thread() -> None:
    async def main() -> LeaseThread:
        thread = a_thread(ConnectionSettings(nowhere()), Fence(inf), Told())
        thread.start()
        return thread

    thread = asyncio.run(main())
    (worker,) = (each for each in threading.enumerate() if each.name == "lease")
    thread.stop()
    worker.join(20)
    assert not worker.is_alive()
