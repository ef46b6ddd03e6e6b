"""The binding cycle: from a decision to a bound pod, and back when a step fails.

assume -> Reserve -> Permit -> (wait) -> PreBind -> Bind -> PostBind

A step that fails after Reserve leads to `give_up`: Unreserve runs in reverse order, the room is given back, the pod is
requeued. Bind is an intent: the pod stays in `core.bindings` until a driver reports the API server's answer.
"""

from collections.abc import Callable
from typing import TypeVar

from mooring.cluster.nodes.table import ClusterError
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import ASSIGNED_POD_DELETE
from mooring.framework.contract.intents import Bind, Record
from mooring.framework.contract.plugin_caller import ERROR, SUCCESS, unwrapped
from mooring.framework.contract.points import Plugin, Wait
from mooring.framework.contract.status import SKIP, Code, PluginError, Rejection
from mooring.framework.contract.waiting import MAX_WAIT_S, Release
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod, TellPod
from mooring.scheduler.core import Core
from mooring.scheduler.decision import Placement
from mooring.scheduler.extender_attempt import call_binder, refusal, skip
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, error, fail, plugin_fault, refused, unusable
from mooring.scheduler.inputs import BindAnswered, CallAnswered
from mooring.scheduler.pre_bind import BindingFailure, name_expected_node, prepare
from mooring.scheduler.under_way import Binding

T = TypeVar("T")

_BEFORE_BIND = ("Reserve", "Permit", "PreBind")


def begin_binding(core: Core, entry: QueuedPod, runner: Runner, placement: Placement) -> None:
    """A node was chosen: hold the room there, run Reserve, and ask Permit whether the pod may go.

    Hot: where no plugin has a say before Bind, its extension points are passed over as one. Nearly all pods are bound like
    this, and it takes 10 µs less.
    """
    context, node_name = placement.context, placement.node
    assert context is not None, "a placement comes with its context"
    if core.is_observed:
        core.observer.decided(entry, node_name)
    if core.tell is not None:
        _tell_of(core.tell, entry.pod, placement)
    has_work = core.options.extenders or runner.has_binding_work(context)
    binding = (hold if has_work else _assume)(core, entry, runner, context, node_name)
    if type(binding) is AttemptFailure:  # Hot: `isinstance` takes five times as long where a struct is of another class
        fail(core, entry, binding)
        return
    assert type(binding) is Binding
    if has_work:
        run_permit(core, binding)
        return
    # No plugin has anything to do at Reserve, Permit and PreBind: do what else `run_permit` and `run_pre_bind` do.
    core.bindings[entry.uid] = binding
    core.queue.done(entry.uid)
    if context.caller.measures:
        binding.step_began_ns = context.caller.skipped_points(_BEFORE_BIND)
    _bind(core, binding)


def _tell_of(tell: TellPod, pod: Pod, placement: Placement) -> None:
    best = f"the best of {placement.feasible_count} feasible nodes (score {placement.score})"
    tell(pod, f"goes to {placement.node}, {best if placement.feasible_count > 1 else 'the only choice'}")


def _assume(
    core: Core, entry: QueuedPod, runner: Runner, context: SchedulingContext, node_name: str
) -> Binding | AttemptFailure:
    """Assume the pod on the node. The nomination of the pod is gone: from here on the assumed pod itself takes the room."""
    try:
        pod = core.cache.assume(context.assumed(entry.pod, node_name), node_name)
    except (ClusterError, PluginError) as fault:
        return error(str(fault))
    nominations = core.queue.nominations
    if nominations.node_of_pod:
        nominations.delete(entry.uid)
    return Binding(entry, pod, runner, context, node_name)


def hold(
    core: Core, entry: QueuedPod, runner: Runner, context: SchedulingContext, node_name: str
) -> Binding | AttemptFailure:
    """Assume the pod on the node and run Reserve. Returns the binding, or why the pod cannot be held there.

    When Reserve fails, the room and all reservations are given back before this returns.
    """
    binding = _assume(core, entry, runner, context, node_name)
    if isinstance(binding, AttemptFailure):
        return binding
    caller = context.caller
    began_ns = caller.began() if caller.measures else 0
    failure = _reserve(binding)
    if caller.measures:
        caller.ended("Reserve", SUCCESS if failure is None else failure.code.name, began_ns)
    if failure is None:
        return binding
    back_out(core, binding)
    return failure


