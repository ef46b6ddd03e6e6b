"""VolumeRestrictions: disks that cannot be shared on a node, and claims that cannot be shared at all."""

from typing import Any

import pytest

from build import a_cluster, a_node, a_pod
from build_storage import a_claim, using
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, Code
from mooring.plugins.volumes.volume_restrictions import VolumeRestrictions
from volume_asking import a_context, reasons, verdicts

PLUGIN = VolumeRestrictions(None, Handle())
LONE = ("ReadWriteOncePod",)
NO_DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def disk(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "d", **source}]


def gce(name: str, read_only: bool = False) -> list[dict[str, Any]]:
    return disk(gcePersistentDisk={"pdName": name, "readOnly": read_only})


def iscsi(target: str, read_only: bool = False) -> list[dict[str, Any]]:
    return disk(iscsi={"iqn": target, "readOnly": read_only})


def rbd(monitors: list[str], image: str = "i", pool: str = "p", read_only: bool = False) -> list[dict[str, Any]]:
    return disk(rbd={"monitors": monitors, "image": image, "pool": pool, "readOnly": read_only})


EBS = disk(awsElasticBlockStore={"volumeID": "v", "readOnly": True})
DISKS: dict[str, tuple[Any, Any, bool]] = {
    "the same GCE disk": (gce("d"), gce("d"), True),
    "another GCE disk": (gce("d"), gce("e"), False),
    "a GCE disk that one only reads": (gce("d", True), gce("d"), True),
    "a GCE disk that both only read": (gce("d", True), gce("d", True), False),
    "the same EBS volume, though both only read": (EBS, EBS, True),
    "the same iSCSI target": (iscsi("t"), iscsi("t"), True),
    "an iSCSI target that both only read": (iscsi("t", True), iscsi("t", True), False),
    "an RBD image with a monitor in common": (rbd(["a", "b"]), rbd(["b", "c"]), True),
    "an RBD image without a monitor in common": (rbd(["a"]), rbd(["b"]), False),
    "another RBD pool": (rbd(["a"]), rbd(["a"], pool="q"), False),
    "an RBD image that both only read": (rbd(["a"], read_only=True), rbd(["a"], read_only=True), False),
    "disks of different kinds": (gce("d"), iscsi("d"), False),
}


@pytest.mark.parametrize(("wanted", "used", "collide"), DISKS.values(), ids=DISKS.keys())
def test_a_disk_can_be_used_once_on_a_node(wanted: Any, used: Any, collide: bool) -> None:
    cluster = a_cluster(a_node("n1"), a_node("n2"), a_pod("p", nodeName="n1", volumes=used))
    found = verdicts(PLUGIN, cluster, a_pod("new", volumes=wanted))
    assert found["n2"] is None
    rejection = found["n1"]
    assert (rejection is not None) == collide
    if rejection is not None:
        assert (rejection.reasons, rejection.code) == ((NO_DISK,), Code.Unschedulable)


def test_in_a_what_if_the_disks_of_the_pods_there_count() -> None:
    holder = a_pod("p", nodeName="n1", volumes=gce("d"))
    cluster = a_cluster(a_node("n1"), holder)
    context = a_context(cluster, a_pod("new", volumes=gce("d")))
    assert PLUGIN.pre_filter(context) is None
    sketch = cluster.nodes.sketch()
    sketch.release(holder, 0)
    assert PLUGIN.filter(context.on(sketch, context.state), slice(0, 1)) is None
    sketch.hold(holder, 0)
    codes = PLUGIN.filter(context.on(sketch, context.state), slice(0, 1))
    assert codes is not None and codes.tolist() == [1]


def test_a_lone_claim_that_is_in_use_closes_every_node() -> None:
    cluster = a_cluster(a_node("n1"), a_node("n2"), a_claim("c", modes=LONE))
    pod = a_pod("new", volumes=using("c"))
    assert reasons(PLUGIN, cluster, pod) == {}
    cluster.put(a_pod("p", nodeName="n1", volumes=using("c")))
    assert reasons(PLUGIN, cluster, pod) == {"n1": [IN_USE], "n2": [IN_USE]}


IDLE: dict[str, tuple[Any, Any]] = {
    "a claim that many may use": (a_claim("c"), a_pod("p", nodeName="n", volumes=using("c"))),
    "a claim of that name in another namespace": (
        a_claim("c", modes=LONE),
        a_pod("p", namespace="other", nodeName="n", volumes=using("c")),
    ),
    "a pod on a node that is gone": (a_claim("c", modes=LONE), a_pod("p", nodeName="gone", volumes=using("c"))),
    "nobody": (a_claim("c", modes=LONE), a_pod("p", nodeName="n")),
}


@pytest.mark.parametrize(("claim", "user"), IDLE.values(), ids=IDLE.keys())
def test_without_a_conflict_it_skips(claim: Any, user: Any) -> None:
    cluster = a_cluster(a_node("n"), claim, user)
    assert PLUGIN.pre_filter(a_context(cluster, a_pod("new", volumes=using("c")))) is SKIP


def test_a_claim_that_is_not_there_refuses_the_pod() -> None:
    found = verdicts(PLUGIN, a_cluster(a_node("n")), a_pod(volumes=using("c")))[""]
    assert found is not None
    assert (found.message, found.code) == ('persistentvolumeclaim "c" not found', Code.UnschedulableAndUnresolvable)


def test_a_pod_without_volumes_is_skipped() -> None:
    assert PLUGIN.pre_filter(a_context(a_cluster(a_node("n")), a_pod())) is SKIP_SHAPE
    assert not PLUGIN.concerns(a_pod())


def test_in_a_what_if_pods_are_counted_by_claim_names_whatever_their_namespace() -> None:
    """Parity: a pod of another namespace that uses a claim of the same name seems to free it by leaving."""
    cluster = a_cluster(a_node("n"), a_claim("c", modes=LONE), a_pod("p", nodeName="n", volumes=using("c")))
    context = a_context(cluster, a_pod("new", volumes=using("c")))
    assert PLUGIN.pre_filter(context) is None
    stranger = a_pod("q", namespace="other", volumes=using("c", "d"))
    state = context.state.clone()
    PLUGIN.remove_pod(context.on(cluster.nodes, state), stranger, 0)
    assert PLUGIN.filter(context.on(cluster.nodes, state), slice(0, 1)) is None
    PLUGIN.add_pod(context.on(cluster.nodes, state), stranger, 0)
    assert PLUGIN.filter(context.on(cluster.nodes, state), slice(0, 1)) is not None
    assert PLUGIN.filter(context, slice(0, 1)) is not None
