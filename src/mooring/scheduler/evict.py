"""Carries out a nomination of preemption: victims are evicted, and pods of lower priority lose their nomination to
the node."""

from collections.abc import Callable

from mooring.framework.contract.group_points import PodGroupPostFilterPlugin
from mooring.framework.contract.intents import Evict, PatchStatus, Record
from mooring.framework.contract.points import Nomination, PostFilterPlugin
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup
from mooring.scheduler.core import Core
from mooring.scheduler.inputs import EvictionAnswered
from mooring.scheduler.pre_bind import stop
from mooring.scheduler.under_way import Eviction

_WAITS = "DefaultPreemption"
"""Upstream's preemption evaluator rejects waiting victims under this plugin name."""
WHOLE_CLUSTER = "cluster"
"""Name that upstream uses for the node of victims that a pod group preempts. Parity: nominations to a node of this name are
cleared."""


Evictor = PostFilterPlugin | PodGroupPostFilterPlugin
"""The plugin that chose the victims."""


def evict(
    core: Core,
    preemptor: Pod,
    nomination: Nomination,
    plugin: Evictor,
    members: tuple[Pod, ...] = (),
) -> None:
    """Evict the victims of a nomination. Victims that are terminating already need no eviction.

    Where a group preempts as one, the preemptor is the first of its `members`.

    The preemptor is gated until all evictions are answered (`eviction_began`, `eviction_ended`): before that an attempt
    would find the room still taken.
    """
    if not members:
        core.observer.preempts(preemptor, nomination)
    victims = [victim for victim in nomination.victims if not victim.is_terminating]
    if not victims:
        return
    core.story(preemptor, f"preempts {', '.join(v.key for v in victims)} on {nomination.node_name}")
    group = preempting_group(core, preemptor)
    kind = kind_of_preemptor(group)
    _clear_lower_nominations(core, preemptor.priority if group is None else group.priority, nomination.node_name)
    leaving = {victim.id for victim in victims if not _stop_waiting(core, victim, preemptor, nomination.node_name)}
    if not leaving:
        core.observer.evictions_ended(kind, False, core.clock.now_ns(), core.clock.now_ns())
        core.services.activate(members or (preemptor,))  # nothing leaves that would wake it
        return
    core.evictions.begin(Eviction(preemptor, leaving, plugin, members or (preemptor,), core.clock.now_ns()))
    core.evictions.by_preemptor[preemptor.id].ends_in_memory = victims[-1].id not in leaving
    _tell(core, plugin, preemptor, plugin.eviction_began)
    message = f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority {kind}"
    for victim in victims:
        if victim.id in leaving:
            core.story(victim, f"is preempted by {preemptor.key} and leaves {victim.spec.node_name}")
            core.outbox.append(Evict(victim, preemptor, _target(victim, message)))


def _target(victim: Pod, message: str) -> Condition:
    """The condition that upstream sets on a victim before it deletes it; Job controllers read it as a disruption."""
    return Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=message,
        observed_generation=victim.metadata.generation,
    )


def preempting_group(core: Core, preemptor: Pod) -> AnyPodGroup | None:
    """The root group that preempts as one when this pod is the preemptor; None: the pod preempts for itself."""
    if core.cluster.groups is None:
        return None
    tree = core.cluster.group_tree
    root = tree.root_of_pod(preemptor)
    return None if root is None else tree.find(root)


def kind_of_preemptor(group: AnyPodGroup | None) -> str:
    """Upstream's word for the kind of a preemptor, for events, conditions and metrics."""
    return "pod" if group is None else type(group).__name__.lower()


def _record(core: Core, victim: Pod, preemptor: Pod, node_name: str, where: str = "") -> None:
    """The event about a victim, in upstream's words."""
    group = preempting_group(core, preemptor)
    if group is None:
        note = f"Preempted by pod {preemptor.uid} on node {node_name}{where}"
    else:
        note = f"Preempted by {kind_of_preemptor(group)} {group.uid} on node {WHOLE_CLUSTER}{where}"
    core.outbox.append(Record(victim, "Normal", "Preempted", "Preempting", note, group))


def evicted(core: Core, answer: EvictionAnswered) -> None:
    """A victim is gone, or could not be evicted. Parity: nothing is said of one that was gone before."""
    victim, preemptor = answer.victim, answer.preemptor
    if answer.fault is None and answer.was_there:
        core.observer.victim_evicted(victim)
        # Members of a group that leave as one may be on other nodes than the one that the preemptor gets.
        _record(core, victim, preemptor, core.cluster.nominated.node_of(preemptor.id) or victim.spec.node_name)
    eviction = core.evictions.by_preemptor.get(preemptor.id)
    if eviction is not None:
        eviction.has_failed = eviction.has_failed or answer.fault is not None
        _cross_off(core, eviction, victim.id)


def leaves(core: Core, pod: Pod) -> None:
    """The watch shows that a pod is gone or terminating. If it is a victim, its preemptor need not wait for the
    answer to the Evict."""
    for eviction in core.evictions.of_victim(pod.id):
        _cross_off(core, eviction, pod.id)


def _cross_off(core: Core, eviction: Eviction, victim_id: str) -> None:
    """A victim needs no more waiting. After the last one the gate of the preemptor opens, and it may be tried again.

    If an eviction failed, no event will come to wake the preemptor: it is activated at once. Parity: so it is if the last
    victim was only being bound, whichever others leave.
    """
    if core.evictions.cross_off(eviction, victim_id):
        kind = kind_of_preemptor(preempting_group(core, eviction.preemptor))
        core.observer.evictions_ended(kind, eviction.has_failed, eviction.began_ns, core.clock.now_ns())
        _tell(core, eviction.plugin, eviction.preemptor, eviction.plugin.eviction_ended)
        if eviction.has_failed or eviction.ends_in_memory:
            core.queue.activate(eviction.members)
        else:
            # A victim may have made room before the last one was evicted: that event met the gate, and none follows.
            for member in eviction.members:
                core.queue.reconsider(member)


def _tell(core: Core, plugin: Evictor, preemptor: Pod, tell: Callable[[Pod], None]) -> None:
    """Notify the plugin that the evictions began or ended. Its faults must not stop the evictions."""
    try:
        tell(preemptor)
    except Exception as fault:  # a plugin may raise anything; the victims leave all the same
        core.report(f"{tell.__name__} of plugin {plugin.name} failed on pod {preemptor.key}", fault)


def _stop_waiting(core: Core, victim: Pod, preemptor: Pod, node_name: str) -> bool:
    """End the binding of a victim that waits on Permit or whose PreBind is at work. It is not deleted but requeued.
    False: the victim is not being bound, so it must be deleted."""
    waiting = core.services.waiting.get(victim.id)
    if not (stop(core, victim.id, _WAITS) if waiting is None else waiting.preempt(_WAITS, "preempted")):
        return False
    _record(core, victim, preemptor, node_name, " (in kube-scheduler memory).")
    return True


def _clear_lower_nominations(core: Core, priority: int, node_name: str) -> None:
    """Pods of lower priority that are nominated to the node lose that: their room goes to the preemptor. Their
    nomination in memory goes when the watch shows the new status."""
    for pod in core.cluster.nominated.on(node_name):
        if pod.priority < priority:
            core.outbox.append(PatchStatus(core.pods.get(pod.key, pod), nominated_node_name=""))
