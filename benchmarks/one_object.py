"""What one large object costs: itself, and the others while it is there. Growth worse than linear is flagged.

python benchmarks/one_object.py                              every dimension, with 10, 1,000 and 10,000 entries
python benchmarks/one_object.py --only hard_spread,affinity --nodes 1000
python benchmarks/one_object.py --memory --sizes 10,5000     memory at the peak, and what stays when the object is gone

Each size runs in a process of its own. OWN is the time of adding the object, its attempts (as a pod that waits and as
one that is on a node), an update and its removal; OTHERS is the time for one ordinary pod, from its arrival to its
deletion, while the object is there: pending, and placed. Both are times of the processor, so that a busy machine makes
no difference.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from large_objects import DIMENSIONS, HOST, ZONE, JsonObject, Large, a_node, a_pod, an_object

from mooring.api.decode import decode_json
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

SIZES = (10, 1000, 10_000)
LIMIT_S = 300
"""What has not ended by then is reported as such."""
WORSE = 15
"""Ten times the entries may take ten times the time, and half as much again for caches that no longer hold."""
NOTICEABLE_S = 0.05
"""Below this the clock and the collector decide, not the entries."""
OTHERS = 20
ZONES = 10


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.one:
        print(json.dumps(measure(options.one, options.sizes[0], options.nodes, options.memory)))
        return
    names = options.only.split(",") if options.only else list(DIMENSIONS)
    for unknown in set(names) - set(DIMENSIONS):
        sys.exit(f"no such dimension: {unknown}; there are {', '.join(DIMENSIONS)}")
    print(heading(options))
    flagged = [name for name in names if not report(name, options)]
    if flagged:
        sys.exit(f"worse than linear: {', '.join(flagged)}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what one large object costs.")
    parser.add_argument("--only", default="", metavar="NAME,...", help="only these dimensions")
    parser.add_argument("--sizes", type=sizes, default=SIZES, metavar="N,...", help="entries (default: 10,1000,10000)")
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="nodes in the cluster (default: 100)")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def heading(options: argparse.Namespace) -> str:
    columns = "".join(f"{size:>18,}" for size in options.sizes)
    what = "MiB at the peak + MiB that stay" if options.memory else "OWN s / OTHERS ms"
    return f"{'DIMENSION (' + what + ')':<52}{columns}   GROWTH own, others"


def report(name: str, options: argparse.Namespace) -> bool:
    """Measure and print one dimension. False: its growth is worse than linear."""
    found = [in_a_process(name, size, options) for size in options.sizes]
    if options.memory:
        cells = [f"{one['peak_mib']:.1f} + {one['stays_mib']:.1f}" if one else "-" for one in found]
        print(f"{name:<52}{''.join(cell.rjust(18) for cell in cells)}", flush=True)
        return True
    cells = [f"{one['own_s']:.3f} / {one['others_ms']:.2f}" if one else f"over {LIMIT_S} s" for one in found]
    if len(found) < 2 or None in found[-2:]:
        print(f"{name:<52}{''.join(cell.rjust(18) for cell in cells)}", flush=True)
        return found[-1] is not None
    before, after = found[-2], found[-1]
    assert before is not None and after is not None
    own, others = after["own_s"] / before["own_s"], after["others_ms"] / before["others_ms"]
    allowed = WORSE * options.sizes[-1] / options.sizes[-2] / 10
    is_bad = after["own_s"] > NOTICEABLE_S and own > allowed
    marks = f"{own:6.1f}x{others:6.1f}x{'   <-- worse than linear' if is_bad else ''}"
    print(f"{name:<52}{''.join(cell.rjust(18) for cell in cells)}   {marks}", flush=True)
    return not is_bad


def in_a_process(name: str, size: int, options: argparse.Namespace) -> dict[str, float] | None:
    """None: it took too long."""
    command = [sys.executable, __file__, "--one", name, "--sizes", str(size), "--nodes", str(options.nodes)]
    try:
        done = subprocess.run(
            command + ["--memory"] * options.memory, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, float] = json.loads(done.stdout)
    return found


# ---- one run


def measure(name: str, size: int, nodes: int, memory: bool) -> dict[str, float]:
    large = DIMENSIONS[name](size)
    driver = a_cluster(nodes)
    for item in large.before:
        create(driver, item)
    others(driver, "warm")
    stages = stages_of(large)
    gc.collect()
    gc.freeze()
    return memory_of(driver, stages) if memory else times_of(driver, stages)


def stages_of(large: Large) -> list[JsonObject]:
    """The object as it comes; a pod once more as one that has a node; and what else is large, in turn."""
    stages = [large.item]
    if large.item["kind"] == "Pod":
        placed = deepcopy(large.item)
        placed["spec"]["nodeName"] = "node-1"
        stages.append(placed)
    return stages + [item for item in large.before if item["kind"] in ("Node", "ResourceSlice")]


def times_of(driver: Driver, stages: list[JsonObject]) -> dict[str, float]:
    own_s, others_ms = 0.0, 0.0
    for item in stages:
        own_s += timed(partial(appear, driver, item))
        others_ms = max(others_ms, others(driver, "other") * 1000 / OTHERS)
        own_s += timed(partial(leave, driver, item))
    return {"own_s": own_s, "others_ms": others_ms}


def memory_of(driver: Driver, stages: list[JsonObject]) -> dict[str, float]:
    """The object as text and as a struct counts as well."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for item in stages:
        appear(driver, item)
        others(driver, "other")
        leave(driver, item)
    others(driver, "other")
    peak = tracemalloc.get_traced_memory()[1]
    gc.collect()
    stays = tracemalloc.get_traced_memory()[0]
    return {"peak_mib": (peak - before) / (1 << 20), "stays_mib": (stays - before) / (1 << 20)}


