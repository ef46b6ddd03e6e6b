"""What is recorded while a day passes: the stay of each pod as a line of a file, and how long each part of the work took."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from mooring.inputs.arrivals import Arrival
from mooring.kit.clock import NS_PER_S
from mooring.kit.shown_text import csv_line
from mooring.model.pod import Pod

# ---- Where the pods of a day come from: a list of arrivals, or a load that is generated while the day passes.


class ArrivalStream(Protocol):
    """Arrivals in the order of time. A day goes over them once and keeps only the pods that are there."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Arrival]: ...

    def pods(self) -> Sequence[Pod]:
        """Pods with all namespaces that the arrivals have."""
        ...

    def candidates(self, name: str) -> Sequence[Pod]:
        """The pods with this `namespace/name` or `name`, and others whose names a user may have meant."""
        ...


class ListedArrivals:
    """Arrivals that were read from a file, which are all there from the beginning."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = sorted(arrivals, key=lambda arrival: arrival.at_ns)

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self._arrivals)

    def pods(self) -> list[Pod]:
        return [arrival.pod for arrival in self._arrivals]

    def candidates(self, name: str) -> list[Pod]:
        return self.pods()


# ---- stays


@dataclass(slots=True)
class Stay:
    """A pod of the day, from its arrival until it is gone. Times are since the beginning."""

    arrival: Arrival
    bound_ns: int | None = None
    node: str = ""


class StayFile:
    """Writes one line of CSV for each pod when it is gone, and for the others at the end: nothing of it is kept in memory.

    A pod is `finished`, `preempted`, `running` or `pending`; times are in seconds since the beginning, empty if unknown.
    """

    HEAD = "pod,priority,arrived,bound,ended,node,result\n"

    def __init__(self, file: TextIO) -> None:
        self._file = file
        file.write(self.HEAD)

    def write(self, stay: Stay, ended_ns: int | None, result: str) -> None:
        pod, bound, ended = stay.arrival.pod, _seconds(stay.bound_ns), _seconds(ended_ns)
        arrived = _seconds(stay.arrival.at_ns)
        self._file.write(csv_line((pod.key, pod.priority, arrived, bound, ended, stay.node, result)))


def _seconds(time_ns: int | None) -> str:
    return "" if time_ns is None else f"{time_ns / NS_PER_S:.3f}"


# ---- where the time goes


class PartTimes:
    """A stopwatch that gives all time to one of the parts: `lap` names the part that has just ended."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._ns = dict.fromkeys(parts, 0)
        self._since_ns = time.perf_counter_ns()

    def lap(self, part: str) -> None:
        now_ns = time.perf_counter_ns()
        self._ns[part] += now_ns - self._since_ns
        self._since_ns = now_ns

    def skip(self) -> None:
        """The time since the last lap belongs to no part."""
        self._since_ns = time.perf_counter_ns()

    def move(self, whole: str, part: str, part_ns: int) -> None:
        """Show what was measured inside another part on its own."""
        self._ns[whole] -= part_ns
        self._ns[part] += part_ns

    def seconds(self) -> dict[str, float]:
        return {part: ns / NS_PER_S for part, ns in self._ns.items()}


def peak_memory_bytes() -> int | None:
    """The most memory that this process had so far; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
