"""Any sequence of changes, with everything late, is recorded and replayed: every step has the same outcome, whichever
segment the replay begins with."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import test_state_machine as machine
from delayed_cluster import CONFIG, DelayedCluster, Gatekeeper, Mood, UnschedulableSince
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from how_many import costly_examples, examples
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle, Wait
from mooring.framework.contract.status import Rejection
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import NS_PER_S
from mooring.plugins import in_tree
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.replayer import Replayer

EXAMPLES = max(2, costly_examples(int(os.environ.get("MOORING_STEPS", "1000")) // 50))


class SteadyGatekeeper(Gatekeeper):
    """What it says follows from the pod and the time: a recording has no moods. After a while all may go."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.handle = handle

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        moods: tuple[Mood, ...] = ("go", "wait", "refuse", "wait")
        second = self.handle.services.now_ns() // NS_PER_S
        self.mood = moods[int(context.pod.name[1:]) % len(moods)] if second % 30 < 10 else "go"
        return super().permit(context, node_name)


def _plugins() -> Registry:
    plugins = in_tree()
    plugins.register(SteadyGatekeeper)
    return plugins


class SteadyCluster(DelayedCluster):
    """Nobody lets pods go that wait: their time runs out."""

    def _let_all_go(self) -> None:
        if len(self.scheduler.core.services.waiting):
            self.pass_second()
        self.release()


class RecordedMachine(machine.SchedulerMachine):
    """The same machine, recorded. A new segment begins whenever the scheduler is quiet."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="mooring-recording-"))
        self.recorders: list[RunRecorder] = []
        self.world = SteadyCluster(self._record, _plugins)

    def _record(self, now_ns: int) -> RunRecorder:
        header = scheduler_header(CONFIG, {}, now_ns)
        header.tie_break = "name"
        self.recorders.append(RunRecorder(self.directory, header, RecordingLimits(interval_s=0, drops=False)))
        return self.recorders[-1]

    @rule(mood=st.just("go"), allowed=st.integers(0, 1), app=st.sampled_from("ab"))
    def change_mood_and_budget(self, mood: Mood, allowed: int, app: str) -> None:
        """The mood follows from pods here."""
        super().change_mood_and_budget(mood, allowed, app)

    def _moves(self, random: Random) -> list[tuple[str, Callable[[], object]]]:
        """Nobody allows or rejects a pod from outside: that would be no input."""
        return [move for move in super()._moves(random) if move[0] != "permit"]

    def _check_rest(self) -> dict[str, UnschedulableSince]:
        """That nobody is stranded is for the other machine: here a gatekeeper refuses some pods for ever."""
        self.is_in_order()
        self.each_pod_is_in_one_place()
        return {}

    def teardown(self) -> None:
        try:
            super().teardown()
            self.recorders[0].close()
            self._replay_all()
        finally:
            shutil.rmtree(self.directory)

    def _replay_all(self) -> None:
        (run,) = runs_in(self.directory)
        recorded = self.recorders[0].figures
        assert recorded.lost_steps == 0
        starts = [segment.header.started_ns for segment in run.segments[1:]]
        for start in [None, *Random(len(starts)).sample(starts, min(len(starts), examples(7)))]:
            replayer = Replayer(run, _plugins())
            count = 0
            for step in replayer.steps(start):
                assert step.outcomes == step.step.outcomes, f"step {step.number} from {start}: {step.step}"
                count += 1
            assert replayer.problems == []
            assert start is not None or count == recorded.steps
            assert replayer.scheduler is not None
            assert replayer.scheduler.check() == []


TestRecorded = pytest.mark.slow(RecordedMachine.TestCase)
TestRecorded.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.shrink],  # each example is replayed some hundred times
    suppress_health_check=list(HealthCheck),
)
