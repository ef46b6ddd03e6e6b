"""A scheduler that shows each step to a recorder: what it was told, when, and what it asked for in answer.

A scheduler is a function of its inputs, their order and the time that its clock shows at each of them. The clock of a
recorded scheduler stands still during a step, so that one time a step is enough to repeat it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mooring.framework.contract.intents import Intent
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.scheduler.inputs import Input
from mooring.scheduler.scheduler import Scheduler


class StepClock:
    """Shows the time at which the present step began. Between steps it stands still."""

    def __init__(self, source: Clock) -> None:
        self.read_source = source.now_ns
        self.step_ns = self.read_source()

    def now_ns(self) -> int:
        return self.step_ns


class Recorder(Protocol):
    """Takes the steps of a scheduler, in order, when each is over: its state may be read then. It must be quick and must
    not raise: it is called between decisions."""

    def took_in(self, scheduler: Scheduler, now_ns: int, input: Input, intents: Sequence[Intent]) -> None:
        """The scheduler was told of `input`, and asked for `intents` in answer."""

    def attempted(self, scheduler: Scheduler, now_ns: int, intents: Sequence[Intent]) -> None:
        """An attempt was made for the next pod."""

    def released(self, scheduler: Scheduler, now_ns: int, intents: Sequence[Intent]) -> None:
        """Bindings went on whose wait on Permit was over."""

    def interrupted(self) -> None:
        """Something else than a step changed the scheduler: it cannot be repeated."""


class RecordedScheduler(Scheduler):
    """As Scheduler, with each step shown to a recorder. Everything that changes its state is one of three steps."""

    def __init__(self, *args: Any, recorder: Recorder, step_clock: StepClock, **kwargs: Any) -> None:
        """`step_clock` is the scheduler's clock; the other arguments are those of Scheduler."""
        super().__init__(*args, **kwargs)
        self._clock = step_clock
        self._recorder = recorder

    def handle(self, input: Input) -> None:
        """Hot: as `_step`, without a call for it. Most steps are inputs."""
        clock, intents = self._clock, self.core.outbox.intents
        clock.step_ns = now_ns = clock.read_source()
        before = len(intents)
        try:
            self._take_in(input)
        finally:  # an input that could not be taken in has changed something all the same, and will again
            self._recorder.took_in(self, now_ns, input, intents[before:] if len(intents) > before else ())

    def attempt(self) -> Pod | None:
        pod: Pod | None = self._step(self._recorder.attempted, super().attempt)
        return pod

    def release_waiting(self) -> None:
        if self.core.services.waiting.by_id:
            self._step(self._recorder.released, super().release_waiting)

    def interrupted(self) -> None:
        self._recorder.interrupted()

    def _step(self, record: Callable[[Scheduler, int, Sequence[Intent]], None], act: Callable[[], Any]) -> Any:
        """Begin a step: the clock shows its time from now on, and what it asks for is what is new in the outbox."""
        clock, intents = self._clock, self.core.outbox.intents
        clock.step_ns = now_ns = clock.read_source()
        before = len(intents)
        try:
            return act()
        finally:
            record(self, now_ns, intents[before:] if len(intents) > before else ())
