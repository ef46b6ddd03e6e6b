"""The pods of the moment at which arrivals need most: what a plan has to find room for."""

from collections import Counter
from collections.abc import Sequence

from mooring.inputs.arrivals import Arrival
from mooring.model.pod import Pod


def pods_at_peak(arrivals: Sequence[Arrival]) -> list[Pod]:
    """The pods that run at the busiest moment, if each runs from its arrival. Busy is the sum over resources of the share of
    all that is requested of it."""
    total: Counter[str] = Counter()
    for arrival in arrivals:
        total.update(arrival.pod.shape.request)
    events: list[tuple[int, int, int]] = []
    for number, arrival in enumerate(arrivals):
        events.append((arrival.at_ns, 1, number))
        if arrival.run_ns is not None:
            events.append((arrival.at_ns + arrival.run_ns, 0, number))  # ends come first: the room is free again
    load, highest, peak_ns = 0.0, 0.0, 0
    for at_ns, begins, number in sorted(events):
        load += _share(arrivals[number].pod, total) * (1 if begins else -1)
        if load > highest + 1e-9:
            highest, peak_ns = load, at_ns
    return [each.pod for each in arrivals if _runs_at(each, peak_ns)]


def _share(pod: Pod, total: Counter[str]) -> float:
    """At least something, so that pods without requests count too."""
    return 1e-6 + sum(amount / total[name] for name, amount in pod.shape.request.items() if amount)


def _runs_at(arrival: Arrival, at_ns: int) -> bool:
    return arrival.at_ns <= at_ns and (arrival.run_ns is None or at_ns < arrival.at_ns + arrival.run_ns)
