"""Pods one by one: the decisions are those of single attempts, and pods that do not fit are given up."""

from typing import Any

import pytest

from build import a_node
from build import a_pod as a_built_pod
from mooring.framework import config
from mooring.framework.contract.plain import PlainPlugin
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.ties import by_seed
from mooring.sim.scenario import AttemptFailed, OneByOne, Outcome, Placer
from mooring.state.scheduler_assembly import all_plugins


def a_pod(name: str, **fields: Any) -> Pod:
    return a_built_pod(name, **{"schedulerName": "default-scheduler", **fields})


NODES = [a_node(f"n-{i}", cpu=str(2 + i % 3), memory="8Gi") for i in range(5)]
PODS = [a_pod(f"p-{i}", cpu=f"{300 + 170 * (i % 5)}m", memory="256Mi") for i in range(30)]


def test_pods_go_where_single_attempts_place_them() -> None:
    placing, placer = OneByOne(NODES, config.default()), Placer(config.default(), DecideOptions())
    for item in (*NODES, *PODS):
        placer.put(item)
    for pod in PODS:
        step, node = placer.place(pod.key), placing.place(pod)
        assert (step.outcome is Outcome.SCHEDULED) == (node is not None)
        assert node is None or node == step.decision.node  # type: ignore[union-attr]
    given_up = len(PODS) - len(placing.nodes_by_pod)
    assert 0 < given_up < len(PODS) and placing.attempts == len(PODS)
    assert len(placing.cluster.nodes.pods()) == len(placing.nodes_by_pod)


def test_ties_go_by_name_or_by_seed() -> None:
    nodes, pod = [a_node(name, cpu="8") for name in "abcdefgh"], a_pod("p", cpu="1")
    assert {OneByOne(nodes, config.default()).place(pod) for _ in range(3)} == {"a"}
    found = {OneByOne(nodes, config.default(), ties=by_seed, seed=seed).place(pod) for seed in range(20)}
    assert len(found) > 3


def test_a_pod_that_does_not_fit_evicts_no_other() -> None:
    placing = OneByOne([a_node("n", cpu="2")], config.default())
    assert placing.place(a_pod("low", cpu="2", priority=0)) == "n"
    assert placing.place(a_pod("high", cpu="2", priority=100)) is None
    assert placing.place(a_pod("other", cpu="1m", schedulerName="other")) is None
    assert placing.place(a_pod("gated", cpu="1m", schedulingGates=[{"name": "wait"}])) is None
    assert placing.nodes_by_pod == {"default/low": "n"}


class Raises(PlainPlugin):
    name = "Raises"

    def filter(self, pod: object, node: object) -> str | None:
        raise RuntimeError("no such luck")


def test_an_error_of_a_plugin_is_told_with_its_pod() -> None:
    registry = all_plugins()
    registry.register(Raises)
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Raises"}]}}}],
    }
    placing = OneByOne([a_node("n"), a_node("m")], config.from_object(written), registry)
    with pytest.raises(AttemptFailed, match="^pod default/p: .*no such luck"):
        placing.place(a_pod("p"))
