"""Objects of older versions of resource.k8s.io in the form of v1, and claims in the form of v1beta1."""

import copy
from typing import Any

import msgspec
import pytest

from mooring.api.kinds.devices import DEVICE_TAINT_RULE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from mooring.apiclient.reflectors.watch_streams import LineDecoder, MalformedObject
from mooring.inputs.documents import ManifestFile
from mooring.inputs.manifests import read_files
from mooring.model.devices import DeviceTaintRule, ResourceClaim, ResourceSlice

V1BETA1 = "resource.k8s.io/v1beta1"
CLAIM = RESOURCE_CLAIM.other_forms[V1BETA1]
SLICE = RESOURCE_SLICE.other_forms[V1BETA1]
TEMPLATE = RESOURCE_CLAIM_TEMPLATE.other_forms[V1BETA1]
RULE = DEVICE_TAINT_RULE.other_forms["resource.k8s.io/v1alpha3"]

REQUESTS: list[Any] = [
    pytest.param(
        {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2},
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}},
        id="an exact request",
    ),
    pytest.param(
        {"name": "r", "deviceClassName": "", "firstAvailable": [{"name": "a", "deviceClassName": "c", "count": 1}]},
        {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "count": 1}]},
        id="alternatives, with the empty class that servers write",
    ),
    pytest.param(
        {"name": "r", "deviceClassName": "c", "adminAccess": False},
        {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": False}},
        id="false is a value",
    ),
    pytest.param(
        {"name": "r", "deviceClassName": "c", "count": 0, "selectors": None, "tolerations": [{"key": "k"}]},
        {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}]}},
        id="null and zero are no values",
    ),
    pytest.param({"name": "r"}, {"name": "r"}, id="a request for nothing"),
    pytest.param("no object", "no object", id="what is no object is left to the decoder"),
]


@pytest.mark.parametrize(("written", "expected"), REQUESTS)
def test_requests_of_v1beta1(written: Any, expected: Any) -> None:
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [written]}}, "status": {"reservedFor": []}}
    before = copy.deepcopy(claim)
    assert CLAIM.read(claim) == {**claim, "spec": {"devices": {"requests": [expected]}}}
    assert TEMPLATE.read({"spec": claim}) == {"spec": CLAIM.read(claim)}
    assert claim == before, "the argument stays as it is: YAML may have it in several places"


def test_a_claim_that_is_written_in_v1beta1_is_read_as_it_was() -> None:
    exactly = {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}], "count": 1}
    requests = [{"name": "a", "exactly": exactly}, {"name": "b", "firstAvailable": [{"name": "x"}]}]
    claim = {"metadata": {"generateName": "p-"}, "spec": {"devices": {"requests": requests, "config": []}}}
    assert CLAIM.write is not None
    written = CLAIM.write(claim)
    assert written["spec"]["devices"]["requests"][0] == {"name": "a", **exactly}
    assert CLAIM.read(written) == claim
    parts: tuple[dict[str, Any], ...] = ({}, {"metadata": {}}, {"spec": {}}, {"spec": {"devices": {}}})
    for partly in parts:
        assert CLAIM.write(partly) == partly == CLAIM.read(partly)


def test_devices_of_v1beta1() -> None:
    basic = {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}, "taints": []}
    spec = {
        "nodeName": "n",
        "devices": [{"name": "d", "basic": basic}, {"name": "bare"}, {"name": "odd", "basic": 7}, 5],
    }
    assert SLICE.read({"spec": spec})["spec"]["devices"] == [
        {"name": "d", **basic},
        {"name": "bare"},
        {"name": "odd"},
        5,
    ]
    assert SLICE.read({"spec": {"devices": None}}) == {"spec": {"devices": None}}


# ---- in watches


def event(item: Any) -> bytes:
    return msgspec.json.encode({"type": "ADDED", "object": item})


def test_watches_read_older_forms_into_one_typed_form() -> None:
    devices = [{"name": "d", "basic": {"attributes": {"model": {"string": "x"}}}}]
    item = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, "devices": devices}}
    decoder = LineDecoder(ResourceSlice, SLICE)
    (device,) = decoder.event(event(item)).object.spec.devices or []
    assert device == msgspec.convert({"name": "d", "attributes": {"model": {"string": "x"}}}, type(device))
    page = msgspec.json.encode({"kind": "ResourceSliceList", "metadata": {"resourceVersion": "7"}, "items": [item, {}]})
    version, (first, second) = decoder.page(page)
    assert version == "7" and isinstance(second, MalformedObject) and not isinstance(first, MalformedObject)
    assert first.spec.devices == [device]


def test_a_rule_with_a_criterion_that_is_gone_taints_nothing() -> None:
    decoder = LineDecoder(DeviceTaintRule, RULE)
    taint = {"key": "k", "effect": "NoSchedule"}
    plain = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}}
    assert decoder.event(event(plain)).object.name == "r"
    for name, value in (("deviceClassName", "c"), ("selectors", [{"cel": {"expression": "true"}}])):
        with pytest.raises(MalformedObject) as raised:
            decoder.event(event({**plain, "spec": {"deviceSelector": {name: value}, "taint": taint}}))
        text = f"spec.deviceSelector.{name}: Kubernetes 1.35 removed this criterion; the rule has no effect"
        assert (str(raised.value), raised.value.key) == (text, "r")


# ---- in files


def test_a_list_of_an_older_server_is_read_from_a_file() -> None:
    item = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "k", "count": 3}]}},
    }
    listed = {"kind": "ResourceClaimList", "apiVersion": V1BETA1, "items": [item]}
    manifests = read_files([ManifestFile("claims.json", msgspec.json.encode(listed))])
    assert manifests.problems == []
    (claim,) = (each.object for each in manifests.objects if isinstance(each.object, ResourceClaim))
    (request,) = claim.spec.devices.requests or []
    assert request.exactly is not None and (request.exactly.device_class_name, request.exactly.count) == ("k", 3)
