"""Self-checks of a scheduler in chaos find nothing, and change nothing: their slices lie between any two things that happen.

Nodes and pods come, change and go; binds fail, or succeed and the answer is lost; pods are preempted, gated, rejected by
Permit; the watch is late.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from delayed_cluster import CAREFUL, CONFIG, DEFAULT, DelayedCluster, registry
from test_state_machine import LATE, NODE_NAMES, NODE_PARTS, POD_CHANGES, TRAITS, SchedulerMachine, excuse

from how_many import costly_examples
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.scheduler.inputs import Input
from mooring.state.check.check import SelfCheck
from mooring.state.check.object_differences import StateDifference
from mooring.state.scheduler_assembly import build_scheduler

HOUR_S = 3600
PLUGINS = registry()


class Chaos:
    """A cluster in which anything happens next, as a seed decides. What happens does not depend on what is checked."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._machine = SchedulerMachine()
        self.world: DelayedCluster = self._machine.world
        self._machine.begin([self._node() for _ in range(3)])

    def _node(self) -> dict[str, Any]:
        choice = self._random.choice
        zone, disk, taints = (
            choice(["a", "b", None]),
            choice(["ssd", "hdd"]),
            choice([(), (), ("dedicated=x:NoSchedule",)]),
        )
        return {"cpu": choice("123"), "pods": choice([2, 4]), "zone": zone, "disk": disk, "taints": taints}

    def _pod(self) -> dict[str, Any]:
        choice = self._random.choice
        traits = self._random.sample(list(TRAITS), choice([1, 1, 2]))
        asked = {"cpu": choice(["500m", "1", "2"]), "priority": choice([0, 0, 10, 100]), "app": choice("aab")}
        return {"traits": traits, "schedulerName": choice([DEFAULT, DEFAULT, CAREFUL]), **asked}

    def happen(self) -> None:
        """The next thing."""
        random, machine, world = self._random, self._machine, self.world
        what = random.random()
        if what < 0.08:
            on = random.choice([None, None, None, *NODE_NAMES])
            machine.create_pods([self._pod() for _ in range(random.randint(1, 3))], on)
        elif what < 0.16:
            change = POD_CHANGES[random.choice(sorted(POD_CHANGES))]
            if pods := world.pods():
                change(world, random.choice(pods))
        elif what < 0.20:
            unschedulable = {"unschedulable": random.random() < 0.2}
            machine.change_node(random.choice(NODE_NAMES), {**self._node(), **unschedulable}, random.choice(NODE_PARTS))
        elif what < 0.22:
            machine.change_mood_and_budget(
                random.choice(["go", "wait", "refuse"]), random.randint(0, 1), random.choice("ab")
            )
        elif what < 0.40:
            world.pass_second()
        else:
            machine.do_many(random.randint(0, 1 << 30), random.randint(1, 4), random.choice(LATE))


class Checker:
    """Checks the scheduler of a chaos at an interval, a slice of a random number of steps at a time."""

    def __init__(self, world: DelayedCluster, seed: int, interval_s: int = 0) -> None:
        self._world = world
        self._interval_s = interval_s
        self._random = Random(seed)
        self._check: SelfCheck | None = None
        self._paused_until_ns = 0
        self.checks = 0
        self.suspects: Counter[str] = Counter()
        """By kind: differences that were gone when they were taken again."""
        self.found: list[StateDifference] = []
        handle = world.scheduler.handle

        def both(input: Input) -> None:
            try:
                handle(input)
            finally:
                if self._check is not None:
                    self._check.follow(input)

        vars(world.scheduler)["handle"] = both

    def work(self) -> None:
        if self._world.clock.now_ns() < self._paused_until_ns:
            return
        check = self._check = self._check or self._begin()
        left = [self._random.randint(1, 200)]

        def is_over() -> bool:
            left[0] -= 1
            return left[0] <= 0

        pause_s = check.work(is_over)
        if pause_s is None:
            self.checks += 1
            self.suspects.update(each.kind for each in check.candidates)
            self.found += check.differences
            self._check = None
        pause_s = self._interval_s if pause_s is None else pause_s
        self._paused_until_ns = self._world.clock.now_ns() + round(pause_s * NS_PER_S)

    def _begin(self) -> SelfCheck:
        world = self._world

        def is_unseen(kind: type[KubeObject] | None, key: str) -> bool:
            """As the live scheduler learns it from the API server."""
            return kind is not None and bool(world.watch.get((kind, key)))

        return SelfCheck(
            world.scheduler, lambda: build_scheduler(CONFIG, world.clock, PLUGINS), lambda: [world.seen], is_unseen
        )

    def unexcused(self) -> list[str]:
        """What was found, but for pods that upstream's hints do not wake: these are stranded indeed."""
        return [str(each) for each in self.found if each.kind != "stranded" or not self._is_excused(each)]

    def _is_excused(self, each: StateDifference) -> bool:
        entry = self._world.scheduler.queued(each.name)
        since = self._world.unschedulable_since.get(entry.uid) if entry is not None else None
        return entry is not None and since is not None and excuse(entry, since.turns) is not None


def _run(seed: int, is_over: Callable[[Chaos], bool], interval_s: int = 0) -> Checker:
    chaos = Chaos(seed)
    checker = Checker(chaos.world, seed, interval_s)
    while not is_over(chaos):
        chaos.happen()
        checker.work()
        assert checker.unexcused() == []
        checker.found.clear()
    return checker


@pytest.mark.parametrize("seed", range(2))
def test_checks_find_nothing_in_chaos(seed: int) -> None:
    steps = iter(range(100))
    assert _run(seed, lambda chaos: next(steps, None) is None).checks > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_checks_find_nothing_in_an_hour_of_chaos(seed: int) -> None:
    until_s = costly_examples(HOUR_S)
    assert _run(seed, lambda chaos: chaos.world.elapsed_s > until_s, interval_s=10).checks > until_s / 18


def test_checks_change_nothing() -> None:
    """Two worlds in the same chaos, one of which is checked, do the same all the time, and keep the same answers."""
    alone, checked = Chaos(7), Chaos(7)
    checker = Checker(checked.world, 7)
    for _ in range(100):
        alone.happen()
        checked.happen()
        checker.work()
        assert _said(alone.world) == _said(checked.world)
    assert checker.checks > 5


def _said(world: DelayedCluster) -> tuple[object, ...]:
    core = world.scheduler.core
    kept = [(runner.kept.hits, runner.kept.misses, runner.kept.evictions) for runner in core.runners.values()]
    places = [(entry.key, core.queue.where(entry.key), entry.attempts) for entry in core.queue.entries()]
    placed = [(pod.key, pod.spec.node_name) for pod in core.cluster.nodes.pods()]
    return core.queue.attempts, kept, places, placed, world.stories, world.reports
