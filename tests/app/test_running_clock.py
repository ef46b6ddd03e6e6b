"""`mooring run` on a machine whose clock is set: pods are bound, and the lease stays."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from test_running import LEASE, PODS, Server, a_reign

from cluster_api import an_api
from jumping_clock import JUMPS_S, JumpingClock
from mooring.api.api_errors import internal_error
from mooring.apiserver.server.request import refusal
from mooring.kit.clock import NS_PER_S, moment_ns

pytestmark = pytest.mark.slow

PODS_IN_ALL = 12


@dataclass
class FailingServer(Server):
    """Answers the first bind of each pod with 500, and sets the clock of the machine while it does so."""

    wall: JumpingClock = field(default_factory=JumpingClock)
    jump_s: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    async def _answer(self, incoming: web.BaseRequest) -> Any:
        if incoming.path.endswith("/binding"):
            self.refused[incoming.path] += 1
            if self.refused[incoming.path] == 1:
                if len(self.refused) == PODS_IN_ALL:
                    self.wall.jump(self.jump_s)
                return refusal(internal_error("not now"))
        return await super()._answer(incoming)


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_pods_whose_bind_failed_are_bound_and_the_lease_stays_when_the_clock_is_set(jump_s: int) -> None:
    async def main() -> None:
        wall = JumpingClock()
        server = FailingServer(an_api(), wall=wall, jump_s=jump_s)
        server.lets_binds.set()
        async with a_reign(wall, server) as reign:
            await reign.client.post(
                "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "99"}}}
            )
            for number in range(PODS_IN_ALL):
                spec = {"containers": [{"name": "c", "image": "i"}]}
                await reign.client.post(PODS, {"metadata": {"name": f"p{number}"}, "spec": spec})
            await reign.until(lambda: server.writes.count("bind") == PODS_IN_ALL)
            assert set(server.refused.values()) == {2}
            renewals = server.writes.count("lease")
            await reign.until(lambda: server.writes.count("lease") > renewals + 12)
            assert reign.running.leads(), "it still leads after more than the duration of the lease"
            assert server.writes.count("free") == 0
            lease = await reign.client.get(LEASE)
            shown_s = moment_ns(lease["spec"]["renewTime"]) / NS_PER_S
            assert abs(shown_s - wall.now_ns() / NS_PER_S) < 25, "the lease has the time that the machine shows"

    asyncio.run(main())
