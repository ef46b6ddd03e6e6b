"""NodeName: a pod that names its node."""

from typing import Any

import pytest

from alone import build, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework import config
from mooring.framework.attempts.attempt import PodRejected
from mooring.framework.contract.status import final
from mooring.model.pod import Pod
from mooring.plugins.nodes.node_name import NodeName
from mooring.scheduler.decision import rejections_by_node
from mooring.state.scheduler_assembly import build_runners

OTHERS = final("node(s) didn't satisfy plugin(s) [NodeName]")
WANTED: dict[str, tuple[str, list[str]]] = {
    "no name": ("", []),
    "a node that is there": ("b", ["a", "c"]),
    "a node that is not there": ("z", ["a", "b", "c"]),
}


@pytest.mark.parametrize(("name", "rejected"), WANTED.values(), ids=WANTED.keys())
def test_v137_3_2_only_the_named_node_is_looked_at(name: str, rejected: list[str]) -> None:
    cluster = a_cluster(*(a_node(node) for node in "abc"))
    assert verdicts(build(NodeName), a_pod(nodeName=name), cluster) == dict.fromkeys(rejected, OTHERS)


def test_pods_without_a_name_are_of_no_concern() -> None:
    assert NodeName.concerns(a_pod(nodeName="a"))
    assert not NodeName.concerns(a_pod())


def looked_at(pod: Pod, **disabled: Any) -> tuple[frozenset[str] | None, dict[str, str]]:
    """The nodes that PreFilter leaves, and what Filter says of the others, where sets of plugins leave NodeName out."""
    sets = {point: {"disabled": [{"name": "NodeName"}]} for point, is_off in disabled.items() if is_off}
    written = {"profiles": [{"schedulerName": "default-scheduler", "plugins": sets}]}
    (runner,) = build_runners(config.from_object({**HEAD, **written})).values()
    attempt = runner.open(pod, a_cluster(*(a_node(node) for node in "ab")))
    narrowing = attempt.pre_filter()
    assert not isinstance(narrowing, PodRejected)
    found = rejections_by_node(attempt, attempt.filter(narrowing))
    return narrowing.names, {name: rejection.plugin for name, rejection in found.items()}


HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_v137_3_2_each_point_counts_by_itself() -> None:
    """A profile without the filter keeps the node set of PreFilter; one without PreFilter asks the filter about all."""
    assert looked_at(a_pod(nodeName="b")) == (frozenset("b"), {})
    assert looked_at(a_pod(nodeName="b"), filter=True) == (frozenset("b"), {})
    assert looked_at(a_pod(nodeName="b"), preFilter=True) == (None, {"a": "NodeName"})
    assert looked_at(a_pod(nodeName="b"), preFilter=True, filter=True) == (None, {})
    assert looked_at(a_pod()) == (None, {})
