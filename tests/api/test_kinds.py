"""The specs of all kinds, taken together: each is found, none hides another, and what they name is there."""

from collections import Counter
from pathlib import Path

import pytest

from mooring.api import kinds
from mooring.api.fields import is_type, type_of
from mooring.api.kind_spec import POSTED, KindSpec
from mooring.api.kinds import BY_KIND, KINDS, REQUESTS, RESOURCES, SPECS, WATCHED

METADATA = {"labels", "annotations", "finalizers", "ownerReferences"}


def by_name(spec: KindSpec) -> str:
    return f"{spec.api_version} {spec.kind}"


def test_every_module_of_the_package_has_specs_that_are_found() -> None:
    (folder,) = kinds.__path__
    written = sum(path.read_text().count(" = KindSpec(") for path in Path(folder).glob("[a-z]*.py"))
    assert len(SPECS) == written > 40


def test_no_spec_hides_another() -> None:
    places = Counter((spec.group, spec.version, spec.plural) for spec in SPECS)
    names = Counter(by_name(spec) for spec in SPECS)
    structs = Counter(spec.struct for spec in KINDS.values())
    assert {*places.values(), *names.values(), *structs.values()} == {1}
    assert len(RESOURCES) + len(REQUESTS) == len(SPECS) + sum(len(spec.served_too) for spec in SPECS)
    assert len(BY_KIND) == len(RESOURCES)


def test_the_groups_are_in_the_order_that_clients_prefer() -> None:
    groups = list(dict.fromkeys(spec.group for spec in SPECS))
    assert groups[:4] == ["", "apps", "batch", "policy"]
    assert groups[-2:] == ["authentication.k8s.io", "authorization.k8s.io"]


@pytest.mark.parametrize("spec", SPECS, ids=by_name)
def test_what_a_spec_says_can_be_meant(spec: KindSpec) -> None:
    assert not spec.lists or not is_type(type_of(spec)), "the table of fields says how its lists are merged"
    assert {*spec.status_keeps} <= METADATA
    has_status = bool(spec.new_status or spec.brings_status or spec.completes_status or spec.status_keeps)
    assert not has_status or "status" in spec.subresources
    assert spec.watch is None or spec.is_typed
    assert spec.verbs == POSTED or {"get", "list", "watch"} <= {*spec.verbs}


def test_the_scheduler_watches_what_upstream_watches() -> None:
    waking = [spec.event for spec, watch in WATCHED.items() if watch.wakes_pods]
    assert {*waking} == {
        *("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "scheduling.k8s.io/PodGroup"),
        "scheduling.k8s.io/CompositePodGroup",
        *("storage.k8s.io/StorageClass", "storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver"),
        *("storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment"),
        *("resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass"),
    }
    gates = {spec.kind: watch.needs_gate for spec, watch in WATCHED.items() if watch.needs_gate}
    assert gates == {
        "PodGroup": "GenericWorkload",
        "CompositePodGroup": "CompositePodGroup",
        "DeviceTaintRule": "DRADeviceTaintRules",
    }
