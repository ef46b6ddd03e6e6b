"""From a decision to a bound pod: assume, Reserve, Permit, then PreBind, Bind and PostBind; and back when one fails."""

from collections.abc import Callable
from typing import Any, TypeVar

from mooring.cluster.table import ClusterError
from mooring.cycle.core import Binding, Core
from mooring.cycle.failure import Failure, error, fail, refused
from mooring.framework.cycle import Cycle
from mooring.framework.events import ASSIGNED_POD_DELETE
from mooring.framework.intents import Bind, PatchStatus, Record
from mooring.framework.points import Plugin, Wait
from mooring.framework.runner import Runner
from mooring.framework.status import SKIP, Rejection
from mooring.framework.waiting import MAX_WAIT_S, Release
from mooring.queue.entry import QueuedPod

T = TypeVar("T")


def begin_binding(core: Core, entry: QueuedPod, runner: Runner, cycle: Cycle, node_name: str) -> None:
    """A node was chosen: hold the room there, claim what the plugins need, and ask whether the pod may go."""
    try:
        pod = core.cache.assume(entry.pod, node_name)
    except ClusterError as fault:
        fail(core, entry, error(str(fault)))
        return
    core.queue.nominations.delete(entry.uid)
    binding = Binding(entry, pod, runner, cycle)
    waits = _reserve(binding) or _permit(binding)
    if isinstance(waits, Failure):
        _back_out(core, binding)
        fail(core, entry, waits)
        return
    core.bindings[pod.id] = binding
    if waits:
        binding.has_waited = True
        core.desk.waiting.hold(pod, node_name, waits, core.clock.now_ns())
        patience = (f"{plugin} (at most {min(limit_s, MAX_WAIT_S):g} s)" for plugin, limit_s in waits.items())
        core.story(pod, f"has room on {node_name} and waits for {', '.join(patience)}")
        core.outbox.append(PatchStatus(entry.pod, nominated_node_name=node_name))
    else:
        go_on(core, binding)


def release(core: Core, pod_id: str, release: Release) -> None:
    """A pod's wait on Permit is over."""
    binding = core.bindings.get(pod_id)
    if binding is None:
        return
    if release.is_allowed:
        go_on(core, binding)
    elif release.is_error:
        give_up(core, binding, error(f"waiting on permit for pod: {release.message}"), is_rejected=False)
    else:
        give_up(core, binding, refused(Rejection((release.message,), plugin=release.plugin)), is_rejected=True)


def go_on(core: Core, binding: Binding) -> None:
    """PreBind and Bind: from here on the pod is no longer in flight."""
    core.queue.done(binding.entry.uid)
    failed = _pre_bind(binding) or _bind(core, binding)
    if failed is not None:
        failure, is_rejected = failed
        give_up(core, binding, failure, is_rejected)


def finish(core: Core, binding: Binding) -> None:
    """The pod is bound."""
    core.bindings.pop(binding.pod.id, None)
    core.story(binding.pod, f"is bound to {binding.node_name}")
    note = f"Successfully assigned {binding.pod.key} to {binding.node_name}"
    core.outbox.append(Record(binding.pod, "Normal", "Scheduled", "Binding", note))
    for plugin in _plugins(binding, "postBind"):
        try:
            plugin.post_bind(binding.cycle, binding.node_name)
        except Exception as fault:  # the pod is bound, whatever a plugin thinks of it
            core.report(f"PostBind of plugin {plugin.name} failed on pod {binding.pod.key}", fault)


def give_up(core: Core, binding: Binding, failure: Failure, is_rejected: bool) -> None:
    """A binding failed: give everything back, requeue the pod, and let others know that there is room again.

    Parity: after an error others are told before the pod is requeued, so that it hears of its own leaving.
    """
    core.bindings.pop(binding.pod.id, None)
    has_left = _back_out(core, binding)
    if has_left and not is_rejected:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None)
    fail(core, binding.entry, failure, binding.node_name if binding.has_waited else None)
    if has_left and is_rejected:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None, lambda pod: pod.id != binding.pod.id)


