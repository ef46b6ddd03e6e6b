"""Tolerations that compare numbers, in a whole cluster: placed, requeued when a taint changes, and evicted."""

from typing import Any

import pytest

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

GATES = {"TaintTolerationComparisonOperators": True}
PRIORITY, ERRORS = "node.example.com/priority-level", "node.example.com/error-rate"


def a_world(**levels: list[tuple[str, str, str]]) -> VirtualCluster:
    """Nodes by name, each with taints of (key, value, effect)."""
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=GATES), gates=GATES))
    for name, taints in levels.items():
        world.node(name, "4")
        set_taints(world, name, *taints)
    return world


def set_taints(world: VirtualCluster, name: str, *taints: tuple[str, str, str]) -> None:
    node = world.ask("GET", f"/api/v1/nodes/{name}")
    written = [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]
    world.ask("PUT", f"/api/v1/nodes/{name}", {**node, "spec": {**node["spec"], "taints": written}})


def tolerating(*tolerations: tuple[str, str, str], effect: str = "NoSchedule") -> dict[str, Any]:
    return {
        "tolerations": [
            {"key": key, "operator": operator, "value": value, "effect": effect} for key, operator, value in tolerations
        ]
    }


def place(world: VirtualCluster, **spec: Any) -> str:
    world.pod("p", **spec)
    world.wait(2)
    return world.place("p")


ABOVE, BELOW = (PRIORITY, "Gt", "900"), (ERRORS, "Lt", "10")


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        pytest.param([(PRIORITY, "950")], [], False, id="no toleration"),
        pytest.param([(PRIORITY, "950")], [ABOVE], True, id="above its limit"),
        pytest.param([(PRIORITY, "900")], [ABOVE], False, id="at its limit"),
        pytest.param([(ERRORS, "5")], [BELOW], True, id="below its limit"),
        pytest.param([(ERRORS, "15")], [BELOW], False, id="not below its limit"),
        pytest.param([(PRIORITY, "950"), (ERRORS, "5")], [ABOVE], False, id="one of two taints"),
        pytest.param([(PRIORITY, "950"), (ERRORS, "5")], [ABOVE, BELOW], True, id="both taints"),
        pytest.param([(PRIORITY, "10")], [(PRIORITY, "Gt", "-20")], True, id="a limit below zero"),
        pytest.param([(ERRORS, "0")], [BELOW], True, id="zero"),
        pytest.param([(ERRORS, "low")], [BELOW], False, id="a taint that is no number"),
    ],
)
def test_where_a_pod_goes(taints: list[tuple[str, str]], tolerations: list[tuple[str, str, str]], fits: bool) -> None:
    world = a_world(n=[(key, value, "NoSchedule") for key, value in taints])
    assert place(world, **tolerating(*tolerations)) == ("n" if fits else "")


def test_a_pod_that_waits_is_tried_again_when_the_taint_changes() -> None:
    world = a_world(full=[("dedicated", "special", "NoSchedule")], low=[(PRIORITY, "850", "NoSchedule")])
    assert place(world, **tolerating(ABOVE)) == ""
    set_taints(world, "low", (PRIORITY, "950", "NoSchedule"))
    world.wait(12)
    assert world.place("p") == "low"


def test_a_tolerated_level_that_is_only_preferred_is_no_worse() -> None:
    world = a_world(high=[(PRIORITY, "950", "PreferNoSchedule")], low=[(PRIORITY, "850", "PreferNoSchedule")])
    assert place(world, **tolerating(ABOVE, effect="PreferNoSchedule")) == "high"


def test_a_pod_is_evicted_when_the_level_crosses_its_limit() -> None:
    world = a_world(n=[(ERRORS, "5", "NoExecute")])
    assert place(world, **tolerating(BELOW, effect="NoExecute")) == "n"
    world.wait(60)
    assert world.get("p")["status"]["phase"] == "Running"
    set_taints(world, "n", (ERRORS, "15", "NoExecute"))
    world.wait(1)
    assert world.phase("p") == "gone"