def run_permit(core: Core, binding: Binding) -> None:
    """The room is held: ask Permit whether the pod may go on, must wait or is rejected.

    A pod that waits holds its room meanwhile.
    """
    entry, pod, node_name = binding.entry, binding.pod, binding.node_name
    is_asked = binding.runner.profile.permits or binding.context.caller.measures
    waits = ask_permits(binding) if is_asked else {}
    if isinstance(waits, AttemptFailure):
        back_out(core, binding)
        fail(core, entry, waits)
        return
    core.bindings[entry.uid] = binding
    if waits:
        binding.step_began_ns = binding.context.caller.began()
        core.services.waiting.hold(pod, node_name, waits, core.clock.now_ns())
        patience = (f"{plugin} (at most {min(limit_s, MAX_WAIT_S):g} s)" for plugin, limit_s in waits.items())
        core.story(pod, f"has room on {node_name} and waits for {', '.join(patience)}")
        name_expected_node(core, binding)
    else:
        run_pre_bind(core, binding)


def release(core: Core, pod_id: str, release: Release) -> None:
    """A pod's wait on Permit is over: a plugin allowed or rejected it, or its time limit passed."""
    binding = core.bindings.get(pod_id)
    if binding is None:
        return
    core.observer.wait_on_permit_ended(binding.pod, _status_of_release(release), binding.step_began_ns)
    if release.is_allowed:
        run_pre_bind(core, binding)
    elif release.is_error:
        give_up(core, binding, error(f"waiting on permit for pod: {release.message}"), is_rejected=False)
    else:
        give_up(core, binding, refused(Rejection((release.message,), plugin=release.plugin)), is_rejected=True)


def run_pre_bind(core: Core, binding: Binding) -> None:
    """PreBind and Bind. From here on the pod is no longer in flight: events that arrive now cannot help it any more,
    because its place is decided."""
    core.queue.done(binding.entry.uid)
    if binding.context.caller.measures:
        binding.step_began_ns = binding.context.caller.began()
    prepare(core, binding, iter(binding.runner.profile.pre_binds), _prepared)


def _prepared(core: Core, binding: Binding, failed: BindingFailure | None) -> None:
    """PreBind is over: bind the pod if it succeeded. An extender that binds takes precedence over the Bind plugins."""
    if binding.context.caller.measures:
        _step_ended(binding, "PreBind", SUCCESS if failed is None else _status(failed))
    if failed is not None:
        give_up(core, binding, *failed)
    elif not core.options.extenders or not call_binder(core, binding):
        _bind(core, binding)


def binder_replied(core: Core, answer: CallAnswered) -> None:
    """An extender bound the pod, or did not. A reply that came too late was to no call of a binder. The pod may have been
    deleted or preempted since the call: then the reply concerns no binding of ours."""
    binding, extender = core.extender_calls.binders.pop(answer.token, (None, None))
    if binding is None or extender is None or core.bindings.get(binding.pod.id) is not binding:
        return
    fault = refusal(answer.reply)
    if fault is None:
        core.bindings.pop(binding.pod.id, None)
        finish(core, binding)
    elif skip(core, extender, fault):
        _bind(core, binding)
    else:
        _step_ended(binding, "Bind", ERROR)
        give_up(core, binding, error(fault), is_rejected=False)


def finish(core: Core, binding: Binding) -> None:
    """The pod is bound, and no longer among the bindings: tell observers and users, then run PostBind."""
    entry, pod, node_name, caller = binding.entry, binding.pod, binding.node_name, binding.context.caller
    is_measured = caller.measures
    began_ns = caller.ended("Bind", SUCCESS, binding.step_began_ns) if is_measured else 0
    if core.is_observed:
        core.observer.pod_bound(entry)
    if core.tell is not None:
        core.tell(pod, f"is bound to {node_name}")
    note = f"Successfully assigned {entry.key} to {node_name}"
    core.outbox.intents.append(Record(pod, "Normal", "Scheduled", "Binding", note))
    if binding.runner.profile.post_binds:
        _post_bind(core, binding)
    if is_measured:
        caller.ended("PostBind", SUCCESS, began_ns)