def _back_out(core: Core, binding: Binding) -> bool:
    """Give back what plugins claimed, and the room. False: the pod is on its node after all."""
    for plugin in reversed(_plugins(binding, "reserve")):
        try:
            plugin.unreserve(binding.cycle, binding.node_name)
        except Exception as fault:  # the others must still give back what they claimed
            core.report(f"Unreserve of plugin {plugin.name} failed on pod {binding.pod.key}", fault)
    try:
        core.cache.forget(binding.pod)
    except ClusterError as fault:
        core.report("a pod could not be forgotten", fault)
        return False
    return True


def _ask(binding: Binding, plugin: Plugin, point: str, ask: Callable[[Cycle, str], T]) -> T | Failure:
    """What a plugin says of the pod and its node. Whatever it raises is a failure of this pod, with the plugin named."""
    try:
        return ask(binding.cycle, binding.node_name)
    except Exception as fault:  # a plugin may raise anything
        return error(f'running {point} plugin "{plugin.name}": {fault}')


def _nonsense(point: str, plugin: Plugin, answer: object) -> Failure:
    return error(f'running {point} plugin "{plugin.name}": unexpected answer {answer!r}')


def _plugins(binding: Binding, point: str) -> Any:
    return binding.runner.profile.points.get(point, ())


def _reserve(binding: Binding) -> Failure | None:
    for plugin in _plugins(binding, "reserve"):
        answer = _ask(binding, plugin, "Reserve", plugin.reserve)
        if isinstance(answer, Failure):
            return answer
        if isinstance(answer, Rejection):
            return refused(answer.by(plugin.name))
        if answer is not None:
            return _nonsense("Reserve", plugin, answer)
    return None


def _permit(binding: Binding) -> Failure | dict[str, float]:
    """The plugins that want the pod to wait, with their time limit in seconds; or why it may not go at all."""
    waits: dict[str, float] = {}
    for plugin in _plugins(binding, "permit"):
        answer = _ask(binding, plugin, "Permit", plugin.permit)
        if isinstance(answer, Failure):
            return answer
        if isinstance(answer, Rejection):
            return refused(answer.by(plugin.name))
        if isinstance(answer, Wait) and isinstance(answer.timeout_s, int | float):
            waits[plugin.name] = answer.timeout_s
        elif answer is not None:
            return _nonsense("Permit", plugin, answer)
    return waits


def _pre_bind(binding: Binding) -> tuple[Failure, bool] | None:
    """Why the pod cannot be bound, and whether that is a rejection; None: it can."""
    for plugin in _plugins(binding, "preBind"):
        answer = _ask(binding, plugin, "PreBind", plugin.pre_bind)
        if isinstance(answer, Failure):
            return answer, False
        if isinstance(answer, Rejection):
            # Parity: the text stands alone, and no plugin counts as the one that rejected the pod.
            return Failure(answer.message), True
        if answer is not None:
            return _nonsense("PreBind", plugin, answer), False
    return None


def _bind(core: Core, binding: Binding) -> tuple[Failure, bool] | None:
    """Why the pod was not bound, and whether that is a rejection; None: it is bound, or soon will be."""
    for plugin in _plugins(binding, "bind"):
        answer = _ask(binding, plugin, "Bind", plugin.bind)
        if answer is SKIP:
            continue
        if isinstance(answer, Failure):
            return answer, False
        if isinstance(answer, Rejection):
            return Failure(answer.message), True
        if isinstance(answer, Bind):
            core.outbox.append(answer)
        elif answer is None:
            finish(core, binding)
        else:
            return _nonsense("Bind", plugin, answer), False
        return None
    # Parity: nobody wanted to bind the pod; it backs off as after an error, but nothing is said about it.
    return error(""), False
