"""The scheduler on the embedded store: `StoreFeed` turns writes into its inputs, `EmbeddedDriver` carries out its
intents.

Both run in this process and at once: an intent is a call of the ResourceApi, and its write is the scheduler's next
input. `mooring run` does the same over HTTP, with reflectors and writers, and does not import the API server (20 ms).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from mooring.api.api_errors import INTERNAL_ERROR, ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import Watch
from mooring.api.kinds import BY_STRUCT, RESOURCES, WATCHED
from mooring.api.kinds.events import stored_form
from mooring.api.kinds.pods import POD as PODS
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Exists, Missing, Store, StoreWrite
from mooring.drivers.api_writer import body_of
from mooring.drivers.driver import IntentDriver, PeriodicTasks, changed_by, input_of
from mooring.drivers.event_writer import EventSeries, NewEvent, Repetition
from mooring.drivers.extender_calls import Whole, shown
from mooring.drivers.traced_requests import NO_TRACES, RequestTraces
from mooring.framework.contract.intents import Bind, Evict, PatchStatus, Record, Write
from mooring.kit.callbacks import ReportFault
from mooring.model.meta import Condition, KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec, PodStatus
from mooring.rules.conditions import with_condition
from mooring.scheduler.inputs import BindAnswered, EvictionAnswered, Input
from mooring.scheduler.scheduler import Scheduler

# ---- writes to inputs


_WATCHED: dict[str, tuple[type[KubeObject], Watch]] = {
    spec.storage: (spec.struct, watch) for spec, watch in WATCHED.items()
}
"""The kinds that a scheduler watches, by storage."""

_FIRST = ("/nodes", "/namespaces")
"""Nodes come before the pods on them."""
_LAST = "/pods"
"""Pods come last: they refer to everything else."""


class StoreFeed:
    """Feeds one scheduler from one store, as a watch would: typed objects, and a pod that has finished is gone.

    A scheduler that does not schedule (`takes_pending` is False) gets only the pods that have a node: it counts what
    nodes hold, but a queue that it never empties would grow with every pod.
    """

    def __init__(self, store: Store, scheduler: Scheduler, report: ReportFault, takes_pending: bool = True) -> None:
        self._scheduler = scheduler
        self._takes_pending = takes_pending
        self._report = report
        self.follow: Callable[[Input], None] | None = None
        """Gets every input after the scheduler, where something follows the scheduler."""
        self._known: dict[tuple[str, str, str], KubeObject] = {}
        """The objects that the scheduler was told of, as it was told."""
        others = [storage for storage in _WATCHED if storage not in (*_FIRST, _LAST)]
        for storage in (*_FIRST, *others, _LAST):
            for write in store.additions(storage):
                self._hear(write)
        store.listen(self._hear, _WATCHED)

    def _hear(self, write: StoreWrite) -> None:
        """One write as one input. An object that another of the same name replaced is removed and added. An object that
        cannot be read is reported and left out, as a reflector would leave it out."""
        struct, watch = _WATCHED[write.storage]
        if watch.needs_gate and not self._scheduler.cluster.gates.get(watch.needs_gate, False):
            return
        if struct is Pod and not self._takes_pending and not write.object["spec"].get("nodeName"):
            return
        place = (write.storage, *write.key)
        old = self._known.get(place)
        if write.type == "DELETED" or (struct is Pod and _is_finished(write.object)):
            if self._known.pop(place, None) is not None:
                self._hand(old, None)
            return
        try:
            new = _decoded(struct, write, old)
        except msgspec.ValidationError as fault:
            self._report(f"{write.storage} {'/'.join(write.key)} cannot be read", fault)
            return
        self._known[place] = new
        if old is not None and old.uid != new.uid:
            self._hand(old, None)
            old = None
        self._hand(old, new)

    def _hand(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Pass a change to the scheduler, and then to the self-check that follows it, even if the scheduler failed."""
        change = input_of(old, new)
        try:
            self._scheduler.handle(change)
        finally:
            if self.follow is not None:
                self.follow(change)

    @property
    def known(self) -> Mapping[tuple[str, str, str], KubeObject]:
        """The objects that the scheduler was told of, as it was told. Callers must not change it."""
        return self._known


def _is_finished(pod: JsonObject) -> bool:
    """Whether a pod no longer takes room on its node."""
    return pod.get("status", {}).get("phase") in FINISHED_PHASES


def _decoded(struct: type[KubeObject], write: StoreWrite, old: KubeObject | None) -> KubeObject:
    """The typed object. Hot: a pod whose spec is what it was, but for its node, keeps what was computed from it."""
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


# ---- intents to writes

NODES = RESOURCES["", "v1", "nodes"]
EVENTS = RESOURCES["events.k8s.io", "v1", "events"]
"""Events are written as events.k8s.io, as kube-scheduler writes them."""


