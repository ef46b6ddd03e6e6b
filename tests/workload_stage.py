"""A stage for workload controllers: an API, the controllers over it, a virtual clock, and a kubelet played by hand."""

from collections.abc import Callable, Iterable
from typing import Any

from cluster_api import an_api
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.all_controllers import workload_controllers
from mooring.controllers.control_loop import ControlLoop
from mooring.kit.clock import NS_PER_S, VirtualClock

Json = dict[str, Any]
NAMESPACE = "default"


def resource(plural: str) -> KindSpec:
    return next(found for found in RESOURCES.values() if found.plural == plural)


PODS = resource("pods")


def a_template(labels: dict[str, str], image: str = "shop:1", **spec: Any) -> Json:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def a_workload(name: str, replicas: int = 1, image: str = "shop:1", **spec: Any) -> Json:
    """A workload with replicas; its pods are labelled `app: <name>`."""
    labels = {"app": name}
    held = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": a_template(labels, image)}
    return {"metadata": {"name": name}, "spec": {**held, **spec}}


def raise_fault(text: str, fault: Exception | None) -> None:
    """A controller's own fault ends the test."""
    raise AssertionError(text) from fault


class Stage:
    """Time passes only in `run` and `wait`."""

    def __init__(self, api: ResourceApi | None = None) -> None:
        """With an API that is there already, its controllers start anew."""
        self.api = api or an_api()
        assert isinstance(self.api.clock, VirtualClock)
        self.clock = self.api.clock
        self.controllers = workload_controllers(self.api)
        self.loop = ControlLoop(self.api, self.controllers, raise_fault)

    # ---- what users do

    def create(self, plural: str, item: Json) -> Json:
        return self.api.create(resource(plural), NAMESPACE, item)

    def get(self, plural: str, name: str) -> Json:
        return self.api.get(resource(plural), NAMESPACE, name)

    def all(self, plural: str) -> list[Json]:
        return sorted(self.api.store.all(resource(plural).storage), key=lambda item: str(item["metadata"]["name"]))

    def edit(self, plural: str, name: str, **spec: Any) -> Json:
        """Set fields of the spec."""
        return self.change(plural, name, lambda held: {**held, "spec": {**held["spec"], **spec}})

    def change(self, plural: str, name: str, change: Callable[[Json], Json]) -> Json:
        return self.api.change(resource(plural), NAMESPACE, name, change)

    def set_image(self, plural: str, name: str, image: str) -> None:
        held = self.get(plural, name)["spec"]["template"]
        containers = [{"name": "main", "image": image}]
        self.edit(plural, name, template={**held, "spec": {**held["spec"], "containers": containers}})

    def delete(self, plural: str, name: str, grace_s: int | None = None) -> None:
        self.api.delete(resource(plural), NAMESPACE, name, Deletion(grace_s=grace_s))

    # ---- what users see

    def status(self, plural: str, name: str) -> Json:
        found: Json = self.get(plural, name).get("status", {})
        return found

    def condition(self, plural: str, name: str, type: str) -> Json:
        held = self.status(plural, name).get("conditions", [])
        return next((condition for condition in held if condition["type"] == type), {})

    def pods(self) -> list[Json]:
        return self.all("pods")

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def images(self) -> list[str]:
        """Of the pods that are not on their way out, sorted."""
        active = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        return sorted(pod["spec"]["containers"][0]["image"] for pod in active)

    def events(self) -> list[tuple[str, str]]:
        return [(event["reason"], event["message"]) for event in self.api.store.all("events")]

    # ---- the passing of time

    def run(self, seconds: float = 1.0) -> None:
        """Let the controllers work until this much time has passed."""
        end_ns = self.clock.now_ns() + int(seconds * NS_PER_S)
        for _ in range(100_000):
            while self.loop.step():
                pass
            next_ns = self.loop.next_ns()
            if next_ns is None or next_ns > end_ns:
                self.clock.advance_ns(max(0, end_ns - self.clock.now_ns()))
                return
            self.clock.advance_ns(max(0, next_ns - self.clock.now_ns()))
        raise AssertionError("the controllers never come to rest")

    def look_again(self, name: str) -> int:
        """Have every controller look at what has this name. Returns how many writes that made."""
        version = self.api.store.version
        for controller in self.controllers:
            controller.sync((NAMESPACE, name))
        return self.api.store.version - version

    # ---- what schedulers and kubelets do

    def place(self, pod: Json, node: str = "n1") -> Json:
        name = pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            self.api.bind(NAMESPACE, name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
        return self.get("pods", name)

    def start(self, pod: Json, node: str = "n1", ready: bool = True) -> None:
        """On its node the pod runs, and is ready or not."""
        placed = self.place(pod, node)
        now = self.api.now()
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        self.api.put_status(PODS, placed, {"phase": "Running", "startTime": now, "conditions": [condition]})

    def end(self, pod: Json, phase: str = "Succeeded") -> None:
        placed = self.place(pod)
        self.api.put_status(PODS, placed, {**placed["status"], "phase": phase, "conditions": []})

    def start_all(self) -> None:
        for pod in self.pods():
            is_new = pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]
            if is_new:
                self.start(pod)

    def reap(self) -> int:
        """Remove pods whose time has come. Returns how many."""
        ending = [pod for pod in self.pods() if "deletionTimestamp" in pod["metadata"]]
        for pod in ending:
            self.delete("pods", pod["metadata"]["name"], grace_s=0)
        return len(ending)

    def live(self, rounds: int = 30) -> None:
        """Controllers and kubelets take turns until nothing is left to do."""
        for _ in range(rounds):
            self.run()
            self.start_all()
            self.reap()
        self.run()

    def present(self, pods: Iterable[Json]) -> list[str]:
        """Which of these pods are still there and not on their way out."""
        held = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        found = [held.get(pod["metadata"]["uid"]) for pod in pods]
        return [pod["metadata"]["name"] for pod in found if pod and "deletionTimestamp" not in pod["metadata"]]
