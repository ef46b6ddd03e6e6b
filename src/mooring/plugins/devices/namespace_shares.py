"""Shares of time: how much of it namespaces may use for costly searches, so that the claims of one do not hold up others.

A search for devices can take most of a second, and one user may write thousands of claims that need such a search. The steps
of an attempt that costs more than ORDINARY_STEPS are charged to its namespace. Namespaces that owe repay REPAID_A_SECOND
together, in equal parts. Attempts get fewer steps while too much is owed, so in the long run costly searches take a tenth of
the time, and each namespace that wants them gets an equal part of it.
"""

from heapq import heappop, heappush

ORDINARY_STEPS = 2_000
"""4 ms: a search on some hundred nodes. Cheaper searches are neither charged nor cut short."""
MODERATE_STEPS = 50_000
"""0.1 s: a new demand on 5,000 nodes with 8 devices each. A namespace that owes no more than this gets as much, whatever
others owe."""
BURST = 500_000
"""1 s: while all namespaces together owe no more than this, those that owe no more than an equal part of it get all steps
of an attempt. So a namespace may come with a dozen new demands at once."""
REPAID_A_SECOND = 50_000
"""A tenth of the time: a step takes 2 us."""

_NANO = 1_000_000_000


class NamespaceShares:
    """The debts of namespaces. Time is an argument, so that a recorded run can be repeated.

    Debts shrink together, so only their difference to a common mark is kept: `_repaid` is what a namespace has repaid that
    was in debt all the time. All amounts are in steps times 10^9, because time is in nanoseconds.
    """

    def __init__(self) -> None:
        self._repaid = 0
        self._total = 0
        """The sum of all debts."""
        self._seen_ns = 0
        self._ends: dict[str, int] = {}
        """Namespaces that owe -> the mark at which they owe nothing."""
        self._order: list[tuple[int, str]] = []
        """The marks of `_ends` as a heap. Entries that `_ends` contradicts are outdated; a namespace has as many as it was
        charged for, and it is charged only for steps that it was allowed."""

    def allowance(self, namespace: str, now_ns: int) -> int | None:
        """The steps that an attempt for a pod of the namespace may take; None: all that an attempt may take."""
        if not self._ends:
            return None  # Hot: the usual case
        self._repay(now_ns)
        owed = self._ends.get(namespace, self._repaid) - self._repaid
        count = len(self._ends) + (namespace not in self._ends)
        if self._total <= BURST * _NANO and owed * count <= BURST * _NANO:
            return None
        return MODERATE_STEPS if owed <= MODERATE_STEPS * _NANO else ORDINARY_STEPS

    def charge(self, namespace: str, steps: int, now_ns: int) -> None:
        """An attempt for a pod of the namespace took so many steps. Ordinary ones are free."""
        if steps <= ORDINARY_STEPS:
            return
        self._repay(now_ns)
        end = self._ends[namespace] = self._ends.get(namespace, self._repaid) + steps * _NANO
        self._total += steps * _NANO
        heappush(self._order, (end, namespace))

    def owed(self, namespace: str, now_ns: int) -> float:
        """The steps that a namespace owes."""
        self._repay(now_ns)
        return (self._ends.get(namespace, self._repaid) - self._repaid) / _NANO

    def _repay(self, now_ns: int) -> None:
        """Let time pass. The namespace that owes least is free first, and from then on the others repay faster."""
        left = max(now_ns - self._seen_ns, 0) * REPAID_A_SECOND
        self._seen_ns = now_ns
        while self._order and left:
            end, namespace = self._order[0]
            if self._ends.get(namespace) == end:
                count = len(self._ends)
                part = min(left // count, end - self._repaid)
                self._repaid += part
                self._total -= part * count
                if self._repaid < end:
                    return
                left -= part * count
                del self._ends[namespace]
            heappop(self._order)
