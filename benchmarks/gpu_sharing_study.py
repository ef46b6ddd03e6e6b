"""Reproduces the published study of GPU sharing (docs/laboratory.md): workloads x policies x seeds, and compares the means.

    python benchmarks/gpu_sharing_study.py TRACES [--workloads default,cpu100] [--policies FGD,BestFit] [--seeds 10]

TRACES is a folder with gpu_nodes.csv.gz, workloads/NAME.csv.gz and published.csv. One experiment: the nodes get a random
order; pods are shuffled, and drawn again at random until they ask for 130 % of all GPUs; they arrive one by one and never
leave; a pod that fits nowhere is given up. Prints a row for each workload and policy: the mean of allocated GPUs in percent,
the published mean, the difference, the largest difference on the way (80 to 120 % arrived), decisions a CPU second, and CPU
seconds of an experiment.
"""

import argparse
import csv
import gzip
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any

import msgspec
import yaml

from mooring.framework import config
from mooring.framework.profile.registry import load_file
from mooring.kit.process import relax_collector
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions
from mooring.sim.scenario import Outcome, Placer
from mooring.state.scheduler_assembly import all_plugins

EXAMPLE = Path(__file__).parent.parent / "examples" / "gpu_sharing"
POLICIES = {
    "Random": "random",
    "DotProd": "dot-prod",
    "GpuClustering": "gpu-clustering",
    "GpuPacking": "gpu-packing",
    "BestFit": "best-fit",
    "FGD": "fgd",
}
ARRIVING = 1.3
"""GPUs that pods ask for, as a multiple of those of the cluster."""
FIRST_SEED = 42
ON_THE_WAY = (80, 90, 100, 110, 120)
DOMAIN = "alibabacloud.com"

Row = dict[str, str]


def read(path: Path) -> list[Row]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return list(csv.DictReader(text.splitlines()))


def a_node(row: Row, rank: int) -> Node:
    amounts = {
        "cpu": f"{row['cpu_milli']}m",
        "memory": f"{row['memory_mib']}Mi",
        "pods": "1001",
        f"{DOMAIN}/gpu-count": row["gpu"],
        f"{DOMAIN}/gpu-milli": str(1000 * int(row["gpu"])),
    }
    metadata = {"name": f"{rank:04}-{row['sn']}", "labels": {f"{DOMAIN}/gpu-card-model": row["model"]}}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}, Node)


def a_pod(row: Row) -> Pod:
    requests = {"cpu": f"{row['cpu_milli']}m"}
    if row.get("memory_mib"):
        requests["memory"] = f"{row['memory_mib']}Mi"
    annotations = {}
    if int(row["num_gpu"]):
        annotations = {f"{DOMAIN}/gpu-milli": row["gpu_milli"], f"{DOMAIN}/gpu-count": row["num_gpu"]}
        if row.get("gpu_spec"):
            annotations[f"{DOMAIN}/gpu-card-model"] = row["gpu_spec"]
    return msgspec.convert(
        {
            "metadata": {"name": row["name"], "namespace": "study", "annotations": annotations},
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                "schedulerName": "default-scheduler",
            },
        },
        Pod,
    )


def gpu_milli(row: Row) -> int:
    return int(row["num_gpu"]) * int(row["gpu_milli"])


def arrivals(rows: list[Row], target: float, random: Random) -> Iterator[int]:
    """Indices of pods in the order of their arrival."""
    order = list(range(len(rows)))
    random.shuffle(order)
    yield from order
    total = sum(map(gpu_milli, rows))
    while True:
        index = random.randrange(len(rows))
        # As in the study: what is compared is the share of one GPU that the pod asks for.
        if total + int(rows[index]["gpu_milli"]) > target:
            return
        total += gpu_milli(rows[index])
        yield index


@dataclass
class Result:
    allocated: float
    on_the_way: dict[int, float]
    decisions: int
    cpu_s: float
    """Of the decisions, with Reserve and counting."""
    whole_cpu_s: float
    """Of the whole experiment."""


