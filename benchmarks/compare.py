"""Two commits measured in turn, in one run: which differences are larger than the noise?

python benchmarks/compare.py BASE                      all workloads: BASE against the checkout as it is
python benchmarks/compare.py BASE --only basic,tenants/100000 --runs 7
python benchmarks/compare.py BASE --queue              with queue and events in the loop of each

Each commit gets the scenario that its own script writes, because what a workload needs may change: a feature gate, or the
form of a pod group. A workload that one of the commits cannot write or run is a line of the table that says so.

A machine that others use as well is faster at one moment than at the next, so figures of two separate runs do not
compare. Here each round runs both commits once, in processes of their own, and the order changes from round to round. The
ratio is that of the medians. The noise is how far the runs of one commit lie apart: the larger half-width of the middle half
of both, as a share of the median. A difference counts if it is larger than twice that, and if the runs of one commit are
faster than those of the other: of all pairs of runs, at most one in 25 is the other way round. With five rounds that
happens by chance in one of sixty comparisons of equal code, with three rounds in one of ten.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from cases import PARTS, WRITERS, Workload, choose
from throughput import bench, offered, positive, tell

ROOT = Path(__file__).parent.parent
FEWEST_RUNS = 3
"""With fewer runs nothing can be said about noise."""
MOST_REVERSED = 1 / 25
"""The share of pairs of runs in which the slower commit may be the faster one."""


@dataclass(slots=True)
class Comparison:
    """The rates of both commits on one workload, in pods a second."""

    workload: Workload
    rates: dict[str, list[float]] = field(default_factory=lambda: {"BASE": [], "HERE": []})
    failed: str = ""
    """The commit that cannot write or run the workload."""

    @property
    def ratio(self) -> float:
        return median(self.rates["HERE"]) / median(self.rates["BASE"])

    @property
    def noise(self) -> float:
        """As a share of the rate."""
        return max(map(_spread, self.rates.values()))

    @property
    def says(self) -> str:
        if self.failed:
            return f"{self.failed} cannot run it"
        slow, fast = sorted(self.rates.values(), key=median)
        reversed_pairs = sum(one >= other for one in slow for other in fast)
        if abs(self.ratio - 1) <= 2 * self.noise or reversed_pairs > MOST_REVERSED * len(slow) * len(fast):
            return "equal within noise"
        return "faster" if self.ratio > 1 else "SLOWER"


def _spread(rates: Sequence[float]) -> float:
    low, _, high = quantiles(rates, n=4, method="inclusive")
    return (high - low) / 2 / median(rates)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    chosen = choose(offered(queue=True) if options.queue else PARTS["workloads"], options.only)
    try:
        with tempfile.TemporaryDirectory() as folder:
            base = unpack(options.base, Path(folder))
            found = [compare(workload, base, options.runs) for workload in chosen]
    except OSError as error:
        sys.exit(f"compare: {error}")
    print(table(found))
    print(summary(found))
    if any(comparison.says == "SLOWER" for comparison in found):
        sys.exit(1)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure two commits in turn on every workload.")
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("--runs", type=positive, default=5, metavar="N", help="rounds for each workload (default: 5)")
    parser.add_argument("--only", default="", metavar="KIND,...", help="only these kinds; KIND/NODES for one size")
    parser.add_argument("--queue", action="store_true", help="with queue, cache and events in the loop")
    options = parser.parse_args(arguments)
    if options.runs < FEWEST_RUNS:
        parser.error(f"--runs must be at least {FEWEST_RUNS}")
    return options


def unpack(commit: str, folder: Path) -> Path:
    """The source of a commit, and its scripts that write workloads, in a folder of its own."""
    archive = subprocess.run(["git", "archive", commit, "src", *WRITERS], cwd=ROOT, stdout=subprocess.PIPE)
    if archive.returncode:
        sys.exit(f"compare: {commit} is no commit of this repository")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def compare(workload: Workload, base: Path, runs: int) -> Comparison:
    found = Comparison(workload)
    trees = {"BASE": base, "HERE": ROOT}
    with tempfile.TemporaryDirectory() as folder:
        scenarios: dict[str, Path] = {}
        for number in range(runs):
            tell(f"{workload}: round {number + 1} of {runs}")
            for name in list(trees)[:: 1 if number % 2 else -1]:
                try:
                    if name not in scenarios:
                        scenarios[name] = workload.write(make(Path(folder) / name), trees[name])
                    found.rates[name].append(rate(trees[name], scenarios[name], workload))
                except subprocess.CalledProcessError as error:
                    tell(f"{workload}: {error}")
                    found.failed = name
                    return found
    return found


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def rate(tree: Path, scenario: Path, workload: Workload) -> float:
    """Pods a second of one run with the code of a tree."""
    figures, _ = bench(workload, scenario, {**os.environ, "PYTHONPATH": str(tree / "src")})
    return float(figures["perSecond"])


def summary(found: Sequence[Comparison]) -> str:
    """Which differences are larger than the noise, in one line."""
    counts = [each for each in found if each.says in ("faster", "SLOWER")]
    equal = sum(each.says == "equal within noise" for each in found)
    told = "; ".join(f"{each.workload} {each.says} ({each.ratio:.2f})" for each in counts)
    return f"Larger than the noise: {told or 'nothing'}. Equal within noise: {equal} of {len(found)}."


def table(found: Sequence[Comparison]) -> str:
    lines = [f"{'WORKLOAD (nodes/placed/pending)':44} {'BASE':>10} {'HERE':>10} {'RATIO':>7} {'NOISE':>7}"]
    for each in found:
        if each.failed:
            lines.append(f"{each.workload!s:44} {each.says}")
            continue
        rates = " ".join(f"{median(each.rates[name]):>8,.0f}/s" for name in ("BASE", "HERE"))
        lines.append(f"{each.workload!s:44} {rates} {each.ratio:>7.2f} {each.noise:>7.1%}  {each.says}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
