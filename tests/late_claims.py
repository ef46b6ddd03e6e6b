"""A cluster in which nothing happens at once: writes are carried out, answered and shown when the test says so."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from mooring.api.api_errors import ApiError
from mooring.drivers.simulated_driver import START_NS, after, named
from mooring.framework import config
from mooring.framework.contract.intents import Bind, Intent, PatchStatus, Record, Write, WriteFault
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.devices import AllocatedDevice, ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.scheduler import pre_bind
from mooring.scheduler.inputs import (
    BindAnswered,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
    WriteAnswered,
)
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

Name = tuple[type[KubeObject], str]


@dataclass
class Answer:
    """Of the server to an intent, on its way to the scheduler."""

    intent: Intent
    item: KubeObject | None = None
    fault: WriteFault | None = None


class LateClaims:
    """The server's objects are in `store`; the scheduler knows of them what was shown."""

    def __init__(self, **gates: bool) -> None:
        self.clock = VirtualClock(START_NS)
        self.faults: list[str] = []
        self.scheduler = build_scheduler(
            config.default(feature_gates=gates),
            self.clock,
            listeners=SchedulerListeners(report=lambda text, fault: self.faults.append(f"{text}: {fault}")),
            gates=gates,
        )
        self.store: dict[Name, KubeObject] = {}
        self.unseen: list[tuple[KubeObject | None, KubeObject | None]] = []
        """Changes that the watch has yet to show: before and after."""
        self.wanted: list[Intent] = []
        """Binds and writes on their way to the server."""
        self.answers: list[Answer] = []
        self.events: list[Record] = []
        self.told: dict[str, str] = {}
        """Why a pod was not scheduled, by key."""
        self.version = 0

    # ---- the server

    def put(self, item: KubeObject) -> KubeObject:
        self.version += 1
        name = (type(item), item.key)
        uid = item.metadata.uid or f"uid-{self.version}"
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self.version), uid=uid)
        stored: KubeObject = msgspec.structs.replace(item, metadata=metadata)
        self.unseen.append((self.store.get(name), stored))
        self.store[name] = stored
        return stored

    def delete(self, kind: type[KubeObject], key: str) -> None:
        """An object with finalizers is only marked."""
        item = self.store.get((kind, key))
        if item is None:
            return
        if item.metadata.finalizers and item.metadata.deletion_timestamp is None:
            marked = msgspec.structs.replace(item.metadata, deletion_timestamp="2026-02-01T00:00:00Z")
            self.put(msgspec.structs.replace(item, metadata=marked))
        elif not item.metadata.finalizers:
            self.unseen.append((self.store.pop((kind, key)), None))

    def claims(self) -> list[ResourceClaim]:
        return [item for item in self.store.values() if isinstance(item, ResourceClaim)]

    def pods(self) -> list[Pod]:
        return [item for item in self.store.values() if isinstance(item, Pod)]

    def tidy(self) -> None:
        """What the claim controller does: pods and groups that are gone use nothing, and what nobody uses is given back."""
        alive = {item.metadata.uid for item in self.store.values() if isinstance(item, Pod | PodGroup)}
        for claim in self.claims():
            users = [user for user in claim.status.reserved_for or () if user.uid in alive]
            is_idle = not users and claim.status.allocation is not None
            if len(users) == len(claim.status.reserved_for or ()) and not is_idle:
                continue
            status = msgspec.structs.replace(claim.status, reserved_for=users or None)
            metadata = claim.metadata
            if is_idle:
                status = msgspec.structs.replace(status, allocation=None, devices=None)
                metadata = msgspec.structs.replace(metadata, finalizers=None)
            self.put(msgspec.structs.replace(claim, metadata=metadata, status=status))
            if is_idle and claim.metadata.deletion_timestamp is not None:
                self.delete(ResourceClaim, claim.key)

    # ---- what is on its way

    def carry_out(self, place: int = 0, refuse: bool = False, lose: bool = False) -> None:
        """The server gets an intent, and does what it says unless it cannot. Its answer may be lost."""
        intent = self.wanted.pop(place)
        if refuse or lose:
            if lose and isinstance(intent, Write):
                with suppress(ApiError):
                    self._write(intent)
            self.answers.append(Answer(intent, fault=WriteFault("no time", 504)))
        elif isinstance(intent, Bind):
            self._bind(intent)
        elif isinstance(intent, Write):
            try:
                self.answers.append(Answer(intent, self._write(intent)))
            except ApiError as fault:
                self.answers.append(Answer(intent, fault=WriteFault(str(fault), fault.code)))

    def _bind(self, intent: Bind) -> None:
        pod = self.store.get((Pod, intent.pod.key))
        if not isinstance(pod, Pod) or pod.id != intent.pod.id:
            self.answers.append(Answer(intent, fault=WriteFault("not found", 404)))
            return
        self.put(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=intent.node_name)))
        self.answers.append(Answer(intent))

    def _write(self, write: Write) -> KubeObject | None:
        if write.method == "POST" and not write.name:
            write = named(write, f"{self.version:05d}")
        key = f"{write.namespace}/{write.name}"
        old = self.store.get((write.kind, key))
        if write.method == "DELETE":
            self.delete(write.kind, key)
            return None
        new = after(write, old)
        if old is not None and new == old:
            return old
        if isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim):
            before, now = old.status.allocation, new.status.allocation
            if before is not None and now is not None and before != now:
                raise ApiError(422, "Invalid", "status.allocation: field is immutable")
        stored = self.put(new)
        if stored.metadata.deletion_timestamp is not None:
            self.delete(write.kind, key)  # it goes, unless a finalizer still keeps it
        return stored

    def answer(self, place: int = 0) -> None:
        """The scheduler hears what became of an intent."""
        answer = self.answers.pop(place)
        if isinstance(answer.intent, Bind):
            self.scheduler.handle(BindAnswered(answer.intent.pod, answer.fault.message if answer.fault else None))
        elif isinstance(answer.intent, Write):
            self.scheduler.handle(WriteAnswered(answer.intent.token, answer.item, answer.fault))
        self.collect()

    def show(self) -> None:
        """The watch shows the next change."""
        old, new = self.unseen.pop(0)
        if old is None and new is not None:
            self.scheduler.handle(ObjectAdded(new))
        elif new is None and old is not None:
            self.scheduler.handle(ObjectRemoved(old))
        elif old is not None and new is not None:
            self.scheduler.handle(ObjectUpdated(old, new))
        self.collect()

    # ---- the scheduler

    def attempt(self) -> Pod | None:
        pod = self.scheduler.attempt()
        self.collect()
        return pod

    def second(self) -> None:
        self.clock.advance_ns(NS_PER_S)
        self.scheduler.handle(TimePassed())
        self.scheduler.release_waiting()
        self.collect()

    def stop(self, pod: Pod) -> None:
        """A more important pod takes the room of one that is being bound."""
        pre_bind.stop(self.scheduler.core, pod.id, "test")
        self.collect()

    def collect(self) -> None:
        for each in self.scheduler.take_intents():
            if isinstance(each, Bind | Write):
                self.wanted.append(each)
            elif isinstance(each, Record) and each.type == "Normal" and each.reason != "Scheduled":
                self.events.append(each)
            elif isinstance(each, PatchStatus) and each.condition is not None:
                self.told[each.pod.key] = each.condition.message or ""

    def settle(self, until: Callable[[], bool] | None = None) -> None:
        """Everything happens, in order, until nothing is left to happen."""
        for _ in range(10_000):
            if until is not None and until():
                return
            if self.wanted:
                self.carry_out()
            elif self.unseen:
                self.show()
            elif self.answers:
                self.answer()
            elif self.attempt() is None:
                return
        raise AssertionError("the cluster never comes to rest")


def allocated(claims: list[ResourceClaim]) -> list[AllocatedDevice]:
    """All devices that claims have."""
    given = (claim.status.allocation for claim in claims)
    return [result for each in given if each is not None for result in each.devices.results or ()]
