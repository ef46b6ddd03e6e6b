"""Drives the scheduler on the embedded cluster: what it wants is done to the store at once, in this process."""

import msgspec

from mooring.apiserver.admission.binding import PODS
from mooring.apiserver.event_forms import stored_form
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Exists, Missing
from mooring.framework.intents import Bind, Call, Evict, Intent, PatchStatus, Record, Write, WriteFault
from mooring.live.api_writer import carry_out
from mooring.live.event_writer import EventSeries, NewEvent, Repetition
from mooring.live.extenders.calls import ExtenderCaller
from mooring.live.periodic_tasks import PeriodicTasks
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.resources import RESOURCES
from mooring.rules.conditions import with_condition
from mooring.scheduler.inputs import BindAnswered, EvictionAnswered, WriteAnswered
from mooring.scheduler.scheduler import Scheduler

EVENTS = RESOURCES["events.k8s.io", "v1", "events"]


class EmbeddedDriver:
    """Lets the scheduler act and time pass. It hears of changes elsewhere: `app.store_feed` tells it."""

    def __init__(self, api: ResourceApi, scheduler: Scheduler, instance: str) -> None:
        self._api = api
        self._scheduler = scheduler
        self._series = EventSeries(instance)
        self._pacemaker = PeriodicTasks(scheduler, api.clock, self._sweep)
        self.extenders: ExtenderCaller | None = None
        """Asks the extenders, where there are any."""
        self.attempts = 0
        self.bound = 0

    def step(self, limit: int = 100) -> int:
        """Let time pass and try pods, at most so many. Returns how many were tried."""
        self._pacemaker.beat()
        self.carry_out()
        for done in range(limit):
            if not self._scheduler.has_work():
                return done
            self._scheduler.attempt()
            self.attempts += 1
            self.carry_out()
        return limit

    def next_ns(self) -> int | None:
        """When to step again: 0 for now."""
        if self._scheduler.has_work() or self._scheduler.has_intents():
            return 0
        return self._pacemaker.next_ns()

    def _sweep(self) -> None:
        for repetition in self._series.sweep(self._api.clock.now_ns()):
            self._write_series(repetition)

    def carry_out(self) -> None:
        """Do what the scheduler wants."""
        self._scheduler.carry_out(self._do)

    def _do(self, intent: Intent) -> None:
        match intent:
            case Bind():
                self._bind(intent)
            case PatchStatus():
                self._patch(intent.pod, intent.condition, intent.nominated_node_name)
            case Evict():
                self._evict(intent)
            case Record():
                self._record(intent)
            case Call():
                assert self.extenders is not None, "there are calls only where there are extenders"
                self.extenders.begin(intent)
            case Write():
                self._write(intent)

    def _bind(self, intent: Bind) -> None:
        pod = intent.pod
        binding = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": {"kind": "Node", "name": intent.node_name}}
        try:
            self._api.bind(pod.namespace, pod.name, binding)
        except ApiError as refused:
            self._scheduler.handle(BindAnswered(pod, refused.message))
        else:
            self.bound += 1
            self._scheduler.handle(BindAnswered(pod))

    def _write(self, intent: Write) -> None:
        try:
            item = carry_out(self._api, intent)
        except ApiError as refused:
            self._scheduler.handle(WriteAnswered(intent.token, None, WriteFault(refused.message, refused.code)))
        else:
            self._scheduler.handle(WriteAnswered(intent.token, item))

    def _patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        """A pod that is gone, or whose name another has taken, needs no status any more."""
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
        victim = intent.victim
        condition = msgspec.structs.replace(intent.condition, observed_generation=victim.metadata.generation)
        fault = None
        try:
            self._patch(victim, condition, None)
            live = self._api.find(PODS, victim.namespace, victim.name)
            if live is not None and live["metadata"]["uid"] == victim.uid:
                self._api.delete(PODS, victim.namespace, victim.name)
        except ApiError as refused:
            fault = None if refused.code == 404 else refused.message
        self._scheduler.handle(EvictionAnswered(victim, intent.preemptor, fault))

    # ---- events

    def _record(self, record: Record) -> None:
        told = self._series.tell(record, self._api.clock.now_ns())
        if isinstance(told, NewEvent):
            self._create_event(told.event)
        elif isinstance(told, Repetition):
            self._write_series(told)

    def _create_event(self, event: JsonObject) -> None:
        """Hot: an event for each pod, of our own making, so nothing of it need be checked."""
        metadata = event["metadata"]
        stamps = {"uid": self._api.new_uid(), "creationTimestamp": self._api.now()}
        item = stored_form(EVENTS, {"kind": "Event", **event, "metadata": {**metadata, **stamps}})
        try:
            self._api.store.create(EVENTS.storage, (metadata["namespace"], metadata["name"]), item)
        except Exists:
            return  # the same event, told before a restart

    def _write_series(self, repetition: Repetition) -> None:
        key = (repetition.namespace, repetition.name)
        try:
            held = self._api.store.get(EVENTS.storage, key)
        except Missing:
            self._create_event(repetition.event)
        else:
            self._api.store.update(EVENTS.storage, key, {**held, "series": repetition.series})
