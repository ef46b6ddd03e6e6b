"""What `mooring run` costs: CPU for each bound pod, memory, and the time from its start to the first bind.

    python benchmarks/live.py                              5,000 nodes, 30,000 pods placed, 5,000 to bind
    python benchmarks/live.py --nodes 500 --placed 1000 --pods 500
    python benchmarks/live.py --dashboards 2               with the dashboard on and two streams open

An API server (`mooring up --no-scheduler`) runs in a process of its own, reached over TLS, and events are on. The pods are
created by a third process. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from mooring.apiclient.client import ApiClient
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiclient.lean_client import LeanClient
from mooring.app.node_actions import own_connection
from mooring.controllers.nodes.simulated_nodes import missing_nodes

PODS = "/api/v1/namespaces/default/pods"
SENDERS = 16
_NO_LIMIT = aiohttp.ClientTimeout(total=None)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def pod(name: str, node: str = "") -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "nginx:1", "resources": resources}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def serve(nodes: int, placed: int, pods: int, dashboards: int) -> int:
    made = missing_nodes(nodes, ())
    items = [*made, *(pod(f"old-{i}", made[i % nodes]["metadata"]["name"]) for i in range(placed))]
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "cluster.json"
        dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        client = f"{sys.executable} {__file__} --client --nodes {nodes} --placed {placed} --pods {pods}"
        client = f"{client} --dashboards {dashboards}"
        mooring = [sys.executable, "-m", "mooring.cli.main", "up", "-q", "--no-scheduler", "--no-dashboard"]
        return subprocess.run([*mooring, "--cluster", str(dump), "--exec", client], check=False).returncode


async def measure(nodes: int, placed: int, pods: int, dashboards: int) -> dict[str, Any]:
    await own_connection(find_connection(), "bench")  # it fills the cluster: no other than `mooring up`
    async with ApiClient(find_connection(), "bench", qps=-1) as api:
        await api.post(PODS, pod("first"))
        begin = time.perf_counter()
        command = [sys.executable, "-m", "mooring.cli.main", "run", "--leader-elect=false"]
        port = _free_port() if dashboards else 0
        command += [f"--secure-port={port}", "--bind-address=127.0.0.1", *(["--dashboard"] if dashboards else [])]
        scheduler = subprocess.Popen(command)
        looking: list[asyncio.Task[None]] = []
        try:
            await _bound(api, {"first"})
            first_bind_s = time.perf_counter() - begin
            looking = [asyncio.create_task(_look(port)) for _ in range(dashboards)]
            await asyncio.sleep(2)
            assert not any(task.done() for task in looking), "a stream has ended"
            cpu, begin = _cpu_s(scheduler.pid), time.perf_counter()
            watching = asyncio.create_task(_bound(api, {f"new-{i}" for i in range(pods)}))
            await _create(pods)
            await watching
            took_s = time.perf_counter() - begin
            await asyncio.sleep(3)  # the last events go out
            cpu_s = _cpu_s(scheduler.pid) - cpu
            events = len((await api.list("/apis/events.k8s.io/v1/namespaces/default/events"))["items"])
            memory_mib = _peak_kib(scheduler.pid) // 1024
        finally:
            for task in looking:
                task.cancel()
            scheduler.send_signal(signal.SIGTERM)
            scheduler.wait()
    return {
        "nodes": nodes,
        "placed": placed,
        "pods": pods,
        "dashboards": dashboards,
        "cpu_ms_per_pod": round(cpu_s / pods * 1000, 3),
        "bound_per_s": round(pods / took_s),
        "events": events,
        "peak_memory_mib": memory_mib,
        "start_to_first_bind_s": round(first_bind_s, 2),
    }


async def _look(port: int) -> None:
    """Read the stream of the dashboard, as a page does. Callers on this machine need no token."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # the certificate is made for this run
    url = f"https://127.0.0.1:{port}/dashboard/api/stream"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls, timeout=_NO_LIMIT) as reply:
        reply.raise_for_status()
        async for _ in reply.content.iter_any():
            pass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


async def _create(pods: int) -> None:
    numbers = iter(range(pods))
    async with LeanClient(find_connection(), "bench", SENDERS) as client:

        async def send() -> None:
            for i in numbers:
                await client.send("POST", PODS, json.dumps(pod(f"new-{i}")).encode())

        await asyncio.gather(*(send() for _ in range(SENDERS)))


async def _bound(api: ApiClient, names: set[str]) -> None:
    """Until all of these have a node."""
    left = set(names)
    async for lines in api.watch(PODS, {"fieldSelector": "spec.nodeName!="}):
        for line in lines:
            left.discard(json.loads(line)["object"]["metadata"]["name"])
        if not left:
            return


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=30000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--dashboards", type=int, default=0, help="streams that are open; 0: no dashboard")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.client:
        sys.exit(serve(asked.nodes, asked.placed, asked.pods, asked.dashboards))
    print(json.dumps(asyncio.run(measure(asked.nodes, asked.placed, asked.pods, asked.dashboards))))


if __name__ == "__main__":
    main()
