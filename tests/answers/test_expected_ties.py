"""`mooring agree --tie-break kube-scheduler`: bindings to tied nodes beside a rule that was worked out by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from build import a_node, a_pod
from mooring.answers.recorded.agree import agree
from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.judging import BindingVerdict
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.model.node import Node
from mooring.model.pod import Pod
from recorded_clusters import an_observer

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/agree.v1.json").read_text())
SAME, TIED = BindingVerdict.SAME, BindingVerdict.TIED
ZONE = "topology.kubernetes.io/zone"
NODES = [a_node(name, labels={ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"))]
"""The walk goes through the zones in turn: n1, n3, n2, n4."""


def a_configuration(parallelism: int = 1, **fields: Any) -> KubeSchedulerConfiguration:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return configuration.from_object({**header, "parallelism": parallelism, **fields})


def a_waiting_pod(name: str, cpu: str, **fields: Any) -> Pod:
    return a_pod(name, cpu=cpu, metadata={"uid": name}, schedulerName="default-scheduler", **fields)


BINDINGS = [
    (a_waiting_pod("first", "1"), "n1"),  # all are equal: the first of the walk
    (a_waiting_pod("other", "500m"), "n2"),  # n3, n2 and n4 are tied: the left child of n1 is n3
    (a_waiting_pod("third", "1"), "n3"),  # n3 and n4 are tied: n3 is the parent of n4
    (a_waiting_pod("last", "500m"), "n4"),  # the only best one
]


def recorded(
    directory: Path,
    bindings: Sequence[tuple[Pod, str]] = BINDINGS,
    known: Sequence[Node] = (),
    config: KubeSchedulerConfiguration | None = None,
) -> Agreement:
    """The answer about a cluster whose nodes come after the recording began, but for those that are `known`."""
    observer = an_observer(directory, known, config or a_configuration())
    for node in NODES:
        if node not in known:
            observer.added(node)
    for pod, node_name in bindings:
        observer.added(pod)
        observer.updated(pod, pod.with_node(node_name))
    observer.close()
    answer = agree(directory, ties="kube-scheduler")
    jsonschema.validate(answer.to_dict(), SCHEMA)
    return answer


def expected(answer: Agreement) -> list[str]:
    return [each.expected for each in answer.bindings]


def test_the_rule_says_which_of_the_tied_nodes_a_pod_gets(tmp_path: Path) -> None:
    answer = recorded(tmp_path)
    assert [(each.verdict, each.expected) for each in answer.bindings] == [
        (SAME, "n1"),
        (TIED, "n3"),
        (SAME, "n3"),
        (SAME, ""),
    ]
    assert not answer.agrees
    assert answer.summary() == [
        "4 bindings: same node for 3 (75.0%), a tied node for 1 (25.0%), a lower score for 0 (0.0%), a node that a filter "
        "rejects for 0 (0.0%)",
        "Tied nodes share the highest score with others (the median is 3 of 4 nodes that fit): which of them kube-scheduler "
        "takes depends on the order in which its goroutines find them, so these agree as well as they can",
        "kube-scheduler's rule for ties determines the node of 3 bindings: the recorded one for 2, another one for 1",
    ]
    (table,) = (each for each in answer.tables() if each.title == "Other tied nodes than kube-scheduler's rule says")
    assert [row[:4] for row in table.rows] == [("default/other", "n2", "n3", 3)]
    told = answer.to_dict()
    assert (told["expectedTies"], told["otherTies"]) == (3, 1)
    assert [(each["pod"], each["expectedNode"]) for each in told["different"]] == [("default/other", "n3")]
    assert answer.about("other").summary()[0].endswith("; kube-scheduler's rule for ties says n3")


def test_without_the_option_tied_nodes_agree(tmp_path: Path) -> None:
    recorded(tmp_path)
    answer = agree(tmp_path)
    assert answer.agrees and [each.verdict for each in answer.bindings] == [TIED, TIED, TIED, SAME]
    assert expected(answer) == [""] * 4 and "otherTies" not in answer.to_dict()


EXTENDER = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}


@pytest.mark.parametrize(
    "config",
    [a_configuration(16), a_configuration(extenders=[EXTENDER])],
    ids=["sixteen goroutines race", "an extender brings random numbers"],
)
def test_the_configuration_may_leave_the_node_open(tmp_path: Path, config: KubeSchedulerConfiguration) -> None:
    answer = recorded(tmp_path, config=config)
    assert expected(answer) == [""] * 4 and answer.agrees


def test_nodes_that_were_there_before_have_an_unknown_order(tmp_path: Path) -> None:
    assert expected(recorded(tmp_path, known=NODES[:1])) == [""] * 4


def test_of_two_equal_pods_in_a_row_the_second_may_be_batched(tmp_path: Path) -> None:
    answer = recorded(tmp_path, [(a_waiting_pod("a", "1"), "n1"), (a_waiting_pod("b", "1"), "n3")])
    assert expected(answer) == ["n1", ""]


def test_a_pod_that_is_kept_to_named_nodes_leaves_the_start_of_the_walk_open(tmp_path: Path) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n4"]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    daemon = a_waiting_pod("daemon", "100m", affinity={"nodeAffinity": rule})
    assert expected(recorded(tmp_path, [BINDINGS[0], (daemon, "n4"), *BINDINGS[1:]])) == ["n1", "", "", "", ""]
