"""v1.37, 16: what must be free on the node of a pod whose resize was deferred, against a plain loop over its requests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework import config
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.contract.status import Code, Rejection, curable, final
from mooring.model.pod import Pod
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import NoFit
from mooring.state.scheduler_assembly import build_runners

GATES = {"InPlacePodVerticalScalingSchedulerPreemption": True}
CHIP = "example.com/chip"
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def resized(cpu: int = 0, chips: int = 0, name: str = "resized") -> Pod:
    requests = {"cpu": f"{cpu}m"} | ({CHIP: str(chips)} if chips else {})
    return a_pod(name, requests=requests, nodeName="n", metadata={"uid": name}, status=DEFERRED, priority=10)


def other(cpu: int = 0, chips: int = 0, name: str = "other", **more: Any) -> Pod:
    requests = {"cpu": f"{cpu}m", CHIP: str(chips)}
    return a_pod(name, requests=requests, nodeName="n", metadata={"uid": name}, **more)


def a_world(cpu: int, chips: int, pods: int, *held: Pod) -> Cluster:
    cluster = Cluster(GATES)
    cluster.put(a_node("n", cpu=f"{cpu}m", pods=pods, allocatable={CHIP: str(chips)}))
    cluster.put(a_node("far"))
    for pod in held:
        cluster.put(pod)
    return cluster


def verdict(pod: Pod, cluster: Cluster) -> Rejection | None:
    """What the filters say of the pod's node; None: it passes."""
    (runner,) = build_runners(config.default(feature_gates=GATES), gates=GATES).values()
    decision = decide(runner, pod, cluster, DecideOptions(explain=True))
    if not isinstance(decision, NoFit):
        return None
    assert decision.details is not None
    found = decision.details.rejected["n"]
    return Rejection(found.reasons, found.code)


ROWS: dict[str, tuple[Pod, tuple[int, int, int], list[Pod], Rejection | None]] = {
    "its node counts all of it": (resized(300), (300, 0, 9), [resized(300)], None),
    "its node counts all of it, and has less than nothing": (
        resized(300),
        (300, 0, 9),
        [resized(300), other(1)],
        curable("Insufficient cpu"),
    ),
    "its node counts less, and the rest is free": (resized(300), (300, 0, 9), [resized(100)], None),
    "its node counts less, and the rest is not free": (
        resized(300),
        (300, 0, 9),
        [resized(100), other(1)],
        curable("Insufficient cpu"),
    ),
    "its node counts more": (resized(100), (300, 0, 9), [resized(300)], None),
    "its node does not count it": (resized(300), (300, 0, 9), [other(1)], curable("Insufficient cpu")),
    "it requests more than the node has": (resized(400), (300, 0, 9), [resized(400)], final("Insufficient cpu")),
    "an extended resource that did not change is not looked at": (
        resized(1, 2),
        (300, 1, 9),
        [resized(1, 2), other(0, 4)],
        None,
    ),
    "an extended resource is hopeless by what is requested beyond": (
        resized(1, 4),
        (300, 3, 9),
        [resized(1, 2)],
        curable(f"Insufficient {CHIP}"),
    ),
    "no eviction gives what is requested beyond": (
        resized(1, 9),
        (300, 3, 9),
        [resized(1, 2)],
        final(f"Insufficient {CHIP}"),
    ),
    "the number of pods counts one more": (resized(300), (300, 0, 1), [resized(300)], curable("Too many pods")),
    "a pod that requests nothing": (resized(), (300, 0, 9), [resized(), other(900)], None),
}


@pytest.mark.parametrize(("pod", "node", "held", "said"), ROWS.values(), ids=ROWS.keys())
def test_v137_16_what_must_be_free(
    pod: Pod, node: tuple[int, int, int], held: list[Pod], said: Rejection | None
) -> None:
    assert verdict(pod, a_world(*node, *held)) == said


amounts = st.integers(0, 4)


@given(
    wanted=st.tuples(amounts, amounts),
    counted=st.none() | st.tuples(amounts, amounts),
    node=st.tuples(amounts, amounts, st.integers(1, 3)),
    beside=st.tuples(amounts, amounts),
)
def test_v137_16_its_plain_twin(
    wanted: tuple[int, int], counted: tuple[int, int] | None, node: tuple[int, int, int], beside: tuple[int, int]
) -> None:
    held = [other(*beside)] + ([resized(*counted)] if counted is not None else [])
    full = len(held) + 1 > node[2]
    reasons, is_hopeless = ["Too many pods"] if full else [], False
    for place, name in enumerate(("cpu", CHIP)):
        more = max(wanted[place] - (counted or (0, 0))[place], 0)
        free = node[place] - beside[place] - (counted or (0, 0))[place]
        is_looked_at = wanted[place] > 0 and (name == "cpu" or more > 0)
        if is_looked_at and more > free:
            reasons.append(f"Insufficient {name}")
            is_hopeless = is_hopeless or (wanted[place] if name == "cpu" else more) > node[place]
    code = Code.UnschedulableAndUnresolvable if is_hopeless else Code.Unschedulable
    said = Rejection(tuple(reasons), code) if reasons else None
    assert verdict(resized(*wanted), a_world(*node, *held)) == said


def test_v137_16_preemption_tries_its_node_alone() -> None:
    """The sums of a dry run that serves other pods of the shape must not be used."""
    low = [other(100, name=f"low-{number}", priority=0) for number in range(3)]
    cluster = a_world(500, 0, 9, resized(300), *low)
    (runner,) = build_runners(config.default(feature_gates=GATES), gates=GATES).values()
    plugin = runner.profile.plugin("DefaultPreemption")
    decision = decide(runner, resized(300), cluster, DecideOptions())
    assert isinstance(plugin, DefaultPreemption) and isinstance(decision, NoFit)
    assert isinstance(decision.failure, RejectedAttempt)
    findings = plugin.search(decision.failure)
    assert [pod.name for pod in findings.victims(0)] == ["low-2"]
    assert len(findings) == 1
