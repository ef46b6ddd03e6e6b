"""PreBind: the plugins one after another. What takes time is a generator: it goes on when its write is answered, or when
there is news."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from mooring.framework.faults import describe
from mooring.framework.intents import PatchStatus, Write, WriteFault
from mooring.framework.points import Pause, Plugin, PodGone, PreBindPlugin, Work
from mooring.framework.status import Rejection
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.core import Binding, Core, Preparation
from mooring.scheduler.failure import Failure, error

BindingFailure = tuple[Failure, bool]
"""Why a pod cannot be bound, and whether that is a rejection."""

Then = Callable[[Core, Binding, BindingFailure | None], None]
"""What follows PreBind."""

_CLOSED = "preempted by {}"


def prepare(core: Core, binding: Binding, others: Iterator[PreBindPlugin], then: Then) -> None:
    """Ask the plugins in turn, then say what came of it: now, or when the work that one of them has is done."""
    for plugin in others:
        try:
            answer = _ask(binding, plugin)
        except Exception as fault:  # a plugin may raise anything
            return then(core, binding, _fault(plugin, fault))
        if isinstance(answer, Generator):
            return _begin(core, Preparation(binding, plugin, answer, others, then))
        failed = _verdict(plugin, answer)
        if failed is not None:
            return then(core, binding, failed)
    return then(core, binding, None)


def written(core: Core, token: int, item: KubeObject | None, fault: WriteFault | None) -> None:
    """A write was carried out, or failed: the one who asked for it goes on, then those who paused for the object.

    Nobody may be waiting for it any more.
    """
    pod_id, key = core.writers.pop(token, ("", None))
    preparation = core.preparations.get(pod_id)
    late = core.late_writes.pop(token, None)
    if late is not None:
        late(fault or item)
    elif preparation is not None and preparation.token == token:
        _step(core, preparation, fault or item)
    if key is not None:
        _wake(core, key)


def changed(core: Core, item: KubeObject) -> None:
    """An object changed: whoever paused for it goes on."""
    _wake(core, (type(item), item.key))


def _wake(core: Core, key: tuple[type[KubeObject], str]) -> None:
    for pod_id in list(core.watchers.get(key) or ()):
        preparation = core.preparations.get(pod_id)
        if preparation is not None and preparation.pause is not None:
            _step(core, preparation, None)


def look_around(core: Core) -> None:
    """Time has passed: whoever pauses goes on when it is over, and once a second in any case."""
    if not core.preparations:
        return
    now_ns = core.clock.now_ns()
    is_due = now_ns - core.looked_ns >= NS_PER_S
    if is_due:
        core.looked_ns = now_ns
    for preparation in list(core.preparations.values()):
        pause = preparation.pause
        if pause is not None and (is_due or (pause.until_ns is not None and pause.until_ns <= now_ns)):
            _step(core, preparation, None)


def next_deadline_ns(core: Core) -> int | None:
    """When the next pause ends whatever happens."""
    pauses = (preparation.pause for preparation in core.preparations.values())
    return min((p.until_ns for p in pauses if p is not None and p.until_ns is not None), default=None)


def stop(core: Core, pod_id: str, by: str) -> bool:
    """A more important pod needs the room: end the work, if there is any."""
    preparation = core.preparations.get(pod_id)
    if preparation is None:
        return False
    _end(core, preparation)
    try:
        preparation.work.close()
    except Exception as fault:  # the pod gives way, whatever a plugin thinks of it
        core.report(f"PreBind of plugin {preparation.plugin.name} could not be closed", fault)
    preparation.then(core, preparation.binding, _fault(preparation.plugin, _CLOSED.format(by)))
    return True


def pod_gone(core: Core, pod: Pod) -> None:
    """The pod was deleted: the work, if there is any, is told so and ends."""
    preparation = core.preparations.get(pod.id)
    if preparation is None:
        return
    _end(core, preparation)
    failed = _fault(preparation.plugin, "pod does not exist any more")
    try:
        preparation.work.throw(PodGone(f'pod "{pod.name}" not found'))
        preparation.work.close()
    except StopIteration:
        pass
    except Exception as fault:  # usually the one that was thrown, in the plugin's words
        failed = _fault(preparation.plugin, fault)
    preparation.then(core, preparation.binding, failed)


def _begin(core: Core, preparation: Preparation) -> None:
    """Parity: before the first work the pod's status is asked to name the node."""
    binding = preparation.binding
    core.preparations[binding.pod.id] = preparation
    if not binding.has_waited:
        binding.has_waited = True
        core.outbox.append(PatchStatus(binding.entry.pod, nominated_node_name=binding.node_name))
    core.story(binding.pod, f"has room on {binding.node_name}, where {preparation.plugin.name} has work to do first")
    _step(core, preparation, None)


def _step(core: Core, preparation: Preparation, answer: KubeObject | WriteFault | None) -> None:
    """One step further; when the work is done, the plugins that follow are asked."""
    _stop_waiting(core, preparation)
    plugin, binding = preparation.plugin, preparation.binding
    try:
        step = preparation.work.send(answer)
    except StopIteration as end:
        _end(core, preparation)
        failed = _verdict(plugin, end.value)
        if failed is None:
            prepare(core, binding, preparation.others, preparation.then)
        else:
            preparation.then(core, binding, failed)
    except Exception as fault:  # a plugin may raise anything
        _end(core, preparation)
        preparation.then(core, binding, _fault(plugin, fault))
    else:
        _wait(core, preparation, step)


def _wait(core: Core, preparation: Preparation, step: object) -> None:
    """For what the work asked for: an answer to a write, or the end of a pause."""
    pod_id = preparation.binding.pod.id
    if isinstance(step, Write):
        core.last_token = preparation.token = core.last_token + 1
        key = f"{step.namespace}/{step.name}" if step.namespace else step.name
        core.writers[preparation.token] = (pod_id, (step.kind, key))
        preparation.late = step.late
        core.outbox.append(replace(step, token=preparation.token))
    elif isinstance(step, Pause):
        preparation.pause = step
        for watched in step.on:
            core.watchers.setdefault(watched, {})[pod_id] = None
    else:
        _end(core, preparation)
        preparation.work.close()
        preparation.then(core, preparation.binding, _fault(preparation.plugin, f"unexpected step {step!r}"))


def _stop_waiting(core: Core, preparation: Preparation) -> None:
    pod_id, pause = preparation.binding.pod.id, preparation.pause
    for watched in pause.on if pause is not None else ():
        watchers = core.watchers[watched]
        del watchers[pod_id]
        if not watchers:
            del core.watchers[watched]
    preparation.pause, preparation.token = None, 0


def _end(core: Core, preparation: Preparation) -> None:
    if preparation.token and preparation.late is not None:
        core.late_writes[preparation.token] = preparation.late
    _stop_waiting(core, preparation)
    core.preparations.pop(preparation.binding.pod.id, None)


def _ask(binding: Binding, plugin: PreBindPlugin) -> Work | Rejection | None:
    answer: Work | Rejection | None = binding.cycle.call(
        "PreBind", plugin.name, plugin.pre_bind, binding.cycle, binding.node_name
    )
    return answer


def _verdict(plugin: Plugin, answer: object) -> BindingFailure | None:
    if isinstance(answer, Rejection):
        # Parity: the text stands alone, and no plugin counts as the one that rejected the pod.
        return Failure(answer.message, code=answer.code), True
    return None if answer is None else _fault(plugin, f"unexpected answer {answer!r}")


def _fault(plugin: Plugin, fault: Exception | str) -> BindingFailure:
    return error(f'running PreBind plugin "{plugin.name}": {describe(fault)}'), False
