"""In-tree volumes as the drivers in their place know them."""

from typing import Any

import msgspec
import pytest

from build_storage import ZONE, a_csi_node, a_volume, on
from mooring.model.volumes import (
    driver_of_provisioner,
    handle_of,
    in_tree_of,
    is_migrated,
    translated_affinity,
    zones_of,
)

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
GCE: Any = {"gcePersistentDisk": {"pdName": "d"}}
EBS: Any = {"awsElasticBlockStore": {"volumeID": "vol-1"}}

HANDLES: dict[str, tuple[dict[str, Any], dict[str, str], tuple[str, str]]] = {
    "EBS": (EBS, {}, ("ebs.csi.aws.com", "vol-1")),
    "EBS with its zone": (
        {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
        {},
        ("ebs.csi.aws.com", "vol-1"),
    ),
    "GCE in no zone": (GCE, {}, ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d")),
    "GCE in a zone": (
        GCE,
        {ZONE: "us-central1-a"},
        ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-central1-a/disks/d"),
    ),
    "GCE in a region": (
        GCE,
        {BETA_ZONE: "us-central1-a__us-central1-b"},
        ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-central1/disks/d"),
    ),
    "GCE in zones of two regions cannot be": (
        GCE,
        {ZONE: "us-central1-a__us-east1-b"},
        ("pd.csi.storage.gke.io", ""),
    ),
    "GCE with both labels": (
        GCE,
        {ZONE: "us-central1-a", BETA_ZONE: "us-central1-b"},
        ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-central1-b/disks/d"),
    ),
    "GCE in zones that are not": (GCE, {ZONE: "za__zb"}, ("pd.csi.storage.gke.io", "")),
    "EBS by a URL without a volume": (
        {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/snap-1"}},
        {},
        ("ebs.csi.aws.com", ""),
    ),
    "Azure disk": ({"azureDisk": {"diskURI": "/sub/d"}}, {}, ("disk.csi.azure.com", "/sub/d")),
    "Cinder": ({"cinder": {"volumeID": "c"}}, {}, ("cinder.csi.openstack.org", "c")),
    "Portworx": ({"portworxVolume": {"volumeID": "p"}}, {}, ("pxd.portworx.com", "p")),
    "Azure file is never translated": ({"azureFile": {}}, {}, ("file.csi.azure.com", "")),
    "vSphere is never translated": ({"vsphereVolume": {}}, {}, ("csi.vsphere.vmware.com", "")),
}


@pytest.mark.parametrize(("source", "labels", "expected"), HANDLES.values(), ids=HANDLES.keys())
def test_what_the_driver_calls_a_volume(source: Any, labels: dict[str, str], expected: tuple[str, str]) -> None:
    volume = a_volume(handle="", labels=labels, **source)
    in_tree = in_tree_of(volume.spec)
    assert in_tree is not None
    assert (in_tree.driver, handle_of(in_tree, volume.spec, zones_of(volume))) == expected


def test_a_volume_of_a_driver_is_not_in_tree() -> None:
    assert in_tree_of(a_volume().spec) is None


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("csi.example.com", "csi.example.com"),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("kubernetes.io/azure-file", ""),
        ("", ""),
    ],
)
def test_who_provisions(provisioner: str, driver: str) -> None:
    assert driver_of_provisioner(provisioner) == driver


def test_a_node_says_what_it_leaves_to_drivers() -> None:
    gce = in_tree_of(a_volume(handle="", **GCE).spec)
    assert gce is not None
    listed = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
    assert is_migrated(a_csi_node(annotations=listed), gce)
    assert not is_migrated(a_csi_node(), gce)
    assert not is_migrated(None, gce)


GKE, ARCH = "topology.gke.io/zone", "kubernetes.io/arch"
AFFINITIES: dict[str, tuple[dict[str, Any], Any, dict[str, str], Any]] = {
    "the zone gets the driver's label": (GCE, on(ZONE, "a"), {}, on(GKE, "a")),
    "the old zone label too": (GCE, on(BETA_ZONE, "a"), {}, on(GKE, "a")),
    "zones of labels where the affinity names none": (
        GCE,
        on(ARCH, "x"),
        {ZONE: "b__a"},
        [{"matchExpressions": [*on(ARCH, "x")[0]["matchExpressions"], *on(GKE, "a", "b")[0]["matchExpressions"]]}],
    ),
    "zones of labels where there is no affinity": (EBS, None, {ZONE: "a"}, on("topology.ebs.csi.aws.com/zone", "a")),
    "the old region label gets its new name": (
        GCE,
        [
            {
                "matchExpressions": [
                    *on(BETA_ZONE, "a")[0]["matchExpressions"],
                    *on(BETA_REGION, "r")[0]["matchExpressions"],
                ]
            }
        ],
        {},
        [
            {
                "matchExpressions": [
                    *on(GKE, "a")[0]["matchExpressions"],
                    *on("topology.kubernetes.io/region", "r")[0]["matchExpressions"],
                ]
            }
        ],
    ),
    "Azure disks keep theirs": ({"azureDisk": {}}, on(ZONE, "a"), {}, on(ZONE, "a")),
    "a key without values names no zone; the label does, without what is empty": (
        GCE,
        [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}],
        {ZONE: "b__ a__"},
        [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}, *on(GKE, "a", "b")[0]["matchExpressions"]]}],
    ),
    "nothing to translate": (GCE, on(ARCH, "x"), {}, on(ARCH, "x")),
}


@pytest.mark.parametrize(("source", "terms", "labels", "expected"), AFFINITIES.values(), ids=AFFINITIES.keys())
def test_affinity_as_the_driver_sees_it(source: Any, terms: Any, labels: dict[str, str], expected: Any) -> None:
    volume = a_volume(handle="", terms=terms, labels=labels, **source)
    in_tree = in_tree_of(volume.spec)
    assert in_tree is not None
    found = translated_affinity(volume, in_tree)
    assert msgspec.to_builtins(found) == {"required": {"nodeSelectorTerms": expected}}


def test_without_affinity_and_zone_there_is_none() -> None:
    volume = a_volume(handle="", **GCE)
    in_tree = in_tree_of(volume.spec)
    assert in_tree is not None
    assert translated_affinity(volume, in_tree) is None
