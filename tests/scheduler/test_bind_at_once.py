"""Pods that no plugin has work for are bound in one step: what comes of it is what comes of all the steps."""

from random import Random
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cache import Cache
from mooring.cluster.nodes.table import ClusterError
from mooring.framework import config
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender, ExtenderManagedResource
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Intent
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.plugins.volumes.volume_binding import VolumeBinding
from mooring.scheduler import bind
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, ObjectRemoved, TimePassed
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

FAULT = "the API server is away"


def one_of_ours(name: str = "pod", **more: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", metadata={"uid": f"uid-{name}"}, **more)


class Walk:
    """A small cluster and a scheduler that live through the steps of a seed."""

    def __init__(self, seed: int, is_measured: bool = False, extenders: list[Extender] | None = None) -> None:
        self.random = Random(seed)
        self.reports: list[str] = []
        self.stories: list[str] = []
        self.intents: list[Intent] = []
        self.pods: list[Pod] = []
        self.binds: list[Bind] = []
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.created = 0
        self.observer = SchedulerMetrics(self.clock) if is_measured else Observer()
        self.scheduler = build_scheduler(
            msgspec.structs.replace(config.default(), extenders=extenders or []),
            self.clock,
            all_plugins(),
            listeners=SchedulerListeners(
                observer=self.observer,
                report=lambda text, error: self.reports.append(f"{text}: {error}"),
                tell=lambda pod, text: self.stories.append(f"{pod.name} {text}"),
            ),
        )
        for name in ("n1", "n2"):
            self.scheduler.handle(ObjectAdded(a_node(name, cpu="2", pods=3)))

    def step(self) -> None:
        random = self.random
        choice = random.randrange(6)
        if choice < 2:
            self.create()
        elif choice == 2:
            self.scheduler.attempt()
            self.take()
        elif choice == 3 and self.binds:
            answered = self.binds.pop(random.randrange(len(self.binds)))
            self.scheduler.handle(BindAnswered(answered.pod, random.choice((None, None, FAULT))))
            self.take()
        elif choice == 4 and self.pods:
            self.scheduler.handle(ObjectRemoved(self.pods.pop(random.randrange(len(self.pods)))))
        else:
            self.clock.advance_ns(NS_PER_S)
            self.scheduler.handle(TimePassed())

    def create(self) -> None:
        random = self.random
        self.created += 1
        pod = one_of_ours(f"p{self.created}", cpu=random.choice(("0", "1", "3")), priority=random.randrange(3))
        self.pods.append(pod)
        self.scheduler.handle(ObjectAdded(pod))

    def take(self) -> None:
        taken = self.scheduler.take_intents()
        self.intents += taken
        self.binds += [intent for intent in taken if isinstance(intent, Bind)]

    def state(self) -> list[object]:
        scheduler, core = self.scheduler, self.scheduler.core
        on_nodes = [(pod.key, pod.spec.node_name, core.cache.is_assumed(pod.id)) for pod in core.cluster.nodes.pods()]
        waiting = [(entry.key, entry.attempts, entry.rejectors) for entry in scheduler.queued_pods()]
        told = [self.reports, self.stories, self.intents, self.observer.registry.text()]
        return [on_nodes, waiting, list(core.bindings), scheduler.check(), *told]


def has_work(runner: Runner, context: SchedulingContext) -> bool:
    return True


@given(st.integers(0, 100_000), st.booleans())
def test_bound_at_once_is_bound_as_step_by_step(seed: int, is_measured: bool) -> None:
    at_once, by_steps = Walk(seed, is_measured), Walk(seed, is_measured)
    for _ in range(25):
        at_once.step()
        with mock.patch.object(Runner, "has_binding_work", has_work):
            by_steps.step()
        assert at_once.state() == by_steps.state()


@given(st.integers(0, 100_000), st.booleans())
def test_an_attempt_at_once_is_one_that_may_wait_for_extenders(seed: int, is_measured: bool) -> None:
    """The extender is interested in no pod, so that steps that could wait for it come to the same end."""
    nobodys = [Extender(bind_verb="bind", managed_resources=[ExtenderManagedResource("example.com/none")])]
    at_once, in_steps = Walk(seed, is_measured), Walk(seed, is_measured, nobodys)
    for _ in range(25):
        at_once.step()
        in_steps.step()
        assert at_once.state() == in_steps.state()


def bound(pod: Pod, is_measured: bool = False) -> tuple[int, list[Intent]]:
    """How often pods were held step by step, and what came of it."""
    walk = Walk(0, is_measured)
    walk.scheduler.handle(ObjectAdded(pod))
    with mock.patch.object(bind, "hold", wraps=bind.hold) as hold:
        walk.scheduler.attempt()
    walk.take()
    return hold.call_count, walk.intents


@pytest.mark.parametrize("is_measured", [False, True])
def test_a_pod_without_volumes_and_claims_is_bound_at_once(is_measured: bool) -> None:
    steps, (intent,) = bound(one_of_ours(cpu="1"), is_measured)
    assert steps == 0
    assert isinstance(intent, Bind)
    assert intent.node_name == "n1"


def test_a_pod_with_volumes_is_bound_step_by_step() -> None:
    steps, (intent,) = bound(one_of_ours(cpu="1", volumes=[{"name": "config", "configMap": {"name": "settings"}}]))
    assert steps == 1
    assert isinstance(intent, Bind)


def test_a_plugin_that_cannot_say_whether_it_has_work_is_asked() -> None:
    def fails(plugin: VolumeBinding, context: SchedulingContext) -> bool:
        raise RuntimeError("no answer")

    with mock.patch.object(VolumeBinding, "has_binding_work", fails):
        steps, (intent,) = bound(one_of_ours(cpu="1"))
    assert steps == 1
    assert isinstance(intent, Bind)


def test_a_pod_that_cannot_be_assumed_fails_as_step_by_step() -> None:
    def refused() -> list[object]:
        walk = Walk(0)
        walk.scheduler.handle(ObjectAdded(one_of_ours(cpu="1")))
        with mock.patch.object(Cache, "assume", side_effect=ClusterError("pod is in the cache, so can't be assumed")):
            walk.scheduler.attempt()
        walk.take()
        return walk.state()

    at_once = refused()
    with mock.patch.object(Runner, "has_binding_work", has_work):
        assert at_once == refused()
    assert "can't be assumed" in str(at_once)
