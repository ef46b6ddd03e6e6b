"""Leaders that are stopped past their lease and continue, and a judge that stands before the API server and counts writes.

By hand, against any cluster whose pods nobody else schedules (it creates nodes and pods):

    python tests/split_brain.py --kubeconfig FILE --rounds 20

Each instance reaches the cluster through a proxy of its own, which knows the instance and the moment at which a whole
request has arrived. A write counts as sent without the lease if, at that moment, the lease names another instance, or the
last renewal of this one is older than the lease lasts.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from forked_commands import Started, start_mooring
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import OutgoingRequest
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiclient.proxy_transport import ProxyTransport

LEASE_S, RENEW_S, RETRY_S = 6, 4, 0.5
"""A leader stops 4.5 s after its last answer: 1.5 s are left for what is on its way, however busy the machine is."""
BIND_S = 0.2
"""How long the proxy holds each bind back: requests queue up in the scheduler, as they do before a slow server."""
BACKLOG, BEFORE_STOP = 400, 64
"""Pods of one round, and how many binds are seen before the leader is stopped: with 64 connections, the rest is queued."""
PATIENCE_S = 90
_LEASES = "/apis/coordination.k8s.io/v1/"
_LEADER_EVENTS = "/api/v1/namespaces/kube-system/events"
_READS = ("GET", "HEAD")


@dataclass
class Judge:
    """Whose the lease is, and the writes that came without it."""

    holder: int | None = None
    until_s: float = 0.0
    binds: int = 0
    offences: list[str] = field(default_factory=list)
    binds_without_lease: int = 0

    def renewed(self, instance: int, arrived_s: float, spec: dict[str, Any]) -> None:
        """The server has taken this lease. It lasts from when the request arrived, which is later than it was sent."""
        self.holder = instance if spec.get("holderIdentity") else None
        self.until_s = arrived_s + float(spec.get("leaseDurationSeconds") or 0)

    def wrote(self, instance: int, arrived_s: float, line: str) -> None:
        is_bind = line.endswith("/binding")
        self.binds += is_bind
        if self.holder == instance and arrived_s < self.until_s:
            return
        whose = "nobody" if self.holder is None else f"instance {self.holder}"
        late_s = arrived_s - self.until_s
        self.offences.append(
            f"{line} by instance {instance}: the lease is that of {whose}, {late_s:+.3f} s after its end"
        )
        self.binds_without_lease += is_bind


class Witness:
    """The proxy of one instance."""

    def __init__(self, instance: int, access: ConnectionSettings, judge: Judge) -> None:
        self.instance = instance
        self._access = access
        self._judge = judge
        self._upstream = ProxyTransport(access, {}, 1000)
        self._runner = web.ServerRunner(web.Server(self._pass_on, access_log=None), shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> "Witness":
        await self._upstream.open()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._upstream.close()

    async def _pass_on(self, incoming: web.BaseRequest) -> web.StreamResponse:
        body = await incoming.read()
        arrived_s = time.monotonic()
        is_lease = incoming.path.startswith(_LEASES)
        if incoming.method not in _READS and not is_lease and incoming.path != _LEADER_EVENTS:
            self._judge.wrote(self.instance, arrived_s, f"{incoming.method} {incoming.path}")
            await asyncio.sleep(BIND_S if incoming.path.endswith("/binding") else 0)
        content_type = incoming.headers.get("Content-Type", "")
        request = OutgoingRequest(incoming.method, incoming.path, dict(incoming.query), body or None, content_type)
        async with self._upstream.attempt(request, await self._access.credentials.grant()) as answer:
            if is_lease and incoming.method not in _READS:
                content = await answer.read()
                if answer.status < 300:
                    self._judge.renewed(self.instance, arrived_s, json.loads(content)["spec"])
                return web.Response(body=content, status=answer.status, content_type="application/json")
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(incoming)
            with contextlib.suppress(ConnectionError):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response


class Instance:
    """`mooring run` behind its witness; it is started again when it has ended."""

    def __init__(self, number: int, witness: Witness, directory: Path, python_path: str = "") -> None:
        self.number = number
        self.log = directory / f"instance-{number}.log"
        self._kubeconfig = directory / f"kubeconfig-{number}"
        self._kubeconfig.write_text(json.dumps(_kubeconfig(witness.url)))
        self._python_path = python_path
        self.process: subprocess.Popen[bytes] | Started | None = None

    def start(self) -> None:
        flags = [f"--kubeconfig={self._kubeconfig}", "--secure-port=0", "-v=2"]
        flags += [f"--leader-elect-lease-duration={LEASE_S}s", f"--leader-elect-renew-deadline={RENEW_S}s"]
        flags += [f"--leader-elect-retry-period={int(RETRY_S * 1000)}ms"]
        with self.log.open("ab") as output:
            if self._python_path:
                command = [sys.executable, "-m", "mooring.cli.main", "run", *flags]
                environment = {**os.environ, "PYTHONPATH": self._python_path}
                self.process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            else:
                self.process = start_mooring("run", *flags, stdout=output, stderr=output)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @property
    def status(self) -> int | None:
        assert self.process is not None
        return self.process.poll()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_S)


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }


@dataclass
class Arena:
    client: ApiClient
    judge: Judge
    instances: list[Instance]
    statuses: list[int] = field(default_factory=list)
    """How the instances ended that were stopped. Others may end too, where the machine is too busy for their lease."""

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        ends_s = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > ends_s:
                raise TimeoutError(f"waited in vain: {what}")
            await asyncio.sleep(0.02)

    async def play(self, number: int) -> None:
        """Load, a stop in the middle of it, a new leader, and the old one continues."""
        before = self.judge.binds
        creating = asyncio.create_task(self._create_pods(number))
        await self.until(lambda: self._keep_alive() and self.judge.binds >= before + BEFORE_STOP, "binds of this round")
        await self.until(lambda: self.judge.holder is not None, "an instance leads")
        leader = self.instances[self.judge.holder or 0]
        leader.send(signal.SIGSTOP)
        await creating
        others = (1 - leader.number,)
        await self.until(lambda: self._keep_alive() and self.judge.holder in others, "the other instance leads")
        leader.send(signal.SIGCONT)
        await self.until(lambda: leader.status is not None, "the instance that was stopped ends")
        self.statuses.append(leader.status or 0)
        while await self._pending(number):
            self._keep_alive()
            await asyncio.sleep(0.3)

    def _keep_alive(self) -> bool:
        for instance in self.instances:
            if instance.status is not None:
                instance.start()
        return True

    async def _pending(self, number: int) -> int:
        pods = (await self.client.list("/api/v1/namespaces/default/pods"))["items"]
        ours = [pod for pod in pods if pod["metadata"]["name"].startswith(f"split-{number}-")]
        return sum(not pod["spec"].get("nodeName") for pod in ours)

    async def _create_pods(self, number: int) -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}
        spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
        for first in range(0, BACKLOG, 50):
            pods = ({"metadata": {"name": f"split-{number}-{first + i}"}, "spec": spec} for i in range(50))
            await asyncio.gather(*(self.client.post("/api/v1/namespaces/default/pods", pod) for pod in pods))

    async def create_nodes(self, count: int) -> None:
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "20000"}
        for number in range(count):
            node = {
                "metadata": {"name": f"split-{number}"},
                "status": {"capacity": allocatable, "allocatable": allocatable},
            }
            await self.client.post("/api/v1/nodes", node)


@contextlib.asynccontextmanager
async def an_arena(kubeconfig: Path, directory: Path, python_path: str = "") -> AsyncIterator[Arena]:
    """Two instances, of which one leads soon."""
    access, judge = find_connection(kubeconfig), Judge()
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(access, "split-brain", -1))
        witnesses = [await stack.enter_async_context(Witness(number, access, judge)) for number in range(2)]
        instances = [Instance(witness.instance, witness, directory, python_path) for witness in witnesses]
        for instance in instances:
            stack.callback(instance.end)
            instance.start()
        yield Arena(client, judge, instances)


async def play(kubeconfig: Path, directory: Path, rounds: int, nodes: int = 0, python_path: str = "") -> Arena:
    async with an_arena(kubeconfig, directory, python_path) as arena:
        await arena.create_nodes(nodes)
        for number in range(rounds):
            await arena.play(number)
            judge = arena.judge
            print(f"round {number + 1}: {judge.binds} binds, {judge.binds_without_lease} without the lease", flush=True)
        return arena


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=20, help="how many to create first")
    parser.add_argument("--python-path", default="", help="another version of the scheduler")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="split-brain-") as directory:
        arena = asyncio.run(play(given.kubeconfig, Path(directory), given.rounds, given.nodes, given.python_path))
    for offence in arena.judge.offences[:20]:
        print(offence)
    print(f"{arena.judge.binds} binds, {arena.judge.binds_without_lease} without the lease", end="; ")
    print(f"{len(arena.judge.offences)} writes without the lease; exit statuses {arena.statuses}")
    sys.exit(1 if arena.judge.offences else 0)


if __name__ == "__main__":
    main()
