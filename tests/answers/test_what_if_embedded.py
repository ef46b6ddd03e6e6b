"""Answers on a dump equal what happens when the change is really made: on the embedded cluster, with its controllers,
kubelets and scheduler, on virtual time.

Replacements have other names there, so pods are compared by workload and node. Nodes are of different sizes, so that the
scheduler has one best node; where two are equally good, it may choose either.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from asking import NODES, PODS, STRATEGIC_PATCH
from asking import ask as request
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, what_if
from mooring.api.kinds import KINDS, RESOURCES, WORKLOADS
from mooring.inputs.loaded_cluster import LoadedCluster, load
from virtual_cluster import VirtualCluster
from what_if_building import ZONE

pytestmark = pytest.mark.slow

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
Places = Counter[tuple[str, str]]
"""How many pods of each workload are on each node; the empty node stands for pending."""


class RealCluster(VirtualCluster):
    """The embedded cluster, changed by requests as kubectl makes them."""

    def zone_node(self, name: str, cpu: str, labels: dict[str, str] | None = None) -> None:
        self.node(name, cpu, metadata={"name": name, "labels": {ZONE: name[0], **(labels or {})}})

    def deployment(self, name: str, replicas: int, cpu: str, **spec: Any) -> None:
        self.ask("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": _spec(name, cpu, replicas=replicas, **spec)})

    def daemon_set(self, name: str) -> None:
        self.ask("POST", DAEMON_SETS, {"metadata": {"name": name}, "spec": _spec(name, "100m")})

    def budget(self, name: str, **spec: Any) -> None:
        wanted = {"selector": {"matchLabels": {"app": name}}, **spec}
        self.ask("POST", BUDGETS, {"metadata": {"name": name}, "spec": wanted})

    def scale(self, name: str, replicas: int) -> None:
        self.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})
        self.wait(60)

    def drain(self, *names: str) -> set[str]:
        """As `kubectl drain`: cordon, evict, ask again what a budget refuses. Returns the workloads that stay blocked."""
        for name in names:
            self.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}}, STRATEGIC_PATCH)
        waiting = [pod["metadata"]["name"] for name in names for pod in self.on(name) if app_of(pod) != "agent"]
        for _ in range(30):
            waiting = [name for name in waiting if not self._evicted(name)]
            self.wait(40)  # longer than a pod takes to end
        return {app_of(self.get(name)) for name in waiting}

    def _evicted(self, name: str) -> bool:
        reply = request(self.api, "POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
        assert reply.code in (201, 429), reply.body
        return reply.code == 201

    def on(self, node: str) -> list[dict[str, Any]]:
        return [pod for pod in self.api.store.all("/pods") if pod["spec"].get("nodeName") == node]

    def on_no_node(self) -> list[dict[str, Any]]:
        return [pod for pod in self.api.store.all("/pods") if not pod["spec"].get("nodeName")]

    def places(self) -> Places:
        return Counter((app_of(pod), pod["spec"].get("nodeName", "")) for pod in self.api.store.all("/pods"))

    def load(self) -> LoadedCluster:
        """A dump, as a question reads it."""
        kinds = {spec.kind for spec in (*KINDS.values(), *WORKLOADS.values())}
        return load(
            [
                {"apiVersion": spec.api_version, "kind": spec.kind, **item}
                for spec in dict.fromkeys(RESOURCES.values())
                if spec.kind in kinds
                for item in self.api.store.all(spec.storage)
            ]
        )


def _spec(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
    pod |= {key: more.pop(key) for key in ("priorityClassName",) if key in more}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    return {"selector": {"matchLabels": {"app": name}}, "template": template, **more}


def app_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["app"])


def predicted(loaded: LoadedCluster, *changes: Change) -> tuple[WhatIf, Places]:
    """The answer, and where it says that pods are in the end."""
    answer = what_if(loaded, changes)
    apps = {pod.key: pod.labels["app"] for pod in loaded.pods()}
    return answer, Counter((apps.get(key) or _app(key), node) for key, node in answer.after_nodes.items())


def _app(key: str) -> str:
    """The workload of a new pod, by its name."""
    return key.partition("/")[2].split("-")[0]


def two_zones() -> RealCluster:
    cluster = RealCluster()
    for name, cpu in (("a-1", "5"), ("a-2", "7"), ("b-1", "11"), ("b-2", "17")):
        cluster.zone_node(name, cpu)
    return cluster


def test_pods_of_a_drained_zone() -> None:
    cluster = two_zones()
    cluster.daemon_set("agent")
    cluster.deployment("web", 8, "1500m")
    cluster.deployment("api", 5, "2")
    cluster.budget("web", maxUnavailable=2)
    cluster.budget("api", minAvailable="60%")
    cluster.wait(60)
    answer, places = predicted(cluster.load(), ("drain", f"{ZONE}=a"))
    assert answer.moved and not answer.blocked, "there is something to compare"
    assert cluster.drain("a-1", "a-2") == set()
    assert cluster.places() == places


def test_pods_of_a_drained_zone_that_do_not_fit_into_the_other() -> None:
    cluster = two_zones()
    cluster.deployment("web", 11, "3")
    cluster.wait(60)
    answer, places = predicted(cluster.load(), ("drain", f"{ZONE}=a"))
    assert answer.pending and not answer.fits
    cluster.drain("a-1", "a-2")
    assert cluster.places() == places
    messages = {each.message for each in answer.pending}
    real = [cluster.condition(pod["metadata"]["name"])["message"] for pod in cluster.on_no_node()]
    assert len(real) == len(answer.pending) and {*real} == messages


def test_a_drain_that_a_budget_blocks() -> None:
    cluster = two_zones()
    cluster.deployment("web", 11, "3")
    cluster.budget("web", maxUnavailable=1)
    cluster.wait(60)
    answer, places = predicted(cluster.load(), ("drain", f"{ZONE}=a"))
    assert answer.blocked and len(answer.pending) == 1
    assert cluster.drain("a-1", "a-2") == {"web"}
    assert cluster.places() == places
    (budget,) = cluster.api.store.all("policy/poddisruptionbudgets")
    status = budget["status"]
    assert (
        answer.blocked[0].message == f"needs {status['desiredHealthy']} healthy pods and has {status['currentHealthy']}"
    )


def test_a_node_that_is_added() -> None:
    cluster = two_zones()
    cluster.daemon_set("agent")
    cluster.deployment("web", 18, "3")
    cluster.wait(60)
    loaded = cluster.load()
    answer, places = predicted(loaded, ("add-nodes", "1=b-2"))
    assert answer.placed and answer.pending
    cluster.zone_node("b-2-new-1", "17")
    cluster.wait(60)
    assert cluster.places() == places


@pytest.mark.parametrize("replicas", [12, 26, 3, 0], ids=lambda replicas: f"{replicas} pods")
def test_a_deployment_that_is_scaled(replicas: int) -> None:
    cluster = two_zones()
    cluster.deployment("web", 8, "1500m")
    cluster.deployment("api", 3, "2")
    cluster.wait(60)
    answer, places = predicted(cluster.load(), ("scale", f"Deployment/web={replicas}"))
    cluster.scale("web", replicas)
    assert bool(answer.pending) == (replicas == 26)
    assert cluster.places() == places


def test_pods_that_are_preempted_by_a_deployment_that_grows() -> None:
    cluster = two_zones()
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.ask("POST", path, {"metadata": {"name": "high"}, "value": 1000})
    cluster.deployment("low", 9, "4")
    cluster.deployment("high", 1, "3", priorityClassName="high")
    cluster.wait(60)
    answer, places = predicted(cluster.load(), ("scale", "Deployment/high=4"))
    assert answer.preempted
    cluster.scale("high", 4)
    assert cluster.places() == places


def _drain(cluster: RealCluster) -> None:
    cluster.drain("a-1", "a-2")


def _grow(cluster: RealCluster) -> None:
    cluster.scale("red", 9)


def _add(cluster: RealCluster) -> None:
    cluster.zone_node("b-1-new-1", "11")
    cluster.wait(60)


CHANGES: list[tuple[Change, Callable[[RealCluster], None]]] = [
    (("drain", f"{ZONE}=a"), _drain),
    (("scale", "Deployment/red=9"), _grow),
    (("add-nodes", "1=b-1"), _add),
]


@pytest.mark.parametrize("seed", range(12))
def test_any_cluster_and_any_order_of_changes(seed: int) -> None:
    """How many pods of each workload are placed and pending; nodes may differ, because two may be equally good."""
    dice = random.Random(seed)
    cluster = two_zones()
    for name in ("red", "green", "blue"):
        cluster.deployment(name, dice.randint(1, 8), dice.choice(("500m", "1", "2500m")))
        if dice.random() < 0.6:
            rule = dice.choice(({"maxUnavailable": 1}, {"minAvailable": 1}, {"maxUnavailable": "30%"}))
            cluster.budget(name, **rule)
    cluster.wait(60)
    chosen = dice.sample(CHANGES, dice.randint(1, 3))
    answer, places = predicted(cluster.load(), *(change for change, _ in chosen))
    for _, make in chosen:
        make(cluster)
    assert _by_state(cluster.places()) == _by_state(places), (answer, chosen)


def _by_state(places: Places) -> Counter[tuple[str, bool]]:
    counted: Counter[tuple[str, bool]] = Counter()
    for (app, node), number in places.items():
        counted[app, bool(node)] += number
    return counted
