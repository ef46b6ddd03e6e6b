"""Whether a scheduler is observed: only the observer that ignores everything is left out."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from unittest import mock

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import VirtualClock
from mooring.scheduler.inputs import BindAnswered, ObjectAdded
from mooring.scheduler.observer import ForwardingObserver, Observer, SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

_OF_A_BOUND_POD = ("change_arrived", "change_handled", "attempt_began", "decided", "pod_bound")


class Watchful(Observer):
    """An observer of a user."""


def calls_of_a_bound_pod(observer: Callable[[], Observer]) -> list[str]:
    """What the observer hears of a pod from its arrival to its bind."""
    heard: list[str] = []
    with ExitStack() as patches:
        for name in _OF_A_BOUND_POD:
            hear = partial(heard.append, name)
            patches.enter_context(mock.patch.object(Observer, name, side_effect=lambda *args, hear=hear: hear()))
        scheduler = build_scheduler(config.default(), VirtualClock(), listeners=SchedulerListeners(observer=observer()))
        scheduler.handle(ObjectAdded(a_node("n1")))
        heard.clear()
        scheduler.handle(ObjectAdded(a_pod("pod", schedulerName="default-scheduler")))
        scheduler.attempt()
        (bind,) = scheduler.take_intents()
        assert isinstance(bind, Bind)
        scheduler.handle(BindAnswered(bind.pod))
    return heard


def test_an_observer_that_ignores_everything_is_not_called() -> None:
    assert calls_of_a_bound_pod(Observer) == []


@pytest.mark.parametrize(
    "observer", [Watchful, lambda: ForwardingObserver(Watchful())], ids=["of a user", "around another"]
)
def test_any_other_observer_hears_each_step(observer: Callable[[], Observer]) -> None:
    assert calls_of_a_bound_pod(observer) == list(_OF_A_BOUND_POD)
