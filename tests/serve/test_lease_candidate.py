"""The LeaseCandidate of an instance: created, renewed when the server asks, and kept alive."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_api import an_api
from electing import LEASE, SILENT, TIMES
from fake_client import FakeClient
from jumping_clock import JUMPS_S, JumpingClock
from mooring.api.api_errors import not_found
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.nodes import LEASE as LEASES
from mooring.api.kinds.nodes import LEASE_CANDIDATE
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.throttle import Timing
from mooring.apiserver.resource_api import Requester, ResourceApi
from mooring.controllers.control_loop import ControlLoop
from mooring.controllers.lifecycle.leader_elections import LeaderElections
from mooring.framework.config import default as default_configuration
from mooring.kit.clock import NS_PER_S, Clock, VirtualClock
from mooring.model.release import KUBERNETES_VERSION
from mooring.serve.lease.leader_elector import (
    Callbacks,
    ElectorSettings,
    LeaderElector,
    TimeAndChance,
    elector_settings,
)
from mooring.serve.lease.lease_record import CandidateName, LeaseCandidacy, is_pinged
from virtual_elections import now_s, on_virtual_time

IDENTITY = "Host_0c1d"
NAME = CandidateName(LEASE, IDENTITY)


@dataclass
class StoreClient(FakeClient):
    """Requests to an API in process, whose clock follows the virtual loop."""

    api: ResourceApi = field(default_factory=lambda: an_api(gates={"CoordinatedLeaderElection": True}))
    faults: list[Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def get(self, path: str, params: Any = None) -> Any:
        resource, name = self._at("GET", path)
        return self.api.get(resource, LEASE.namespace, name)

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        resource, _ = self._at("POST", path)
        return self.api.create(resource, LEASE.namespace, body, Requester("m"))

    async def put(self, path: str, body: Any, params: Any = None) -> Any:
        resource, name = self._at("PUT", path)
        return self.api.change(resource, LEASE.namespace, name, lambda held: body)

    def _at(self, method: str, path: str) -> tuple[Any, str]:
        self.keep_time()
        plural, _, name = path.partition(f"/namespaces/{LEASE.namespace}/")[2].partition("/")
        self.asked.append(f"{method} {plural}")
        if self.faults:
            raise self.faults.pop(0)
        return (LEASE_CANDIDATE if plural == "leasecandidates" else LEASES), name

    def keep_time(self) -> None:
        clock = self.api.clock
        assert isinstance(clock, VirtualClock)
        clock.advance_ns(max(0, round((1_800_000_000 + now_s()) * NS_PER_S) - clock.now_ns()))

    def candidate(self) -> JsonObject:
        return self.api.get(LEASE_CANDIDATE, LEASE.namespace, IDENTITY)


def a_candidacy(client: StoreClient, wall: Clock | None = None) -> LeaseCandidacy:
    timing = Timing(lambda: asyncio.get_running_loop().time(), asyncio.sleep)
    return LeaseCandidacy(client, NAME, timing, wall or client.api.clock, SILENT)


def test_a_candidate_is_created_as_kube_scheduler_does() -> None:
    async def main() -> JsonObject:
        client = StoreClient()
        await a_candidacy(client).look_after()
        return client.candidate()

    made = on_virtual_time(main)
    assert made["metadata"]["name"] == IDENTITY
    assert made["spec"] == {
        "leaseName": "kube-scheduler",
        "binaryVersion": KUBERNETES_VERSION,
        "emulationVersion": "1.37.0",
        "strategy": "OldestEmulationVersion",
        "renewTime": "2027-01-15T08:00:00.000000Z",
    }


def test_a_candidate_is_renewed_when_pinged_and_every_five_minutes() -> None:
    async def main() -> list[str]:
        client = StoreClient()
        candidacy = asyncio.ensure_future(a_candidacy(client).run(2.0))
        await asyncio.sleep(9)
        assert client.asked == ["GET leasecandidates", "POST leasecandidates", *["GET leasecandidates"] * 4]
        client.asked.clear()
        await asyncio.sleep(295)
        candidacy.cancel()
        return [asked for asked in client.asked if not asked.startswith("GET")]

    assert on_virtual_time(main) == ["PUT leasecandidates"]


def test_a_ping_is_answered_at_the_next_look() -> None:
    async def main() -> None:
        client = StoreClient()
        candidacy = asyncio.ensure_future(a_candidacy(client).run(2.0))
        await asyncio.sleep(60)
        held = client.candidate()["spec"]["renewTime"]
        client.api.change(
            LEASE_CANDIDATE,
            LEASE.namespace,
            IDENTITY,
            lambda found: {**found, "spec": {**found["spec"], "pingTime": "2027-01-15T08:01:00.000000Z"}},
        )
        assert is_pinged(client.candidate())
        await asyncio.sleep(3)
        candidacy.cancel()
        assert not is_pinged(client.candidate())
        assert client.candidate()["spec"]["renewTime"] > held

    on_virtual_time(main)


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_candidate_on_a_machine_with_a_wrong_clock_answers_each_ping_once(jump_s: int) -> None:
    """The server pings by its own clock: at 60 s and at 120 s."""

    async def main() -> list[str]:
        client = StoreClient()
        wall = JumpingClock(client.api.clock)
        wall.jump(jump_s)
        candidacy = asyncio.ensure_future(a_candidacy(client, wall).run(2.0))
        for minute in (1, 2):
            await asyncio.sleep(60)
            ping = f"2027-01-15T08:0{minute}:00.000000Z"
            client.api.change(
                LEASE_CANDIDATE,
                LEASE.namespace,
                IDENTITY,
                lambda found, ping=ping: {**found, "spec": {**found["spec"], "pingTime": ping}},  # type: ignore[misc]
            )
        await asyncio.sleep(60)
        candidacy.cancel()
        assert not is_pinged(client.candidate()), "the renewal is not older than the ping"
        return [asked for asked in client.asked if not asked.startswith("GET")]

    assert on_virtual_time(main) == ["POST leasecandidates", *["PUT leasecandidates"] * 2]


def test_a_fault_ends_no_candidacy() -> None:
    """Tries at 0, 4 and 12 s: the pause doubles."""

    async def main() -> None:
        client = StoreClient(faults=[Unanswered("no route"), Unanswered("still none")])
        candidacy = asyncio.ensure_future(a_candidacy(client).run(2.0))
        await asyncio.sleep(11)
        assert client.asked == ["GET leasecandidates"] * 2
        await asyncio.sleep(2)
        assert not candidacy.done()
        candidacy.cancel()
        assert client.candidate()["metadata"]["name"] == IDENTITY

    on_virtual_time(main)


def test_a_server_that_knows_no_candidates_is_asked_less_and_less() -> None:
    async def main() -> int:
        client = StoreClient(faults=[not_found("leasecandidates", IDENTITY)] * 10_000)
        candidacy = asyncio.ensure_future(a_candidacy(client).run(2.0))
        await asyncio.sleep(600)
        candidacy.cancel()
        return len(client.asked)

    assert on_virtual_time(main) < 60


def test_an_elector_stands_is_picked_and_leads() -> None:
    """With the controller of the embedded cluster on the other side."""

    async def main() -> list[str]:
        client, story = StoreClient(), list[str]()
        loop = ControlLoop(client.api, [LeaderElections(client.api)])
        timing = Timing(lambda: asyncio.get_running_loop().time(), asyncio.sleep)
        around = TimeAndChance(timing, client.api.clock, lambda: 0.0)
        elector = LeaderElector(
            client,
            ElectorSettings(IDENTITY, LEASE, TIMES, is_coordinated=True),
            Callbacks(lambda: story.append("leads"), lambda: story.append("stops")),
            SILENT,
            around,
        )
        running = asyncio.ensure_future(elector.run())
        for _ in range(60):
            await asyncio.sleep(0.5)
            client.keep_time()
            loop.step()
        assert elector.is_leading()
        elector.stop()
        story.append(await running)
        assert client.api.get(LEASES, LEASE.namespace, LEASE.name)["spec"].get("holderIdentity", "") == ""
        return story

    assert on_virtual_time(main) == ["leads", "stops", "stopped"]


def test_the_gate_decides_whether_an_elector_is_coordinated() -> None:
    config = default_configuration().leader_election
    assert not elector_settings(config, "a", "s").is_coordinated
    assert elector_settings(config, "a", "s", {"CoordinatedLeaderElection": True}).is_coordinated
