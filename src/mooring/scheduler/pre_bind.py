"""PreBind: the plugins one after another. A plugin that takes time returns a generator (Work).

The generator yields a Write, and goes on with its answer; or a Pause, and goes on when one of the objects that it names
changes, when its time is over, and once a second. So no thread waits, and a simulation can step through it.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from mooring.framework.contract.intents import PatchStatus, Write, WriteFault
from mooring.framework.contract.plugin_caller import unwrapped
from mooring.framework.contract.points import Pause, Plugin, PodGone, PreBindPlugin
from mooring.framework.contract.status import Rejection
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.core import Core
from mooring.scheduler.failure import AttemptFailure, error, plugin_fault, unusable
from mooring.scheduler.inputs import WriteAnswered
from mooring.scheduler.under_way import Binding, ObjectRef, PreBindRun

BindingFailure = tuple[AttemptFailure, bool]
"""Why a pod cannot be bound, and whether that is a rejection."""

Then = Callable[[Core, Binding, BindingFailure | None], None]
"""Function that continues the binding cycle after PreBind. It is an argument because bind.py imports this module."""

_CLOSED = "preempted by {}"
"""The failure of a pod whose PreBind was stopped; {} is the plugin that stopped it."""


def prepare(core: Core, binding: Binding, others: Iterator[PreBindPlugin], then: Then) -> None:
    """Ask the plugins in turn, then call `then`: now, or when the work that one of them has is done.

    `others` is an iterator, so that after the work of one plugin the loop goes on with the next.
    """
    context, node_name, wrap = binding.context, binding.node_name, binding.context.wrap
    for plugin in others:
        try:
            ask = plugin.pre_bind if wrap is unwrapped else wrap("PreBind", plugin.name, plugin.pre_bind)
            answer = ask(context, node_name)
        except Exception as fault:  # a plugin may raise anything
            return then(core, binding, _fault(plugin, fault))
        if answer is None:
            continue
        if isinstance(answer, Generator):
            return _begin(core, PreBindRun(binding, plugin, answer, others, then))
        failed = _verdict(plugin, answer)
        if failed is not None:
            return then(core, binding, failed)
    return then(core, binding, None)


def written(core: Core, answer: WriteAnswered) -> None:
    """A write was carried out, or failed: the run that asked for it goes on, then those that wait for the object."""
    run, on_answer, target = core.pre_bind.take_answered(answer.token)
    if on_answer is not None:
        on_answer(answer.fault or answer.item)
    elif run is not None:
        _step(core, run, answer.fault or answer.item)
    if target is not None:
        _wake(core, target)


def changed(core: Core, item: KubeObject) -> None:
    """An object changed: the runs that wait for it go on."""
    _wake(core, (type(item), item.key))


def _wake(core: Core, target: ObjectRef) -> None:
    """Run the steps of those that wait for an object."""
    for run in core.pre_bind.waiting_for(target):
        if run.pause is not None:  # the step of another run may have ended this one
            _step(core, run, None)


def continue_due(core: Core) -> None:
    """Time has passed: the runs whose pause is over go on."""
    for run in core.pre_bind.due(core.clock.now_ns()):
        if run.pause is not None:
            _step(core, run, None)


def name_expected_node(core: Core, binding: Binding) -> None:
    """The pod has to wait before it can be bound: its status names the node that it is going to, once."""
    if not binding.has_waited and core.options.names_expected_node:
        core.outbox.append(PatchStatus(binding.entry.pod, nominated_node_name=binding.node_name))
    binding.has_waited = True


def stop(core: Core, pod_id: str, by: str) -> bool:
    """A preemptor needs the room: end the work of this pod. False: PreBind is not at work for it."""
    run = core.pre_bind.by_pod.get(pod_id)
    if run is None:
        return False
    core.pre_bind.end(run)
    try:
        run.work.close()
    except Exception as fault:  # a plugin may raise anything; the pod gives way all the same
        core.report(f"PreBind of plugin {run.plugin.name} could not be closed", fault)
    run.then(core, run.binding, _fault(run.plugin, _CLOSED.format(by)))
    return True


def pod_gone(core: Core, pod: Pod) -> None:
    """The pod was deleted: its work, if there is any, gets PodGone and ends."""
    run = core.pre_bind.by_pod.get(pod.id)
    if run is None:
        return
    core.pre_bind.end(run)
    failed = _fault(run.plugin, "pod does not exist any more")
    try:
        run.work.throw(PodGone(f'pod "{pod.name}" not found'))
        run.work.close()
    except StopIteration:
        pass
    except Exception as fault:  # usually the one that was thrown, in the plugin's words
        failed = _fault(run.plugin, fault)
    run.then(core, run.binding, failed)


def _begin(core: Core, run: PreBindRun) -> None:
    """Parity: before the first work of PreBind the pod's status gets the node as nominated, as upstream does for
    pods that will take time."""
    binding = run.binding
    core.pre_bind.begin(run)
    name_expected_node(core, binding)
    core.story(binding.pod, f"has room on {binding.node_name}, where {run.plugin.name} has work to do first")
    _step(core, run, None)


def _step(core: Core, run: PreBindRun, answer: KubeObject | WriteFault | None) -> None:
    """One step further; when the work is done, the plugins that follow are asked."""
    core.pre_bind.stop_waiting(run)
    plugin, binding = run.plugin, run.binding
    try:
        step = run.work.send(answer)
    except StopIteration as end:
        core.pre_bind.end(run)
        failed = _verdict(plugin, end.value)
        if failed is None:
            prepare(core, binding, run.others, run.then)
        else:
            run.then(core, binding, failed)
    except Exception as fault:  # a plugin may raise anything
        core.pre_bind.end(run)
        run.then(core, binding, _fault(plugin, fault))
    else:
        _wait(core, run, step)


def _wait(core: Core, run: PreBindRun, step: object) -> None:
    """Register what the work yielded: a write to be answered, or a pause. Anything else is a bug of the plugin."""
    if isinstance(step, Write):
        token = core.outbox.next_token()
        key = f"{step.namespace}/{step.name}" if step.namespace else step.name
        core.pre_bind.await_write(run, token, (step.kind, key), step.late)
        core.outbox.append(replace(step, token=token, pod_id=run.binding.pod.id))
    elif isinstance(step, Pause):
        core.pre_bind.await_change(run, step)
    else:
        core.pre_bind.end(run)
        run.work.close()
        run.then(core, run.binding, _fault(run.plugin, f"unexpected step {step!r}"))


def _verdict(plugin: Plugin, answer: object) -> BindingFailure | None:
    """The failure that the answer of a plugin means for the pod; None: it may be bound."""
    if isinstance(answer, Rejection):
        # Parity: the text stands alone, and no plugin counts as the one that rejected the pod.
        return AttemptFailure(answer.message, code=answer.code), True
    return None if answer is None else (error(unusable("PreBind", plugin.name, answer)), False)


def _fault(plugin: Plugin, fault: Exception | str) -> BindingFailure:
    """An error, with the plugin named as upstream does."""
    return error(plugin_fault("PreBind", plugin.name, fault)), False
