"""A small cluster with a bit of everything, at rest, and self-checks of its scheduler on virtual time."""

from typing import Any

import msgspec

from build import a_node, a_pod
from build_storage import a_claim, a_class, a_csi_node, a_volume, using
from device_building import a_claim as a_device_claim
from device_building import a_class as a_device_class
from device_building import a_device, a_slice, an_allocation
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework.config import default
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import Input
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.check import SelfCheck
from mooring.state.check.object_differences import StateDifference
from mooring.state.scheduler_assembly import build_scheduler

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GATES = {"GenericWorkload": True}


class CheckedCluster:
    """A scheduler with its driver. `check` runs a whole self-check; what `begun` returns goes on slice by slice."""

    def __init__(self, **gates: bool) -> None:
        self.gates = gates or None
        self.clock = VirtualClock(START_NS)
        self.reports: list[str] = []
        self.scheduler = self.a_scheduler()
        self.core = self.scheduler.core
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)

    def a_scheduler(self) -> Scheduler:
        def report(text: str, fault: Exception | None) -> None:
            self.reports.append(f"{text}: {fault}")

        return build_scheduler(
            default(feature_gates=self.gates), self.clock, listeners=SchedulerListeners(report=report), gates=self.gates
        )

    @property
    def nodes(self) -> Any:
        return self.scheduler.cluster.nodes

    def put(self, *items: KubeObject) -> None:
        for item in items:
            self.driver.create(item)
        self.driver.settle()

    def find(self, name: str, namespace: str = "default") -> Pod:
        pod = self.driver.objects["Pod", f"{namespace}/{name}"]
        assert isinstance(pod, Pod)
        return pod

    def begin(self) -> SelfCheck:
        """A check that follows all inputs from now on."""
        check = SelfCheck(self.scheduler, self.a_scheduler, lambda: [self.driver.objects])
        handle = type(self.scheduler).handle

        def both(input: Input) -> None:
            try:
                handle(self.scheduler, input)
            finally:
                check.follow(input)

        vars(self.scheduler)["handle"] = both  # the driver then tells both
        return check

    def check(self, repairs: bool = False) -> list[StateDifference]:
        """A check from beginning to end; meanwhile only time passes, and nothing flushes pods."""
        check = self.begin()
        while (pause_s := check.work(lambda: False)) is not None:
            self.clock.advance_ns(round(pause_s * NS_PER_S))
        if repairs:
            outcomes = check.mend()
            assert outcomes is not None
            assert [fault for _, fault in outcomes if fault is not None] == []
        return check.differences


def a_busy_cluster() -> CheckedCluster:
    """Four nodes in two zones, with ports, volumes, devices, images, spreading, anti-affinity, and pods that fit nowhere."""
    cluster = CheckedCluster()
    for number in range(4):
        labels = {HOST: f"n{number}", ZONE: "ab"[number % 2], "disk": "ssd"}
        cluster.put(a_node(f"n{number}", labels=labels, images={"web": 1 << 28}, allocatable={"example.com/chip": 4}))
    cluster.put(a_class(), a_csi_node("n0", csi_example_com=5), a_device_class())
    cluster.put(a_slice("slice", a_device("gpu-0"), a_device("gpu-1"), node="n0"))
    cluster.put(a_device_claim("chip", status={"allocation": an_allocation("n0/gpu-0", node="n0")}))
    bound = {"namespace": "default", "name": "data", "uid": "uid-data"}
    cluster.put(a_volume("pv", claim=bound, phase="Bound"), a_claim("data", volume="pv"), a_volume("spare"))
    cluster.put(*_pods())
    return cluster


def _pods() -> list[Pod]:
    selector = {"matchLabels": {"app": "web"}}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    apart = [{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}]
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    chips = {"example.com/chip": "1"}
    return [
        *(a("web-" + str(i), cpu="500m", labels={"app": "web"}, topologySpreadConstraints=[spread]) for i in range(4)),
        *(a("db-" + str(i), cpu="500m", labels={"app": "db"}, affinity=away) for i in range(2)),
        a("listens", cpu="100m", host_ports=[80], image="web"),
        a("stores", cpu="100m", volumes=using("data")),
        a("computes", cpu="100m", requests=chips),
        a("big", cpu="100", labels={"app": "web"}),
        a("big-too", cpu="100"),
        a("gated", cpu="100m", schedulingGates=[{"name": "later"}]),
    ]


def a(name: str, **more: Any) -> Pod:
    """A pod of the default scheduler, with a uid of its own."""
    return a_pod(name, metadata={"uid": f"uid-{name}"}, **{"schedulerName": "default-scheduler", **more})


def with_version(item: KubeObject, version: str) -> KubeObject:
    metadata = msgspec.structs.replace(item.metadata, resource_version=version)
    return (
        Pod(metadata, item.spec, item.status)
        if isinstance(item, Pod)
        else msgspec.structs.replace(item, metadata=metadata)
    )
