"""Runs every workload, prints the figures with their ratio to the baseline, and stores a record (records.py).

make bench                                    everything, some ten minutes on two cores
make bench RUNS=1 PARTS=workloads             the workloads alone, once each
make bench ONLY=basic,spread/100000           these kinds alone; KIND/NODES for one size
make bench-baseline                           everything, as the new baseline, and docs/performance.md from it
make bench-scale RUNS=1                       up to 1,000,000 nodes, as a record of its own, and docs/performance.md from it

Parts: workloads, and how cost grows with nodes, pods and templates; memory after many templates. Run it on a quiet machine.
Figures of two runs at different times differ by some percent anyway: to judge a change, use make bench-compare.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from cases import PARTS, SCALE, Workload, choose
from records import (
    BASELINE,
    BUSY_LOAD,
    FOLDER,
    SCALE_RECORD,
    Measurement,
    MemoryPoint,
    Record,
    RecordError,
    differences,
    file_name,
    new_record,
    parts_of,
    read_record,
    write_record,
)
from throughput import MEBIBYTE, Measured, aligned, measure, positive, run_measured, tell

MEMORY = "memory"
MEMORY_COMMAND = [sys.executable, str(Path(__file__).parent / "template_memory.py")]
MEMORY_ALIVE = (100, 5000)
"""How many pods with a template of their own are on nodes: most templates are of the past, or many are in use."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        baseline = known_baseline(is_replaced=options.baseline)
    except RecordError as error:
        sys.exit(f"bench: {error}")
    record = new_record(options.runs)
    fault: BaseException | None = None
    try:
        measure_scale(record) if options.scale else fill(record, options)
    except (subprocess.CalledProcessError, OSError, KeyboardInterrupt) as error:
        fault = error  # what was measured until then took minutes: it is shown and stored, but never as a baseline
    print(report(record, baseline))
    lasting = BASELINE if options.baseline else SCALE_RECORD if options.scale else None
    path = lasting if lasting is not None and fault is None else FOLDER / file_name(record)
    write_record(record, path)
    tell(f"stored in {path}")
    if fault is not None:
        sys.exit(f"bench: not complete: {str(fault) or type(fault).__name__}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run every workload and store a record.")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="how often to run each (default: 3)")
    parser.add_argument("--only", default="", metavar="KIND,...", help="only these kinds; KIND/NODES for one size")
    parser.add_argument("--parts", default="", metavar="PART,...", help=f"only these of {', '.join(PARTS)}, {MEMORY}")
    parser.add_argument("--baseline", action="store_true", help="store the record as the baseline")
    parser.add_argument("--scale", action="store_true", help="only growth to 1,000,000 nodes, stored as its record")
    options = parser.parse_args(arguments)
    if options.scale and (options.only or options.parts or options.baseline):
        parser.error("--scale stands alone")
    options.parts = options.parts.split(",") if options.parts else [*PARTS, *([] if options.only else [MEMORY])]
    unknown = [name for name in options.parts if name not in (*PARTS, MEMORY)]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join((*PARTS, MEMORY))}")
    if options.baseline and (options.only or len(options.parts) <= len(PARTS)):
        parser.error("a baseline has everything: leave --only and --parts out")
    return options


def known_baseline(is_replaced: bool) -> Record | None:
    """The baseline; None if there is none, or none that can be read although it is about to be replaced."""
    try:
        return read_record(BASELINE) if BASELINE.exists() else None
    except RecordError:
        if is_replaced:
            return None
        raise


# ---- running


def fill(record: Record, options: argparse.Namespace) -> None:
    """Measure what the options ask for; each figure is in the record as soon as there is one."""
    if record.machine.load_before >= BUSY_LOAD:
        tell(f"The machine is busy (load {record.machine.load_before}): the figures will be too low.")
    parts = {name: workloads for name, workloads in PARTS.items() if name in options.parts}
    chosen = choose(distinct(each for workloads in parts.values() for each in workloads), options.only)
    progress = Progress(len(chosen) * options.runs)
    for workload in chosen:
        measured = measure(workload, options.runs, progress.tell)
        record.workloads.append(as_measurement(measured, parts_of(workload, PARTS)))
    if MEMORY in options.parts:
        for alive in MEMORY_ALIVE:
            tell(f"memory after many templates, {alive} of them in use: one or two minutes")
            printed, _ = run_measured([*MEMORY_COMMAND, "--alive", str(alive)])
            record.memory += msgspec.json.decode(printed, type=list[MemoryPoint])


