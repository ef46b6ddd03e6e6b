"""What the spread constraints of a pod take in does not depend on selectors: templates that differ in these share it."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from build import a_node, a_pod
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.plugins.affinity import spread_counts
from mooring.state.scheduler_assembly import build_scheduler

ZONE = "topology.kubernetes.io/zone"


def spread(name: str, app: str, **more: Any) -> Pod:
    rule: dict[str, Any] = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    rule["labelSelector"] = {"matchLabels": {"app": app}}
    rule |= {name: more.pop(name) for name in ("nodeTaintsPolicy", "topologyKey") if name in more}
    more |= {"schedulerName": "default-scheduler", "labels": {"app": app}}
    return a_pod(name, topologySpreadConstraints=[rule], **more)


@pytest.fixture
def driver() -> Driver:
    clock = VirtualClock(START_NS)
    driver = Driver(clock, build_scheduler(config.default(), clock))
    for number in range(4):
        driver.create(a_node(f"n{number}", labels={ZONE: "ab"[number % 2], "disk": "ssd"}))
    return driver


@pytest.fixture
def found() -> Iterator[mock.Mock]:
    with mock.patch.object(spread_counts, "find_reach", wraps=spread_counts.find_reach) as find:
        yield find


def place(driver: Driver, pod: Pod) -> None:
    driver.create(pod)
    driver.settle()


def test_templates_with_other_selectors_share_it(driver: Driver, found: mock.Mock) -> None:
    for number in range(5):
        place(driver, spread(f"p{number}", f"app-{number}"))
    assert found.call_count == 1


@pytest.mark.parametrize(
    "other",
    [
        {"nodeTaintsPolicy": "Honor"},
        {"topologyKey": "kubernetes.io/hostname"},
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    ],
    ids=["policy", "label", "node selector", "tolerations"],
)
def test_what_it_depends_on_is_not_shared(driver: Driver, found: mock.Mock, other: dict[str, Any]) -> None:
    place(driver, spread("p0", "a"))
    place(driver, spread("p1", "b", **other))
    assert found.call_count == 2


def test_a_change_of_a_node_makes_it_anew(driver: Driver, found: mock.Mock) -> None:
    place(driver, spread("p0", "a"))
    driver.update(a_node("n0", labels={ZONE: "c", "disk": "ssd"}))
    place(driver, spread("p1", "b"))
    assert found.call_count == 2
    assert {pod.spec.node_name != "" for pod in driver.scheduler.core.pods.values()} == {True}
