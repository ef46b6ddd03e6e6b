"""What a kubelet makes of the capacity of its node: allocatable is the capacity without what is reserved.

A kubelet knows its reservations from its configuration. A simulated one has none, so the difference between capacity and
allocatable, as the manifest of the node has them, stands for them.
"""

from mooring.api.json_objects import JsonObject
from mooring.model.quantity import NANO, QuantityError, parse

_MILLI = NANO // 1000


def with_allocatable(status: JsonObject, before: JsonObject | None = None) -> JsonObject:
    """The status with allocatable amounts that follow from the capacity. `before` is the status before others changed the
    capacity; None if nobody did.

    A resource that only the capacity has is copied, such as an extended resource that somebody patched in. A resource whose
    capacity changed keeps its reservation, and one that left the capacity is not allocatable either. An amount that was
    changed together with the capacity stays as it was written.
    """
    capacity, held = status.get("capacity") or {}, status.get("allocatable") or {}
    found = {**{name: amount for name, amount in capacity.items() if name not in held}, **held}
    if before is not None:
        old_capacity, old = before.get("capacity") or {}, before.get("allocatable") or {}
        for name in [name for name in held if held[name] == old.get(name)]:
            if name in capacity and name in old_capacity and capacity[name] != old_capacity[name]:
                found[name] = _reduced(capacity[name], old_capacity[name], held[name])
            elif name in old_capacity and name not in capacity:
                del found[name]
    return {**status, "allocatable": found} if found != held else status


def _reduced(capacity: str, old_capacity: str, allocatable: str) -> str:
    """A capacity without what was reserved of the old one, and never less than nothing."""
    try:
        reserved = parse(old_capacity) - parse(allocatable)
        if reserved <= 0:
            return capacity
        return _written(max(parse(capacity) - reserved, 0))
    except QuantityError:
        return allocatable  # validation refuses what is no quantity, so this was stored by an older version


def _written(nano: int) -> str:
    if nano % NANO == 0:
        return str(nano // NANO)
    return f"{nano // _MILLI}m" if nano % _MILLI == 0 else f"{nano}n"
