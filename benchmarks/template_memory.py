"""Memory of a scheduler after pods of many templates came and went: does it grow with the templates of the past?

python benchmarks/template_memory.py                   5,000 nodes, 30,000 pods, up to 50,000 templates
python benchmarks/template_memory.py --alive 100       of which the last 100 still have pods
python benchmarks/template_memory.py --nodes 500 --pods 3000 --alive 500 --templates 500,5000

Most pods share a template. The others (--alive) each have their own; a new one takes the place of the oldest. So after each
count the cluster is of the same size, and only its past is longer. The scheduler has its queue and cache, and decides about
every new pod. All pods of the shared template are replaced once before: a dictionary whose entries come and go takes twice
the room from some day on, 1 MiB for 30,000 pods, whatever their templates. Standard output is a JSON list.
"""

import argparse
import json
import resource
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from throughput import MEBIBYTE, positive, tell
from workloads_more import a_node, corpus_writer

from mooring.api.decode import decode_json
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.kit.process import relax_collector
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

NODES, PODS, ALIVE, TEMPLATES = 5000, 30000, 5000, "5000,10000,20000,50000"
_TELL_EVERY = 5000


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    counts = [positive(text) for text in options.templates.split(",")]
    if counts != sorted(counts) or not options.alive <= min(options.pods, counts[0]):
        sys.exit("template_memory: --templates must grow, and --alive be at most the first of them and --pods")
    size = {"nodes": options.nodes, "pods": options.pods, "alive": options.alive}
    print(json.dumps([{**size, **point} for point in measure(options, counts)]))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure memory after pods of many templates.")
    parser.add_argument("--nodes", type=positive, default=NODES, metavar="N", help=f"default: {NODES}")
    parser.add_argument("--pods", type=positive, default=PODS, metavar="N", help=f"pods on nodes; default: {PODS}")
    parser.add_argument(
        "--alive",
        type=positive,
        default=ALIVE,
        metavar="N",
        help=f"pods with a template of their own; default: {ALIVE}",
    )
    parser.add_argument(
        "--templates", default=TEMPLATES, metavar="N,...", help=f"when to measure; default: {TEMPLATES}"
    )
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A point for each count of templates."""
    corpus = corpus_writer()
    driver = a_cluster(options.nodes, options.pods - options.alive, corpus)
    replace_pods(driver, options.nodes, options.pods - options.alive, corpus)
    relax_collector()  # as `mooring run` does when its caches are full
    alive: deque[str] = deque()
    for number in range(1, counts[-1] + 1):
        labels, spec = corpus.own_template(number)
        alive.append(create(driver, corpus.pod(f"new-{number}", "sched-1", labels, **spec)))
        while driver.attempt_once() is not None:
            pass
        if len(alive) > options.alive:
            driver.delete("Pod", alive.popleft())
        driver.events.clear()  # simulations keep 10,000 of them, and with them their pods; `mooring run` writes them off
        if number % _TELL_EVERY == 0:
            tell(f"memory: {number} of {counts[-1]} templates")
        if number in counts:
            yield point(number)


def a_cluster(nodes: int, pods: int, corpus: Any) -> Driver:
    """Nodes, and pods of one template on them, as many on each."""
    clock = VirtualClock(START_NS)
    driver = Driver(clock, build_scheduler(config.default(), clock, all_plugins()))
    for index in range(nodes):
        create(driver, a_node(index))
    for number in range(pods):
        create(driver, pod_on_node(number, nodes, corpus))
    return driver


def replace_pods(driver: Driver, nodes: int, pods: int, corpus: Any) -> None:
    """Each pod makes way for another one like it."""
    for number in range(pods):
        key = f"sched-0/init-{number}"
        assert ("Pod", key) in driver.objects
        driver.delete("Pod", key)
        create(driver, pod_on_node(pods + number, nodes, corpus))


def pod_on_node(number: int, nodes: int, corpus: Any) -> dict[str, Any]:
    pod: dict[str, Any] = corpus.pod(f"init-{number}", "sched-0", node=f"node-{number % nodes:05d}")
    return pod


def create(driver: Driver, item: dict[str, Any]) -> str:
    """Create an object as it would come over the network. Returns its key."""
    made = decode_json(json.dumps(item).encode(), item["kind"])
    driver.create(made)
    return made.key


def point(templates: int) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    sizes = {"rssMiB": resident_bytes() or peak, "peakMiB": peak}
    return {"templates": templates, **{name: round(size / MEBIBYTE, 1) for name, size in sizes.items()}}


def resident_bytes() -> int:
    """What the process holds now; 0 where there is no /proc. Not that of mooring.live, which imports an HTTP stack."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


if __name__ == "__main__":
    main()
