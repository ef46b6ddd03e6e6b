"""Self-checks of an embedded cluster on virtual time, with controllers, volumes, devices, images and preemption."""

from random import Random
from typing import Any

import pytest

from how_many import costly_examples
from mooring.kit.clock import NS_PER_S
from mooring.state.check.check import SelfCheck
from virtual_cluster import VirtualCluster

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
JsonObject = dict[str, Any]
MOST_PODS = 40
"""Pods that fit nowhere would pile up over an hour, and each check asks about all of them."""


class Bustle:
    """A cluster in which workloads grow and shrink, and nodes come, change and go; checks go on all the time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = VirtualCluster()
        self._check: SelfCheck | None = None
        self._paused_until_ns = 0
        self._names = 0
        self.checks = 0
        self.found: list[str] = []
        for _ in range(4):
            self.add_node()
        self._create("/apis/storage.k8s.io/v1/storageclasses", _CLASS)
        self._create("/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        self._create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
        self._create(DEPLOYMENTS, _workload("web", {"containers": [_container("500m", image="web")]}))
        storage = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local"}
        template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], **storage}}
        mounting = {"containers": [_container("100m")]}
        self._create(SETS, _workload("db", mounting, volumeClaimTemplates=[template], serviceName="db"))

    def _create(self, path: str, body: JsonObject) -> None:
        self.cluster.ask("POST", path, body)

    def _name(self, what: str) -> str:
        self._names += 1
        return f"{what}-{self._names}"

    # ---- what happens

    def add_node(self) -> None:
        name = self._name("node")
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": self.random.choice("ab")}
        images = [{"names": [image], "sizeBytes": 1 << 29} for image in self.random.sample(["web", "job", "db"], 2)]
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        status = {"capacity": amounts, "allocatable": amounts, "images": images}
        self._create(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        devices = [{"name": f"gpu-{number}"} for number in range(2)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": name, "devices": devices}
        self._create("/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def remove_node(self) -> None:
        names = self._all("/nodes")
        if len(names) > 3:
            self.cluster.ask("DELETE", f"{NODES}/{self.random.choice(names)}")

    def cordon(self) -> None:
        body = {"spec": {"unschedulable": self.random.random() < 0.3}}
        self.cluster.merge(f"{NODES}/{self.random.choice(self._all('/nodes'))}", body)

    def scale(self) -> None:
        path = self.random.choice([f"{DEPLOYMENTS}/web", f"{SETS}/db"])
        self.cluster.merge(path, {"spec": {"replicas": self.random.randint(0, 12)}})

    def add_pod(self) -> None:
        """A pod that runs for a while, with a priority, a port, or a term."""
        choice = self.random.choice
        labels = {"app": choice("abc")}
        spec: JsonObject = {"containers": [_container(choice(["500m", "1", "3", "9"]), image="job")]}
        if self.random.random() < 0.3:
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": choice([80, 81])}]
        if self.random.random() < 0.3:
            term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        seconds = {"mooring.dev/run-seconds": str(self.random.randint(5, 90))}
        metadata = {"name": self._name("pod"), "labels": labels, "annotations": seconds}
        self._create(PODS, {"metadata": metadata, "spec": {**spec, **choice([{}, {}, {"priorityClassName": "high"}])}})

    def add_device_pod(self) -> None:
        name = self._name("gpu-pod")
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        self._create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
        spec = {"containers": [_container("100m")], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        seconds = {"mooring.dev/run-seconds": str(self.random.randint(5, 60))}
        self._create(PODS, {"metadata": {"name": name, "annotations": seconds}, "spec": spec})

    def remove_pod(self) -> None:
        if names := self._all("/pods"):
            self.cluster.ask("DELETE", f"{PODS}/{self.random.choice(names)}")

    def _all(self, storage: str) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.cluster.api.store.all(storage))

    def happen(self) -> None:
        """The next thing, and then some time."""
        often = [self.add_pod] * 4 + [self.remove_pod, self.scale, self.add_device_pod, self.cordon]
        self.random.choice([*often, *often, self.add_node, self.remove_node])()
        if len(self._all("/pods")) > MOST_PODS:
            self.remove_pod()
        self.work()
        for _ in range(self.random.randint(1, 4)):
            self.cluster.wait(self.random.choice([0.2, 1, 3]))
            self.work()

    # ---- checks

    def work(self) -> None:
        cluster, now_ns = self.cluster.cluster, self.cluster.clock.now_ns()
        if now_ns < self._paused_until_ns:
            return
        if self._check is None:
            checked = cluster.checked
            self._check = SelfCheck(checked.scheduler, checked.make, checked.known)
            cluster.follow(self._check.follow)
        # A check takes some 150 steps: it spans several changes most of the time.
        left = [self.random.randint(5, 150)]

        def is_over() -> bool:
            left[0] -= 1
            return left[0] <= 0

        pause_s = self._check.work(is_over)
        if pause_s is None:
            self.checks += 1
            self.found += [str(each) for each in self._check.differences]
            self._check = None
        else:
            self._paused_until_ns = now_ns + round(pause_s * NS_PER_S)


_CLASS: JsonObject = {
    "metadata": {"name": "local"},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _container(cpu: str, image: str = "db") -> JsonObject:
    return {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}


def _workload(name: str, spec: JsonObject, **more: Any) -> JsonObject:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": 3, "selector": selector, "template": template, **more}}


def _run(seed: int, seconds: int) -> Bustle:
    bustle = Bustle(seed)
    began_ns = bustle.cluster.clock.now_ns()
    while bustle.cluster.clock.now_ns() < began_ns + seconds * NS_PER_S:
        bustle.happen()
        assert bustle.found == []
    return bustle


def test_checks_find_nothing_in_a_busy_cluster() -> None:
    assert _run(1, 150).checks > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_checks_find_nothing_in_a_busy_hour(seed: int) -> None:
    seconds = costly_examples(3600)
    assert _run(seed, seconds).checks > seconds / 36
