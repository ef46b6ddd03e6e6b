"""PreBind: the plugins one after another. What takes time is a generator: it goes on when its write is answered, or when
there is news."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from mooring.cycle.core import Binding, Core, Preparation
from mooring.cycle.failure import Failure, error
from mooring.framework.intents import PatchStatus, Write, WriteFault
from mooring.framework.points import Pause, Plugin, PodGone, PreBindPlugin
from mooring.framework.status import Rejection
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

Failed = tuple[Failure, bool]
"""Why a pod cannot be bound, and whether that is a rejection."""

Then = Callable[[Core, Binding, Failed | None], None]
"""What follows PreBind."""

_CLOSED = "preempted by {}"


def prepare(core: Core, binding: Binding, others: Iterator[PreBindPlugin]) -> Failed | Preparation | None:
    """Ask the plugins in turn: why the pod cannot be bound, the work that has to be done first, or None: it can be."""
    for plugin in others:
        try:
            answer = plugin.pre_bind(binding.cycle, binding.node_name)
        except Exception as fault:  # a plugin may raise anything
            return _fault(plugin, fault)
        if isinstance(answer, Generator):
            return _begin(core, Preparation(binding, plugin, answer, others))
        failed = _verdict(plugin, answer)
        if failed is not None:
            return failed
    return None


def written(core: Core, token: int, item: KubeObject | None, fault: WriteFault | None, then: Then) -> None:
    """A write was carried out, or failed. Nobody may be waiting for it any more."""
    preparation = core.preparations.get(core.writers.pop(token, ""))
    if preparation is not None and preparation.token == token:
        _go_on(core, preparation, fault or item, then)


def changed(core: Core, item: KubeObject, then: Then) -> None:
    """An object changed: whoever paused for it goes on."""
    watchers = core.watchers.get((type(item), item.key))
    for pod_id in list(watchers or ()):
        preparation = core.preparations.get(pod_id)
        if preparation is not None and preparation.pause is not None:
            _go_on(core, preparation, None, then)


def second_passed(core: Core, then: Then) -> None:
    """Whoever pauses looks around."""
    for preparation in list(core.preparations.values()):
        if preparation.pause is not None and core.preparations.get(preparation.binding.pod.id) is preparation:
            _go_on(core, preparation, None, then)


def next_deadline_ns(core: Core) -> int | None:
    """When the next pause ends whatever happens."""
    pauses = (preparation.pause for preparation in core.preparations.values())
    return min((p.until_ns for p in pauses if p is not None and p.until_ns is not None), default=None)


def stop(core: Core, pod_id: str, by: str, then: Then) -> bool:
    """A more important pod needs the room: end the work, if there is any."""
    preparation = core.preparations.get(pod_id)
    if preparation is None:
        return False
    _end(core, preparation)
    try:
        preparation.work.close()
    except Exception as fault:  # the pod gives way, whatever a plugin thinks of it
        core.report(f"PreBind of plugin {preparation.plugin.name} could not be closed", fault)
    then(core, preparation.binding, _fault(preparation.plugin, _CLOSED.format(by)))
    return True


def pod_gone(core: Core, pod: Pod, then: Then) -> None:
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
    then(core, preparation.binding, failed)


def _begin(core: Core, preparation: Preparation) -> Failed | Preparation | None:
    """Parity: before the first work the pod's status is asked to name the node."""
    binding = preparation.binding
    core.preparations[binding.pod.id] = preparation
    if not binding.has_waited:
        binding.has_waited = True
        core.outbox.append(PatchStatus(binding.entry.pod, nominated_node_name=binding.node_name))
    core.story(binding.pod, f"has room on {binding.node_name}, where {preparation.plugin.name} has work to do first")
    return _step(core, preparation, None)


def _go_on(core: Core, preparation: Preparation, answer: KubeObject | WriteFault | None, then: Then) -> None:
    outcome = _step(core, preparation, answer)
    if not isinstance(outcome, Preparation):
        then(core, preparation.binding, outcome)


def _step(
    core: Core, preparation: Preparation, answer: KubeObject | WriteFault | None
) -> Failed | Preparation | None:
    """One step further; when the work is done, the plugins that follow are asked."""
    _stop_waiting(core, preparation)
    plugin = preparation.plugin
    try:
        step = preparation.work.send(answer)
    except StopIteration as end:
        _end(core, preparation)
        return _verdict(plugin, end.value) or prepare(core, preparation.binding, preparation.others)
    except Exception as fault:  # a plugin may raise anything
        _end(core, preparation)
        return _fault(plugin, fault)
    if isinstance(step, Write):
        core.last_token = preparation.token = core.last_token + 1
        core.writers[preparation.token] = preparation.binding.pod.id
        core.outbox.append(replace(step, token=preparation.token))
    elif isinstance(step, Pause):
        preparation.pause = step
        for watched in step.on:
            core.watchers.setdefault(watched, {})[preparation.binding.pod.id] = None
    else:
        _end(core, preparation)
        preparation.work.close()
        return _fault(plugin, f"unexpected step {step!r}")
    return preparation


def _stop_waiting(core: Core, preparation: Preparation) -> None:
    pod_id, pause = preparation.binding.pod.id, preparation.pause
    for watched in pause.on if pause is not None else ():
        watchers = core.watchers[watched]
        del watchers[pod_id]
        if not watchers:
            del core.watchers[watched]
    preparation.pause, preparation.token = None, 0


def _end(core: Core, preparation: Preparation) -> None:
    _stop_waiting(core, preparation)
    core.preparations.pop(preparation.binding.pod.id, None)


def _verdict(plugin: Plugin, answer: object) -> Failed | None:
    if isinstance(answer, Rejection):
        # Parity: the text stands alone, and no plugin counts as the one that rejected the pod.
        return Failure(answer.message), True
    return None if answer is None else _fault(plugin, f"unexpected answer {answer!r}")


def _fault(plugin: Plugin, fault: object) -> Failed:
    return error(f'running PreBind plugin "{plugin.name}": {fault}'), False
