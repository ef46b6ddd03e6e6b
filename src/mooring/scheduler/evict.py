"""What is done when preemption has found room: victims leave, and pods that were promised the node step back."""

from collections.abc import Callable

from mooring.framework.intents import Evict, PatchStatus, Record
from mooring.framework.points import Nomination, PostFilterPlugin
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.scheduler.core import Core
from mooring.scheduler.evictions import Eviction
from mooring.scheduler.pre_bind import stop

_WAITS = "DefaultPreemption"
"""Who ends the waits of victims."""


def evict(core: Core, preemptor: Pod, nomination: Nomination, plugin: PostFilterPlugin) -> None:
    """Have the victims leave; those that are on their way out already are left alone."""
    victims = [victim for victim in nomination.victims if not victim.is_terminating]
    if not victims:
        return
    core.observer.preempts(len(nomination.victims))
    core.story(preemptor, f"preempts {', '.join(v.key for v in victims)} on {nomination.node_name}")
    _clear_lower_nominations(core, preemptor, nomination.node_name)
    leaving = {victim.id for victim in victims if not _stop_waiting(core, victim, preemptor, nomination.node_name)}
    if not leaving:
        return
    core.evictions.begin(Eviction(preemptor, leaving, plugin))
    _tell(core, plugin, preemptor, plugin.eviction_began)
    message = f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"
    for victim in victims:
        if victim.id in leaving:
            core.story(victim, f"is preempted by {preemptor.key} and leaves {nomination.node_name}")
            core.outbox.append(Evict(victim, preemptor, _target(victim, message)))


def _target(victim: Pod, message: str) -> Condition:
    return Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=message,
        observed_generation=victim.metadata.generation,
    )


def evicted(core: Core, victim: Pod, preemptor: Pod, fault: str | None, *, was_there: bool = True) -> None:
    """A victim is gone, or could not be evicted. Parity: nothing is said of one that was gone before."""
    if fault is None and was_there:
        note = f"Preempted by pod {preemptor.uid} on node {victim.spec.node_name}"
        core.outbox.append(Record(victim, "Normal", "Preempted", "Preempting", note))
    eviction = core.evictions.by_preemptor.get(preemptor.id)
    if eviction is not None:
        eviction.has_failed = eviction.has_failed or fault is not None
        _cross_off(core, eviction, victim.id)


def leaves(core: Core, pod: Pod) -> None:
    """The watch shows a pod gone or on its way out: if it is a victim, nobody need wait to hear that it was evicted."""
    for eviction in core.evictions.of_victim(pod.id):
        _cross_off(core, eviction, pod.id)


def _cross_off(core: Core, eviction: Eviction, victim_id: str) -> None:
    if core.evictions.cross_off(eviction, victim_id):
        _tell(core, eviction.plugin, eviction.preemptor, eviction.plugin.eviction_ended)
        if eviction.has_failed:
            core.queue.activate([eviction.preemptor])
        else:
            # A victim may have made room before the last one was evicted: that event met the gate, and none follows.
            core.queue.reconsider(eviction.preemptor)


def _tell(core: Core, plugin: PostFilterPlugin, preemptor: Pod, tell: Callable[[Pod], None]) -> None:
    try:
        tell(preemptor)
    except Exception as fault:  # victims leave, whatever a plugin thinks of it
        core.report(f"{tell.__name__} of plugin {plugin.name} failed on pod {preemptor.key}", fault)


def _stop_waiting(core: Core, victim: Pod, preemptor: Pod, node_name: str) -> bool:
    """A victim that only waits for its binding need not be deleted: it goes back to the queue."""
    waiting = core.services.waiting.get(victim.id)
    if not (stop(core, victim.id, _WAITS) if waiting is None else waiting.preempt(_WAITS, "preempted")):
        return False
    note = f"Preempted by pod {preemptor.uid} on node {node_name} (in kube-scheduler memory)."
    core.outbox.append(Record(victim, "Normal", "Preempted", "Preempting", note))
    return True


def _clear_lower_nominations(core: Core, preemptor: Pod, node_name: str) -> None:
    for pod in core.cluster.nominated.on(node_name):
        if pod.priority < preemptor.priority:
            core.outbox.append(PatchStatus(core.pods.get(pod.key, pod), nominated_node_name=""))
