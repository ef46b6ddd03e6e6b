"""One self-check: builds a fresh scheduler, compares, and compares again before it reports anything.

It does its work in slices, between which the running scheduler goes on. A difference counts if it is there every time.
"""

from collections.abc import Callable, Iterator

from mooring.model.meta import KubeObject
from mooring.scheduler.inputs import Input
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.decisions import DecisionComparison
from mooring.state.check.found_difference import Findings, StateDifference
from mooring.state.check.fresh_scheduler import FreshScheduler, KnownObjects
from mooring.state.check.mending import Outcome, mend
from mooring.state.check.object_differences import (
    compare_assumed,
    compare_nominations,
    compare_objects,
    compare_pods,
    compare_queue,
)
from mooring.state.check.table_differences import (
    compare_devices,
    compare_groups,
    compare_nominated,
    compare_tables,
    compare_tallies,
    compare_volumes,
)

# ---- All comparisons of a running scheduler with a fresh one, in the order in which one fault explains the next.


def findings(running: Scheduler, fresh: Scheduler) -> Findings:
    """Yield the differences one by one. Between two of them both schedulers may change, as long as they change in step."""
    ours, theirs = running.cluster, fresh.cluster
    yield from compare_objects(ours, theirs)
    yield from compare_pods(running, fresh)
    yield from compare_tables(ours, theirs)
    yield from compare_tallies(ours.nodes, theirs.nodes)
    yield from compare_volumes(ours, theirs)
    yield from compare_devices(ours, theirs)
    yield from compare_nominated(ours, theirs)
    yield from compare_groups(ours, theirs)
    yield from compare_nominations(running, fresh)
    yield from compare_queue(running, fresh)
    yield from compare_assumed(running, fresh)
    yield from DecisionComparison(running, fresh).findings()


RETAKES_S = (1.0, 15.0)
"""After differences were found, they are taken again after so many seconds, twice. The scheduler and its copy change in step,
so that a difference in flight should not be seen at all; the second pause is longer than any backoff (10 s), so that a
pod which is about to move has moved."""
MAX_FOUND = 1000
"""Differences that are taken at most: a table that is wrong throughout need not be listed row by row."""

IsUnseen = Callable[[type[KubeObject] | None, str], bool]
"""(Kind, key of an object) -> whether the API server has a form of the object that the watch has not shown yet."""


class SelfCheck:
    """Pass every input of the running scheduler to `follow` from the start, and call `work` until it returns None."""

    def __init__(
        self,
        running: Scheduler,
        make: Callable[[], Scheduler],
        known: KnownObjects,
        is_unseen: IsUnseen = lambda kind, key: False,
    ) -> None:
        self.running = running
        self.differences: list[StateDifference] = []
        """Differences that every comparison found. The list is complete when `work` has returned None."""
        self.candidates: list[StateDifference] = []
        """Differences that all comparisons so far found. The check compares them again after a pause."""
        self._fresh = FreshScheduler(running, make, known)
        self.follow: Callable[[Input], None] = self._fresh.follow
        self._is_unseen = is_unseen
        self._is_built = False
        self._progress = self._steps()

    @property
    def fresh(self) -> Scheduler:
        return self._fresh.scheduler

    def work(self, is_over: Callable[[], bool]) -> float | None:
        """Work until the time slice is over. Returns for how many seconds to pause, besides the pause between slices;
        None: the check is done.

        While an attempt waits for extenders, the running scheduler holds inputs back: then there is nothing to compare.
        """
        if self.running.core.extender_calls.suspension is not None:
            return 0.0
        if self._is_built:
            self._fresh.keep_up()
        for pause_s in self._progress:
            if pause_s or is_over():
                return pause_s
        return None

    def mend(self) -> list[Outcome] | None:
        """Mend what was found. None: not now, an attempt that waits for extenders must see the cluster as it was."""
        if self.running.core.extender_calls.suspension is not None:
            return None
        self._fresh.keep_up()
        return mend(self.running, self.fresh, self.differences)

    def discard(self) -> Iterator[None]:
        """Take the fresh scheduler apart, step by step, after everything else: its memory is free then."""
        yield from self._fresh.discard()

    def _steps(self) -> Iterator[float]:
        """Build, compare, and compare again after each pause. Yields how long to pause, 0 for no longer than a slice."""
        for _ in self._fresh.build():
            yield 0.0
        self._is_built = True
        found: dict[object, StateDifference] = {}
        yield from self._take(found)
        for pause_s in RETAKES_S if found else ():
            self.candidates = list(found.values())
            yield pause_s
            again: dict[object, StateDifference] = {}
            yield from self._take(again)
            found = {place: again[place] for place in found if place in again}
            if not found:
                break
        self.differences = list(found.values())

    def _take(self, found: dict[object, StateDifference]) -> Iterator[float]:
        """One comparison. What the watch has yet to show is no difference."""
        self._fresh.keep_up()
        for difference in findings(self.running, self.fresh):
            if difference is None:
                yield 0.0
            elif not self._is_unseen(difference.about, difference.name):
                found[difference.place] = difference
                if len(found) >= MAX_FOUND:
                    return
