"""What pods take and nodes have, read from JSON with plain loops and fractions. Nothing of Mooring is used, so that tests can
hold its sums against these."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Amounts = dict[str, Fraction]

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")},
}


def quantity(text: Any) -> Fraction:
    """A well-formed quantity: a number, and a suffix or an exponent."""
    written = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if written.endswith(suffix):
            return Fraction(written[: -len(suffix)]) * _SUFFIXES[suffix]
    return Fraction(written)


def amounts(written: Json | None) -> Amounts:
    return {name: quantity(text) for name, text in (written or {}).items()}


def units(name: str, amount: Fraction) -> int:
    """As the scheduler counts: milli-CPU, and whole units of all else, rounded up."""
    return math.ceil(amount * 1000) if name == "cpu" else math.ceil(amount)


def request_of(pod: Json) -> dict[str, int]:
    """What must be free on a node."""
    return {name: units(name, amount) for name, amount in _sum_up(pod, is_placed=False).items()}


def held_by(pod: Json) -> dict[str, int]:
    """What a pod takes from its node: during a resize the most of what is asked, allocated and in force."""
    return {name: units(name, amount) for name, amount in _sum_up(pod, is_placed=True).items()}


def allocatable(node: Json, name: str) -> int:
    return units(name, quantity(node["status"]["allocatable"].get(name, "0")))


def is_overcommitted(node: Json, pods: Iterable[Json], new: Json) -> bool:
    """Whether the new pod does not fit on a node beside other pods."""
    others = list(pods)
    if len(others) >= allocatable(node, "pods"):
        return True
    held = [held_by(pod) for pod in others]
    for name, amount in request_of(new).items():
        if amount and amount > allocatable(node, name) - sum(each.get(name, 0) for each in held):
            return True
    return False


def _sum_up(pod: Json, is_placed: bool) -> Amounts:
    spec, status = pod["spec"], pod.get("status", {})
    is_infeasible = _is_infeasible(status)
    statuses = {}
    if is_placed:
        for each in [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]:
            statuses[each["name"]] = each

    def asked(container: Json, can_resize: bool) -> Amounts:
        written = amounts(container.get("resources", {}).get("requests"))
        known = statuses.get(container["name"]) if can_resize else None
        if known is None or known.get("resources") is None:
            return written
        in_force = amounts(known["resources"].get("requests")), amounts(known.get("allocatedResources"))
        return _highest(*in_force) if is_infeasible else _highest(written, *in_force)

    together: Amounts = {}
    for container in spec["containers"]:
        _add(together, asked(container, True))
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        is_sidecar = container.get("restartPolicy") == "Always"
        wanted = asked(container, is_sidecar)
        if is_sidecar:
            _add(together, wanted)
            _add(beside, wanted)
            peak = _highest(peak, beside)
        else:
            running = dict(beside)
            _add(running, wanted)
            peak = _highest(peak, running)
    total = _highest(together, peak)
    total.update(_of_the_pod(spec, status, is_placed, is_infeasible))
    _add(total, amounts(spec.get("overhead")))
    return total


def _of_the_pod(spec: Json, status: Json, is_placed: bool, is_infeasible: bool) -> Amounts:
    """Requests of the pod as a whole replace those of its containers."""
    written = amounts((spec.get("resources") or {}).get("requests"))
    named = [name for name in written if name in ("cpu", "memory") or name.startswith("hugepages-")]
    if not is_placed or status.get("resources") is None:
        return {name: written[name] for name in named}
    in_force = amounts(status["resources"].get("requests")), amounts(status.get("allocatedResources"))
    most = _highest(*in_force) if is_infeasible else _highest(written, *in_force)
    return {name: most.get(name, Fraction(0)) for name in named}


def _is_infeasible(status: Json) -> bool:
    pending = [each for each in status.get("conditions", ()) if each["type"] == "PodResizePending"]
    return bool(pending) and pending[0].get("reason") == "Infeasible"


def _highest(*several: Amounts) -> Amounts:
    found: Amounts = {}
    for each in several:
        for name, amount in each.items():
            if name not in found or amount > found[name]:
                found[name] = amount
    return found


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount
