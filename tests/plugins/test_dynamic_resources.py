"""DynamicResources up to the choice of a node: which pods wait, which nodes will do, what they are worth, who gives way."""

from typing import Any

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node, a_pod
from build_storage import a_claim as a_bound_claim
from build_storage import a_volume
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask, claiming
from mooring.cluster.cluster import Cluster
from mooring.drivers.simulated_driver import Driver
from mooring.framework import config
from mooring.framework.config.args import DynamicResourcesArgs
from mooring.framework.config.durations import Duration
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Intent, Write
from mooring.framework.contract.points import Handle, SchedulerServices
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.plugins.devices.allocation import is_prepared
from mooring.plugins.devices.device_claims import ClaimState
from mooring.plugins.devices.dynamic_resources import DynamicResources
from mooring.state.scheduler_assembly import all_plugins, build_scheduler
from volume_asking import a_context, verdicts

NOW_NS = 1_769_904_000 * NS_PER_S
NODES = (a_node("a"), a_node("b"))
SLICES = (a_slice("a", a_device("d0"), a_device("d1"), node="a"), a_slice("b", a_device("d0"), node="b"))
NO_CHOICE, UNAVAILABLE = "cannot allocate all claims", "resourceclaim not available on the node"


def a_plugin(cluster: Cluster | None = None, args: Any = None, **gates: bool) -> DynamicResources:
    services = SchedulerServices(cluster or Cluster(), now_ns=lambda: NOW_NS)
    return DynamicResources(args, Handle(feature_gates=gates, services=services))


def a_world(*items: KubeObject) -> Cluster:
    return a_cluster(*NODES, *SLICES, a_class(), *items)


def pod_with(*names: str, **content: Any) -> Pod:
    return claiming(a_pod("p", metadata={"uid": "pod"}, **content), *names)


def told(cluster: Cluster, pod: Pod, plugin: DynamicResources | None = None) -> dict[str, str]:
    """By node why it is rejected; under the empty name why the pod is."""
    found = verdicts(plugin or a_plugin(), cluster, pod)
    return {name: each.message for name, each in found.items() if each is not None}


# ---- are the claims there?

FROM_TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
MADE = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}
OWNED = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pod", "controller": True}]}


def from_template(status: dict[str, Any]) -> Pod:
    return a_pod("p", metadata={"uid": "pod"}, resourceClaims=FROM_TEMPLATE, status=status)


