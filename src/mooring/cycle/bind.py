"""From a decision to a bound pod: assume, Reserve, Permit, then PreBind, Bind and PostBind; and back when one fails."""

from mooring.cluster.table import ClusterError
from mooring.cycle.core import Binding, Core
from mooring.cycle.failure import Failure, error, fail, refused
from mooring.framework.cycle import Cycle
from mooring.framework.events import ASSIGNED_POD_DELETE
from mooring.framework.intents import Bind, PatchStatus, Record
from mooring.framework.points import BindPlugin, PermitPlugin, PostBindPlugin, PreBindPlugin, ReservePlugin, Wait
from mooring.framework.runner import Runner
from mooring.framework.status import SKIP, Rejection
from mooring.framework.waiting import Release
from mooring.queue.entry import QueuedPod


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
        core.desk.waiting.hold(pod, node_name, waits, core.clock.now_ns())
        core.story(pod, f"chosen for {node_name}, waits on {', '.join(waits)}")
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
    core.story(binding.pod, f"bound to {binding.node_name}")
    note = f"Successfully assigned {binding.pod.key} to {binding.node_name}"
    core.outbox.append(Record(binding.pod, "Normal", "Scheduled", "Binding", note))
    for plugin in binding.runner.profile.points.get("postBind", ()):
        assert isinstance(plugin, PostBindPlugin)
        try:
            plugin.post_bind(binding.cycle, binding.node_name)
        except Exception as fault:  # the pod is bound, whatever a plugin thinks of it
            core.report(f"PostBind of plugin {plugin.name} failed on pod {binding.pod.key}", fault)


def give_up(core: Core, binding: Binding, failure: Failure, is_rejected: bool) -> None:
    """A binding failed: give everything back, requeue the pod, and let others know that there is room again.

    Parity: after an error others are told before the pod is requeued, so that it hears of its own leaving.
    """
    core.bindings.pop(binding.pod.id, None)
    was_held = core.cache.get(binding.pod.id) is not None
    _back_out(core, binding)
    if was_held and not is_rejected:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None)
    fail(core, binding.entry, failure)
    if was_held and is_rejected:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None, lambda pod: pod.id != binding.pod.id)


def _back_out(core: Core, binding: Binding) -> None:
    for plugin in reversed(binding.runner.profile.points.get("reserve", ())):
        assert isinstance(plugin, ReservePlugin)
        try:
            plugin.unreserve(binding.cycle, binding.node_name)
        except Exception as fault:  # the others must still give back what they claimed
            core.report(f"Unreserve of plugin {plugin.name} failed on pod {binding.pod.key}", fault)
    try:
        core.cache.forget(binding.pod)
    except ClusterError as fault:
        core.report("a pod could not be forgotten", fault)


def _reserve(binding: Binding) -> Failure | None:
    for plugin in binding.runner.profile.points.get("reserve", ()):
        assert isinstance(plugin, ReservePlugin)
        try:
            answer = plugin.reserve(binding.cycle, binding.node_name)
        except Exception as fault:  # a plugin may raise anything
            return error(f'running Reserve plugin "{plugin.name}": {fault}')
        if answer is not None:
            return refused(answer.by(plugin.name))
    return None


def _permit(binding: Binding) -> Failure | dict[str, float]:
    """The plugins that want the pod to wait, with their time limit in seconds; or why it may not go at all."""
    waits: dict[str, float] = {}
    for plugin in binding.runner.profile.points.get("permit", ()):
        assert isinstance(plugin, PermitPlugin)
        try:
            answer = plugin.permit(binding.cycle, binding.node_name)
        except Exception as fault:  # a plugin may raise anything
            return error(f'running Permit plugin "{plugin.name}": {fault}')
        if isinstance(answer, Wait):
            waits[plugin.name] = answer.timeout_s
        elif answer is not None:
            return refused(answer.by(plugin.name))
    return waits


def _pre_bind(binding: Binding) -> tuple[Failure, bool] | None:
    for plugin in binding.runner.profile.points.get("preBind", ()):
        assert isinstance(plugin, PreBindPlugin)
        try:
            answer = plugin.pre_bind(binding.cycle, binding.node_name)
        except Exception as fault:  # a plugin may raise anything
            return error(f'running PreBind plugin "{plugin.name}": {fault}'), False
        if answer is not None:
            # Parity: the text stands alone, and no plugin counts as the one that rejected the pod.
            return Failure(answer.message), True
    return None


def _bind(core: Core, binding: Binding) -> tuple[Failure, bool] | None:
    for plugin in binding.runner.profile.points.get("bind", ()):
        assert isinstance(plugin, BindPlugin)
        try:
            answer = plugin.bind(binding.cycle, binding.node_name)
        except Exception as fault:  # a plugin may raise anything
            return error(f'running Bind plugin "{plugin.name}": {fault}'), False
        if answer is SKIP:
            continue
        if isinstance(answer, Rejection):
            return Failure(answer.message), True
        if isinstance(answer, Bind):
            core.outbox.append(answer)
        else:
            finish(core, binding)
        return None
    # Parity: nobody wanted to bind the pod; it backs off as after an error, but nothing is said about it.
    return error(""), False
