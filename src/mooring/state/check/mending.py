"""Mends what a self-check has found (`--self-check-repair`): each difference wholly, or not at all.

Nothing here trusts the difference beyond its place: what is right is looked up in the fresh scheduler at the moment of
mending, because time has passed since the comparison. What has become right meanwhile stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping

from mooring.cluster.claims.volumes_on_nodes import VolumesOnNodes
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import NO_FACTS, facts_of
from mooring.cluster.nodes.float_columns import FloatColumns
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.events import ASSIGNED_POD_DELETE
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.queue.whereabouts import end_flight, in_flight_entry, in_flight_ids, places_of, put_right
from mooring.scheduler.core import Core
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.difference import KINDS, DifferenceKind, StateDifference
from mooring.state.check.membership import UNCONFIRMED

# ---- Puts right what turned out to be wrong in a cluster: rows, counts and files are made anew from objects and
# pods.


def count_row_anew(nodes: NodeTable, name: str) -> None:
    """Make the columns of a row anew, from its node and the pods that are on it. Kept answers about the row become void.

    What can fail comes first. Labels and images are taken away before they are put: columns are written only where
    something changes. Tallies are left alone: to count them takes a pass over all pods.
    """
    row = nodes.row_book[name]
    node = nodes.nodes[row]
    facts = NO_FACTS if node is None else facts_of(node)
    nodes._put_facts(row, NO_FACTS)
    nodes._put_facts(row, facts)
    pods = {pod.id: pod for pod in nodes.pods_on[row]}
    nodes.pods_on[row][:] = pods.values()
    nodes._row_of_pod.update(dict.fromkeys(pods, row))
    nodes.alive[row], nodes.pod_count[row] = node is not None, len(pods)
    nodes.amounts.count_anew(row)
    nodes.ports.clear(row)
    for pod in pods.values():
        nodes.ports.occupy(row, pod.shape.host_ports)
    nodes.touches.note(row)


def count_nodes_anew(nodes: NodeTable) -> None:
    nodes.alive_count = sum(node is not None for node in nodes.nodes)
    nodes.touch_all()


def count_tallies_anew(nodes: NodeTable) -> None:
    """Count all tallies from the pods on nodes."""
    nodes.tallies.count_anew(nodes.pods_on)
    nodes.touch_all()


def work_out_columns_anew(cluster: Cluster) -> None:
    """Drop the columns that follow the table, and make those of volumes again when they are next read."""
    cluster._floats = FloatColumns(cluster.nodes)
    cluster._volumes = VolumesOnNodes(cluster.storage, cluster.nodes)


def file_volume_anew(cluster: Cluster, name: str) -> None:
    """File a volume under its class and its claim, whatever it is filed under now."""
    storage = cluster.storage
    for shelf in storage._shelves.values():
        shelf.remove(name)
    for key in [key for key, kept in storage._kept.items() if name in kept]:
        storage._let_go(key, name)
    storage._placed.pop(name, None)
    storage._place(name)


def nominate_anew(cluster: Cluster) -> None:
    """Add up again what nominated pods will take."""
    nominated = cluster.nominated
    promised = [(pod, nominated.node_of(pod_id)) for pod_id in nominated.pod_ids() if (pod := nominated.get(pod_id))]
    for pod, node_name in promised:
        nominated.promise(pod, node_name or "")
    nominated._loads.clear()


Outcome = tuple[StateDifference, Exception | None]
"""A difference, and why it could not be mended; None: it was."""


def mend(running: Scheduler, fresh: Scheduler, differences: Iterable[StateDifference]) -> list[Outcome]:
    """Mend differences, objects first: what follows from them is then right, or can be made anew."""
    outcomes: list[Outcome] = []
    once: dict[DifferenceKind, Exception | None] = {}
    for each in sorted(differences, key=lambda difference: KINDS.index(difference.kind)):
        if each.kind not in once or each.kind not in _AT_ONCE:
            once[each.kind] = _mend(running, fresh, each)
        outcomes.append((each, once[each.kind]))
    running.interrupted()
    running.release_waiting()
    return outcomes


def _mend(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> Exception | None:
    try:
        _MENDERS[difference.kind](running, fresh, difference)
    except Exception as fault:  # one that cannot be mended must not stop the others
        return fault
    return None


_AT_ONCE: frozenset[DifferenceKind] = frozenset(("tally", "group", "answer"))
"""Kinds that are mended for all objects together: to count 150 tallies of 30,000 pods takes 0.1 s."""


# ---- objects: the input that was lost is given now


def _object(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    assert difference.about is not None, "it is about an object"
    if difference.about is Pod:
        _pod(running, fresh, difference)
    else:
        _hand(running, _find(running, difference), _find(fresh, difference))


def _find(scheduler: Scheduler, difference: StateDifference) -> KubeObject | None:
    cluster, kind, key = scheduler.cluster, difference.about, difference.name
    if kind is Node:
        row = cluster.nodes.row_book.get(key)
        return None if row is None else cluster.nodes.nodes[row]
    return None if kind is None else cluster.objects[kind].get(key)


def _hand(running: Scheduler, old: KubeObject | None, new: KubeObject | None) -> None:
    """Tell the running scheduler what became of an object."""
    if old is not None and new is not None and old.uid == new.uid:
        running.handle(ObjectUpdated(old, new))
        return
    if old is not None:
        running.handle(ObjectRemoved(old))
    if new is not None:
        running.handle(ObjectAdded(new))


def _pod(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    """A pod that is counted on a node is mended by what is counted, any other by what is known of it."""
    core, new = running.core, fresh.pods.get(difference.name)
    counted = [pod for pod in _counted(running, fresh, difference.name) if not core.cache.is_assumed(pod.id)]
    for pod in counted:
        if new is None or new.id != pod.id or new.spec.node_name != pod.spec.node_name:
            running.handle(ObjectRemoved(pod))
    old = next((pod for pod in counted if core.cache.has(pod.id)), None)
    if old is None and new is not None and new.spec.node_name:
        core.pods.pop(new.key, None)
        put_right(core.queue, new.key, None)
        running.handle(ObjectAdded(new))
    elif new is None or old is not new or running.pods.get(new.key) is not new:
        _hand(running, old or running.pods.get(difference.name), new)


def _counted(running: Scheduler, fresh: Scheduler, key: str) -> list[Pod]:
    """The pods of this name that are counted on nodes. Only one that nobody knows any more has to be searched for."""
    known = {pod.id for pod in (running.pods.get(key), fresh.pods.get(key)) if pod is not None}
    found = [pod for pod_id in known if (pod := running.placed(pod_id)) is not None]
    return found if known else [pod for pod in running.cluster.nodes.pods() if pod.key == key]


# ---- what is counted


def _row(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    nodes = running.cluster.nodes
    if difference.about is None:
        count_nodes_anew(nodes)
    elif difference.name in nodes.row_book:
        count_row_anew(nodes, difference.name)
    work_out_columns_anew(running.cluster)


def _tally(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    count_tallies_anew(running.cluster.nodes)


def _volume(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    storage = running.cluster.storage
    if difference.about is PersistentVolumeClaim:
        storage.restore_claim(difference.name)
    elif difference.about is PersistentVolume and difference.what == "assumed":
        storage.restore_volume(difference.name)
    elif difference.about is PersistentVolume:
        file_volume_anew(running.cluster, difference.name)
    work_out_columns_anew(running.cluster)


def _device(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    ledger = running.cluster.claims
    for claim in ledger.pending_claims() if difference.about is ResourceClaim else ():
        if claim.key == difference.name:
            ledger.end_for_all(claim.uid or claim.key)
    ledger.count_anew()


def _nomination(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    nominations, nominated = running.core.queue.nominations, running.nominated
    for uid in nominations.pod_ids() if difference.about is not Node else ():
        pod = nominated.get(uid)
        if uid == difference.name or (pod is not None and pod.key == difference.name):
            nominations.withdraw(uid)
    nominate_anew(running.cluster)


def _group(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    ours, theirs = running.cluster.groups, fresh.cluster.groups
    if ours is not None and theirs is not None:
        ours.adopt(theirs)


def _answer(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    """Forget everything that is kept from one attempt to the next."""
    for runner in running.core.runners.values():
        runner.kept.clear()
        runner.crowded.clear()
    work_out_columns_anew(running.cluster)
    running.cluster.nodes.touch_all()


# ---- where pods are


def _queue(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    core, pod = running.core, fresh.pods.get(difference.name)
    for uid in in_flight_ids(core.queue) if core.extender_calls.suspension is None else ():
        entry = in_flight_entry(core.queue, uid)
        if entry is not None and entry.key == difference.name and uid not in core.bindings:
            end_flight(core.queue, uid)
    put_right(core.queue, difference.name, pod if pod is not None and _is_to_wait(core, pod) else None)


def _is_to_wait(core: Core, pod: Pod) -> bool:
    is_ours = pod.spec.scheduler_name in core.runners
    return is_ours and not pod.spec.node_name and not pod.is_terminating and not core.cache.has(pod.id)


def _assumed(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    core, known = running.core, fresh.pods.get(difference.name)
    for uid in core.cache.assumed_ids():
        pod = core.cache.get(uid)
        if pod is None:
            core.cache.drop_assumed(uid)
        elif pod.key == difference.name and difference.what in ("pod", UNCONFIRMED) and uid not in core.bindings:
            core.cache.forget(pod)
            core.queue.wake(ASSIGNED_POD_DELETE, pod, None)
        elif pod.key == difference.name and known is not None and known.id == uid and known.spec.node_name:
            core.cache.confirm(known)
    for uid, binding in core.bindings.items():
        if binding.pod.key == difference.name and not core.cache.has(uid):
            core.cache.assume(binding.pod, binding.node_name)
    if known is not None and _is_to_wait(core, known) and not places_of(core.queue, known.key):
        put_right(core.queue, known.key, known)


def _stranded(running: Scheduler, fresh: Scheduler, difference: StateDifference) -> None:
    entry = running.queued(difference.name)
    if entry is not None and running.place_in_queue(entry.key) in ("unschedulable", "gated"):
        running.core.queue.activate((entry.pod,))


# What a watch has lost, the process around the scheduler mends: it hands it to the reflector, whose listener gets it.
_MENDERS: Mapping[DifferenceKind, Callable[[Scheduler, Scheduler, StateDifference], None]] = {
    "object": _object,
    "row": _row,
    "port": _row,
    "tally": _tally,
    "volume": _volume,
    "device": _device,
    "nomination": _nomination,
    "group": _group,
    "queue": _queue,
    "assumed": _assumed,
    "answer": _answer,
    "stranded": _stranded,
}
