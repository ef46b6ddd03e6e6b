"""Pods created while `mooring run` schedules, on an API server that is running already: pods bound a second.

    KUBECONFIG=admin.kubeconfig python benchmarks/arrivals.py                5,000 nodes, 10,000 pods with node affinity
    KUBECONFIG=admin.kubeconfig python benchmarks/arrivals.py --nodes 500 --pods 1000 --scheduler-kubeconfig other

The workload is SchedulingNodeAffinity of upstream's scheduler_perf. The server should have no other scheduler and no other
pods; nodes and pods stay there. The server ends a watch that falls behind, so this shows whether watches keep up: the line
of JSON has the longest time in which no pod was bound, and how many watches the server ended because nobody read them.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from creating import create

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient
from mooring.apiclient.kubeconfig.loading import find_connection

NAMESPACE = "arrivals"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ZONE = "topology.kubernetes.io/zone"
LOOK_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def node(number: int) -> dict[str, Any]:
    room = {"pods": "110", "cpu": "4", "memory": "32Gi"}
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": f"node-{number:05d}", "labels": {ZONE: "zone1"}}
    return {"metadata": metadata, "status": {"capacity": room, "allocatable": room, "conditions": conditions}}


def pod(name: str) -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.example/pause:3.10",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": resources, "requests": resources},
    }
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "affinity": affinity}}


# ---- what is written


async def prepare(nodes: int) -> None:
    await create("/api/v1/namespaces", [{"metadata": {"name": NAMESPACE}}])
    await create("/api/v1/nodes", map(node, range(nodes)))


# ---- what is measured


class Page:
    """The sums of counters on a page of metrics of the scheduler."""

    def __init__(self, port: int) -> None:
        self._url = f"https://127.0.0.1:{port}/metrics"
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE

    def counters(self, name: str) -> dict[str, float]:
        """By labels; nothing where the page does not answer."""
        try:
            with urllib.request.urlopen(self._url, timeout=20, context=self._trust) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return counters(text, name)

    def bound(self) -> int:
        attempts = self.counters("scheduler_schedule_attempts_total")
        return int(sum(value for labels, value in attempts.items() if 'result="scheduled"' in labels))


def counters(text: str, name: str) -> dict[str, float]:
    lines = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


async def until(holds: Callable[[], bool], patience_s: float) -> bool:
    ends_s = time.monotonic() + patience_s
    while not await asyncio.to_thread(holds):
        if time.monotonic() > ends_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True


class Pauses:
    """The longest time in which the number of bound pods did not change, from the first look on."""

    def __init__(self, pods: int, page: Page) -> None:
        self._pods, self._page = pods, page
        self._bound, self._since_s = page.bound(), time.monotonic()
        self._goal = self._bound + pods
        self.longest_s = 0.0

    @property
    def bound(self) -> int:
        return self._bound - self._goal + self._pods

    def are_over(self) -> bool:
        bound, now_s = self._page.bound(), time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._since_s)
        if bound > self._bound:
            self._bound, self._since_s = bound, now_s
        return bound >= self._goal


@asynccontextmanager
async def running(command: list[str]) -> AsyncIterator[int]:
    scheduler = subprocess.Popen(command)
    try:
        yield scheduler.pid
    finally:
        scheduler.send_signal(signal.SIGTERM)
        scheduler.wait(30)


async def measure(asked: argparse.Namespace) -> dict[str, Any]:
    await prepare(asked.nodes)
    page = Page(asked.port)
    async with running(asked.command or scheduler_command(asked)) as pid, ApiClient(find_connection(), "bench") as api:
        await create(PODS, [pod("first")])
        if not await until(lambda: page.bound() > 0, 60):
            raise SystemExit("the scheduler bound nothing within a minute")
        ended = await terminated(api)
        pauses, cpu_s, began_s = Pauses(asked.pods, page), taken_s(pid), time.monotonic()
        creator = subprocess.Popen([sys.executable, __file__, "--create", "--pods", str(asked.pods)])
        await until(pauses.are_over, asked.patience)
        took_s = time.monotonic() - began_s
        creator.wait(asked.patience)
        return {
            "nodes": asked.nodes,
            "pods": asked.pods,
            "bound": pauses.bound,
            "bound_per_s": round(pauses.bound / took_s),
            "longest_pause_s": round(pauses.longest_s, 1),
            "cpu_ms_per_pod": round((taken_s(pid) - cpu_s) / asked.pods * 1000, 2),
            "ended_by_server": {labels: n - ended.get(labels, 0) for labels, n in (await terminated(api)).items()},
            "ended": page.counters("mooring_watches_ended_total"),
            "gap_s": page.counters("mooring_watch_gap_seconds_total").get('{resource="pods"}'),
        }


def scheduler_command(asked: argparse.Namespace) -> list[str]:
    mooring = [sys.executable, "-m", "mooring.cli.main", "run", "--leader-elect=false", f"--secure-port={asked.port}"]
    return [*mooring, f"--kubeconfig={asked.scheduler_kubeconfig or os.environ['KUBECONFIG']}"]


async def terminated(api: ApiClient) -> dict[str, float]:
    """Watches that the server ended because they fell behind, by resource; an embedded cluster does not count them."""
    try:
        return counters((await api.get_bytes("/metrics")).decode(), "apiserver_terminated_watchers_total")
    except ApiError:
        return {}


def taken_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--port", type=int, default=20259, help="of the scheduler's pages")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for the last pod")
    parser.add_argument("--scheduler-kubeconfig", default="", help="of the scheduler, if it is not to be $KUBECONFIG")
    parser.add_argument("--create", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help="another scheduler; it must serve its metrics on that port")
    asked = parser.parse_args()
    if asked.create:
        asyncio.run(create(PODS, (pod(f"new-{number:05d}") for number in range(asked.pods))))
        return
    print(json.dumps(asyncio.run(measure(asked))))


if __name__ == "__main__":
    main()