class EmbeddedDriver(IntentDriver):
    """Lets the scheduler act, and time pass. Its inputs come from `StoreFeed`. Each write is the scheduler's next input; a
    refusal is an answer."""

    def __init__(
        self, api: ResourceApi, scheduler: Scheduler, instance: str, requests: RequestTraces = NO_TRACES
    ) -> None:
        """`requests` traces the writes that attempts lead to."""
        super().__init__(scheduler)
        self._api = api
        self._requests = requests
        self._series = EventSeries(instance)
        self._timers = PeriodicTasks(scheduler, api.clock, self._sweep)
        self.attempts = 0

    def step(self, limit: int = 100) -> int:
        """Let time pass and attempt pods, at most `limit` of them. Returns how many were attempted."""
        self._timers.beat()
        self.carry_out()
        for done in range(limit):
            if not self.scheduler.has_work():
                return done
            self.scheduler.attempt()
            self.attempts += 1
            self.carry_out()
        return limit

    def next_ns(self) -> int:
        """When to step again: 0 for now."""
        if self.scheduler.has_work() or self.scheduler.has_intents():
            return 0
        return self._timers.next_ns()

    def _sweep(self) -> None:
        """Write the series of events that have ended."""
        for repetition in self._series.sweep(self._api.clock.now_ns()):
            self._write_series(repetition)

    # ---- intents

    def _bind(self, intent: Bind) -> None:
        """Bind a pod. After a refusal the scheduler tries again."""
        pod = intent.pod
        binding = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": {"kind": "Node", "name": intent.node_name}}
        try:
            with self._requests.span(pod.id, "POST pods/binding", is_awaited=True):
                self._api.bind(pod.namespace, pod.name, binding)
        except ApiError as refused:
            self.scheduler.handle(BindAnswered(pod, refused.message))
        else:
            self.bound += 1
            self.scheduler.handle(BindAnswered(pod))

    def _written(self, intent: Write) -> KubeObject | None:
        with self._requests.span(intent.pod_id, f"{intent.method} {BY_STRUCT[intent.kind].plural}", is_awaited=True):
            return carry_out(self._api, intent)

    def _patch_status(self, intent: PatchStatus) -> None:
        with self._requests.span(intent.pod.id, "PATCH pods/status", is_awaited=False), _unless_full():
            self._patch(intent.pod, intent.condition, intent.nominated_node_name)

    def _patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """Write a pod's condition and nominated node. A pod that is gone, or whose name another pod has, needs no
        status."""
        live = self._api.find(PODS, pod.namespace, pod.name)
        if live is None or live["metadata"]["uid"] != pod.uid:
            return
        status = dict(live.get("status", {}))
        if condition is not None:
            new = {"lastProbeTime": None, **msgspec.to_builtins(condition)}
            status["conditions"] = with_condition(status.get("conditions", ()), new, self._api.now())
        if nominated:
            status["nominatedNodeName"] = nominated
        elif nominated is not None:
            status.pop("nominatedNodeName", None)
        self._api.put_status(PODS, live, status)

    def _evict(self, intent: Evict) -> None:
        """Delete a victim, with the condition that says why. A victim that is gone already counts as evicted."""
        victim = intent.victim
        condition = msgspec.structs.replace(intent.condition, observed_generation=victim.metadata.generation)
        fault = None
        try:
            with self._requests.span(intent.preemptor.id, "PATCH pods/status", is_awaited=False):
                self._patch(victim, condition, None)
            live = self._api.find(PODS, victim.namespace, victim.name)
            if live is not None and live["metadata"]["uid"] == victim.uid:
                with self._requests.span(intent.preemptor.id, "DELETE pods", is_awaited=False):
                    self._api.delete(PODS, victim.namespace, victim.name)
        except ApiError as refused:
            fault = None if refused.code == 404 else refused.message
        self.scheduler.handle(EvictionAnswered(victim, intent.preemptor, fault))

    # ---- events

    def _record(self, intent: Record) -> None:
        """Write an event, or count a repetition in the event that there is."""
        now_ns = self._api.clock.now_ns()
        told = self._series.tell(intent, now_ns, now_ns)
        with _unless_full():
            if isinstance(told, NewEvent):
                self._create_event(told.event)
            elif isinstance(told, Repetition):
                self._write_series(told)

    def _create_event(self, event: JsonObject) -> None:
        """Hot: one event for each pod, made by this process, so nothing in it needs a check."""
        metadata = event["metadata"]
        stamps = {"uid": self._api.new_uid(), "creationTimestamp": self._api.now()}
        item = stored_form(EVENTS, {"kind": "Event", **event, "metadata": {**metadata, **stamps}})
        try:
            self._api.store.create(EVENTS.storage, (metadata["namespace"], metadata["name"]), item)
        except Exists:
            return  # the same event, told before a restart

    def _write_series(self, repetition: Repetition) -> None:
        """Write how often an event has happened; if the event is gone, write it anew."""
        key = (repetition.namespace, repetition.name)
        try:
            held = self._api.store.get(EVENTS.storage, key)
        except Missing:
            self._create_event(repetition.event)
        else:
            self._api.store.update(EVENTS.storage, key, {**held, "series": repetition.series})


@contextmanager
def _unless_full() -> Iterator[None]:
    """Leave out a write that only informs, where the disk refuses it: the next attempt of the pod informs again."""
    try:
        yield
    except ApiError as refused:
        if refused.reason != INTERNAL_ERROR:
            raise


# ---- objects of the API server


def carry_out(api: ResourceApi, write: Write) -> KubeObject | None:
    """Write to the API of the embedded cluster. Returns the object as written, None after a deletion. Raises ApiError."""
    resource, body = BY_STRUCT[write.kind], body_of(write)
    if write.method == "DELETE":
        api.delete(resource, write.namespace, write.name)
        return None
    if write.method == "POST":
        return msgspec.convert(api.create(resource, write.namespace, body), write.kind)
    made = api.change(
        *(resource, write.namespace, write.name),
        lambda held: changed_by(write, held, body),
        subresource=write.subresource,
    )
    return msgspec.convert(made, write.kind)


def whole_in_store(api: ResourceApi) -> Whole:
    """Whole objects from the store of an embedded cluster, for calls to extenders."""

    def whole(item: KubeObject) -> Any:
        is_pod = isinstance(item, Pod)
        stored = api.find(PODS if is_pod else NODES, item.namespace, item.name)
        if stored is None or stored["metadata"].get("uid", "") != item.uid:
            return item
        return shown(stored, is_pod)

    return whole
