"""Which volume a claim gets, as kube-controller-manager v1.36 decides (pv_controller.go, index.go, pv_helpers.go)."""

from typing import Any

import pytest

from mooring.api.json_objects import JsonObject
from mooring.rules.claims_and_volumes import (
    best_volume,
    binding_marks,
    can_provision,
    chosen_volume,
    mismatch,
    provisioned,
    volume_name,
)

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


def a_volume(name: str = "pv", size: str = "5Gi", modes: tuple[str, ...] = (RWO,), **spec: Any) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": "std", **spec},
        "status": {"phase": "Available"},
    }


def a_claim(size: str = "5Gi", **spec: Any) -> JsonObject:
    asked = {"resources": {"requests": {"storage": size}}, "accessModes": [RWO], "storageClassName": "std"}
    return {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {**asked, **spec}}


OURS = {"namespace": "ns", "name": "c", "uid": "u"}
OTHERS = {"namespace": "ns", "name": "d"}

MISFITS: dict[str, tuple[JsonObject, str]] = {
    "as large as asked for": ({}, ""),
    "smaller": ({"size": "4Gi"}, "requested PV is too small"),
    "of another class": ({"storageClassName": "fast"}, "storageClassName does not match"),
    "of another attributes class": (
        {"volumeAttributesClassName": "gold"},
        "volumeAttributesClassName does not match",
    ),
    "of another mode": ({"volumeMode": "Block"}, "incompatible volumeMode"),
    "with more access modes": ({"modes": (RWO, ROX)}, ""),
    "with other access modes": ({"modes": (ROX, RWX)}, "incompatible accessMode"),
}


@pytest.mark.parametrize(("written", "expected"), MISFITS.values(), ids=MISFITS)
def test_a_volume_that_a_claim_names(written: JsonObject, expected: str) -> None:
    volume, claim = a_volume(**written), a_claim(volumeName="pv")
    assert mismatch(volume, claim) == expected
    assert chosen_volume(claim, volume, ()) == (None if expected else volume)


def test_a_volume_that_is_being_deleted_is_not_taken() -> None:
    volume = a_volume(claimRef=OURS)
    volume["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z"
    assert mismatch(volume, a_claim()) == 'the volume is marked for deletion "pv"'
    assert chosen_volume(a_claim(), None, [volume]) is None


def test_where_claim_and_volume_name_each_other_nothing_is_compared() -> None:
    volume = a_volume(size="1Gi", claimRef=OURS)
    assert chosen_volume(a_claim(volumeName="pv"), volume, [volume]) is volume
    assert chosen_volume(a_claim(volumeName="pv"), a_volume(claimRef=OTHERS), ()) is None
    assert chosen_volume(a_claim(volumeName="pv"), None, [volume]) is None


NAMING: dict[str, tuple[JsonObject, bool]] = {
    "that suits": ({}, True),
    "of another class": ({"storageClassName": "fast"}, True),
    "that is too small": ({"size": "1Gi"}, False),
    "of another mode": ({"volumeMode": "Block"}, False),
    "with other access modes": ({"modes": (RWX,)}, False),
    "for another claim of the name": ({"claimRef": {**OURS, "uid": "gone"}}, False),
    "for any claim of the name": ({"claimRef": {"namespace": "ns", "name": "c"}}, True),
}


@pytest.mark.parametrize(("written", "is_chosen"), NAMING.values(), ids=NAMING)
def test_a_volume_that_names_the_claim(written: JsonObject, is_chosen: bool) -> None:
    volume = a_volume(**{"claimRef": OURS, **written})
    assert (chosen_volume(a_claim(), None, [volume]) is volume) == is_chosen


def test_fewer_access_modes_come_before_a_smaller_size_and_that_before_the_name() -> None:
    volumes = [
        a_volume("small", "6Gi", (RWO, ROX)),
        a_volume("large", "9Gi"),
        a_volume("b", "7Gi"),
        a_volume("a", "7Gi"),
    ]
    order = []
    while (best := best_volume(a_claim(), volumes)) is not None:
        order.append(best["metadata"]["name"])
        volumes.remove(best)
    assert order == ["a", "b", "large", "small"]


def test_a_claimed_volume_is_not_free_and_a_selector_chooses() -> None:
    claimed, other, meant = a_volume("x", claimRef=OTHERS), a_volume("y"), a_volume("z", "8Gi")
    meant["metadata"]["labels"] = {"disk": "ssd"}
    assert best_volume(a_claim(), [claimed, meant, other]) is other
    assert best_volume(a_claim(selector={"matchLabels": {"disk": "ssd"}}), [claimed, meant, other]) is meant
    assert best_volume(a_claim("50Gi"), [meant, other]) is None


def test_a_claim_that_named_its_volume_was_not_bound_by_the_controller() -> None:
    done, by_controller = {"pv.kubernetes.io/bind-completed": "yes"}, {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert binding_marks(names_volume=True) == done
    assert binding_marks(False, "csi.example") == {
        **done,
        **by_controller,
        "volume.kubernetes.io/storage-provisioner": "csi.example",
    }


def test_a_new_volume_has_the_attributes_class_of_its_claim() -> None:
    storage_class = {"metadata": {"name": "std"}, "provisioner": "csi.example"}
    made = provisioned(a_claim(volumeAttributesClassName="gold"), storage_class, None)
    assert made["spec"]["volumeAttributesClassName"] == "gold"
    assert not mismatch(made, a_claim(volumeAttributesClassName="gold"))
    assert "volumeAttributesClassName" not in provisioned(a_claim(), storage_class, None)["spec"]
    assert volume_name({"metadata": {"namespace": "ns", "name": "c"}}) == "pvc-ns-c"
    assert [can_provision(name) for name in ("csi.example", "", "kubernetes.io/no-provisioner")] == [True, False, False]
