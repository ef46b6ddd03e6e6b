"""Small recordings with several states, and what a scheduler knows at a moment of its replay."""

from pathlib import Path
from typing import Any

import msgspec

from build import a_node
from mooring.cluster.columns.facts import amounts_on
from mooring.framework import config as configuration
from mooring.inputs.arrivals import arrivals_of
from mooring.scheduler.scheduler import Scheduler
from mooring.serve.cache_debugger import snapshot
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.replay.differences import is_decision
from mooring.state.replay.replayer import Replayer
from recorded_days import only_run, record_day

INTERVAL = RecordingLimits(interval_s=20, drops=False)
"""A state every 20 seconds."""


def record_a_minute(directory: Path) -> RecordedRun:
    """A minute on three nodes: pods that come and go, one that fits nowhere, and one that preempts."""
    nodes = [a_node(f"n{i}", cpu="2") for i in range(3)]
    entries = [
        {"at": "0s", "every": "3s", "until": "50s", "name": "p", "cpu": "500m", "run": "25s"},
        {"at": "12s", "name": "giant", "cpu": 64},
        {"at": "30s", "name": "urgent", "cpu": 2, "priority": 100},
    ]
    record_day(directory, nodes, arrivals_of(entries, nodes), limits=INTERVAL, seed=None, until_s=60)
    return only_run(directory)


def record_full_nodes(directory: Path) -> RecordedRun:
    """Two minutes on four nodes of two zones: pods spread, keep their distance, gather and are preempted.

    tests/state/data/rules-* are such recordings. If a change of this version's own rules is meant to change decisions, its
    recording is written anew: empty the folder, and call this function with it.
    """
    nodes = [
        a_node(f"n{i}", cpu="2", labels={"topology.kubernetes.io/zone": f"z{i % 2}", "kubernetes.io/hostname": f"n{i}"})
        for i in range(4)
    ]
    when = "DuringSchedulingIgnoredDuringExecution"

    def a_term(app: str, key: str) -> dict[str, Any]:
        return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}

    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **a_term("web", "topology.kubernetes.io/zone")}
    apart = {"podAntiAffinity": {f"required{when}": [a_term("db", "kubernetes.io/hostname")]}}
    liked = [{"weight": 50, "podAffinityTerm": a_term("db", "topology.kubernetes.io/zone")}]
    web = {"name": "web", "labels": {"app": "web"}, "pod": {"spec": {"topologySpreadConstraints": [spread]}}}
    db = {"name": "db", "labels": {"app": "db"}, "pod": {"spec": {"affinity": apart}}}
    near = {"name": "near", "pod": {"spec": {"affinity": {"podAffinity": {f"preferred{when}": liked}}}}}
    entries: list[dict[str, Any]] = [
        {"at": "0s", "every": "4s", "until": "100s", "name": "batch", "cpu": "500m", "run": "40s"},
        {"at": "1s", "every": "9s", "until": "90s", "cpu": "250m", "run": "35s", "priority": 10, **web},
        {"at": "20s", "count": 5, "cpu": "1", "run": "60s", "priority": 100, **db},
        {"at": "30s", "every": "20s", "until": "110s", "cpu": "100m", "run": "15s", **near},
        {"at": "12s", "name": "giant", "cpu": 64},
        {"at": "50s", "count": 2, "name": "urgent", "cpu": 2, "priority": 1000, "run": "30s"},
    ]
    record_day(directory, nodes, arrivals_of(entries, nodes), limits=INTERVAL, until_s=120)
    return only_run(directory)


def knowledge(scheduler: Scheduler) -> dict[str, Any]:
    """All that the scheduler would say about itself, and what it decides by."""
    table = scheduler.cluster.nodes
    return {
        "snapshot": msgspec.to_builtins(snapshot(scheduler, configuration.default())),
        "attempts": scheduler.attempts,
        "rows": list(table.names),
        "on": [[pod.key for pod in there] for there in table.pods_on],
        "used": [amounts_on(table.nodes[row], table.pods_on[row]) for row in range(table.height)],
        "queue": sorted(
            (e.key, scheduler.place_in_queue(e.key), e.attempts, e.timestamp_ns) for e in scheduler.queued_pods()
        ),
    }


def fresh_after_decision(run: RecordedRun, number: int) -> Scheduler:
    """The scheduler of a replay from the very beginning that stops right after a decision."""
    replayer, made = Replayer(run), 0
    for replayed in replayer.steps():
        made += is_decision(replayed.step.outcomes)
        if made == number:
            break
    assert replayer.scheduler is not None
    return replayer.scheduler


def fresh_at(run: RecordedRun, when_ns: int) -> Scheduler:
    """The scheduler of a replay of all steps up to a moment."""
    replayer = Replayer(run)
    for _ in replayer.steps(None, when_ns):
        pass
    assert replayer.scheduler is not None
    return replayer.scheduler
