"""What a dashboard costs the scheduler that it shows, in processor time of the scheduler's thread and in memory.

    python benchmarks/dashboard_cost.py                    5,000 nodes, 1,000 pods a second, two streams
    python benchmarks/dashboard_cost.py --nodes 100000

Pods are placed with and without the dashboard in turn, one batch after another, and the medians are compared. The readings of
the stream are measured by themselves. `benchmarks/live.py --dashboards 2` measures the whole process. Prints JSON.
"""

import argparse
import asyncio
import gc
import json
import statistics
import tracemalloc
from time import thread_time_ns
from typing import Any

import msgspec

from mooring.app.dashboards import SchedulerSource
from mooring.dashboard.serving.sampler import QUICK_S, SLOW_S, Sampler, Streams
from mooring.dashboard.views.scheduling_flow import MAX_LINES, PodStories
from mooring.framework.config import default
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import SteadyClock
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler

BATCH = 500
READINGS = 50


def a_node(number: int) -> Node:
    labels = {
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "node.kubernetes.io/instance-type": f"type-{number % 5}",
        "kubernetes.io/hostname": f"node-{number}",
        "pool": f"pool-{number % 20}",
    }
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(number % 3)}
    return msgspec.convert(
        {"metadata": {"name": f"node-{number}", "labels": labels}, "status": {"allocatable": amounts}}, Node
    )


def a_pod(name: str, cpu: str = "100m") -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


class Side:
    """One scheduler, with a dashboard or without."""

    def __init__(self, nodes: int, source: SchedulerSource | None) -> None:
        clock = SteadyClock()
        metrics = SchedulerMetrics(clock)
        self.source = source
        self.scheduler: Scheduler = build_scheduler(
            default(),
            clock,
            listeners=SchedulerListeners(
                observer=metrics if source is None else source.counting(metrics),
                tell=None if source is None else source.telling(),
            ),
        )
        if source is not None:
            source.show(self.scheduler)
        for number in range(nodes):
            self.scheduler.handle(ObjectAdded(a_node(number)))
        self.placed: list[Pod] = []

    def place(self, pods: list[Pod]) -> int:
        """Place pods as a driver does. Returns the processor time in nanoseconds."""
        scheduler = self.scheduler
        began_ns = thread_time_ns()
        for pod in pods:
            scheduler.handle(ObjectAdded(pod))
            scheduler.attempt()
            for intent in scheduler.take_intents():
                if isinstance(intent, Bind):
                    bound = intent.pod
                    scheduler.handle(BindAnswered(bound))
                    scheduler.handle(ObjectUpdated(pod, bound))
                    self.placed.append(bound)
            scheduler.take_intents()
        return thread_time_ns() - began_ns

    def clear(self) -> None:
        for pod in self.placed:
            self.scheduler.handle(ObjectRemoved(pod))
        self.placed.clear()


def attempts(nodes: int, rounds: int) -> dict[str, float]:
    """Microseconds of an attempt without and with stories and counts: batches in turn, medians."""
    source = SchedulerSource("run", SteadyClock())
    sides = [Side(nodes, None), Side(nodes, source)]
    taken: list[list[float]] = [[], []]
    gc.disable()
    for number in range(rounds):
        for at in (0, 1) if number % 2 else (1, 0):
            pods = [a_pod(f"p{number}-{i}") for i in range(BATCH)]
            taken[at].append(sides[at].place(pods) / BATCH / 1000)
            sides[at].clear()
    gc.enable()
    plain, watched = (statistics.median(each[2:]) for each in taken)
    return {"plain_us": round(plain, 1), "watched_us": round(watched, 1), "more_us": round(watched - plain, 2)}


async def readings(nodes: int, pending: int) -> dict[str, float]:
    """Microseconds of each reading, with two streams open, after each of which something changed."""
    source = SchedulerSource("run", SteadyClock())
    side = Side(nodes, source)
    for i in range(pending):
        side.scheduler.handle(ObjectAdded(a_pod(f"big-{i}", cpu="1000")))
        side.scheduler.attempt()
    side.scheduler.take_intents()
    streams = Streams()
    clients = [streams.join(), streams.join()]
    sampler = Sampler(source, streams, _report)
    began_ns = thread_time_ns()
    await sampler.read_slowly()
    first_us = (thread_time_ns() - began_ns) / 1000
    quick: list[float] = []
    slow: list[float] = []
    sent = 0
    for number in range(READINGS):
        side.place([a_pod(f"q{number}-{i}") for i in range(20)])
        began_ns = thread_time_ns()
        sampler.wake()
        sampler.read_quickly()
        sent += sum(len(client.take()) for client in clients)
        quick.append((thread_time_ns() - began_ns) / 1000)
        began_ns = thread_time_ns()
        await sampler.read_slowly()
        slow.append((thread_time_ns() - began_ns) / 1000)
    return {
        "first_slow_us": round(first_us),
        "quick_us": round(statistics.median(quick)),
        "slow_us": round(statistics.median(slow)),
        "bytes_a_second": round(sent / READINGS / len(clients)),
    }


def story_mib() -> float:
    """Memory of a full journal of stories."""
    side = Side(100, None)
    stories = PodStories(SteadyClock().now_ns)
    side.scheduler.core.tell = side.scheduler.core.queue._tell = side.scheduler.core.queue.places.tell = stories.tell
    tracemalloc.start()
    number = 0
    while len(stories) < MAX_LINES:
        side.place([a_pod(f"default-pod-{number + i}") for i in range(BATCH)])
        side.clear()
        number += BATCH
    gc.collect()
    full = tracemalloc.get_traced_memory()[0]
    del stories
    side.scheduler.core.tell = side.scheduler.core.queue._tell = side.scheduler.core.queue.places.tell = None
    gc.collect()
    freed = full - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return round(freed / 2**20, 1)


def _report(text: str, fault: Exception | None) -> None:
    raise SystemExit(f"{text}: {fault}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pending", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=1000, help="pods a second")
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    cost = attempts(asked.nodes, asked.rounds)
    read = asyncio.run(readings(asked.nodes, asked.pending))
    a_second_us = cost["more_us"] * asked.rate + read["quick_us"] / QUICK_S + read["slow_us"] / SLOW_S
    figures: dict[str, Any] = {
        "nodes": asked.nodes,
        "pending": asked.pending,
        "attempt": cost,
        "readings": read,
        "share_of_a_core": round(a_second_us / 1e6, 5),
        "stories_mib": story_mib(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
