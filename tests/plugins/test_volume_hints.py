"""When pods that a volume plugin rejected are woken: event by event, as the table of the specification says."""

from typing import Any

import pytest

from build import a_pod
from build_storage import DRIVER, ZONE, a_claim, a_class, a_csi_node, a_driver, a_report, a_volume, an_attachment, using
from hinting import action_of, wakes
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.storage import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from mooring.framework.contract.events import ASSIGNED_POD_DELETE, Action, ClusterEvent
from mooring.framework.contract.points import Handle, Plugin
from mooring.plugins.volumes.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volumes.volume_binding import VolumeBinding
from mooring.plugins.volumes.volume_restrictions import VolumeRestrictions
from mooring.plugins.volumes.volume_zone import VolumeZone

RESTRICTIONS, LIMITS = VolumeRestrictions(None, Handle()), NodeVolumeLimits(None, Handle())
BINDING, ZONES = VolumeBinding(None, Handle()), VolumeZone(None, Handle())
EPHEMERAL = [{"name": "e", "ephemeral": {}}]
WAITING = a_pod("waiting", volumes=[*using("c"), *EPHEMERAL])
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}


def gce(name: str) -> list[dict[str, Any]]:
    return [{"name": "d", "gcePersistentDisk": {"pdName": name}}]


def left(*claims: str, node: str = "n", **more: Any) -> Any:
    return a_pod("left", nodeName=node, **{"volumes": using(*claims), **more})


PODS: dict[str, tuple[Plugin, Any, Any, bool]] = {
    "it had the disk": (RESTRICTIONS, a_pod(volumes=gce("d")), left(volumes=gce("d")), True),
    "it had another disk": (RESTRICTIONS, a_pod(volumes=gce("d")), left(volumes=gce("e")), False),
    "it had the claim": (RESTRICTIONS, WAITING, left("x", "c"), True),
    "it had another claim": (RESTRICTIONS, WAITING, left("x"), False),
    "it had a claim of that name in another namespace": (RESTRICTIONS, WAITING, left("c", namespace="o"), False),
    "it had any claim": (LIMITS, WAITING, left("x"), True),
    "it had an ephemeral volume": (LIMITS, WAITING, left(volumes=EPHEMERAL), True),
    "it had an inline disk of a driver": (LIMITS, WAITING, left(volumes=gce("e")), True),
    "it had no volume": (LIMITS, WAITING, left(), False),
    "it was promised a node": (LIMITS, WAITING, left("x", node="", status={"nominatedNodeName": "n"}), True),
    "it had no node": (LIMITS, WAITING, left("x", node=""), False),
}


@pytest.mark.parametrize(("plugin", "pod", "gone", "woken"), PODS.values(), ids=PODS.keys())
def test_a_pod_leaves(plugin: Plugin, pod: Any, gone: Any, woken: bool) -> None:
    assert wakes(plugin, pod, ASSIGNED_POD_DELETE, gone, None) is woken


def limit(count: int | None) -> Any:
    return a_csi_node(csi_example_com=count)


CHANGES: dict[str, tuple[Plugin, KindSpec, Any, Any, bool]] = {
    "limits: a limit rose": (LIMITS, CSI_NODE, limit(1), limit(2), True),
    "limits: a limit fell": (LIMITS, CSI_NODE, limit(2), limit(1), False),
    "limits: a limit was lifted": (LIMITS, CSI_NODE, limit(2), limit(None), False),
    "limits: a limit was set": (LIMITS, CSI_NODE, limit(None), limit(2), True),
    "limits: a driver came": (LIMITS, CSI_NODE, a_csi_node(), limit(2), True),
    "limits: a driver without limit came": (LIMITS, CSI_NODE, a_csi_node(), limit(None), False),
    "limits: a node is new to its drivers": (LIMITS, CSI_NODE, None, a_csi_node(), True),
    "binding: a node is new to its drivers": (BINDING, CSI_NODE, None, a_csi_node(), True),
    "binding: a limit rose": (BINDING, CSI_NODE, limit(1), limit(2), False),
    "binding: a driver took over": (BINDING, CSI_NODE, a_csi_node(), a_csi_node(annotations=MIGRATED), True),
    "binding: a class is new": (BINDING, STORAGE_CLASS, None, a_class(), True),
    "binding: a class changed": (BINDING, STORAGE_CLASS, a_class(), a_class(provisioner="x"), False),
    "binding: a class allows more": (BINDING, STORAGE_CLASS, a_class(topologies=[[(ZONE, ["a"])]]), a_class(), True),
    "zone: a class that waits is new": (ZONES, STORAGE_CLASS, None, a_class(), True),
    "zone: a class that does not wait is new": (ZONES, STORAGE_CLASS, None, a_class(mode="Immediate"), False),
    "zone: a volume is new": (ZONES, PERSISTENT_VOLUME, None, a_volume(), True),
    "zone: a volume changed": (ZONES, PERSISTENT_VOLUME, a_volume(), a_volume(size="9Gi"), False),
    "zone: a volume moved": (ZONES, PERSISTENT_VOLUME, a_volume(), a_volume(labels={ZONE: "a"}), True),
    "zone: a label that means the same": (
        *(ZONES, PERSISTENT_VOLUME, a_volume(labels={ZONE: "a__b"}), a_volume(labels={ZONE: "b__a"})),
        False,
    ),
    "binding: any volume": (BINDING, PERSISTENT_VOLUME, a_volume(), a_volume(), True),
    "binding: room is new": (BINDING, CSI_STORAGE_CAPACITY, None, a_report(), True),
    "binding: room grew": (BINDING, CSI_STORAGE_CAPACITY, a_report(capacity="1Gi"), a_report(capacity="2Gi"), True),
    "binding: room shrank": (BINDING, CSI_STORAGE_CAPACITY, a_report(capacity="2Gi"), a_report(capacity="1Gi"), False),
    "binding: room became known": (BINDING, CSI_STORAGE_CAPACITY, a_report(), a_report(capacity="1Gi"), True),
    "binding: room became unknown": (BINDING, CSI_STORAGE_CAPACITY, a_report(capacity="1Gi"), a_report(), False),
    "binding: the largest volume counts": (
        BINDING,
        CSI_STORAGE_CAPACITY,
        a_report(capacity="1Gi", maximumVolumeSize="1Gi"),
        a_report(capacity="9Gi", maximumVolumeSize="1Gi"),
        False,
    ),
}


