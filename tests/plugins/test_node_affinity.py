"""NodeAffinity: nodeSelector, required and preferred terms, and affinity that a profile adds."""

from typing import Any

import msgspec
import pytest

from alone import build, fault, scores, skips_filter, verdicts
from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import NodeAffinityArgs
from mooring.framework.contract.status import SKIP, final
from mooring.model.pod import Pod
from mooring.plugins.nodes.node_affinity import NodeAffinity

WHEN = "DuringSchedulingIgnoredDuringExecution"
UNWANTED = final("node(s) didn't match Pod's node affinity/selector").by("NodeAffinity")
UNENFORCED = final("node(s) didn't match scheduler-enforced node affinity").by("NodeAffinity")
RULED_OUT = final("node(s) didn't satisfy plugin(s) [NodeAffinity]")
CONFLICT = final("pod affinity terms conflict").by("NodeAffinity")


def labelled(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(*names: str, operator: str = "In", key: str = "metadata.name") -> dict[str, Any]:
    """A term whose fields name these nodes, one each."""
    return {"matchFields": [{"key": key, "operator": operator, "values": [name]} for name in names]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": list(terms)}}}


def preferred(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    written = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"nodeAffinity": {f"preferred{WHEN}": written}}


def adding(affinity: dict[str, Any]) -> Any:
    return build(NodeAffinity, msgspec.convert({"addedAffinity": affinity["nodeAffinity"]}, NodeAffinityArgs))


def a_small_cluster() -> Cluster:
    return a_cluster(
        a_node("ssd", labels={"disk": "ssd", "size": "10"}),
        a_node("hdd", labels={"disk": "hdd", "size": "5"}),
        a_node("bare"),
    )


FAULTY = labelled("size", "Gt", "many")

WANTED: dict[str, tuple[Pod, dict[str, Any]]] = {
    "a selector": (a_pod(nodeSelector={"disk": "ssd"}), {"hdd": UNWANTED, "bare": UNWANTED}),
    "a selector with two labels": (
        a_pod(nodeSelector={"disk": "ssd", "size": "5"}),
        {"ssd": UNWANTED, "hdd": UNWANTED, "bare": UNWANTED},
    ),
    "an empty selector": (a_pod(nodeSelector={}), {}),
    "a term": (a_pod(affinity=required(labelled("size", "Gt", "7"))), {"hdd": UNWANTED, "bare": UNWANTED}),
    "one of two terms is enough": (
        a_pod(affinity=required(labelled("disk", "In", "ssd"), labelled("disk", "DoesNotExist"))),
        {"hdd": UNWANTED},
    ),
    "selector and affinity must both hold": (
        a_pod(nodeSelector={"disk": "ssd"}, affinity=required(labelled("size", "Lt", "7"))),
        {"ssd": UNWANTED, "hdd": UNWANTED, "bare": UNWANTED},
    ),
    "no terms match no node": (a_pod(affinity=required()), dict.fromkeys(("ssd", "hdd", "bare"), UNWANTED)),
    "an empty term matches no node": (a_pod(affinity=required({})), dict.fromkeys(("ssd", "hdd", "bare"), UNWANTED)),
    "a faulty term matches no node": (
        a_pod(affinity=required(FAULTY)),
        dict.fromkeys(("ssd", "hdd", "bare"), UNWANTED),
    ),
    "beside a faulty term another counts": (
        a_pod(affinity=required(FAULTY, labelled("disk", "Exists"))),
        {"bare": UNWANTED},
    ),
    "a name rules the others out": (a_pod(affinity=required(field("hdd"))), {"ssd": RULED_OUT, "bare": RULED_OUT}),
    "names of two terms are put together": (a_pod(affinity=required(field("hdd"), field("bare"))), {"ssd": RULED_OUT}),
    "a name and a label in one term": (
        a_pod(affinity=required({**field("hdd"), **labelled("disk", "In", "ssd")})),
        {"ssd": RULED_OUT, "hdd": UNWANTED, "bare": RULED_OUT},
    ),
    "a term without a name lifts the restriction": (
        a_pod(affinity=required(field("hdd"), labelled("disk", "In", "ssd"))),
        {"bare": UNWANTED},
    ),
    "not a name": (a_pod(affinity=required(field("hdd", operator="NotIn"))), {"hdd": UNWANTED}),
    "two names in one term conflict": (a_pod(affinity=required(field("hdd", "ssd"))), {"*": CONFLICT}),
    "a field that nobody knows is empty": (
        a_pod(affinity=required(field("x", key="metadata.uid"))),
        dict.fromkeys(("ssd", "hdd", "bare"), UNWANTED),
    ),
    "a field that nobody knows is not this": (
        a_pod(affinity=required(field("x", operator="NotIn", key="metadata.uid"))),
        {},
    ),
}


@pytest.mark.parametrize(("pod", "expected"), WANTED.values(), ids=WANTED.keys())
def test_nodes_that_the_pod_does_not_want(pod: Pod, expected: dict[str, Any]) -> None:
    assert verdicts(build(NodeAffinity), pod, a_small_cluster()) == expected


def test_a_node_that_is_named_but_not_there_rules_out_all() -> None:
    found = verdicts(build(NodeAffinity), a_pod(affinity=required(field("ghost"))), a_small_cluster())
    assert found == dict.fromkeys(("ssd", "hdd", "bare"), RULED_OUT)


SKIPS: dict[str, tuple[Pod, bool]] = {
    "neither selector nor affinity": (a_pod(), True),
    "an empty selector is not none": (a_pod(nodeSelector={}), False),
    "only preferences": (a_pod(affinity=preferred((1, labelled("disk", "Exists")))), True),
    "a required block without terms": (a_pod(affinity=required()), False),
}


@pytest.mark.parametrize(("pod", "skips"), SKIPS.values(), ids=SKIPS.keys())
def test_when_there_is_nothing_to_filter(pod: Pod, skips: bool) -> None:
    assert skips_filter(build(NodeAffinity), pod, a_small_cluster()) == skips
    assert not skips_filter(adding(required(labelled("disk", "Exists"))), pod, a_small_cluster())


def test_added_affinity_is_told_before_the_pods_own() -> None:
    plugin = adding(required(labelled("disk", "Exists")))
    assert verdicts(plugin, a_pod(), a_small_cluster()) == {"bare": UNENFORCED}
    found = verdicts(plugin, a_pod(nodeSelector={"disk": "ssd"}), a_small_cluster())
    assert found == {"hdd": UNWANTED, "bare": UNENFORCED}


@pytest.mark.parametrize(
    ("affinity", "where"),
    [
        (required(FAULTY), "requiredDuringSchedulingIgnoredDuringExecution: nodeSelectorTerms[0]"),
        (preferred((1, {}), (1, FAULTY)), "preferredDuringSchedulingIgnoredDuringExecution: [1]"),
    ],
    ids=["required", "preferred"],
)
def test_added_affinity_that_cannot_be_read_is_refused(affinity: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError) as raised:
        adding(affinity)
    text = f'parsing addedAffinity.{where}.matchExpressions[0].values[0]: Invalid value: "many": '
    assert str(raised.value).startswith(text)


FIVE, THIRTY = (5, labelled("disk", "Exists")), (25, labelled("disk", "In", "ssd"))
PREFERRED: dict[str, tuple[Pod, Any]] = {
    "the heaviest becomes 100": (a_pod(affinity=preferred(FIVE, THIRTY)), {"ssd": 100, "hdd": 16, "bare": 0}),
    "nothing matches": (a_pod(affinity=preferred((5, labelled("x", "Exists")))), {"ssd": 0, "hdd": 0, "bare": 0}),
    "all match alike": (
        a_pod(affinity=preferred((7, labelled("x", "DoesNotExist")))),
        {"ssd": 100, "hdd": 100, "bare": 100},
    ),
    "no preferences": (a_pod(), SKIP),
    "an empty list of preferences is not none": (a_pod(affinity=preferred()), {"ssd": 0, "hdd": 0, "bare": 0}),
    "a weight of 0 is dropped": (a_pod(affinity=preferred((0, FAULTY), FIVE)), {"ssd": 100, "hdd": 100, "bare": 0}),
    "an empty preference is dropped": (a_pod(affinity=preferred((9, {}), FIVE)), {"ssd": 100, "hdd": 100, "bare": 0}),
}


@pytest.mark.parametrize(("pod", "expected"), PREFERRED.values(), ids=PREFERRED.keys())
def test_nodes_that_the_pod_prefers(pod: Pod, expected: Any) -> None:
    assert scores(build(NodeAffinity), pod, a_small_cluster()) == expected


def test_added_preferences_count_beside_the_pods_own() -> None:
    plugin = adding(preferred((10, labelled("disk", "In", "hdd"))))
    assert scores(plugin, a_pod(), a_small_cluster()) == {"ssd": 0, "hdd": 100, "bare": 0}
    assert scores(plugin, a_pod(affinity=preferred(FIVE)), a_small_cluster()) == {"ssd": 33, "hdd": 100, "bare": 0}


def test_a_preference_that_cannot_be_read_is_an_error() -> None:
    text = (
        'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: Invalid value: "many": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )
    assert fault(build(NodeAffinity), a_pod(affinity=preferred((1, FAULTY))), a_small_cluster()) == text
