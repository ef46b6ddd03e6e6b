"""Claims that are made for pods, and claims that their pods leave, as kube-controller-manager v1.36 treats them."""

from typing import Any

import pytest

from mooring.api.json_objects import JsonObject
from mooring.rules.claims_and_volumes import (
    device_claim_for,
    is_claim_of,
    owning_pod,
    templates_waited_for,
    volume_claim_for,
    with_users,
)

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}


def a_pod(name: str = "p", **spec: Any) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "ns", "uid": "u"}, "spec": spec}


def test_a_claim_from_a_template() -> None:
    devices: JsonObject = {"devices": {"requests": []}}
    template: JsonObject = {"spec": {"metadata": {"annotations": {"a": "b"}}, "spec": devices}}
    assert device_claim_for(a_pod(), "gpu", template) == {
        "metadata": {
            "generateName": "p-gpu-",
            "labels": {},
            "annotations": {"a": "b", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [OWNER],
        },
        "spec": devices,
    }
    assert template["spec"]["metadata"] == {"annotations": {"a": "b"}}


STEMS = {
    "short": ("p", "gpu", "p-gpu-"),
    "as long as it may be": ("p" * 50, "claim", "p" * 50 + "-claim-"),
    "long names are cut both": ("p" * 60, "c" * 40, "p" * 33 + "-" + "c" * 22),
}


@pytest.mark.parametrize(("pod", "entry", "expected"), STEMS.values(), ids=STEMS)
def test_the_stem_of_its_name(pod: str, entry: str, expected: str) -> None:
    made = device_claim_for(a_pod(pod), entry, {"spec": {}})
    assert made["metadata"]["generateName"] == expected


def test_the_claim_of_an_ephemeral_volume_keeps_its_pod_in_foreground_deletion() -> None:
    template = {"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"storageClassName": "fast"}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    assert volume_claim_for(a_pod(), volume) == {
        "metadata": {
            "name": "p-scratch",
            "labels": {"a": "b"},
            "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
        },
        "spec": {"storageClassName": "fast"},
    }


def test_entries_that_still_need_a_claim() -> None:
    entries = [
        {"name": "a", "resourceClaimTemplateName": "t"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimName": "given"},
    ]
    pod = {**a_pod(resourceClaims=entries), "status": {"resourceClaimStatuses": [{"name": "a"}]}}
    assert templates_waited_for(pod) == {"b": "t"}
    assert templates_waited_for(a_pod()) == {}


OWNERS: dict[str, tuple[list[JsonObject], tuple[str, str] | None]] = {
    "none": ([], None),
    "a pod": ([OWNER], ("p", "u")),
    "a pod that does not manage it": ([{**OWNER, "controller": False}], None),
    "something else": ([{**OWNER, "kind": "PodGroup"}, OWNER], ("p", "u")),
}


@pytest.mark.parametrize(("owners", "expected"), OWNERS.values(), ids=OWNERS)
def test_the_pod_that_a_claim_was_made_for(owners: list[JsonObject], expected: tuple[str, str] | None) -> None:
    assert owning_pod({"metadata": {"ownerReferences": owners}}) == expected


def test_the_last_user_gives_the_devices_back() -> None:
    status = {"allocation": {"devices": {}}, "devices": [{}], "reservedFor": [{"uid": "a"}, {"uid": "b"}]}
    one = with_users(status, [{"uid": "b"}])
    assert one == {**status, "reservedFor": [{"uid": "b"}]}
    assert with_users(one, []) == {}


def test_a_group_that_was_stored_without_its_names_waits_for_its_template() -> None:
    group: JsonObject = {
        "metadata": {"name": "gang"},
        "spec": {"resourceClaims": [{"resourceClaimTemplateName": "one"}]},
    }
    assert templates_waited_for(group) == {"": "one"}
    assert templates_waited_for({"metadata": {"name": "gang"}}) == {}
    pod: JsonObject = {
        "metadata": {"name": "p"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
    }
    assert not is_claim_of(group, pod, "gpu")
    assert not is_claim_of(None, pod, "gpu")
    assert is_claim_of({"spec": pod["spec"]}, pod, "gpu")