def bind_answered(core: Core, answer: BindAnswered) -> None:
    """The API server bound the pod, or did not. Without a binding the pod was deleted or preempted meanwhile: the answer
    concerns no room of ours."""
    binding = core.bindings.pop(answer.pod.id, None)
    if binding is None:
        return
    if answer.fault is None:
        finish(core, binding)
        return
    _step_ended(binding, "Bind", ERROR)
    text = f'running Bind plugin "DefaultBinder": {answer.fault}'
    give_up(core, binding, error(text), is_rejected=False, elsewhere=answer.elsewhere)


def _post_bind(core: Core, binding: Binding) -> None:
    """PostBind cannot fail: the pod is bound, so a fault of a plugin is only reported."""
    for plugin in binding.runner.profile.post_binds:
        try:
            _call(binding, plugin, "PostBind", plugin.post_bind)
        except Exception as fault:  # a plugin may raise anything; the pod is bound all the same
            core.report(f"PostBind of plugin {plugin.name} failed on pod {binding.pod.key}", fault)


def give_up(core: Core, binding: Binding, failure: AttemptFailure, is_rejected: bool, elsewhere: str = "") -> None:
    """A binding failed: give everything back, requeue the pod, and wake pods that the room may help.

    If the server says that the pod is `elsewhere` already, it is not requeued but counted there. The watch may have
    shown it there before: then the room that was held is free again, but no event about that was sent yet.

    Parity: after an error other pods are woken before the pod is requeued, so the pod itself is woken by its own
    leaving. After a rejection it is requeued first, and excluded.
    """
    core.bindings.pop(binding.pod.id, None)
    has_left = back_out(core, binding)
    if (has_left and not is_rejected) or elsewhere:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None)
    known = core.pods.get(binding.pod.key)
    if has_left and elsewhere and known is not None and known.id == binding.pod.id:
        core.cache.assume(known, elsewhere)
    promised = binding.node_name if binding.has_waited and core.options.names_expected_node else None
    fail(core, binding.entry, failure, promised, is_placed=bool(elsewhere))
    if has_left and is_rejected:
        core.queue.wake(ASSIGNED_POD_DELETE, binding.pod, None, lambda pod: pod.id != binding.pod.id)


def back_out(core: Core, binding: Binding) -> bool:
    """Give back what plugins reserved, and the room. False: the watch has shown the pod on its node, so its room
    stays taken."""
    began_ns = binding.context.caller.began()
    _unreserve(core, binding)
    binding.context.caller.ended("Unreserve", SUCCESS, began_ns)
    try:
        core.cache.forget(binding.pod)
    except ClusterError as fault:
        core.report("a pod could not be forgotten", fault)
        return False
    return True


def _unreserve(core: Core, binding: Binding) -> None:
    """Unreserve in the reverse order of Reserve, as upstream: plugins that build on others are undone first."""
    for plugin in reversed(binding.runner.profile.reserves):
        try:
            _call(binding, plugin, "Unreserve", plugin.unreserve)
        except Exception as fault:  # the others must still give back what they claimed
            core.report(f"Unreserve of plugin {plugin.name} failed on pod {binding.pod.key}", fault)


def _step_ended(binding: Binding, point: str, status: str) -> None:
    """A step that may span several inputs (PreBind, Bind) is over, and the next one begins."""
    binding.step_began_ns = binding.context.caller.ended(point, status, binding.step_began_ns)


def _status(outcome: object) -> str:
    """The status label of metrics for the outcome of an extension point."""
    if not outcome:
        return SUCCESS
    if isinstance(outcome, tuple):
        outcome = outcome[0]
    return outcome.code.name if isinstance(outcome, AttemptFailure) else Code.Wait.name