@pytest.mark.parametrize(("plugin", "kind", "old", "new", "woken"), CHANGES.values(), ids=CHANGES.keys())
def test_an_object_changes(plugin: Plugin, kind: KindSpec, old: Any, new: Any, woken: bool) -> None:
    event = ClusterEvent(kind.event, action_of(old, new, Action.UPDATE))
    assert wakes(plugin, WAITING, event, old, new) is woken


CLAIMS: dict[str, tuple[Any, set[Plugin]]] = {
    "one that it names": (a_claim("c"), {RESTRICTIONS, LIMITS, BINDING, ZONES}),
    "one for its ephemeral volume": (a_claim("waiting-e"), {LIMITS, BINDING}),
    "another": (a_claim("x"), set()),
    "one of another namespace": (a_claim("c", namespace="other"), set()),
}


@pytest.mark.parametrize(("claim", "woken"), CLAIMS.values(), ids=CLAIMS.keys())
def test_a_claim_comes(claim: Any, woken: set[Plugin]) -> None:
    event = ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD)
    plugins = (RESTRICTIONS, LIMITS, BINDING, ZONES)
    assert {plugin for plugin in plugins if wakes(plugin, WAITING, event, None, claim)} == woken


@pytest.mark.parametrize("plugin", [BINDING, ZONES], ids=["VolumeBinding", "VolumeZone"])
def test_a_claim_changes(plugin: Plugin) -> None:
    event = ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.UPDATE)
    assert wakes(plugin, WAITING, event, a_claim("c"), a_claim("c", volume="pv"))
    assert not wakes(plugin, WAITING, event, a_claim("x"), a_claim("x", volume="pv"))


def inline(driver: str = DRIVER) -> Any:
    return a_pod(volumes=[{"name": "d", "csi": {"driver": driver}}])


REPORTS, SILENT = a_driver(storageCapacity=True), a_driver(storageCapacity=False)
DRIVERS: dict[str, tuple[Any, Any, Any, bool]] = {
    "room is no longer looked at": (inline(), REPORTS, SILENT, True),
    "room is looked at now": (inline(), SILENT, REPORTS, False),
    "nothing changed": (inline(), REPORTS, REPORTS, False),
    "another driver": (inline("other"), REPORTS, SILENT, False),
    "a claim of that driver": (WAITING, REPORTS, SILENT, False),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), DRIVERS.values(), ids=DRIVERS.keys())
def test_a_driver_changes(pod: Any, old: Any, new: Any, woken: bool) -> None:
    assert wakes(BINDING, pod, ClusterEvent(CSI_DRIVER.event, Action.UPDATE), old, new) is woken


PD = "pd.csi.storage.gke.io"
DETACHED: dict[str, tuple[Any, str, bool]] = {
    "a pod with a claim, whatever was detached": (WAITING, "other", True),
    "a disk of the driver": (a_pod(volumes=gce("d")), PD, True),
    "a disk of another driver": (a_pod(volumes=gce("d")), DRIVER, False),
    "an ephemeral volume": (a_pod(volumes=EPHEMERAL), DRIVER, False),
    "a disk that is never translated": (a_pod(volumes=[{"name": "d", "azureFile": {}}]), "file.csi.azure.com", False),
}


@pytest.mark.parametrize(("pod", "attacher", "woken"), DETACHED.values(), ids=DETACHED.keys())
def test_a_volume_is_detached(pod: Any, attacher: str, woken: bool) -> None:
    event = ClusterEvent(VOLUME_ATTACHMENT.event, Action.DELETE)
    assert wakes(LIMITS, pod, event, an_attachment(attacher=attacher), None) is woken
