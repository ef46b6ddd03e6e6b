"""NodeVolumeLimits: what counts as a volume of a driver, and how many a node takes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from build_storage import DRIVER, a_claim, a_class, a_csi_node, a_driver, a_volume, an_attachment, using
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIPS, Code, PluginError
from mooring.plugins.volumes.node_volume_limits import NodeVolumeLimits, exceeds
from volume_asking import a_context, reasons, verdicts

PLUGIN = NodeVolumeLimits(None, Handle())
EXCEEDED = "node(s) exceed max volume count"
EBS = "ebs.csi.aws.com"


def a_limit(driver: str, count: int) -> Any:
    limits: Any = {driver.replace(".", "_"): count}
    return a_csi_node("n", **limits)


def ebs(volume_id: str) -> dict[str, Any]:
    return {"name": "d", "awsElasticBlockStore": {"volumeID": volume_id}}


def on_node(name: str, *claims: str, **more: Any) -> Any:
    return a_pod(name, nodeName="n", volumes=[*using(*claims), *more.pop("volumes", [])], **more)


BOUND = (a_volume("pv0"), a_volume("pv1"), a_claim("c0", volume="pv0"), a_claim("c1", volume="pv1"))
NEW = a_pod("new", volumes=using("c0"))
OWNED = {"ownerReferences": [{"name": "new", "uid": "u", "controller": True}]}

CASES: dict[str, tuple[list[Any], Any, bool]] = {
    "there is room for one more": ([a_limit(DRIVER, 1), *BOUND], NEW, False),
    "there is room for one, and two are wanted": ([a_limit(DRIVER, 1), *BOUND], a_pod(volumes=using("c0", "c1")), True),
    "another pod has taken the room": ([a_limit(DRIVER, 1), *BOUND, on_node("p", "c1")], NEW, True),
    "another pod uses the same volume": ([a_limit(DRIVER, 1), *BOUND, on_node("p", "c0")], NEW, False),
    "the same claim twice": ([a_limit(DRIVER, 1), *BOUND], a_pod(volumes=using("c0", "c0")), False),
    "the limit is that of another driver": ([a_limit("other.example.com", 0), *BOUND], NEW, False),
    "the driver has no limit": ([a_csi_node("n", csi_example_com=None), *BOUND], NEW, False),
    "the node has no CSINode": ([*BOUND], NEW, False),
    "a claim without a volume counts for the driver that will make it": (
        [a_limit(DRIVER, 0), a_class(), a_claim("c0")],
        NEW,
        True,
    ),
    "a claim whose volume is gone counts for the driver of its class": (
        [a_limit(DRIVER, 0), a_class(), a_claim("c0", volume="gone")],
        NEW,
        True,
    ),
    "a claim of no known class does not count": ([a_limit(DRIVER, 0), a_claim("c0")], NEW, False),
    "a claim of no class does not count": ([a_limit(DRIVER, 0), a_claim("c0", class_name=None)], NEW, False),
    "an in-tree volume counts for the driver in its place": (
        [
            a_limit(EBS, 0),
            a_volume("pv0", handle="", awsElasticBlockStore={"volumeID": "aws://a/vol-1"}),
            a_claim("c0", volume="pv0"),
        ],
        NEW,
        True,
    ),
    "a volume of no driver does not count": (
        [a_limit(DRIVER, 0), a_volume("pv0", handle=""), a_claim("c0", volume="pv0")],
        NEW,
        False,
    ),
    "an inline disk is the volume of a claim elsewhere": (
        [
            a_limit(EBS, 1),
            a_volume("pv0", handle="", awsElasticBlockStore={"volumeID": "aws://a/vol-1"}),
            a_claim("c0", volume="pv0"),
            on_node("p", "c0"),
        ],
        a_pod(volumes=[ebs("vol-1")]),
        False,
    ),
    "an inline disk of a plugin that is not translated": (
        [a_limit("file.csi.azure.com", 0)],
        a_pod(volumes=[{"name": "d", "azureFile": {}}]),
        False,
    ),
    "an attached volume takes room": ([a_limit(DRIVER, 1), *BOUND, an_attachment(volume="pv1")], NEW, True),
    "an attached volume that a pod uses counts once": (
        [a_limit(DRIVER, 2), *BOUND, on_node("p", "c1"), an_attachment(volume="pv1")],
        NEW,
        False,
    ),
    "an attached volume that no pod uses counts twice when it is wanted": (
        [a_limit(DRIVER, 1), *BOUND, an_attachment(volume="pv0")],
        NEW,
        True,
    ),
    "an attachment elsewhere": ([a_limit(DRIVER, 1), *BOUND, an_attachment(node="m", volume="pv1")], NEW, False),
    "an attachment of another driver": (
        [a_limit(DRIVER, 1), *BOUND, an_attachment(volume="pv1", attacher="other")],
        NEW,
        False,
    ),
    "an ephemeral volume counts": (
        [a_limit(DRIVER, 0), a_class(), a_claim("new-e", metadata=OWNED)],
        a_pod("new", metadata={"uid": "u"}, volumes=[{"name": "e", "ephemeral": {}}]),
        True,
    ),
    "claims of pods there that are missing do not count": (
        [a_limit(DRIVER, 1), *BOUND, on_node("p", "missing")],
        NEW,
        False,
    ),
}


@pytest.mark.parametrize(("objects", "pod", "exceeded"), CASES.values(), ids=CASES.keys())
def test_a_node_takes_so_many(objects: list[Any], pod: Any, exceeded: bool) -> None:
    found = verdicts(PLUGIN, a_cluster(a_node("n"), *objects), pod)["n"]
    assert (found is not None) == exceeded
    if found is not None:
        assert (found.reasons, found.code) == ((EXCEEDED,), Code.Unschedulable)


def test_pods_without_such_volumes_are_skipped() -> None:
    for volumes in (None, [{"name": "d", "emptyDir": {}}], [{"name": "d", "iscsi": {"iqn": "t"}}]):
        assert PLUGIN.pre_filter(a_context(a_cluster(a_node("n")), a_pod(volumes=volumes))) in SKIPS


def test_a_claim_that_is_not_there_is_final_on_every_node() -> None:
    found = verdicts(PLUGIN, a_cluster(a_node("n")), NEW)["n"]
    assert found is not None
    text = 'looking up PVC default/c0: persistentvolumeclaim "c0" not found'
    assert (found.message, found.code) == (text, Code.UnschedulableAndUnresolvable)


@pytest.mark.parametrize(
    ("objects", "pod", "text"),
    [
        (
            [a_claim("new-e")],
            a_pod("new", volumes=[{"name": "e", "ephemeral": {}}]),
            "PVC default/new-e was not created for pod default/new (pod is not owner)",
        ),
        ([], a_pod("new", volumes=using("")), "PersistentVolumeClaim had no name"),
        (
            [a_limit(DRIVER, 5), *BOUND, a_claim("p-e"), on_node("p", volumes=[{"name": "e", "ephemeral": {}}])],
            NEW,
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
        ),
    ],
    ids=["the pod's own claim", "a claim without name", "a claim of a pod on a limited node"],
)
def test_what_cannot_be_told_is_an_error(objects: list[Any], pod: Any, text: str) -> None:
    with pytest.raises(PluginError, match=f"^{text.replace('(', '[(]').replace(')', '[)]')}$"):
        verdicts(PLUGIN, a_cluster(a_node("n"), *objects), pod)


def test_a_fault_on_a_node_without_limits_is_nobodys_business() -> None:
    faulty = a_pod("p", nodeName="m", volumes=[{"name": "e", "ephemeral": {}}])
    cluster = a_cluster(a_node("n"), a_node("m"), a_limit(DRIVER, 5), *BOUND, a_claim("p-e"), faulty)
    assert reasons(PLUGIN, cluster, NEW) == {}


def test_v137_18_2_a_driver_must_be_there_if_it_says_so() -> None:
    off = NodeVolumeLimits(None, Handle(feature_gates={"VolumeLimitScaling": False}))
    cluster = a_cluster(a_node("n"), a_node("m"), a_csi_node("m", csi_example_com=5), *BOUND)
    assert reasons(PLUGIN, cluster, NEW) == {}
    cluster.put(a_driver(preventPodSchedulingIfMissing=True))
    assert reasons(PLUGIN, cluster, NEW) == {"n": [f"{DRIVER} CSI driver is not installed on the node"]}
    assert reasons(off, cluster, NEW) == {}


def test_limits_follow_the_nodes() -> None:
    cluster = a_cluster(a_node("n"), *BOUND)
    assert reasons(PLUGIN, cluster, NEW) == {}
    cluster.put(a_limit(DRIVER, 0))
    assert reasons(PLUGIN, cluster, NEW) == {"n": [EXCEEDED]}
    cluster.put(a_limit(DRIVER, 1))
    assert reasons(PLUGIN, cluster, NEW) == {}
    cluster.remove(type(a_csi_node()), "n")
    assert reasons(PLUGIN, cluster, a_pod(volumes=using("c0", "c1"))) == {}


COLUMNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-1, 5)), min_size=1, max_size=6)


@given(COLUMNS)
def test_the_kernel_is_its_table(columns: list[tuple[int, int, int]]) -> None:
    held, needed, limit = (np.array(column, np.int64) for column in zip(*columns, strict=True))
    assert exceeds(held, needed, limit).tolist() == [n > 0 and x >= 0 and h + n > x for h, n, x in columns]
