"""The driver of a live scheduler with extenders: replies lead to binds, and to none once the lease is lost."""

import asyncio
from dataclasses import dataclass, field

import pytest

from build import a_node
from extending import a_config, a_pending
from mooring.apiclient.throttle import Timing
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.extender_calls import ExtenderCaller
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.status_writer import StatusWriter
from mooring.framework.contract.intents import Call, CallReply
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.scheduler_assembly import build_scheduler
from silent_writer import SilentWriter


@dataclass
class Server(SilentWriter):
    """Notes who is bound where."""

    binds: list[str] = field(default_factory=list)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.binds.append(f"{pod.name} to {node_name}")


class Live:
    """A scheduler that runs, and an extender whose replies come when a test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = VirtualClock(1_800_000_000 * NS_PER_S)
        self.scheduler = build_scheduler(a_config({"filterVerb": "filter", "nodeCacheCapable": True}), clock)
        self.server = Server()
        events = EventWriter(self.server, clock, clock, "host", Timing())
        self.driver = LiveDriver(self.scheduler, clock, self.server, events, StatusWriter(self.server, clock))
        self.driver.extenders = ExtenderCaller(self.scheduler, lambda item: item, self.driver.go_on)
        self.calls = 0
        self.may_reply = asyncio.Event()
        monkeypatch.setattr("mooring.drivers.extender_calls.ExtenderClient.ask", self._ask)
        for name in ("n1", "n2"):
            self.scheduler.handle(ObjectAdded(a_node(name)))

    async def _ask(self, call: Call, body: bytes, traceparent: str) -> CallReply:
        self.calls += 1
        await self.may_reply.wait()
        return b'{"NodeNames": ["n2"]}'

    async def rest(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)


def test_a_reply_leads_to_a_bind_and_to_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        live = Live(monkeypatch)
        running = asyncio.create_task(live.driver.run())
        for name in ("a", "b"):
            live.scheduler.handle(ObjectAdded(a_pending(name)))
        live.driver.wake()
        await live.rest()
        assert (live.calls, live.server.binds) == (1, []), "one attempt at a time"
        live.may_reply.set()
        await live.rest()
        assert (live.calls, live.server.binds) == (2, ["a to n2", "b to n2"])
        running.cancel()
        await live.driver.close()

    asyncio.run(main())


def test_once_the_lease_is_lost_no_reply_leads_to_a_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        live = Live(monkeypatch)
        running = asyncio.create_task(live.driver.run())
        live.scheduler.handle(ObjectAdded(a_pending()))
        live.driver.wake()
        await live.rest()
        assert live.calls == 1
        running.cancel()
        await live.rest()
        live.may_reply.set()
        await live.rest()
        await live.driver.close(patience_s=0.1)
        assert live.server.binds == []

    asyncio.run(main())
