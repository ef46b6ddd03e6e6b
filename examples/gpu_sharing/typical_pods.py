"""Typical pods of a workload: what most pods ask for, and how many do."""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .requests import GPU_COUNT, GPU_MILLI, GPU_MODEL, GpuRequest, request_of

POPULARITY = 95
"""Percent of the pods that typical pods stand for, as in the study."""


class TypicalPod(NamedTuple):
    """Pods that ask for the same."""

    cpu_milli: int
    request: GpuRequest
    weight: int
    """How many there are."""


def typical_pods(pods: Iterable[tuple[int, GpuRequest]], popularity: float = POPULARITY) -> list[TypicalPod]:
    """The most frequent combinations of CPU and GPU, as many as it takes to cover `popularity` percent of the pods. Of
    equally frequent ones, those that ask for more come first."""
    counted = Counter(pods)
    by_size = sorted(counted.items(), key=lambda item: _order(item[1], *item[0]), reverse=True)
    found, covered, wanted = [], 0, popularity * counted.total() / 100
    for (cpu_milli, request), count in by_size:
        if covered >= wanted:
            break
        found.append(TypicalPod(cpu_milli, request, count))
        covered += count
    return found


def _order(count: int, cpu_milli: int, request: GpuRequest) -> tuple[Any, ...]:
    return count, cpu_milli, request.milli, request.count, "|".join(sorted(request.models))


def read_workload(path: str) -> list[tuple[int, GpuRequest]]:
    """CPU and GPU of each pod of a CSV file, plain or compressed, with the columns `cpu_milli`, `num_gpu`, `gpu_milli` and
    perhaps `gpu_spec`. Raises ValueError if it cannot be read."""
    try:
        raw = Path(path).read_bytes()
        text = (gzip.decompress(raw) if path.endswith(".gz") else raw).decode()
        return [(int(row["cpu_milli"]), _row_request(row)) for row in csv.DictReader(text.splitlines())]
    except (OSError, KeyError, EOFError) as error:
        raise ValueError(f"workload: Invalid value: {path!r}: {error}") from error


def annotations_of(row: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a pod that a row of such a file stands for."""
    if not int(row["num_gpu"]):
        return {}
    annotations = {GPU_MILLI: row["gpu_milli"], GPU_COUNT: row["num_gpu"]}
    return {**annotations, GPU_MODEL: row["gpu_spec"]} if row.get("gpu_spec") else annotations


def _row_request(row: Mapping[str, str]) -> GpuRequest:
    return request_of(annotations_of(row))
