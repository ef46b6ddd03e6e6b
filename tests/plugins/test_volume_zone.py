"""VolumeZone: what is refused before nodes are looked at, and what labels mean."""

from typing import Any

import pytest

from build import a_cluster, a_node, a_pod
from build_storage import ZONE, a_claim, a_class, a_volume, using
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIPS, Code
from mooring.plugins.volumes.volume_zone import VolumeZone
from volume_asking import a_context, verdicts

PLUGIN = VolumeZone(None, Handle())
BETA = "failure-domain.beta.kubernetes.io/zone"
POD = a_pod(volumes=using("c"))

REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "no claim name": (a_pod(volumes=using("")), [], "PersistentVolumeClaim had no name"),
    "no claim": (POD, [], 'persistentvolumeclaim "c" not found'),
    "neither volume nor class": (
        POD,
        [a_claim("c", class_name=None)],
        "PersistentVolumeClaim had no pv name and storageClass name",
    ),
    "no such class": (POD, [a_claim("c")], 'storageclass.storage.k8s.io "wait" not found'),
    "a class without mode": (
        POD,
        [a_claim("c"), a_class(mode=None)],
        'VolumeBindingMode not set for StorageClass "wait"',
    ),
    "a claim that should be bound by now": (
        POD,
        [a_claim("c"), a_class(mode="Immediate")],
        "PersistentVolume had no name",
    ),
    "no such volume": (POD, [a_claim("c", volume="pv")], 'persistentvolume "pv" not found'),
}


@pytest.mark.parametrize(("pod", "objects", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_is_refused(pod: Any, objects: list[Any], text: str) -> None:
    found = verdicts(PLUGIN, a_cluster(a_node("n"), *objects), pod)[""]
    assert found is not None
    assert (found.message, found.code) == (text, Code.UnschedulableAndUnresolvable)


SKIPPED: dict[str, tuple[Any, list[Any]]] = {
    "no volumes": (a_pod(), []),
    "a claim that waits for the pod": (POD, [a_claim("c"), a_class()]),
    "a volume without labels": (POD, [a_claim("c", volume="pv"), a_volume()]),
    "a volume whose label has an empty element": (POD, [a_claim("c", volume="pv"), a_volume(labels={ZONE: "a__"})]),
    "an ephemeral volume": (a_pod(volumes=[{"name": "e", "ephemeral": {}}]), []),
}


@pytest.mark.parametrize(("pod", "objects"), SKIPPED.values(), ids=SKIPPED.keys())
def test_a_pod_is_skipped(pod: Any, objects: list[Any]) -> None:
    assert PLUGIN.pre_filter(a_context(a_cluster(a_node("n"), *objects), pod)) in SKIPS


NODES: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "the same zone": ({ZONE: "a"}, {ZONE: "a"}, True),
    "one of its zones": ({ZONE: "a__b"}, {ZONE: "b"}, True),
    "another zone": ({ZONE: "a"}, {ZONE: "b"}, False),
    "a node without any such label": ({ZONE: "a"}, {"other": "x"}, True),
    "a node that names only its region": ({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, False),
    "an old label of the volume, a new one of the node": ({BETA: "a"}, {ZONE: "a"}, True),
    "a new label of the volume, an old one of the node": ({ZONE: "a"}, {BETA: "a"}, False),
    "the old label of the node counts before the new one": ({BETA: "a"}, {BETA: "b", ZONE: "a"}, False),
}


@pytest.mark.parametrize(("volume", "node", "fits"), NODES.values(), ids=NODES.keys())
def test_a_node_fits(volume: dict[str, str], node: dict[str, str], fits: bool) -> None:
    cluster = a_cluster(a_node("n", labels=node), a_claim("c", volume="pv"), a_volume(labels=volume))
    found = verdicts(PLUGIN, cluster, POD)["n"]
    assert (found is None) == fits
    if found is not None:
        code = Code.UnschedulableAndUnresolvable
        assert (found.message, found.code) == ("node(s) had no available volume zone", code)
