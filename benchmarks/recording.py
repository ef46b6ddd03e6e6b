"""What `--record` adds to a scheduler: CPU and bytes for each pod, over all inputs of its life.

    python benchmarks/recording.py                         400 templates in turn, a pod lives through 7 steps
    python benchmarks/recording.py --short                 4 steps: created, attempted, bound, seen on its node

The same steps are shown to a scheduler with and without a recorder, in turn. What the scheduler itself does is left out: a
decision takes ten times as long, and varies more than a recording costs. Prints one line of JSON.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.framework import config
from mooring.framework.contract.intents import Bind, Intent
from mooring.kit.clock import SteadyClock
from mooring.model.pod import Pod
from mooring.scheduler import scheduler as scheduler_module
from mooring.scheduler.core import Core
from mooring.scheduler.inputs import BindAnswered, Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.scheduler_assembly import Recorder, build_scheduler

Step = tuple[Input | None, list[Intent]]
"""An input, or None for an attempt, and what the scheduler asks for."""

TEMPLATES = 400
MOMENT = "2026-02-01T00:00:00Z"


def pod(number: int, version: int, node: str = "", phase: str = "Pending", leaves: bool = False) -> Pod:
    """A pod as a watch shows it, with nothing shared with its other forms."""
    kind = number % TEMPLATES
    resources = {"requests": {"cpu": f"{50 + kind}m", "memory": f"{64 + kind}Mi"}}
    app = {"app": f"app-{kind}"}
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    metadata: dict[str, Any] = {"name": f"pod-{number:05d}", "namespace": "tenants", "labels": app}
    metadata |= {"uid": f"{number:08x}-5c1f-4f0e-9d5b-0242ac120002", "resourceVersion": str(version)}
    metadata |= {"creationTimestamp": MOMENT, "deletionTimestamp": MOMENT if leaves else None}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "registry.example/app:1", "resources": resources}]}
    spec |= {"schedulerName": "default-scheduler", "priority": 0, "nodeName": node}
    if kind % 4 == 1:
        spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": app}}]
    ready = ("PodScheduled", "Initialized", "Ready", "ContainersReady")[
        : 0 if not node else 1 if phase == "Pending" else 4
    ]
    conditions = [{"type": name, "status": "True", "lastTransitionTime": MOMENT} for name in ready]
    status = {"phase": phase, "conditions": conditions}
    return msgspec.json.decode(json.dumps({"metadata": metadata, "spec": spec, "status": status}), type=Pod)


def life(number: int, is_short: bool) -> Iterator[Step]:
    """All that a scheduler is told of a pod. Forms of it share what a reflector makes them share (`Pod.inherit`)."""
    old, node = pod(number, number), f"node-{number % 500:04d}"
    _ = old.shape  # a scheduler has asked for it
    yield ObjectAdded(old), []
    yield None, [Bind(old, node)]
    yield BindAnswered(old), []
    forms = [pod(number, number + 1, node)]
    if not is_short:
        forms += [pod(number, number + 2, node, "Running"), pod(number, number + 3, node, "Running", leaves=True)]
    for form in forms:
        form.inherit(old)
        yield ObjectUpdated(old, form), []
        old = form
    if not is_short:
        yield ObjectRemoved(old), []


def show(steps: list[Step], pods: int, recorder: Recorder | None) -> float:
    """Microseconds of CPU a pod, those of the recorder's thread included."""
    asked: list[Intent] = []

    def take_in(self: Scheduler, change: Input) -> None:
        self.core.outbox.intents.extend(asked)

    def attempt(core: Core) -> None:
        core.outbox.intents.extend(asked)

    scheduler_module.Scheduler._take_in = take_in
    scheduler_module.attempt = attempt  # type: ignore[attr-defined]
    scheduler = build_scheduler(config.default(), SteadyClock(), recorder=recorder)
    gc.collect()
    begin = time.process_time_ns()
    for change, intents in steps:
        asked[:] = intents
        if change is None:
            scheduler.attempt()
        else:
            scheduler.handle(change)
        scheduler.take_intents()
    return (time.process_time_ns() - begin) / pods / 1000


def measure(pods: int, runs: int, is_short: bool) -> dict[str, Any]:
    steps = [step for number in range(pods) for step in life(number, is_short)]
    plain, recorded, sizes = [], [], []
    for _ in range(runs):
        plain.append(show(steps, pods, None))
        with tempfile.TemporaryDirectory() as folder:
            recorder = RunRecorder(Path(folder), scheduler_header(config.default(), {}, time.time_ns()))
            recorded.append(show(steps, pods, recorder))
            recorder.close()
            sizes.append(recorder.figures.bytes / pods)
    return {
        "pods": pods,
        "steps_per_pod": len(steps) // pods,
        "added_us_per_pod": round(min(recorded) - min(plain), 1),
        "added_us_per_pod_median": round(statistics.median(recorded) - statistics.median(plain), 1),
        "bytes_per_pod": round(statistics.median(sizes)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--short", action="store_true", help="until the pod is seen on its node")
    given = parser.parse_args()
    print(json.dumps(measure(given.pods, given.runs, given.short)))


if __name__ == "__main__":
    main()
