"""The arithmetic of rolling updates, as upstream has it: how many pods there may be, how many must be available, and
how sets share a change of size. Pure functions of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


def share_of(total: int, value: int | str | None, rounds_up: bool = False) -> int:
    """A number, or so many percent of a total.

    | total | value | rounded down | rounded up |
    | 10    | 3     | 3            | 3          |
    | 10    | 25%   | 2            | 3          |
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-total * percent // 100) if rounds_up else total * percent // 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the number of pods may differ from what is wanted during an update."""

    replicas: int
    surge: int
    """How many pods more than wanted may exist."""
    unavailable: int
    """How many pods fewer than wanted may be available."""

    @property
    def most(self) -> int:
        """The most pods that may exist at once."""
        return self.replicas + self.surge

    @property
    def fewest_available(self) -> int:
        """The fewest pods that must be available."""
        return self.replicas - self.unavailable


def rolling_bounds(replicas: int, max_surge: int | str | None, max_unavailable: int | str | None) -> Bounds:
    """Surge is rounded up, unavailable down; one of them is at least 1, otherwise no pod could ever be replaced."""
    surge = share_of(replicas, max_surge, rounds_up=True)
    unavailable = share_of(replicas, max_unavailable)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def grown(bounds: Bounds, new: int, total: int) -> int:
    """The next size of the new set, when all sets together have `total` replicas."""
    if new >= bounds.replicas:
        return bounds.replicas
    return new + max(0, min(bounds.most - total, bounds.replicas - new))


class Size(NamedTuple):
    """What a set has, and how many of that are available."""

    replicas: int
    available: int


def shrunk(bounds: Bounds, new: Size, old: Sequence[Size]) -> list[int]:
    """The next sizes of the old sets, which come oldest first. Replicas that are not available go first, of whichever
    set."""
    sizes = [size.replicas for size in old]
    total = new.replicas + sum(sizes)
    # Pods that may go without a look at availability: unavailable ones of the new set count as still missing.
    spare = total - bounds.fewest_available - (new.replicas - new.available)
    # Step 1: old pods that are not available serve no requests and go first, as many as the bound allows.
    for i, size in enumerate(old):
        gone = max(0, min(spare, size.replicas - size.available))
        sizes[i] -= gone
        spare -= gone
    # Nothing went and nothing may go.
    if spare <= 0 and sum(sizes) == sum(size.replicas for size in old):
        return sizes
    # Step 2: available old pods go, as many as are available beyond the minimum.
    left = new.available + sum(size.available for size in old) - bounds.fewest_available
    for i in range(len(sizes)):
        gone = max(0, min(left, sizes[i]))
        sizes[i] -= gone
        left -= gone
    return sizes


@dataclass(frozen=True, slots=True)
class Part:
    """One of several sets that share a change of size. `most_before` is what all were allowed together."""

    replicas: int
    most_before: int
    """What all sets together were allowed when this one was last sized."""


def proportional(bounds: Bounds, parts: Sequence[Part]) -> list[int]:
    """The sizes of the sets of a Deployment that is scaled in the middle of an update: each gets its share.

    The parts come in the order in which rounding favours them; the first also gets what is left over.
    """
    allowed = bounds.most if bounds.replicas > 0 else 0
    # Positive: pods to add; negative: pods to remove. `added` approaches it set by set.
    to_add = allowed - sum(part.replicas for part in parts)
    added, sizes = 0, []
    for part in parts:
        step = _fraction(bounds, part) if part.replicas else 0
        room = to_add - added
        step = min(step, room) if to_add > 0 else max(step, room)
        sizes.append(part.replicas + (step if to_add and room else 0))
        added += step if to_add and room else 0
    if sizes and to_add != added:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return sizes


def _fraction(bounds: Bounds, part: Part) -> int:
    """The share of one set in the change. Parity: rounded to nearest, in floating point, as upstream does."""
    if bounds.replicas == 0:
        return -part.replicas
    if part.most_before <= 0:
        return 0
    return int(part.replicas * bounds.most / part.most_before + 0.5) - part.replicas
