"""The embedded cluster with its scheduler and controllers, on a clock that goes from one due task to the next."""

from collections.abc import Callable
from typing import Any

from asking import MERGE_PATCH, NODES, PODS, STRATEGIC_PATCH, ask
from cluster_api import START_NS
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.kit.clock import NS_PER_S, VirtualClock

JsonObject = dict[str, Any]
_MOST_STEPS = 100_000


class VirtualCluster:
    """Objects are in `default`, and named by their plural in paths. A fault that anything reports ends the test, unless
    the test has another use for it."""

    def __init__(
        self, settings: EmbeddedSettings | None = None, report: Callable[[str, Exception | None], None] | None = None
    ) -> None:
        self.clock = VirtualClock(START_NS)
        self.cluster = EmbeddedCluster(settings, self.clock, report or _raise)
        self.api = self.cluster.api
        self.settle()

    # ---- time

    def settle(self) -> None:
        """Do all that is due now."""
        for _ in range(_MOST_STEPS):
            due_ns = self.cluster.next_ns()
            done = self.cluster.step()
            if not done and (due_ns is None or due_ns > self.clock.now_ns()):
                return
        raise AssertionError("the cluster never comes to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass, with everything done when it is due."""
        end_ns = self.clock.now_ns() + round(seconds * NS_PER_S)
        self.settle()
        for _ in range(_MOST_STEPS):
            due_ns = self.cluster.next_ns()
            if due_ns is None or due_ns > end_ns:
                break
            self.clock.advance_ns(max(due_ns - self.clock.now_ns(), 0))
            self.settle()
        self.clock.advance_ns(max(end_ns - self.clock.now_ns(), 0))
        self.settle()

    def wait_for(self, holds: Callable[[], bool], seconds: float = 120) -> None:
        """Until something holds, in steps of a tenth of a second."""
        for _ in range(round(seconds * 10)):
            if holds():
                return
            self.wait(0.1)
        raise AssertionError("that never comes true")

    # ---- objects

    def ask(self, method: str, path: str, body: Any = None, media: Any = "", **query: Any) -> JsonObject:
        """An answer that is no refusal; then everything that follows from it is done."""
        reply = ask(self.api, method, path, body, media, **query)
        assert reply.code < 300, reply.body
        self.settle()
        answered: JsonObject = reply.body
        return answered

    def node(self, name: str = "node", cpu: str = "4", **item: Any) -> JsonObject:
        status = {"capacity": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}
        return self.ask("POST", NODES, {"metadata": {"name": name}, "status": status, **item})

    def pod(self, name: str = "pod", cpu: str = "1", metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": [container], **spec}}
        self.ask("POST", PODS, body)
        return self.find(name) or {}

    def find(self, pod: str = "pod") -> JsonObject | None:
        return self.api.store.find("/pods", ("default", pod))

    def get(self, pod: str = "pod") -> JsonObject:
        found = self.find(pod)
        assert found is not None, f"there is no pod {pod}"
        return found

    def place(self, pod: str = "pod") -> str:
        """The node of a pod; empty: it has none."""
        node: str = self.get(pod)["spec"].get("nodeName", "")
        return node

    def phase(self, pod: str = "pod") -> str:
        found = self.find(pod)
        return found["status"]["phase"] if found else "gone"

    def condition(self, pod: str = "pod", type: str = "PodScheduled") -> JsonObject:
        conditions = self.get(pod)["status"].get("conditions", ())
        return next((condition for condition in conditions if condition["type"] == type), {})

    def patch(self, path: str, body: Any, media: str = STRATEGIC_PATCH) -> JsonObject:
        return self.ask("PATCH", path, body, media)

    def merge(self, path: str, body: Any) -> JsonObject:
        return self.patch(path, body, MERGE_PATCH)

    def events(self, reason: str = "", about: str = "") -> list[JsonObject]:
        return [
            event
            for event in self.api.store.all("events")
            if reason in ("", event["reason"]) and about in ("", event["involvedObject"].get("name"))
        ]


def _raise(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault
