"""A simulated cluster whose scheduler has extenders: tests say what each of them answers.

world = Extended({"filterVerb": "filter"}, nodes=("n1", "n2"))
world.answers["filter"] = {"Nodes": None}
"""

from typing import Any

import msgspec

from build import a_node, a_pod
from mooring.drivers.simulated_driver import Driver
from mooring.framework import config
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.intents import Call
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

URL = "http://127.0.0.1:9999/sched"


def a_config(*extenders: dict[str, Any], **more: Any) -> KubeSchedulerConfiguration:
    written = [{"urlPrefix": URL, "weight": 1, **extender} for extender in extenders]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return config.from_object({**head, "extenders": written, **more})


def a_pending(name: str = "pod", **more: Any) -> Pod:
    metadata = {"uid": f"uid-{name}", **more.pop("metadata", {})}
    return a_pod(name, metadata=metadata, schedulerName="default-scheduler", **more)


def a_running(name: str, node: str, **more: Any) -> Pod:
    return a_pending(name, nodeName=node, **more)


def as_json(call: Call) -> dict[str, Any]:
    """What is sent, where nobody has the whole objects."""
    sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(call.body))
    return sent


class Extended:
    """`answers` has for each verb what is answered: data, a CallFault, or a function of the call that gives either."""

    def __init__(self, *extenders: dict[str, Any], nodes: Any = ("n1", "n2", "n3"), **configuration: Any) -> None:
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.reports: list[str] = []
        self.stories: list[str] = []
        self.scheduler = build_scheduler(
            a_config(*extenders, **configuration),
            self.clock,
            listeners=SchedulerListeners(tell=self._tell, report=self._report),
        )
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        self.driver.extender = self._answer
        self.answers: dict[str, Any] = {}
        self.calls: list[Call] = []
        for node in nodes:
            self.driver.create(a_node(node) if isinstance(node, str) else node)

    def put(self, *items: KubeObject) -> None:
        for item in items:
            self.driver.create(item)

    def place(self, pod: Pod) -> str:
        """Where the pod goes at its first attempt; empty: nowhere."""
        self.driver.create(pod)
        self.driver.settle()
        return self.pod(pod.name).spec.node_name

    def pod(self, name: str = "pod") -> Pod:
        pod = self.driver.objects["Pod", f"default/{name}"]
        assert isinstance(pod, Pod)
        return pod

    def why(self, name: str = "pod") -> tuple[str, str]:
        """Reason and message of the pod's condition."""
        (condition,) = (c for c in self.pod(name).status.conditions or () if c.type == "PodScheduled")
        return condition.reason or "", condition.message or ""

    def rejectors(self, name: str = "pod") -> set[str]:
        entry = self.scheduler.core.queue.get(f"default/{name}")
        assert entry is not None
        return set(entry.unschedulable_plugins)

    def asked(self) -> list[str]:
        return [call.verb for call in self.calls]

    def _answer(self, call: Call) -> Any:
        self.calls.append(call)
        answer = self.answers[call.verb]
        return answer(call) if callable(answer) else answer

    def _report(self, text: str, error: Exception | None) -> None:
        self.reports.append(text if error is None else f"{text}: {error}")

    def _tell(self, pod: Pod, text: str) -> None:
        self.stories.append(f"{pod.name} {text}")


def keep(*names: str) -> Any:
    """Answers a filter with those of the nodes that are named, in the form in which it was asked."""

    def answer(call: Call) -> dict[str, Any]:
        sent = as_json(call)
        if sent["NodeNames"] is not None:
            return {"NodeNames": [name for name in sent["NodeNames"] if name in names]}
        items = [item for item in sent["Nodes"]["items"] if item["metadata"]["name"] in names]
        return {"Nodes": {"items": items}}

    return answer
