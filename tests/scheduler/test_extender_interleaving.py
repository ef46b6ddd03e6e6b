"""Whatever happens while extenders are asked, in whatever order: the scheduler's books stay in order."""

import random
from typing import Any

import msgspec
import pytest

from build import a_node
from extending import a_config, a_pending
from mooring.framework.contract.intents import Bind, Call, CallFault, Evict, PatchStatus
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.inputs import (
    BindAnswered,
    CallAnswered,
    EvictionAnswered,
    HalfMinutePassed,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
)
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler

GPU = "example.com/gpu"
STEPS = 150


class Chaos:
    """A cluster in which pods and nodes come and go, and answers of server and extenders take their time."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.clock = VirtualClock(1_000 * NS_PER_S)
        config = a_config(
            {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"},
            {"filterVerb": "names", "nodeCacheCapable": True, "ignorable": True},
            {"bindVerb": "bind", "managedResources": [{"name": GPU, "ignoredByScheduler": True}]},
        )
        self.scheduler = build_scheduler(
            config, self.clock, listeners=SchedulerListeners(observer=SchedulerMetrics(self.clock))
        )
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Any] = {}
        self.open: list[Any] = []
        self.made = 0
        self.asked: set[str] = set()

    def step(self) -> None:
        act = self.draw.choice([self.create, self.create, self.delete, self.node, self.answer, self.answer, self.tick])
        act()
        while self.scheduler.has_work():
            self.scheduler.attempt()
        self.take()
        assert self.scheduler.check() == []

    def take(self) -> None:
        for intent in self.scheduler.take_intents():
            if isinstance(intent, Bind | Call | Evict):
                self.open.append(intent)
            elif isinstance(intent, PatchStatus):
                self.patch(intent)

    def patch(self, intent: PatchStatus) -> None:
        pod = self.pods.get(intent.pod.key)
        if pod is not None and intent.nominated_node_name is not None:
            status = msgspec.structs.replace(pod.status, nominated_node_name=intent.nominated_node_name)
            self.change(pod, Pod(metadata=pod.metadata, spec=pod.spec, status=status))

    def change(self, old: Pod, new: Pod) -> None:
        version = str(int(old.metadata.resource_version or 0) + 1)
        metadata = msgspec.structs.replace(new.metadata, resource_version=version)
        self.pods[new.key] = Pod(metadata=metadata, spec=new.spec, status=new.status)
        self.scheduler.handle(ObjectUpdated(old, self.pods[new.key]))

    def create(self) -> None:
        self.made += 1
        requests = {GPU: "1"} if self.draw.random() < 0.3 else {}
        pod = a_pending(f"p{self.made}", cpu="1500m", requests=requests, priority=self.draw.choice((0, 0, 10)))
        self.pods[pod.key] = pod
        self.scheduler.handle(ObjectAdded(pod))

    def delete(self) -> None:
        if self.pods:
            self.scheduler.handle(ObjectRemoved(self.pods.pop(self.draw.choice(sorted(self.pods)))))

    def node(self) -> None:
        name = f"n{self.draw.randrange(4)}"
        if name in self.nodes:
            self.scheduler.handle(ObjectRemoved(self.nodes.pop(name)))
        else:
            self.nodes[name] = a_node(name)
            self.scheduler.handle(ObjectAdded(self.nodes[name]))

    def tick(self) -> None:
        self.clock.advance_ns(self.draw.randrange(1, 5) * NS_PER_S)
        self.scheduler.handle(TimePassed())
        self.scheduler.handle(HalfMinutePassed())
        self.scheduler.release_waiting()

    def answer(self) -> None:
        if not self.open:
            return
        intent = self.open.pop(self.draw.randrange(len(self.open)))
        if isinstance(intent, Call):
            self.asked.add(intent.verb)
            self.scheduler.handle(CallAnswered(intent.token, self.reply(intent)))
        elif isinstance(intent, Evict):
            victim = self.pods.pop(intent.victim.key, None)
            if victim is not None:
                self.scheduler.handle(ObjectRemoved(victim))
            self.scheduler.handle(EvictionAnswered(intent.victim, intent.preemptor))
        else:
            self.scheduler.handle(BindAnswered(intent.pod, self.bind(intent.pod.key, intent.node_name)))
        self.take()

    def bind(self, key: str, node_name: str) -> str | None:
        pod = self.pods.get(key)
        if pod is None or pod.spec.node_name or self.draw.random() < 0.1:
            return "no"
        self.change(pod, pod.with_node(node_name))
        return None

    def reply(self, call: Call) -> Any:
        chance = self.draw.random()
        if chance < 0.15:
            return CallFault("dead")
        if chance < 0.2:
            return b"garbage"
        body = call.body
        if call.verb == "filter":
            items = [node for node in body["Nodes"]["items"] if self.draw.random() < 0.8]
            return msgspec.json.encode({"Nodes": {"items": items}, "FailedNodes": {"n0": "hot"}})
        if call.verb == "names":
            return msgspec.json.encode({"NodeNames": [name for name in body["NodeNames"] if self.draw.random() < 0.9]})
        if call.verb == "prioritize":
            return msgspec.json.encode([{"Host": f"n{i}", "Score": self.draw.randrange(11)} for i in range(4)])
        if call.verb == "preempt":
            victims = body["NodeNameToVictims"].items()
            meta = {name: {"Pods": [{"UID": pod.uid} for pod in on["Pods"]]} for name, on in victims}
            return msgspec.json.encode({"NodeNameToMetaVictims": meta})
        fault = self.bind(f"{body['PodNamespace']}/{body['PodName']}", body["Node"])
        return msgspec.json.encode({"Error": fault or ""})


def test_all_orders_of_events_keep_the_books() -> None:
    asked: set[str] = set()
    for seed in range(25):
        chaos = Chaos(seed)
        for _ in range(STEPS):
            chaos.step()
        for _ in range(1000):
            if not chaos.open:
                break
            chaos.answer()
        core = chaos.scheduler.core
        assert core.extender_calls.suspension is None and core.extender_calls.binders == {} and core.bindings == {}, (
            f"seed {seed}"
        )
        assert chaos.scheduler.check() == [], f"seed {seed}"
        for pod in chaos.pods.values():
            assert pod.spec.node_name or core.queue.where(pod.key) is not None, f"{pod.key} is lost with seed {seed}"
        asked |= chaos.asked
    assert asked == {"filter", "names", "prioritize", "preempt", "bind"}, "or else the test proves little"


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_scores_that_are_waited_for_are_counted(verb: str) -> None:
    clock = VirtualClock(1_000 * NS_PER_S)
    metrics = SchedulerMetrics(clock)
    scheduler = build_scheduler(a_config({f"{verb}Verb": verb}), clock, listeners=SchedulerListeners(observer=metrics))
    for name in ("n1", "n2"):
        scheduler.handle(ObjectAdded(a_node(name)))
    scheduler.handle(ObjectAdded(a_pending()))
    scheduler.attempt()
    (call,) = scheduler.take_intents()
    assert isinstance(call, Call)
    gauge = 'scheduler_goroutines{operation="prioritizing_extender"} 1'
    assert (gauge in metrics.registry.text()) is (verb == "prioritize")
    scheduler.handle(CallAnswered(call.token, b"[]"))
    assert gauge not in metrics.registry.text()
