"""Writes to one claim go one after another: whoever is written to it meanwhile waits, and may be written along.

A claim that many pods share would otherwise be written by all of them at once, and all but one would be refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.model.devices import ClaimConsumer


@dataclass(slots=True, eq=False)
class _Turn:
    holder: str = ""
    """The pod whose write is under way; empty: whoever asks first is next."""
    waiting: dict[str, ClaimConsumer | None] = field(default_factory=dict)
    """Pods that come next, in the order in which they came; those that need a reservation alone say how it looks."""


class ClaimTurns:
    """Claims are known by their id, pods as well."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._along: dict[tuple[str, str], bool] = {}
        """Claims and pods whose reservation another pod is writing -> whether they have given up meanwhile."""

    def take(self, claim: str, pod: str, consumer: ClaimConsumer | None = None) -> bool:
        """Whether it is the pod's turn to write the claim. If not, it waits; `consumer` is what others may write for it."""
        if (claim, pod) in self._along:
            self._along[claim, pod] = False
        turn = self._turns.setdefault(claim, _Turn())
        if turn.holder in ("", pod):
            turn.holder = pod
            turn.waiting.pop(pod, None)
            return True
        turn.waiting[pod] = consumer
        return False

    def leave(self, claim: str, pod: str, is_served: bool) -> None:
        """The pod has its reservation, or does not want it any more."""
        if (claim, pod) in self._along and not is_served:
            self._along[claim, pod] = True
        turn = self._turns.get(claim)
        if turn is None:
            return
        turn.waiting.pop(pod, None)
        if turn.holder == pod:
            turn.holder = ""
        if not turn.holder and not turn.waiting:
            del self._turns[claim]

    def consumers(self, claim: str) -> Sequence[ClaimConsumer]:
        """Pods that wait for nothing but a reservation, in the order in which they came."""
        turn = self._turns.get(claim)
        return [each for each in turn.waiting.values() if each is not None] if turn is not None else ()

    def begin(self, claim: str, consumers: Sequence[ClaimConsumer]) -> None:
        """Their reservations are being written."""
        for consumer in consumers:
            self._along[claim, consumer.uid] = False

    def end(self, claim: str, consumers: Sequence[ClaimConsumer]) -> list[ClaimConsumer]:
        """That is done, or has failed. Returns those that have given up meanwhile."""
        return [each for each in consumers if self._along.pop((claim, each.uid), False)]
