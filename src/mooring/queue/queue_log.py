"""Upstream's log lines of the scheduling queue, at V(3) and V(5). A queue whose lines no log would show has no QueueLog."""

from mooring.cluster.pods.pod_groups import GroupName
from mooring.kit.logs import Log, ObjectRef
from mooring.queue.entry import ATTEMPT_FAILED, GROUP_ENTITY, POD_ENTITY, Place, QueuedEntity, QueuedGroup, QueuedPod
from mooring.queue.hints import QueueingStrategy

FAILURES, MOVES = 3, 5
"""From these verbosities on the log has pods that come back from attempts, and all other moves."""
_QUEUES = {"active": "Active", "backoff": "Backoff", "unschedulable": "Unschedulable", "gated": "Unschedulable"}
"""Upstream's names of places."""
_STRATEGIES = {QueueingStrategy.SKIP: 0, QueueingStrategy.AFTER_BACKOFF: 1, QueueingStrategy.IMMEDIATELY: 2}
"""Upstream's numbers of queueing strategies."""


class QueueLog:
    """Each method writes one line of upstream's queue."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def moved(self, entity: QueuedEntity, label: str, place: Place) -> None:
        """An entity came to a place."""
        if not self._log.shows(MOVES):
            return
        why = ", because it is gated" if place == "gated" else ""
        message = f"Entity moved to an internal scheduling queue{why}"
        self._log.v(MOVES, message, **_about(entity), event=label, queue=_QUEUES[place])

    def failed(self, entry: QueuedPod, place: Place, cycle: int, worth: QueueingStrategy) -> None:
        """A pod came back from its attempt, the events of which were worth this much to it."""
        if self._log.shows(FAILURES):
            keys = {"pod": _ref(entry.key), **self._after(place, cycle), "hint": _STRATEGIES[worth]}
            keys["unschedulable plugins"] = {plugin: {} for plugin in sorted(entry.rejectors)}
            self._log.v(FAILURES, "Pod moved to an internal scheduling queue", **keys)

    def group_failed(self, group: QueuedGroup, place: Place, cycle: int) -> None:
        """Members of a group came back from its attempt. Parity: a group has no rejectors of its own."""
        if self._log.shows(FAILURES):
            keys = {"podGroup": _ref(group.root.key), **self._after(place, cycle), "unschedulable plugins": {}}
            self._log.v(FAILURES, "Pod group moved to an internal scheduling queue", **keys)

    @staticmethod
    def _after(place: Place, cycle: int) -> dict[str, object]:
        return {"event": ATTEMPT_FAILED, "queue": _QUEUES[place], "schedulingCycle": cycle}

    def incomplete(self, entry: QueuedPod) -> None:
        """A member waits for objects of its group."""
        where = "Pod with pod group added to incompletePodGroupPods"
        why = "waiting for one or more parent pod group objects to be observed"
        self._log.v(MOVES, f"{where}, {why}", podGroup=_group_of(entry), pod=_ref(entry.key))

    def pending(self, entry: QueuedPod, root: GroupName) -> None:
        """A member came during the attempt of its group."""
        self._member("Pod added to pending pod group pods, waiting for its root group to be requeued", entry, root)

    def first(self, entry: QueuedPod, root: GroupName) -> None:
        """A member came whose group was not in the queue."""
        self._member("Pod was added to root group as the first member pod", entry, root)

    def joined(self, entry: QueuedPod, root: GroupName, place: Place) -> None:
        """A member came whose group was in the queue."""
        self._member("Pod added to existing root group info", entry, root, queue=_QUEUES[place])

    def no_longer_incomplete(self, entry: QueuedPod) -> None:
        """A member is gone that waited for objects of its group."""
        self._log.v(MOVES, "Pod deleted from incompletePodGroupPods", pod=_ref(entry.key), podGroup=_group_of(entry))

    def no_longer_pending(self, entry: QueuedPod, root: GroupName) -> None:
        """A member is gone that waited for the end of the attempt of its group."""
        self._member("Pod belonging to a root group got deleted from pending pod group info", entry, root)

    def left(self, entry: QueuedPod, root: GroupName) -> None:
        """A member is gone whose group is in the queue."""
        self._member("Pod deleted from existing root group info", entry, root)

    def _member(self, message: str, entry: QueuedPod, root: GroupName, **more: object) -> None:
        self._log.v(MOVES, message, **_below(root), pod=_ref(entry.key), **more)

    def group_joined(self, name: GroupName, root: GroupName) -> None:
        """A group object came whose root is in the queue. Parity: the key is `podGroup` for a CompositePodGroup, too."""
        message = f"{_title(name)} added to the existing root group"
        self._log.v(MOVES, message, **_below(root), podGroup=_ref(name.key))

    def group_added(self, name: GroupName, root: GroupName, pods: int) -> None:
        """After a group object came, so many members were complete."""
        members = "its pods were attempted to be moved from incompletePodGroupPods to the queue"
        message = f"{_title(name)} was added to the root group and {members}"
        self._log.v(MOVES, message, **_below(root), **_object(name), podsLen=pods)

    def group_updated(self, name: GroupName, root: GroupName) -> None:
        """A group object changed whose root is in the queue."""
        message = f"{_title(name)} in the scheduling queue was updated for the root group"
        self._log.v(MOVES, message, **_below(root), **_object(name))

    def group_removed(self, name: GroupName, root: GroupName, pods: int) -> None:
        """A group object is gone whose root is in the queue: so many members wait for objects of their group now."""
        if name.is_composite:
            what = "the root group, decomposed and enqueued pods in the composite pod group subtree"
            message = f"Composite pod group deleted from {what} to incompletePodGroupPods"
        else:
            message = "Pod group deleted from root group, decomposed and enqueued pods to incompletePodGroupPods"
        self._log.v(MOVES, message, **_below(root), **_object(name), pods=pods)

    def group_removed_in_cycle(self, name: GroupName, root: GroupName, pods: int) -> None:
        """A group object is gone during the attempt of its root, for the end of which so many members waited."""
        if name.is_composite:
            what = "the root group, enqueued pending pods in the composite pod group subtree"
            message = f"Composite pod group deleted from {what} to incompletePodGroupPods"
            self._log.v(MOVES, message, **_below(root), **_object(name), pods=pods)
        else:
            what = "decomposed and enqueued pending pods for the pod group"
            message = f"Pod group deleted, {what} to incompletePodGroupPods"
            self._log.v(MOVES, message, **_object(name), pods=pods)

    def skipped(self, entity: QueuedEntity, label: str) -> None:
        """An event does not help an entity that is unschedulable."""
        if self._log.shows(MOVES):
            self._log.v(MOVES, "Event is not making entity schedulable", **_about(entity), event=label)

    def kept(self, label: str) -> None:
        """An event came while attempts were under way, and is kept for them."""
        self._log.v(MOVES, "Event received while entities are in flight", event=label)


def _about(entity: QueuedEntity) -> dict[str, object]:
    if isinstance(entity, QueuedGroup):
        return {"type": GROUP_ENTITY, "entity": _ref(entity.root.key)}
    return {"type": POD_ENTITY, "entity": _ref(entity.key)}


def _below(root: GroupName) -> dict[str, object]:
    return {"rootType": GROUP_ENTITY, "root": _ref(root.key)}


def _title(name: GroupName) -> str:
    return "Composite Pod Group" if name.is_composite else "Pod Group"


def _object(name: GroupName) -> dict[str, object]:
    return {"compositePodGroup" if name.is_composite else "podGroup": _ref(name.key)}


def _group_of(entry: QueuedPod) -> str | None:
    """The name of the PodGroup of a member, as the pod has it."""
    group = entry.pod.spec.scheduling_group
    return group.pod_group_name if group is not None else None


def _ref(key: str) -> ObjectRef:
    """The object with a key `namespace/name`, as log lines name it."""
    namespace, _, name = key.rpartition("/")
    return ObjectRef(name, namespace)
