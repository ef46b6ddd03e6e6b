"""Tells a scheduler what happens in the embedded store, as a watch would tell it: typed objects, finished pods gone."""

from collections.abc import Callable

import msgspec

from mooring.apiserver.store import Store, StoreWrite
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import Watch
from mooring.model.kinds import WATCHED
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec, PodStatus
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler

Report = Callable[[str, Exception], None]

_WATCHED: dict[str, tuple[type[KubeObject], Watch]] = {
    spec.storage: (spec.struct, watch) for spec, watch in WATCHED.items()
}
"""What a scheduler watches, by storage."""

_FIRST = ("/nodes", "/namespaces")
_LAST = "/pods"
"""Nodes come before the pods on them, and pods last."""


class StoreFeed:
    """Feeds one scheduler from one store, for as long as both live.

    A scheduler that does not schedule (`takes_pending` is False) is fed only the pods that have a node: it counts what
    nodes hold, but a queue that it never empties would grow with every pod.
    """

    def __init__(self, store: Store, scheduler: Scheduler, report: Report, takes_pending: bool = True) -> None:
        self._scheduler = scheduler
        self._takes_pending = takes_pending
        self._report = report
        self._known: dict[tuple[str, str, str], KubeObject] = {}
        """What the scheduler was told, as it was told."""
        others = [storage for storage in _WATCHED if storage not in (*_FIRST, _LAST)]
        for storage in (*_FIRST, *others, _LAST):
            for write in store.additions(storage):
                self._hear(write)
        store.listen(self._hear, _WATCHED)

    def _hear(self, write: StoreWrite) -> None:
        struct, watch = _WATCHED[write.storage]
        if watch.needs_groups and not self._scheduler.schedules_groups:
            return
        if struct is Pod and not self._takes_pending and not write.object["spec"].get("nodeName"):
            return
        place = (write.storage, *write.key)
        old = self._known.get(place)
        if write.type == "DELETED" or (struct is Pod and _is_finished(write.object)):
            if self._known.pop(place, None) is not None and old is not None:
                self._scheduler.handle(ObjectRemoved(old))
            return
        try:
            new = _decoded(struct, write, old)
        except msgspec.ValidationError as fault:
            self._report(f"{write.storage} {'/'.join(write.key)} cannot be read", fault)
            return
        self._known[place] = new
        if old is None:
            self._scheduler.handle(ObjectAdded(new))
        elif old.uid != new.uid:
            self._scheduler.handle(ObjectRemoved(old))
            self._scheduler.handle(ObjectAdded(new))
        else:
            self._scheduler.handle(ObjectUpdated(old, new))


def _is_finished(pod: JsonObject) -> bool:
    return pod.get("status", {}).get("phase") in FINISHED_PHASES


def _decoded(struct: type[KubeObject], write: StoreWrite, old: KubeObject | None) -> KubeObject:
    """Hot: a pod whose spec is what it was, but for its node, keeps what was worked out of it."""
    if isinstance(old, Pod) and write.before is not None:
        spec = _spec_as_before(write.object["spec"], write.before["spec"], old.spec)
        if spec is not None:
            metadata = msgspec.convert(write.object["metadata"], ObjectMeta)
            pod = Pod(metadata=metadata, spec=spec, status=msgspec.convert(write.object.get("status", {}), PodStatus))
            pod.inherit(old)
            return pod
    return msgspec.convert(write.object, struct)


def _spec_as_before(spec: JsonObject, before: JsonObject, old: PodSpec) -> PodSpec | None:
    """The typed spec if all of its parts are the very objects that they were; the node may be another."""
    if spec is before:
        return old
    if any(before.get(name) is not value for name, value in spec.items() if name != "nodeName"):
        return None
    if before.keys() - {"nodeName"} != spec.keys() - {"nodeName"}:
        return None
    return msgspec.structs.replace(old, node_name=spec.get("nodeName", ""))
