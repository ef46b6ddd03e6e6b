"""A cluster that lives on virtual time: an API, controllers over it, and a clock that goes from one due task to the next."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster_api import an_api
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.all_controllers import cluster_services
from mooring.controllers.control_loop import Controller, ControlLoop
from mooring.kit.clock import NS_PER_S, VirtualClock

_MOST_STEPS = 10_000


def _raise(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


class LivingCluster:
    """Objects are named by their plural; those without a namespace of their own are in `default`."""

    def __init__(
        self,
        controllers: Callable[[ResourceApi], Sequence[Controller]] = cluster_services,
        tainted: bool = False,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.api = an_api(taints_new_nodes=tainted, gates=gates)
        assert isinstance(self.api.clock, VirtualClock)
        self.clock = self.api.clock
        self._loop = ControlLoop(self.api, controllers(self.api), _raise)
        self.settle()

    # ---- time

    def settle(self) -> None:
        """Do all that is due now."""
        for _ in range(_MOST_STEPS):
            due_ns = self._loop.next_ns()
            if due_ns is None or due_ns > self.clock.now_ns():
                return
            self._loop.step()
        raise AssertionError("the controllers never come to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass, with everything done when it is due."""
        end_ns = self.clock.now_ns() + round(seconds * NS_PER_S)
        self.settle()
        while (due_ns := self._loop.next_ns()) is not None and due_ns <= end_ns:
            self.clock.advance_ns(due_ns - self.clock.now_ns())
            self.settle()
        self.clock.advance_ns(end_ns - self.clock.now_ns())
        self.settle()

    # ---- objects

    def create(self, plural: str, name: str, item: JsonObject | None = None, namespace: str = "default") -> JsonObject:
        made = {**(item or {})}
        made["metadata"] = {"name": name, **made.get("metadata", {})}
        self.api.create(_resource(plural), namespace, made)
        self.settle()
        return self.find(plural, name, namespace) or {}

    def find(self, plural: str, name: str, namespace: str = "default") -> JsonObject | None:
        return self.api.find(_resource(plural), namespace, name)

    def get(self, plural: str, name: str, namespace: str = "default") -> JsonObject:
        found = self.find(plural, name, namespace)
        assert found is not None, f"there are no {plural} {name}"
        return found

    def status(self, plural: str, name: str) -> JsonObject:
        status: JsonObject = self.get(plural, name)["status"]
        return status

    def change(self, plural: str, name: str, change: Callable[[JsonObject], JsonObject], part: str = "") -> None:
        self.api.change(_resource(plural), "default", name, change, subresource=part)
        self.settle()

    def annotate(self, plural: str, name: str, **annotations: str) -> None:
        """Under our prefix: `failed="true"` is `mooring.dev/failed: "true"`."""
        marks = {f"mooring.dev/{key}": value for key, value in annotations.items()}

        def annotated(item: JsonObject) -> JsonObject:
            held = item["metadata"].get("annotations", {})
            return {**item, "metadata": {**item["metadata"], "annotations": {**held, **marks}}}

        self.change(plural, name, annotated)

    def delete(self, plural: str, name: str, how: Deletion | None = None) -> None:
        self.api.delete(_resource(plural), "default", name, how)
        self.settle()

    def events(self, reason: str) -> list[str]:
        """What was said under a reason."""
        return [event["message"] for event in self.api.store.all("events") if event["reason"] == reason]

    # ---- nodes and pods

    def node(self, name: str = "node", **item: Any) -> JsonObject:
        return self.create("nodes", name, item)

    def pod(
        self, name: str = "pod", node: str = "", annotations: dict[str, Any] | None = None, **spec: Any
    ) -> JsonObject:
        """A pod of one container, bound to the node if there is one; annotations go without their prefix."""
        labels = spec.pop("labels", {})
        meta = {"labels": labels, "annotations": {f"mooring.dev/{k}": str(v) for k, v in (annotations or {}).items()}}
        meta |= spec.pop("metadata", {})
        self.create("pods", name, {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}], **spec}})
        if node:
            self.api.bind("default", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
            self.settle()
        return self.find("pods", name) or {}

    def phase(self, pod: str = "pod") -> str:
        found = self.find("pods", pod)
        return found["status"]["phase"] if found else "gone"

    def condition(self, plural: str, name: str, type: str) -> str:
        """`status reason` of a condition; empty: there is none."""
        for condition in self.status(plural, name).get("conditions", ()):
            if condition["type"] == type:
                return f"{condition['status']} {condition.get('reason', '')}".strip()
        return ""


def _resource(plural: str) -> KindSpec:
    return next(resource for key, resource in RESOURCES.items() if key[2] == plural)
