"""DeviceTaintRules keep claims from devices, and pods are woken when they do no longer (gate DRADeviceTaintRules)."""

from typing import Any

import pytest

from build import a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_rule, a_slice, an_ask, claiming, given
from late_claims import LateClaims
from mooring.model.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

REJECTED = "0/1 nodes are available: 1 cannot allocate all claims."
TOLERATION = {"key": "broken", "effect": "NoSchedule"}


def a_world(*items: KubeObject, **gates: bool) -> LateClaims:
    """A node with one device."""
    late = LateClaims(**{"DRADeviceTaintRules": True, **gates})
    for item in (a_node("a"), a_slice("a", a_device("d0"), node="a"), a_class(), *items):
        late.put(item)
    late.settle()
    return late


def ask_for_it(late: LateClaims, **ask: Any) -> str | None:
    """Whether a pod that claims the device gets it; else why not."""
    late.put(a_claim("c", an_ask(**ask)))
    late.put(claiming(a_pod("p", schedulerName="default-scheduler"), "c"))
    late.settle()
    return outcome(late)


def outcome(late: LateClaims) -> str | None:
    claim = late.store[ResourceClaim, "default/c"]
    assert isinstance(claim, ResourceClaim)
    return None if given(claim) == ["r0=a/d0"] else late.told["default/p"].partition(" preemption:")[0]


def wait(late: LateClaims) -> str | None:
    """For as long as a pod backs off, and less than the flush of unschedulable pods takes."""
    for _ in range(15):
        late.second()
        late.settle()
    return outcome(late)


RULES: dict[str, tuple[DeviceTaintRule, bool]] = {
    "all devices": (a_rule(), True),
    "of the driver": (a_rule(driver=DRIVER), True),
    "of another driver": (a_rule(driver="other.example.com"), False),
    "of the pool": (a_rule(pool="a"), True),
    "of another pool": (a_rule(driver=DRIVER, pool="b"), False),
    "of this name": (a_rule(device="d0"), True),
    "of another name": (a_rule(driver=DRIVER, pool="a", device="d1"), False),
    "with the effect NoExecute": (a_rule(effect="NoExecute"), True),
    "without an effect": (a_rule(effect="None"), False),
}


@pytest.mark.parametrize(("rule", "keeps_away"), RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
def test_which_devices_a_rule_taints(rule: DeviceTaintRule, keeps_away: bool, gate: bool) -> None:
    late = a_world(rule, DRADeviceTaintRules=gate)
    assert ask_for_it(late) == (REJECTED if keeps_away and gate else None)


def test_a_request_may_tolerate_the_taint() -> None:
    late = a_world(a_rule())
    assert ask_for_it(late, tolerations=[TOLERATION]) is None


def test_a_slice_that_comes_after_its_rule_is_tainted() -> None:
    late = a_world(a_rule(pool="b"))
    late.delete(ResourceSlice, "a")
    late.put(a_slice("b", a_device("d0"), node="a", pool="b"))
    assert ask_for_it(late) == REJECTED


def test_a_pod_is_woken_when_the_rule_goes() -> None:
    late = a_world(a_rule())
    assert ask_for_it(late) == REJECTED
    assert wait(late) == REJECTED
    late.delete(DeviceTaintRule, "rule")
    assert wait(late) is None


def test_a_pod_is_woken_when_the_rule_selects_other_devices() -> None:
    late = a_world(a_rule())
    assert ask_for_it(late) == REJECTED
    late.put(a_rule(device="d1"))
    assert wait(late) is None


def attempts(late: LateClaims) -> int:
    wait(late)
    return late.scheduler.attempts


def test_only_a_change_of_taints_wakes_a_pod() -> None:
    late = a_world(a_rule())
    ask_for_it(late)
    before = attempts(late)
    late.put(a_rule("other", driver="other.example.com"))
    late.put(a_rule("other", driver="third.example.com"))
    assert attempts(late) == before
    late.put(a_rule("more", device="d0", key="worn"))
    assert attempts(late) == before + 1  # Parity: any other taint will do, also one more


def test_a_pod_that_has_its_device_keeps_it() -> None:
    late = a_world()
    assert ask_for_it(late) is None
    late.put(a_rule(effect="NoExecute"))
    assert wait(late) is None
    pod = late.store[Pod, "default/p"]
    assert isinstance(pod, Pod) and pod.spec.node_name == "a"
