"""Puts other profiles into a scheduler at work, between two attempts.

What is under way goes on: a pod that waits on Permit, or whose PreBind or Bind is not over, is bound by the profile that
chose its node. The next attempts are those of the new profiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mooring.framework.contract.events import ANYTHING, Action, ClusterEvent, Registration
from mooring.framework.contract.points import PodListener
from mooring.scheduler.core import Core
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import EXTENDER
from mooring.scheduler.inputs import ConfigurationChanged, NewProfiles
from mooring.scheduler.intake import queue_pod

_ANY_EVENT = Registration(ClusterEvent(ANYTHING, Action.ALL))
"""Event that wakes a pod that an extender rejected: any event, because an extender does not say which events could help."""


def other_rejectors(options: DecideOptions) -> Mapping[str, Sequence[Registration]]:
    """Rejectors of pods that are no plugins, with the events that wake the pods."""
    return {EXTENDER: (_ANY_EVENT,)} if options.extenders else {}


def swap_profiles(core: Core, change: ConfigurationChanged) -> None:
    """Have the profiles of the change schedule from now on. No attempt is under way: while one is, inputs are held."""
    new = change.profiles
    assert new is not None, "a recorded configuration is built before it is put in"
    former = core.runners.keys()
    _drop_pods(core, new)
    for kept in {id(runner.kept): runner.kept for runner in (*core.runners.values(), *new.runners.values())}.values():
        kept.clear()  # memos are found by the name of the profile, and hold answers of its former plugins
    core.runners = new.runners
    core.options = replace(core.options, extenders=new.extenders)
    core.cluster.nodes.labels_touch = any(runner.reads_pods for runner in new.runners.values())
    _replace_listeners(core, new.pod_listeners)
    core.queue.adopt(
        {name: runner.profile for name, runner in new.runners.items()},
        new.queue_settings,
        other_rejectors(core.options),
        {name: runner.caller for name, runner in new.runners.items()},
    )
    _take_pods(core, new.runners.keys() - former)


def _drop_pods(core: Core, new: NewProfiles) -> None:
    """Forget the pods in the queue whose profile goes. Pods in flight end their attempt, and do not come back."""
    for entry in core.queue.entries():
        if entry.profile not in new.runners:
            core.queue.delete(entry.pod)
            if core.cluster.groups is not None and not entry.pod.spec.node_name:
                core.cluster.groups.remove(entry.pod)


def _take_pods(core: Core, added: set[str]) -> None:
    """Queue the pods of profiles that are new, in the order in which they were seen."""
    if not added:
        return
    for pod in [pod for pod in core.pods.values() if pod.spec.scheduler_name in added]:
        is_free = not pod.spec.node_name and not core.cache.has(pod.id) and not core.queue.is_in_flight(pod.id)
        if is_free or (pod.spec.node_name and core.cluster.is_resize(pod)):
            queue_pod(core, pod)


def _replace_listeners(core: Core, new: Sequence[PodListener]) -> None:
    """Have the listeners of the new plugins called, and no longer those of the former ones; others stay."""
    listeners = core.services.pod_listeners
    others = [each for each in listeners if each not in core.plugin_listeners]
    core.plugin_listeners = [*new]
    listeners[:] = [*new, *others]