def _status_of_release(release: Release) -> str:
    """The result label of scheduler_permit_wait_duration_seconds."""
    if release.is_allowed:
        return SUCCESS
    return ERROR if release.is_error else Code.Unschedulable.name


def _call(binding: Binding, plugin: Plugin, point: str, ask: Callable[[SchedulingContext, str], T]) -> T:
    """Call one method of a plugin, through the wrapper that the context has for the extension point (metrics)."""
    return binding.context.wrap(point, plugin.name, ask)(binding.context, binding.node_name)


def _reserve(binding: Binding) -> AttemptFailure | None:
    """Run Reserve until a plugin refuses. `back_out` then unreserves all plugins, also those that were not asked:
    upstream requires Unreserve to be idempotent."""
    context, node_name, name = binding.context, binding.node_name, ""
    wrap = context.wrap
    try:
        for plugin in binding.runner.profile.reserves:
            name = plugin.name
            ask = plugin.reserve if wrap is unwrapped else wrap("Reserve", name, plugin.reserve)
            answer = ask(context, node_name)
            if answer is not None:
                is_rejected = isinstance(answer, Rejection)
                return refused(answer.by(name)) if is_rejected else error(unusable("Reserve", name, answer))
    except Exception as fault:  # a plugin may raise anything
        return error(plugin_fault("Reserve", name, fault))
    return None


def ask_permits(binding: Binding) -> AttemptFailure | dict[str, float]:
    """The plugins that want the pod to wait, with their time limit in seconds; or why it may not go at all."""
    caller = binding.context.caller
    began_ns = caller.began()
    waits = _permit(binding) if binding.runner.profile.permits else {}
    caller.ended("Permit", _status(waits), began_ns)
    return waits


def _permit(binding: Binding) -> AttemptFailure | dict[str, float]:
    """All plugins are asked, even after one wants to wait: a later one may still reject. Each wait has its own
    limit."""
    waits: dict[str, float] = {}
    for plugin in binding.runner.profile.permits:
        try:
            answer = _call(binding, plugin, "Permit", plugin.permit)
        except Exception as fault:  # a plugin may raise anything
            return error(plugin_fault("Permit", plugin.name, fault))
        if isinstance(answer, Rejection):
            return refused(answer.by(plugin.name))
        if isinstance(answer, Wait) and isinstance(answer.timeout_s, int | float):
            waits[plugin.name] = answer.timeout_s
        elif answer is not None:
            return error(unusable("Permit", plugin.name, answer))
    return waits


def _bind(core: Core, binding: Binding) -> None:
    """Run Bind: the first plugin that does not skip decides. A failure ends the step at once; otherwise it ends when the
    answer is known (`finish`, `bind_answered`)."""
    context, node_name, wrap = binding.context, binding.node_name, binding.context.wrap
    for plugin in binding.runner.profile.binds:
        try:
            if wrap is unwrapped:  # Hot: a method that is called where it is looked up need not be made an object
                answer = plugin.bind(context, node_name)
            else:
                answer = wrap("Bind", plugin.name, plugin.bind)(context, node_name)
        except Exception as fault:  # a plugin may raise anything
            return _not_bound(core, binding, error(plugin_fault("Bind", plugin.name, fault)))
        if isinstance(answer, Bind):
            return core.outbox.intents.append(answer)
        if answer is None:
            core.bindings.pop(binding.entry.uid, None)
            return finish(core, binding)
        if isinstance(answer, Rejection):
            return _not_bound(core, binding, AttemptFailure(answer.message, code=answer.code), is_rejected=True)
        if answer is not SKIP:
            return _not_bound(core, binding, error(unusable("Bind", plugin.name, answer)))
    # Parity: all Bind plugins skipped the pod. It backs off as after an error, but no event and no condition says so.
    skipped = AttemptFailure("no Bind plugin bound it", SCHEDULER_ERROR, code=Code.Skip)
    return _not_bound(core, binding, skipped)


def _not_bound(core: Core, binding: Binding, failure: AttemptFailure, is_rejected: bool = False) -> None:
    """No Bind plugin took the pod on: the step is over."""
    _step_ended(binding, "Bind", _status(failure))
    give_up(core, binding, failure, is_rejected)
