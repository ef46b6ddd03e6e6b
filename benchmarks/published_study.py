"""Compare the results of examples/studies/fragmentation.yaml with the published ones.

    mooring study examples/studies/fragmentation.yaml --set traces=DIR --results runs.csv
    python benchmarks/published_study.py runs.csv DIR/published.csv

Prints, as a table of Markdown, for each workload and policy: the mean over seeds, the published mean and their difference.
Then the largest differences at the end and on the way (80 to 120 % arrived), and workloads with another order of policies.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
MOMENTS = (80, 90, 100, 110, 120)

Key = tuple[str, str]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def means(rows: list[dict[str, str]]) -> dict[Key, dict[str, float]]:
    """By workload and policy: the mean of each column over seeds."""
    columns = ["allocated_gpu_percent", *(f"allocated_at_{moment}" for moment in MOMENTS)]
    found: dict[Key, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        if not row["failed"]:
            found[row["workload"], row["policy"]].append(row)
    return {key: {name: fmean(float(row[name]) for row in own) for name in columns} for key, own in found.items()}


def main() -> None:
    ours = means(read(Path(sys.argv[1])))
    published = {(row["workload"], row["policy"]): row for row in read(Path(sys.argv[2]))}
    print("| workload | " + " | ".join(POLICIES) + " |\n|" + "---|" * (len(POLICIES) + 1))
    ends, ways, swapped = [], [], []
    for workload in sorted({name for name, _ in ours if (name, POLICIES[0]) in published}):
        cells = []
        for policy in POLICIES:
            own, theirs = ours[workload, policy], published[workload, policy]
            end = own["allocated_gpu_percent"] - float(theirs["allocated_gpu_percent_mean"])
            ends.append((abs(end), workload, policy))
            ways += [
                (abs(own[f"allocated_at_{at}"] - float(theirs[f"allocated_at_{at}_percent_arrived"])), workload, policy)
                for at in MOMENTS
            ]
            cells.append(f"{own['allocated_gpu_percent']:.2f} / {theirs['allocated_gpu_percent_mean']} ({end:+.2f})")
        print(f"| {workload} | " + " | ".join(cells) + " |")
        own_order = sorted(POLICIES, key=lambda policy: ours[workload, policy]["allocated_gpu_percent"])
        order = sorted(POLICIES, key=lambda policy: float(published[workload, policy]["allocated_gpu_percent_mean"]))
        swapped += [f"{workload}: {' < '.join(own_order)}"] if own_order != order else []
    print(
        "largest differences at the end:",
        *(f"{gap:.2f} {name} {policy};" for gap, name, policy in sorted(ends)[:-4:-1]),
    )
    print(
        "largest differences on the way:",
        *(f"{gap:.2f} {name} {policy};" for gap, name, policy in sorted(ways)[:-4:-1]),
    )
    print("other orders of policies:", "; ".join(swapped) or "none")


if __name__ == "__main__":
    main()
