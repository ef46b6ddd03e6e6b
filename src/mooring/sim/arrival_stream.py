"""Where the pods of a day come from: a list of arrivals, or a load that is generated while the day passes."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from mooring.inputs.arrivals import Arrival
from mooring.model.pod import Pod


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
