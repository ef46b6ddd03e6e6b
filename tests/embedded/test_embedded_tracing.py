"""The scheduler of an embedded cluster: the same traces, with spans for writes instead of requests."""

from typing import Any

import pytest

from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.drivers.traced_requests import RequestTraces
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.embedded.seeding import seed
from mooring.kit.clock import NS_PER_S, Clock, VirtualClock
from mooring.scheduler.observer import Observer
from mooring.serve.tracing import Tracing
from span_reading import RecordedSpans, about


class InMemory(Tracing):
    def __init__(self) -> None:
        self.spans = RecordedSpans()
        self.is_closed = False

    def observe(self, observer: Observer, clock: Clock) -> tuple[Observer, RequestTraces]:
        traces = self.spans.around(observer, clock)
        return traces, RequestTraces(traces, clock)

    def close(self) -> None:
        self.is_closed = True


class World:
    def __init__(self, **settings: Any) -> None:
        self.tracing = InMemory()
        self.spans = self.tracing.spans
        self.cluster = EmbeddedCluster(
            EmbeddedSettings(tracing=self.tracing, **settings), clock=VirtualClock(1_800_000_000 * NS_PER_S)
        )
        self.create(*missing_nodes(1, ()))

    def create(self, *items: dict[str, Any]) -> None:
        assert seed(self.cluster.api, list(items)) == []
        self.cluster.settle()


def a_pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def test_a_bind_and_a_status() -> None:
    world = World()
    world.create(a_pod("p", "1"), a_pod("giant", "500"))
    root = world.spans.root_of("p")
    assert about(root, "scheduler.result") == ("scheduled",)
    bind = next(span for span in world.spans.below(root) if span.name == "Bind")
    assert world.spans.names_below(bind) == ["POST pods/binding"]
    assert "PATCH pods/status" in world.spans.names_below(world.spans.root_of("giant"))
    assert world.spans.orphans() == []


def test_the_victims_of_preemption() -> None:
    world = World()
    (node,) = missing_nodes(1, ())
    cpu = str(node["status"]["allocatable"]["cpu"])
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    world.create({**kind, "metadata": {"name": "urgent"}, "value": 10}, a_pod("low", cpu))
    world.create(a_pod("high", cpu, priorityClassName="urgent"))
    first = next(r for r in world.spans.roots() if about(r, "k8s.pod.name", "scheduler.attempt") == ("high", 1))
    assert {"PATCH pods/status", "DELETE pods"} <= set(world.spans.names_below(first))


@pytest.mark.parametrize("schedules", [True, False], ids=["with a scheduler", "without"])
def test_the_cluster_closes_what_it_was_given(schedules: bool) -> None:
    world = World(schedules=schedules)
    world.create(a_pod("p", "1"))
    assert bool(world.spans.all) is schedules
    world.cluster.close()
    assert world.tracing.is_closed