def settings_of(policy: str, workload: Path) -> Any:
    """The configuration of a policy; FGD goes by the typical pods of the workload."""
    written = yaml.safe_load((EXAMPLE / "policies" / f"{POLICIES[policy]}.yaml").read_text())
    for each in written["profiles"][0]["pluginConfig"]:
        if each["name"] == "FGD":
            each["args"] = {"workload": str(workload)}
    return written


def experiment(nodes: list[Row], rows: list[Row], settings: Any, seed: int) -> Result:
    begin = time.process_time()
    random = Random(seed)
    placer = Placer(config.from_object(settings), DecideOptions(), registry())
    capacity = 1000 * sum(int(row["gpu"]) for row in nodes)
    ranks = list(range(len(nodes)))
    random.shuffle(ranks)
    for row, rank in zip(nodes, ranks, strict=True):
        placer.put(a_node(row, rank))
    templates: dict[tuple[str, ...], Pod] = {}
    pods = []
    for number, index in enumerate(arrivals(rows, ARRIVING * capacity, random)):
        row = rows[index]
        key = tuple(value for name, value in row.items() if name in SCHEDULED_BY)
        template = templates.get(key)
        if template is None:
            template = templates[key] = a_pod(row)
        pods.append((template.with_name(f"{row['name']}-{number}", f"{number}"), gpu_milli(row)))
    ready = time.process_time()
    arrived = allocated = 0
    seen: dict[int, list[float]] = {}
    for pod, milli in pods:
        arrived += milli
        placer.put(pod)
        if placer.place(pod.key).outcome is Outcome.SCHEDULED:
            allocated += milli
        else:
            del placer.pending[pod.key]
        seen.setdefault(round(100 * arrived / capacity), []).append(100 * allocated / capacity)
    end = time.process_time()
    on_the_way = {percent: fmean(seen[percent]) for percent in ON_THE_WAY if percent in seen}
    return Result(100 * allocated / capacity, on_the_way, len(pods), end - ready, end - begin)


SCHEDULED_BY = {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}


def registry() -> Any:
    found = all_plugins()
    load_file(found, str(EXAMPLE))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--workloads")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    relax_collector()
    nodes = read(given.traces / "gpu_nodes.csv.gz")
    published = {(row["workload"], row["policy"]): row for row in read(given.traces / "published.csv")}
    workloads = given.workloads.split(",") if given.workloads else sorted({name for name, _ in published})
    for workload in workloads:
        path = given.traces / "workloads" / f"{workload}.csv.gz"
        rows = read(path)
        for policy in given.policies.split(","):
            settings = settings_of(policy, path)
            seeds = range(given.first_seed, given.first_seed + given.seeds)
            report(workload, policy, [experiment(nodes, rows, settings, seed) for seed in seeds], published)


def report(workload: str, policy: str, results: list[Result], published: dict[tuple[str, str], Row]) -> None:
    ours = [result.allocated for result in results]
    line: dict[str, Any] = {"workload": workload, "policy": policy, "mean": round(fmean(ours), 2)}
    line["std"] = round(pstdev(ours), 2)
    theirs = published.get((workload, policy))
    if theirs is not None:
        line["published"] = float(theirs["allocated_gpu_percent_mean"])
        line["difference"] = round(line["mean"] - line["published"], 2)
        way = {
            percent: fmean(result.on_the_way[percent] for result in results)
            - float(theirs[f"allocated_at_{percent}_percent_arrived"])
            for percent in ON_THE_WAY
        }
        largest: float = max(way.values(), key=abs)
        line["way"] = round(largest, 2)
    line["decisions_per_s"] = round(sum(r.decisions for r in results) / sum(r.cpu_s for r in results))
    line["cpu_s"] = round(fmean(result.whole_cpu_s for result in results), 2)
    print(json.dumps(line))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