def measure_scale(record: Record) -> None:
    """Measure how the cost of a decision grows up to 1,000,000 nodes."""
    progress = Progress(len(SCALE) * record.runs)
    for workload in SCALE:
        record.workloads.append(as_measurement(measure(workload, record.runs, progress.tell), ["scale"]))


def distinct(workloads: Iterable[Workload]) -> list[Workload]:
    """Each workload once, smaller ones first: what is wrong with one shows before the long ones begin."""
    return sorted(dict.fromkeys(workloads), key=lambda each: each.nodes > 20000)


def as_measurement(measured: Measured, parts: list[str]) -> Measurement:
    runs = measured.runs
    return Measurement(
        measured.workload,
        parts,
        [run["perSecond"] for run in runs],
        [run["p50us"] for run in runs],
        [run["p99us"] for run in runs],
        [round(size / MEBIBYTE, 1) for size in measured.peak_bytes],
        runs[0]["scheduled"],
    )


class Progress:
    """Tells which run begins, and for how long it will go on if the others take as long as those before."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._begun = 0
        self._start_s = time.monotonic()

    def tell(self, line: str) -> None:
        taken_s = time.monotonic() - self._start_s
        left = ""
        if self._begun:
            left_s = taken_s / self._begun * (self._total - self._begun)
            left = f", about {left_s / 60:.0f} min left" if left_s >= 60 else f", about {left_s:.0f} s left"
        self._begun += 1
        tell(f"[{self._begun}/{self._total}{left}] {line}")


# ---- what is printed


def report(record: Record, baseline: Record | None) -> str:
    """The figures with their ratios, and what the ratios are worth."""
    rows = [("WORKLOAD (nodes/placed/pending)", "PODS/S", "P50", "P99", "PEAK", "PLACED", "RATIO")]
    for each in record.workloads:
        placed = f"{each.scheduled} of {each.workload.pending}"
        best = each.per_second.index(max(each.per_second))
        times = (f"{each.p50_us[best]:,.0f} µs", f"{each.p99_us[best]:,.0f} µs")
        peak = f"{max(each.peak_mib):,.0f} MiB"
        rows.append((str(each.workload), f"{each.rate:,.0f}", *times, peak, placed, ratio(each, baseline)))
    lines = [aligned(rows)] if record.workloads else []
    lines += [
        f"{point.nodes} nodes, {point.pods} pods, {point.templates} templates of which {point.alive} are in use: "
        f"{point.rss_mib:.0f} MiB"
        for point in record.memory
    ]
    return "\n".join([*lines, basis(record, baseline)])


def ratio(measurement: Measurement, baseline: Record | None) -> str:
    """To the baseline, above 1 is faster; a dash where it has no such workload."""
    rate = baseline.rate_of(measurement.workload) if baseline else None
    return f"{measurement.rate / rate:.2f}" if rate else "-"


def basis(record: Record, baseline: Record | None) -> str:
    """What the ratios compare with."""
    if baseline is None:
        return "There is no baseline to compare with: make bench-baseline records one."
    changed = ", with changes" if baseline.commit.dirty else ""
    text = f"RATIO is to the baseline: commit {baseline.commit.id[:7]}{changed}, {baseline.date}."
    differing = differences(record.machine, baseline.machine)
    if differing:
        text += (
            f"\nThe baseline is from ANOTHER MACHINE ({'; '.join(differing)}): the ratios do not compare code alone."
        )
    loads = (record.machine.load_before, baseline.machine.load_before)
    if max(loads) >= BUSY_LOAD:
        text += f"\nA machine was busy (load before: {loads[0]} here, {loads[1]} there): the ratios may be wrong."
    return text


if __name__ == "__main__":
    main()
