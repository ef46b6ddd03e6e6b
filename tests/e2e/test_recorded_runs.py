"""Recordings of `mooring run` behind a network that fails, with leaders that are killed: every decision comes out again.

MOORING_TESTS=soak runs it with 10,000 pods.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fault_proxy import FaultProxy, Faults
from forked_commands import Started, start_mooring
from how_many import IS_SOAK, some_of
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.state.recording.recorded_steps import ATTEMPT
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.replayer import Replayer
from running_cluster import a_process

pytestmark = pytest.mark.slow

PODS = 10_000 if IS_SOAK else 240
NODES = PODS // 30
"""A node takes 110 pods, and a third of the nodes takes a tenth of the pods besides."""
PATIENCE_S = 600.0 if IS_SOAK else 180.0
POD_PATH = "/api/v1/namespaces/default/pods"
FAULTS = Faults(
    late=0.03,
    lost_before=0.01,
    lost_after=0.02,
    busy=0.02,
    failing=0.02,
    unavailable=0.01,
    expired=0.1,
    cut=0.002,
    twice=0.02,
    disordered=0.02,
)


@contextmanager
def a_scheduler(server: str, recordings: Path, log: Path) -> Iterator[Started]:
    """`mooring run --record` with a short lease."""
    arguments = [
        *("run", "--secure-port=0", f"--master={server}", f"--record={recordings}", "--record-interval=2s"),
        *("--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=1s"),
    ]
    with log.open("ab") as output:
        process = start_mooring(*arguments, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


async def create(client: ApiClient, first: int, count: int) -> None:
    """Pods of several sizes; some are replaced, some come with a high priority."""
    turns = asyncio.Semaphore(16)

    async def one(number: int) -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{10 + number % 7}m"}}}
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        spec: dict[str, Any] = {"containers": [container], "nodeSelector": {"late": "yes"} if number % 10 == 3 else {}}
        if number % 5 == 0:
            spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": {"app": "a"}}}]
        async with turns:
            await client.post(
                POD_PATH, {"metadata": {"name": f"p-{number}", "labels": {"app": "ab"[number % 2]}}, "spec": spec}
            )

    await asyncio.gather(*(one(number) for number in range(first, first + count)))


async def label_nodes(client: ApiClient) -> None:
    nodes = await client.list("/api/v1/nodes")
    for node in nodes["items"][::3]:
        await client.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {"late": "yes"}}})


class BoundPods:
    """Counts the pods that have a node. It watches them: a list of thousands takes the server as long as many binds."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.created = 0
        self._names: set[str] = set()
        self._news = asyncio.Event()

    @property
    def count(self) -> int:
        return len(self._names)

    async def watch(self) -> None:
        async for lines in self._client.watch(POD_PATH, {"fieldSelector": "spec.nodeName!=", "timeoutSeconds": "3600"}):
            for line in lines:
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED"), event
                self._names.add(event["object"]["metadata"]["name"])
            self._news.set()

    async def reach(self, count: int) -> None:
        """Until so many have one. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while self.count < count:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def bound_pods(client: ApiClient) -> AsyncIterator[BoundPods]:
    bound = BoundPods(client)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(bound.watch())
        yield bound
        watching.cancel()


async def another_leader(client: ApiClient, than: str = "") -> str:
    """Wait until another one holds the lease."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        leases = await client.list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
        holders = [lease["spec"].get("holderIdentity") or "" for lease in leases["items"]]
        if holders and holders[0] not in ("", than):
            return str(holders[0])
        assert time.monotonic() < ends, "nobody leads"
        await asyncio.sleep(0.2)


async def disturb(server: str, recordings: Path, log: Path) -> None:
    """Two candidates; the leader is killed twice, in the middle of its work, and started again once the other one leads."""
    choice = random.Random(5)
    async with (
        ApiClient(ConnectionSettings(server), "test/1", -1) as client,
        FaultProxy(server, FAULTS, 11) as proxy,
        bound_pods(client) as bound,
    ):
        with ExitStack() as running:
            first = running.enter_context(a_scheduler(proxy.url, recordings, log))
            leader = await another_leader(client)
            second = running.enter_context(a_scheduler(proxy.url, recordings, log))
            for killed, part in ((first, 2), (second, 4)):
                count = bound.count
                load = asyncio.create_task(create(client, bound.created, PODS // part))
                bound.created += PODS // part
                await bound.reach(count + PODS // 8)
                await asyncio.sleep(choice.random())
                killed.kill()
                await load
                leader = await another_leader(client, leader)
                running.enter_context(a_scheduler(proxy.url, recordings, log))
            await label_nodes(client)
            await create(client, bound.created, PODS - bound.created)
            await bound.reach(PODS)


def test_all_decisions_of_disturbed_schedulers_come_out_again(tmp_path: Path) -> None:
    recordings, log = tmp_path / "recordings", tmp_path / "log"
    with a_process("--nodes", str(NODES), "--no-scheduler", "--plain-http") as cluster:
        asyncio.run(disturb(cluster.server, recordings, log))
    runs = runs_in(recordings)
    assert len(runs) == 4
    binds = attempts = 0
    for run in runs:
        replayer = Replayer(run)
        for step in replayer.steps():
            assert step.outcomes == step.step.outcomes, f"step {step.number} of {run.name}: {step.step}"
            attempts += step.step.code == ATTEMPT
            binds += any(outcome[0] == "bind" for outcome in step.outcomes)
        assert all("end is missing" not in problem for problem in replayer.problems), "only the last may be cut"
    assert binds >= PODS // 2, "a process that is killed loses the last half second, and no more"
    assert attempts > binds, "some attempts failed"
    print(f"{len(runs)} runs, {attempts} attempts, {binds} binds replayed")


@pytest.mark.parametrize("seed", some_of(range(3)))
def test_a_recording_that_is_cut_by_a_kill_opens_and_replays(tmp_path: Path, seed: int) -> None:
    recordings, log = tmp_path / "recordings", tmp_path / "log"
    choice = random.Random(seed)
    with a_process("--nodes", "10", "--no-scheduler", "--plain-http") as cluster:

        async def record_and_kill() -> None:
            async with (
                ApiClient(ConnectionSettings(cluster.server), "test/1", -1) as client,
                bound_pods(client) as bound,
            ):
                with a_scheduler(cluster.server, recordings, log) as process:
                    await another_leader(client)
                    load = asyncio.create_task(create(client, 0, 300))
                    await bound.reach(1)
                    await asyncio.sleep(choice.uniform(0.0, 2.5))
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
                    await load

        asyncio.run(record_and_kill())
    (run,) = runs_in(recordings)
    replayer = Replayer(run)
    steps = list(replayer.steps())
    assert all(step.is_equal for step in steps)
    assert len(steps) > 10
    assert run.problems == []