UNRESOLVED: dict[str, tuple[Pod, list[KubeObject], str | None]] = {
    "no claims": (a_pod("p"), [], None),
    "a claim that is there": (pod_with("c"), [a_claim("c")], None),
    "a claim that is missing": (pod_with("c"), [], 'could not find ResourceClaim "default/c"'),
    "a claim that is going": (
        pod_with("c"),
        [a_claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        'resourceclaim "c" is being deleted',
    ),
    "a claim has yet to be made": (from_template({}), [], 'pod "default/p": ResourceClaim not created yet'),
    "no claim is needed": (from_template({"resourceClaimStatuses": [{"name": "gpu"}]}), [], None),
    "a claim was made": (from_template(MADE), [a_claim("made", metadata=OWNED)], None),
    "a claim was made for another pod": (
        from_template(MADE),
        [a_claim("made")],
        "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)",
    ),
    "an entry that says nothing": (
        a_pod("p", resourceClaims=[{"name": "x"}]),
        [],
        'pod "default/p", spec.resourceClaim "x": none of the supported fields are set',
    ),
}


@pytest.mark.parametrize(("pod", "items", "text"), UNRESOLVED.values(), ids=UNRESOLVED.keys())
def test_pods_wait_for_their_claims(pod: Pod, items: list[KubeObject], text: str | None) -> None:
    cluster = a_world(*items)
    expected = None if text is None else final(text)
    assert a_plugin(cluster).pre_enqueue(pod) == expected
    if text is not None:
        assert a_plugin().pre_filter(a_context(cluster, pod)) == expected


def test_pods_without_claims_are_left_alone() -> None:
    context = a_context(a_world(), a_pod())
    plugin = a_plugin()
    assert plugin.is_asked_if_concerned and not plugin.concerns(context.pod)
    assert plugin.score(context, slice(0, 2)) is None
    assert plugin.reserve(context, "a") is None
    assert plugin.pre_bind(context, "a") is None


REFUSED: dict[str, tuple[Any, str]] = {
    "a class that is missing": (a_claim("c", an_ask(device_class="x")), "request r0: device class x does not exist"),
    "a class of an alternative": (
        a_claim("c", [an_ask(), an_ask(device_class="x")]),
        "request r0/s1: device class x does not exist",
    ),
    "a request of another kind": (
        a_claim("c", []),
        "resource claim default/c, request r0: unknown request type",
    ),
}


@pytest.mark.parametrize(("claim", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_claims_that_cannot_be_served_anywhere(claim: Any, text: str) -> None:
    assert told(a_world(claim), pod_with("c")) == {"": text}


def test_a_request_without_a_class_is_an_error() -> None:
    with pytest.raises(PluginError, match="^request r0: unsupported request type$"):
        told(a_world(a_claim("c", an_ask(device_class=""))), pod_with("c"))


# ---- which nodes will do

FILTERED: dict[str, tuple[list[Any], list[str], dict[str, str]]] = {
    "a device anywhere": ([a_claim("c")], ["c"], {}),
    "two devices": ([a_claim("c", an_ask(2))], ["c"], {"b": NO_CHOICE}),
    "two claims": ([a_claim("c"), a_claim("d")], ["c", "d"], {"b": NO_CHOICE}),
    "a device that another claim has": (
        [a_claim("c"), a_claim("d", status={"allocation": an_allocation("b/d0")})],
        ["c"],
        {"b": NO_CHOICE},
    ),
    "an allocation on one node": (
        [a_claim("c", status={"allocation": an_allocation("a/d0", node="a")})],
        ["c"],
        {"b": UNAVAILABLE},
    ),
    "an allocation that is good anywhere": ([a_claim("c", status={"allocation": an_allocation("a/d0")})], ["c"], {}),
    "an allocation, and a claim that needs one": (
        [a_claim("c", status={"allocation": an_allocation("a/d0", node="a")}), a_claim("d", an_ask(2))],
        ["c", "d"],
        {"a": NO_CHOICE, "b": NO_CHOICE},
    ),
    "invalid pools": (
        [a_claim("c", an_ask(3)), a_slice("x", a_device(), a_device(), node="b", pool="x")],
        ["c"],
        {"a": NO_CHOICE, "b": "invalid resource pools were encountered"},
    ),
}


@pytest.mark.parametrize(("items", "names", "rejected"), FILTERED.values(), ids=FILTERED.keys())
def test_nodes(items: list[Any], names: list[str], rejected: dict[str, str]) -> None:
    cluster = a_world(*items)
    assert told(cluster, pod_with(*names)) == rejected
    assert all(
        each is None or each == final(each.message) for each in verdicts(a_plugin(), cluster, pod_with(*names)).values()
    )


def test_a_claim_that_another_pod_is_getting() -> None:
    cluster = a_world(a_claim("c"))
    plugin = a_plugin()
    context = a_context(cluster, pod_with("c"))
    verdicts(plugin, cluster, context.pod, context)
    plugin.reserve(context, "a")
    other = {"": "resource claim default/c is in the process of being allocated"}
    assert told(cluster, pod_with("c"), plugin) == other
    plugin.unreserve(context, "a")
    assert told(cluster, pod_with("c"), plugin) == {}


def test_devices_that_are_reserved_are_taken() -> None:
    cluster = a_world(a_claim("c"), a_claim("d"))
    plugin = a_plugin()
    context = a_context(cluster, pod_with("c"))
    verdicts(plugin, cluster, context.pod, context)
    plugin.reserve(context, "b")
    assert told(cluster, pod_with("d"), plugin) == {"b": NO_CHOICE}


def test_a_fault_of_a_claim_ends_the_attempt() -> None:
    told_of = "^claim default/c: selector #0 on device gpu.example.com/.*: CEL runtime error: no such key: x. "
    with pytest.raises(PluginError, match=told_of):
        told(a_world(a_claim("c", an_ask(1, f'device.attributes["{DRIVER}"].x'))), pod_with("c"))


def test_a_search_has_its_time() -> None:
    devices = [a_device(f"d{i}") for i in range(20)]
    cluster = a_cluster(a_node("a"), a_class(), a_slice("s", *devices, node="a"), a_claim("c", an_ask(10), an_ask(11)))
    args = DynamicResourcesArgs(filter_timeout=Duration(10_000_000))
    with pytest.raises(PluginError, match="^node a: timed out trying to allocate devices$"):
        told(cluster, pod_with("c"), a_plugin(args=args))


def test_a_slice_with_a_selector_that_cannot_be_read() -> None:
    term = {"matchExpressions": [{"key": "x", "operator": "Near"}]}
    bad = a_slice("bad", a_device(), pool="net", nodeSelector={"nodeSelectorTerms": [term]})
    with pytest.raises(PluginError, match="^gather pool information: failed to perform node selection for slice bad"):
        told(a_world(a_claim("c"), bad), pod_with("c"))


# ---- devices that must be prepared

READY: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def preparing(condition: str = "", minutes_ago: int = 0) -> Any:
    """A claim with a device that is being prepared, since so many minutes ago."""
    since = f"2026-01-31T23:{60 - minutes_ago:02}:00Z" if minutes_ago else "2026-02-01T00:00:00Z"
    allocation = {**an_allocation("a/d0", **READY), "allocationTimestamp": since}
    device = {"driver": DRIVER, "pool": "a", "device": "d0", "conditions": [{"type": condition, "status": "True"}]}
    return a_claim("c", status={"allocation": allocation, "devices": [device] if condition else None})


PREPARED: dict[str, tuple[Any, bool]] = {
    "not yet": (preparing(), True),
    "not in time": (preparing(minutes_ago=11), False),
    "in time": (preparing("ready", 11), True),
    "it failed": (preparing("broken"), False),
    "something else is true": (preparing("other", 11), False),
}


@pytest.mark.parametrize(("claim", "is_usable"), PREPARED.values(), ids=PREPARED.keys())
def test_devices_that_are_being_prepared(claim: Any, is_usable: bool) -> None:
    rejected = {} if is_usable else {"a": UNAVAILABLE, "b": UNAVAILABLE}
    assert told(a_world(claim), pod_with("c")) == rejected
    assert told(a_world(claim), pod_with("c"), a_plugin(DRADeviceBindingConditions=False)) == {}


def reported(*conditions: str, devices: int = 1, statuses: int = 1) -> Any:
    """A claim whose devices each need two conditions, of which the first devices report some."""
    needed: dict[str, Any] = {"bindingConditions": ["powered", "ready"]}
    allocation = an_allocation(*(f"a/d{i}" for i in range(devices)), **needed)
    found = [{"type": each.strip("!"), "status": "False" if each[0] == "!" else "True"} for each in conditions]
    status = [{"driver": DRIVER, "pool": "a", "device": f"d{i}", "conditions": found} for i in range(statuses)]
    return a_claim("c", status={"allocation": allocation, "devices": status})


ALL_OF: dict[str, tuple[Any, bool]] = {
    "none": (reported(), False),
    "the first": (reported("powered"), False),
    "the second": (reported("ready"), False),
    "one is false": (reported("powered", "!ready"), False),
    "both": (reported("powered", "ready"), True),
    "both, in another order and beside others": (reported("other", "ready", "powered"), True),
    "both, of one device in two": (reported("powered", "ready", devices=2), False),
    "both, of two devices": (reported("powered", "ready", devices=2, statuses=2), True),
}


@pytest.mark.parametrize(("claim", "expected"), ALL_OF.values(), ids=ALL_OF.keys())
def test_devices_are_prepared_when_all_conditions_of_all_of_them_are_true(claim: Any, expected: bool) -> None:
    assert is_prepared(claim) is expected


# ---- who gives way


def after_filter(cluster: Cluster, pod: Pod) -> tuple[str, list[Intent]]:
    """What PostFilter says, and what it wants."""
    wanted: list[Intent] = []
    plugin = DynamicResources(None, Handle(services=SchedulerServices(now_ns=lambda: NOW_NS, want=wanted.append)))
    context = a_context(cluster, pod)
    verdicts(plugin, cluster, pod, context)
    failure: Any = _Failure(context)
    answer = plugin.post_filter(failure).rejection
    assert answer == Rejection(answer.reasons, answer.code)
    return answer.message, wanted


class _Failure:
    def __init__(self, context: SchedulingContext) -> None:
        self.attempt = self
        self.context = context


FAR = {"allocation": an_allocation("a/d0", node="gone")}
MINE, ANOTHERS = {"resource": "pods", "name": "p", "uid": "pod"}, {"resource": "pods", "name": "q", "uid": "other"}
ROOM: dict[str, tuple[Any, str]] = {
    "nobody uses the claim": (FAR, "deallocation of ResourceClaim completed"),
    "only this pod uses it": ({**FAR, "reservedFor": [MINE]}, "deallocation of ResourceClaim completed"),
    "another pod uses it": ({**FAR, "reservedFor": [ANOTHERS]}, ""),
    "others use it too": ({**FAR, "reservedFor": [MINE, ANOTHERS]}, ""),
    "it is usable": ({"allocation": an_allocation("a/d0")}, ""),
}


@pytest.mark.parametrize(("status", "text"), ROOM.values(), ids=ROOM.keys())
def test_claims_that_give_way(status: Any, text: str) -> None:
    said, wanted = after_filter(a_world(a_claim("c", status=status, metadata={"resourceVersion": "7"})), pod_with("c"))
    assert said == text
    body = {"metadata": {"resourceVersion": "7"}, "status": {"allocation": None, "reservedFor": None, "devices": None}}
    if text.startswith("dealloc"):
        (write,) = wanted
        assert isinstance(write, Write)
        assert (write.method, write.name, write.namespace, write.subresource, write.body) == (
            *("PATCH", "c", "default", "status"),
            body,
        )
    else:
        assert wanted == []


def test_no_claims_give_way() -> None:
    assert after_filter(a_world(), a_pod()) == ("", [])
    assert after_filter(a_world(), pod_with("missing")) == ("", [])


def test_an_attempt_that_ended_before_is_an_error() -> None:
    failure: Any = _Failure(a_context(a_world(), a_pod()))
    failure.context.unreached = ["DynamicResources"]
    with pytest.raises(PluginError, match="^not found$"):
        a_plugin().post_filter(failure)


def test_pods_of_one_shape_differ_in_whether_an_attempt_ended_before() -> None:
    """Parity: PostFilter fails where PreFilter of VolumeBinding ended the attempt, also if an earlier pod of the shape came
    as far as this plugin, which skipped it."""
    clock = VirtualClock(NOW_NS)
    driver = Driver(clock, build_scheduler(config.default(), clock, all_plugins()), with_versions=True)
    for item in (a_node("n", cpu="1"), a_volume("pv"), a_bound_claim("there", volume="pv")):
        driver.create(item)

    def says(name: str, claim: str) -> str | None:
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        driver.create(a_pod(name, schedulerName="default-scheduler", cpu="2", volumes=volumes))
        driver.settle()
        pod = driver.objects["Pod", f"default/{name}"]
        assert isinstance(pod, Pod)
        assert pod.status.conditions
        return pod.status.conditions[0].message

    assert "1 Insufficient cpu" in (says("first", "there") or "")
    missing = '0/1 nodes are available: persistentvolumeclaim "gone" not found. not found'
    assert says("second", "gone") == missing
    assert "1 Insufficient cpu" in (says("third", "there") or "")


# ---- what nodes are worth

H100 = f'device.attributes["{DRIVER}"].model == "h100"'


def worth(*claims: Any) -> list[int] | None:
    cluster = a_cluster(
        *NODES,
        a_class(),
        a_slice("a", a_device("d0", model="h100"), a_device("d1", model="h100"), node="a"),
        a_slice("b", a_device("d0", model="t4"), a_device("d1", model="h100"), node="b"),
        *claims,
    )
    plugin, context = a_plugin(), a_context(cluster, pod_with(*(claim.name for claim in claims)))
    verdicts(plugin, cluster, context.pod, context)
    rows = np.arange(2)
    scores = plugin.score(context, rows)
    return None if scores is None else [*scores.tolist(), *plugin.normalize(context, scores, rows).tolist()]


def test_the_sooner_an_alternative_the_better() -> None:
    assert worth(a_claim("c", [an_ask(2, H100), an_ask()])) == [8, 7, 100, 87]
    assert worth(a_claim("c", [an_ask(1, H100), an_ask()], [an_ask(1, H100), an_ask()])) == [16, 15, 100, 93]
    assert worth(a_claim("c")) is None


def test_claims_that_have_their_devices_count_beside_those_that_get_them() -> None:
    given = {"allocation": an_allocation("x/y")}
    given["allocation"]["devices"]["results"][0]["request"] = "r0/s1"
    settled = a_claim("c", [an_ask(), an_ask()], status=given)
    assert worth(settled) is None
    assert worth(settled, a_claim("d", [an_ask(2, H100), an_ask()])) == [15, 14, 100, 93]


# ---- what is reserved


def reserved(cluster: Cluster, pod: Pod, node_name: str) -> ClaimState:
    plugin, context = a_plugin(), a_context(cluster, pod)
    verdicts(plugin, cluster, pod, context)
    assert plugin.reserve(context, node_name) is None
    state: ClaimState = context.state.read(plugin.name)
    return state


def test_an_allocation_in_full() -> None:
    device = a_device("d0", {"memory": "4Gi"}, allowMultipleAllocations=True, bindingConditions=["ready"])
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"x": 1}}}
    ask = an_ask(capacity={"requests": {"memory": "1Gi"}}, tolerations=[{"key": "k", "operator": "Exists"}])
    claim = a_claim("c", [ask], ask, config=[{"requests": ["r1"], **opaque}, {"requests": ["r0/s0"], **opaque}])
    cluster = a_cluster(a_node("a"), a_slice("s", device, node="a"), a_class("gpu", config=[opaque]), claim)
    written = msgspec.to_builtins(reserved(cluster, pod_with("c"), "a").allocations[0])
    first, second = written["devices"]["results"]
    assert first.pop("shareID") != second.pop("shareID")
    assert first == {
        "request": "r0/s0",
        "driver": DRIVER,
        "pool": "a",
        "device": "d0",
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "bindingConditions": ["ready"],
        "consumedCapacity": {"memory": "1Gi"},
    }
    assert second == {**first, "request": "r1"}
    assert written["devices"]["config"] == [
        {"source": "FromClass", **opaque},
        {"source": "FromClaim", "requests": ["r1"], **opaque},
        {"source": "FromClaim", "requests": ["r0/s0"], **opaque},
    ]
    assert written["nodeSelector"] == an_allocation(node="a")["nodeSelector"]


def zone(name: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}]}


WHERE: dict[str, tuple[Any, Any]] = {
    "on its node": (a_slice("s", a_device(), node="a"), an_allocation(node="a")["nodeSelector"]),
    "anywhere": (a_slice("s", a_device(), allNodes=True), None),
    "where the slice says": (a_slice("s", a_device(), nodeSelector=zone("z")), zone("z")),
    "where the device says": (
        a_slice("s", a_device(nodeSelector=zone("z")), perDeviceNodeSelection=True),
        zone("z"),
    ),
    "on the node that it is bound to": (
        a_slice("s", a_device(bindsToNode=True), allNodes=True),
        an_allocation(node="a")["nodeSelector"],
    ),
}


@pytest.mark.parametrize(("slice", "selector"), WHERE.values(), ids=WHERE.keys())
def test_where_an_allocation_can_be_used(slice: Any, selector: Any) -> None:
    cluster = a_cluster(a_node("a", labels={"zone": "z"}), slice, a_class(), a_claim("c"))
    allocation = reserved(cluster, pod_with("c"), "a").allocations[0]
    assert msgspec.to_builtins(allocation.node_selector) == selector
