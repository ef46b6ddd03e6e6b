"""A cluster with pod groups on a virtual clock: nodes and pods are told by name and cpu, and who is where can be read."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from build import a_node, a_pod
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.model.workloads import CompositePodGroup, PodGroup
from mooring.plugins import in_tree
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler

GROUP_GATES = {"GenericWorkload": True}


def a_group(
    name: str = "gang", min_count: int | None = None, namespace: str = "default", *, uid: str = "", **spec: Any
) -> PodGroup:
    """Without `min_count` its policy is basic."""
    policy = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    written = {"metadata": metadata, "spec": {"schedulingPolicy": policy, **spec}}
    return msgspec.convert(written, PodGroup)


def a_composite(name: str, min_count: int | None = None, parent: str | None = None, **spec: Any) -> CompositePodGroup:
    """Without `min_count` its policy is basic."""
    policy = {"basic": {}} if min_count is None else {"gang": {"minGroupCount": min_count}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    written = {"metadata": metadata, "spec": {"schedulingPolicy": policy, **spec}}
    if parent is not None:
        written["spec"]["parentCompositePodGroupName"] = parent
    return msgspec.convert(written, CompositePodGroup)


def a_member(name: str, group: str = "gang", **more: Any) -> Pod:
    more = {"cpu": "1", "schedulerName": "default-scheduler", **more}
    metadata = {"uid": f"uid-{name}", **more.pop("metadata", {})}
    return a_pod(name, schedulingGroup={"podGroupName": group}, metadata=metadata, **more)


class GangWorld:
    """After each step the scheduler has nothing left to do at that moment, and its invariants hold."""

    def __init__(
        self,
        gates: Mapping[str, bool] | None = None,
        registry: Registry | None = None,
        extenders: Sequence[Mapping[str, Any]] = (),
        enabled: Sequence[str] = (),
    ) -> None:
        """`enabled` are names of plugins of the registry that the profile has beside its own."""
        gates = GROUP_GATES if gates is None else gates
        self.clock = VirtualClock(START_NS)
        self.metrics = SchedulerMetrics(self.clock)
        self.faults: list[str] = []
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled]}}
        profiles = [{"schedulerName": "default-scheduler", "plugins": plugins}]
        self.scheduler = build_scheduler(
            config.from_object({**head, "extenders": list(extenders), "profiles": profiles}, feature_gates=gates),
            self.clock,
            registry or in_tree(),
            listeners=SchedulerListeners(
                report=lambda text, fault: self.faults.append(f"{text}: {fault}"), observer=self.metrics
            ),
            gates=gates,
        )
        self.core = self.scheduler.core
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)

    def node(self, name: str, cpu: str) -> None:
        self.driver.create(a_node(name, cpu=cpu))
        self.settle()

    def group(self, name: str = "gang", min_count: int | None = None, **more: Any) -> None:
        self.driver.create(a_group(name, min_count, **more))
        self.settle()

    def members(self, *names: str, group: str = "gang", **more: Any) -> None:
        """They come all at once, before any of them can be tried."""
        for name in names:
            self.driver.create(a_member(name, group, **more))
        self.settle()

    def pod(self, name: str, **more: Any) -> None:
        self.driver.create(a_pod(name, schedulerName="default-scheduler", metadata={"uid": f"uid-{name}"}, **more))
        self.settle()

    def delete(self, name: str) -> None:
        self.driver.delete("Pod", f"default/{name}")
        self.settle()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.driver.advance_second()
            self.settle()

    def settle(self) -> None:
        assert any(self.driver.attempt_once() is None for _ in range(100)), "the scheduler never comes to rest"
        self.driver.settle()
        assert self.scheduler.check() == []
        assert self.faults == []

    # ---- what can be seen

    def where(self) -> dict[str, str]:
        """The node of each pod that has one."""
        return {pod.name: pod.spec.node_name for pod in self.driver.pods() if pod.spec.node_name}

    def place(self, name: str) -> str | None:
        """Where in the queue the pod waits."""
        return self.core.queue.where(f"default/{name}")

    def held_milli(self) -> dict[str, int]:
        """What all pods together hold on each node, seen or assumed."""
        nodes = self.core.cluster.nodes
        index = nodes.amounts.resource_book["cpu"]
        return {name: int(nodes.amounts.requested[index, row]) for name, row in nodes.row_book.items()}

    def said(self, name: str) -> str:
        """Why the pod is not scheduled, as its status says."""
        pod = self.driver.objects["Pod", f"default/{name}"]
        assert isinstance(pod, Pod)
        found = [c.message or "" for c in pod.status.conditions or () if c.type == "PodScheduled"]
        return found[0] if found else ""

    def gate(self, name: str) -> str:
        entry = self.core.queue.get(f"default/{name}")
        assert entry is not None
        return entry.gating_message

    def group_says(self, name: str = "gang") -> list[tuple[str, str, str | None, str | None]]:
        group = self.driver.objects["PodGroup", f"default/{name}"]
        assert isinstance(group, PodGroup)
        return [(c.type, c.status, c.reason, c.message) for c in group.status.conditions or ()]

    def counted(self, metric: str) -> dict[tuple[str, ...], float]:
        """The values of a counter by labels."""
        family = self.metrics.registry.counter(f"scheduler_{metric}")
        return {labels: series.value for labels, series in family.items()}
