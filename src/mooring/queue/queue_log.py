"""Upstream's log lines of the scheduling queue, at V(3) and V(5). A queue whose lines no log would show has no QueueLog."""

from mooring.cluster.pods.group_tree import GroupName
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
        group = entry.pod.spec.scheduling_group
        name = group.pod_group_name if group is not None else None
        self._log.v(
            MOVES,
            f"{where}, waiting for one or more parent pod group objects to be observed",
            podGroup=name,
            pod=_ref(entry.key),
        )

    def pending(self, entry: QueuedPod, root: GroupName) -> None:
        """A member came during the attempt of its group."""
        self._member("Pod added to pending pod group pods, waiting for its root group to be requeued", entry, root)

    def first(self, entry: QueuedPod, root: GroupName) -> None:
        """A member came whose group was not in the queue."""
        self._member("Pod was added to root group as the first member pod", entry, root)

    def joined(self, entry: QueuedPod, root: GroupName, place: Place) -> None:
        """A member came whose group was in the queue."""
        self._member("Pod added to existing root group info", entry, root, queue=_QUEUES[place])

    def _member(self, message: str, entry: QueuedPod, root: GroupName, **more: object) -> None:
        self._log.v(MOVES, message, **_below(root), pod=_ref(entry.key), **more)

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


def _ref(key: str) -> ObjectRef:
    """The object with a key `namespace/name`, as log lines name it."""
    namespace, _, name = key.rpartition("/")
    return ObjectRef(name, namespace)
