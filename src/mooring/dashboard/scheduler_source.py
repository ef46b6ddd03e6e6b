"""A scheduler at work as the source of a dashboard: in `mooring up` and `mooring run`.

It is made before the scheduler, because the scheduler is built with what takes stories and counts; `show` completes it.
"""

from collections.abc import Callable

from mooring.dashboard.interfaces import Program, SourceFacts
from mooring.dashboard.views.scheduling_flow import FlowCounters, PodStories, SelfCheckFigures
from mooring.drivers.self_checks import SelfChecks
from mooring.kit.clock import Clock, in_millis
from mooring.model.pod import Pod
from mooring.queue.entry import TellPod
from mooring.scheduler.observer import Observer
from mooring.scheduler.scheduler import Scheduler


class SchedulerSource:
    """Build the scheduler with `telling` and the observer of `counting`, then call `show` with it."""

    def __init__(self, program: Program, clock: Clock, is_leader: Callable[[], bool] = lambda: True) -> None:
        self._program: Program = program
        self._is_leader = is_leader
        self._scheduler: Scheduler | None = None
        self._checks: SelfCheckFigures | None = None
        self.now_ns = clock.now_ns
        self.stories = PodStories(clock.now_ns)
        self.flow = FlowCounters(clock)

    def show(self, scheduler: Scheduler, checks: SelfChecks | None = None) -> None:
        """This is the scheduler; it checks itself by `checks`."""
        self._scheduler = scheduler
        self.flow.profiles = [*scheduler.core.runners]
        self.flow.follow(scheduler)
        if checks is not None:
            self._checks = SelfCheckFigures(0, 0, "")
            checks.on_checked = self._checked

    def counting(self, inner: Observer) -> Observer:
        """The observer to build the scheduler with, around this one."""
        return self.flow.around(inner)

    def telling(self, other: TellPod | None = None) -> TellPod:
        """The function to build the scheduler with for the stories of pods; `other` gets them as well."""
        tell = self.stories.tell
        if other is None:
            return tell

        def both(pod: Pod, text: str) -> None:
            other(pod, text)
            tell(pod, text)

        return both

    @property
    def scheduler(self) -> Scheduler:
        assert self._scheduler is not None, "`show` comes first"
        return self._scheduler

    def facts(self) -> SourceFacts:
        return SourceFacts(self._program, [*self.scheduler.core.runners], self._is_leader())

    def self_check(self) -> SelfCheckFigures | None:
        return self._checks

    def _checked(self, differences: int) -> None:
        """A self-check has ended, and found so many differences."""
        before = self._checks or SelfCheckFigures(0, 0, "")
        self._checks = SelfCheckFigures(before.runs + 1, before.differences + differences, in_millis(self.now_ns()))