def timed(act: Any) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


def appear(driver: Driver, item: JsonObject) -> None:
    """The object comes, and is tried as long as its turn comes within half a minute."""
    if item["kind"] != "Pod":
        leave(driver, item)
    create(driver, item)
    driver.settle()
    for _ in range(3):
        driver.advance_second()
        driver.settle()


def leave(driver: Driver, item: JsonObject) -> None:
    metadata = item["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    driver.delete(item["kind"], key)


def create(driver: Driver, item: JsonObject) -> None:
    driver.create(decode_json(json.dumps(item).encode(), item["kind"]))


def others(driver: Driver, name: str) -> float:
    """Ordinary pods come, are placed, and go; a node changes now and then. Returns the seconds that it took.

    Attempts of the large pod, which is tried whenever there is nothing else to do, are not counted.
    """
    spread = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    away = {"labelSelector": {"matchLabels": {"app": "alone"}}, "topologyKey": HOST}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
    own_s = 0.0
    begin = time.process_time()
    for i in range(OTHERS):
        match i % 4:
            case 0:
                pod = a_pod(f"{name}-{i}", {"app": "spread"}, topologySpreadConstraints=[spread])
            case 1:
                pod = a_pod(f"{name}-{i}", {"app": "alone"}, affinity=alone)
            case 2:
                pod = a_pod(f"{name}-{i}", {"app": "set", "pod": f"{name}-{i}"})
            case _:
                pod = a_pod(f"{name}-{i}")
        create(driver, pod)
        own_s += settle_others(driver)
        if i % 5 == 0:
            driver.update(decode_json(json.dumps(a_node("node-2", 2, labels={"beat": str(i)})).encode(), "Node"))
    for i in range(OTHERS):
        driver.delete("Pod", f"default/{name}-{i}")
    return time.process_time() - begin - own_s


def settle_others(driver: Driver) -> float:
    """Attempts until no one's turn is left. Returns how many seconds the large pod took of that."""
    own_s = 0.0
    while True:
        begin = time.process_time()
        pod = driver.attempt_once()
        if pod is None:
            return own_s
        if pod.name == "large":
            own_s += time.process_time() - begin


def a_cluster(nodes: int) -> Driver:
    """Nodes in ten zones, and pods of five kinds on them: five for each node."""
    clock = VirtualClock(START_NS)
    driver = Driver(clock, build_scheduler(config.default(), clock, all_plugins()))
    create(driver, an_object("Namespace", "default"))
    for i in range(nodes):
        create(driver, a_node(f"node-{i}", i % ZONES))
    for i in range(5 * nodes):
        create(driver, a_pod(f"placed-{i}", {"app": f"app-{i % 5}"}, nodeName=f"node-{i % nodes}"))
    return driver


if __name__ == "__main__":
    main()
