"""DynamicResources at each extension point: what it keeps from one to the next, and what its arguments and gates change."""

from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from device_building import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    a_status,
    an_allocation,
    an_ask,
    claiming,
    parts_of_node,
)
from gangs import a_member
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import DynamicResourcesArgs, NodeAffinityArgs
from mooring.framework.config.durations import Duration
from mooring.framework.contract.context import DEVICE_RESOURCES, DEVICE_TOTALS, KEPT_ONLY, SchedulingContext
from mooring.framework.contract.points import Handle, Need, SchedulerServices
from mooring.framework.contract.status import OutOfEffort, PluginError, curable, final
from mooring.kit.clock import NS_PER_S
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAllocatableClaimStatus, OverheadResource
from mooring.plugins.devices.device_claims import ClaimState
from mooring.plugins.devices.dynamic_resources import DynamicResources
from volume_asking import a_context, verdicts

GPU, NIC = "example.com/gpu", "example.com/nic"
NO_CHOICE, UNAVAILABLE = "cannot allocate all claims", "resourceclaim not available on the node"
NODE_RESOURCES = {"DRANodeAllocatableResources": True}


def a_plugin(args: Any = None, now_s: int = 0, **gates: bool) -> DynamicResources:
    services = SchedulerServices(now_ns=lambda: now_s * NS_PER_S)
    return DynamicResources(args, Handle(feature_gates=gates, services=services))


def a_world(*items: Any) -> Cluster:
    """Two devices on node a, one on b."""
    slices = (a_slice("a", a_device("d0"), a_device("d1"), node="a"), a_slice("b", a_device("d0"), node="b"))
    return a_cluster(a_node("a"), a_node("b"), a_class("gpu", extendedResourceName=GPU), *slices, *items)


def pod_with(*names: str, **content: Any) -> Pod:
    return claiming(a_pod("p", metadata={"uid": "pod"}, **content), *names)


class Attempt:
    """One attempt up to Filter."""

    def __init__(
        self, cluster: Cluster, pod: Pod, plugin: DynamicResources | None = None, seed: int = 0, filters: bool = True
    ) -> None:
        self.plugin = plugin or a_plugin()
        self.context = SchedulingContext(pod, cluster, seed, FreshValues())
        self.cluster = cluster
        self.told: dict[str, str] = {}
        if filters:
            found = verdicts(self.plugin, cluster, pod, self.context)
            self.told = {name: each.message for name, each in found.items() if each is not None}
        else:
            assert self.plugin.pre_filter(self.context) is None

    @property
    def state(self) -> ClaimState:
        state: ClaimState = self.context.state.read(self.plugin.name)
        return state

    def scores(self, *rows: int) -> list[int] | None:
        found = self.plugin.score(self.context, np.array(rows or (0, 1)))
        return None if found is None else found.tolist()

    def given(self, index: int = 0) -> list[str]:
        results = self.state.allocations[index].devices.results or ()
        return [f"{each.request}={each.pool}/{each.device}" for each in results]


# ---- arguments and gates


@pytest.mark.parametrize(
    ("args", "steps"),
    [
        (DynamicResourcesArgs(filter_timeout=Duration.of_seconds(10)), 400_000),
        (DynamicResourcesArgs(filter_timeout=Duration(25_000_000)), 1_000),
        (DynamicResourcesArgs(filter_timeout=Duration(0)), None),
        (DynamicResourcesArgs(), None),
        (NodeAffinityArgs(), None),
        (None, None),
    ],
)
def test_the_time_for_a_search_is_counted_in_steps(args: Any, steps: int | None) -> None:
    assert a_plugin(args).searches.max_steps == steps


def test_points_that_need_prefilter_are_named() -> None:
    points = ("filter", "score", "reserve", "preBind")
    assert a_plugin().needs == tuple(Need(point, "preFilter", "not found") for point in points)


READY = {"bindingConditions": ["ready"]}


@pytest.mark.parametrize(
    ("args", "now_s", "is_usable"),
    [
        (None, 600, True),
        (None, 601, False),
        (DynamicResourcesArgs(binding_timeout=Duration.of_seconds(5)), 5, True),
        (DynamicResourcesArgs(binding_timeout=Duration.of_seconds(5)), 6, False),
    ],
)
def test_devices_have_ten_minutes_to_be_prepared_or_what_the_arguments_say(
    args: Any, now_s: int, is_usable: bool
) -> None:
    allocation = {**an_allocation("a/d0", **READY), "allocationTimestamp": "1970-01-01T00:00:00Z"}  # type: ignore[arg-type]
    cluster = a_world(a_claim("c", status={"allocation": allocation}))
    told = Attempt(cluster, pod_with("c"), a_plugin(args, now_s)).told
    assert told == ({} if is_usable else {"a": UNAVAILABLE, "b": UNAVAILABLE})


# ---- PreFilter and Filter


def test_what_a_pod_without_claims_gets_is_decided_before_any_search() -> None:
    attempt = Attempt(a_world(), a_pod("p", requests={NIC: 1}))
    assert not attempt.plugin.concerns(a_pod("p"))
    assert attempt.context.state.find(DEVICE_TOTALS) is None
    assert not attempt.plugin.has_binding_work(attempt.context)
    assert attempt.plugin.filter(attempt.context, slice(0, 2)) is None
    assert attempt.scores() is None and not attempt.state.is_filtered
    attempt.plugin.unreserve(attempt.context, "a")
    attempt.plugin.unreserve(a_context(attempt.cluster, a_pod("q")), "a")


def test_the_totals_of_devices_are_offered_to_pods_that_they_may_serve() -> None:
    attempt = Attempt(a_world(a_claim("c")), a_pod("p", requests={GPU: 1}))
    totals = attempt.context.state.find(DEVICE_TOTALS)
    assert totals(GPU, np.arange(2)).tolist() == [[2, 1], [0, 0]]
    assert totals(NIC, np.arange(2)) is None
    assert attempt.plugin.has_binding_work(attempt.context)
    assert Attempt(a_world(a_claim("c")), pod_with("c")).context.state.find(DEVICE_TOTALS) is None


def test_filter_answers_about_the_rows_that_it_is_asked_about() -> None:
    attempt = Attempt(a_world(a_claim("c", an_ask(2))), pod_with("c"))
    assert attempt.told == {"b": NO_CHOICE}
    codes = [attempt.plugin.filter(attempt.context, np.array(rows)) for rows in ([1, 0], [0], [1])]
    assert [None if each is None else each.tolist() for each in codes] == [[1, 0], None, [1]]


def test_claims_that_stand_in_the_way_are_noted() -> None:
    on_a = a_claim("c", status={"allocation": an_allocation("a/d0", node="a")})
    on_b = a_claim("d", status={"allocation": an_allocation("b/d0", node="b")})
    anywhere = a_claim("e", status={"allocation": an_allocation("x/d0")})
    attempt = Attempt(a_world(on_a, on_b, anywhere), pod_with("c", "d", "e"))
    assert attempt.told == {"a": UNAVAILABLE, "b": UNAVAILABLE}
    assert attempt.state.unavailable == {0, 1}
    attempt = Attempt(a_world(anywhere, on_a), pod_with("e", "c"))
    assert (attempt.told, attempt.state.unavailable) == ({"b": UNAVAILABLE}, {1})


def test_a_claim_is_not_in_the_way_on_nodes_that_lack_something_else() -> None:
    on_a = a_claim("c", status={"allocation": an_allocation("a/d0", node="a")})
    attempt = Attempt(a_world(on_a, a_claim("d", an_ask(2))), pod_with("c", "d"))
    assert attempt.told == {"a": NO_CHOICE, "b": NO_CHOICE}
    assert attempt.state.unavailable == set()
    both = Attempt(a_world(on_a, a_claim("d")), pod_with("c", "d", requests={NIC: 1, GPU: 1}))
    assert both.told == {"a": "cannot fit resource", "b": "cannot fit resource"}
    assert both.state.unavailable == set()


def test_a_selector_of_an_allocation_that_cannot_be_read_ends_the_attempt() -> None:
    terms = [{"matchExpressions": [{"key": "k", "operator": "Sounds"}]}]
    allocation = {**an_allocation("a/d0"), "nodeSelector": {"nodeSelectorTerms": terms}}
    with pytest.raises(PluginError):
        Attempt(a_world(a_claim("c", status={"allocation": allocation})), pod_with("c"))


def test_all_that_is_rejected_is_final() -> None:
    plugin, context = a_plugin(), a_context(a_world(), a_pod("p"))
    texts = {
        1: NO_CHOICE,
        2: "invalid resource pools were encountered",
        3: UNAVAILABLE,
        4: "cannot schedule extended resource claim",
        5: "cannot fit resource",
    }
    assert [plugin.rejection(context, code) for code in texts] == [final(text) for text in texts.values()]
    context.state.write(plugin.name, ClaimState(refusals=[curable("first"), final("second")]))
    assert [plugin.rejection(context, code) for code in (16, 17)] == [curable("first"), final("second")]


def test_a_self_check_is_answered_from_what_is_kept() -> None:
    cluster, plugin = a_world(a_claim("c")), a_plugin()
    context = a_context(cluster, pod_with("c"))
    context.state.write(KEPT_ONLY, True)
    with pytest.raises(OutOfEffort):
        verdicts(plugin, cluster, context.pod, context)
    Attempt(cluster, pod_with("c"), plugin)
    assert verdicts(plugin, cluster, context.pod, context) == {"a": None, "b": None}


# ---- extended resources


def two_kinds(*items: Any) -> Cluster:
    """Devices for both resources on all nodes; node a has gpus itself, b has nics, c has neither, d has both."""
    nodes = [
        a_node("a", allocatable={GPU: 4}),
        a_node("b", allocatable={NIC: 4}),
        a_node("c"),
        a_node("d", allocatable={GPU: 4, NIC: 4}),
    ]
    kind = f'device.attributes["{DRIVER}"].kind'
    classes = [
        a_class("gpu", f'{kind} == "gpu"', extendedResourceName=GPU),
        a_class("nic", f'{kind} == "nic"', extendedResourceName=NIC),
    ]
    slices = [a_slice(n, a_device("g", kind="gpu"), a_device("n", kind="nic"), node=n) for n in "abcd"]
    return a_cluster(*nodes, *classes, *slices, *items)


@pytest.mark.parametrize(
    ("node", "devices"),
    [("a", ["n"]), ("b", ["g"]), ("c", ["g", "n"]), ("d", [])],
)
def test_devices_serve_on_each_node_what_it_does_not_have_itself(node: str, devices: list[str]) -> None:
    attempt = Attempt(two_kinds(), a_pod("p", metadata={"uid": "pod"}, requests={GPU: 1, NIC: 1}))
    assert attempt.told == {}
    assert attempt.plugin.reserve(attempt.context, node) is None
    found = [each.partition("/")[2] for each in attempt.given()] if attempt.state.allocations else []
    assert found == devices
    if devices:
        claim = attempt.state.node_claim
        assert claim is not None and len(claim.spec.devices.requests or ()) == len(devices)
        assert [each.resource_name for each in attempt.state.mappings] == [
            {"g": GPU, "n": NIC}[device] for device in devices
        ]
    else:
        assert attempt.state.node_claim is None and not attempt.state.mappings


def test_nodes_of_which_devices_serve_too_little_are_rejected_and_others_are_not() -> None:
    taken = a_claim("used", status={"allocation": an_allocation("c/g")})
    attempt = Attempt(two_kinds(taken), a_pod("p", metadata={"uid": "pod"}, requests={GPU: 1, NIC: 1}))
    assert attempt.told == {"c": NO_CHOICE}


def test_a_claim_of_an_earlier_attempt_rejects_all_nodes() -> None:
    owner = {"kind": "Pod", "name": "p", "uid": "pod", "controller": True}
    marks = {"resource.kubernetes.io/extended-resource-claim": "true"}
    old = a_claim("old", metadata={"annotations": marks, "ownerReferences": [owner]})
    attempt = Attempt(a_world(old), a_pod("p", metadata={"uid": "pod"}, requests={GPU: 1}))
    assert attempt.told == dict.fromkeys("ab", "cannot schedule extended resource claim")


# ---- Score


def test_scores_add_alternatives_that_are_taken_and_those_that_claims_have() -> None:
    model = f'device.attributes["{DRIVER}"].model == "h100"'
    cluster = a_cluster(
        a_node("a"),
        a_node("b"),
        a_class(),
        a_slice("a", a_device("d0", model="h100"), node="a"),
        a_slice("b", a_device("d0", model="t4"), node="b"),
        a_claim("c", [an_ask(1, model), an_ask()]),
    )
    attempt = Attempt(cluster, pod_with("c"))
    assert (attempt.scores(), attempt.scores(1, 0), attempt.scores(1)) == ([8, 7], [7, 8], [7])
    scores = np.array([8, 7])
    assert attempt.plugin.normalize(attempt.context, scores, slice(0, 2)).tolist() == [100, 87]
    stateless = a_context(cluster, a_pod("q"))
    assert attempt.plugin.normalize(stateless, scores, slice(0, 2)).tolist() == [8, 7]
    assert Attempt(cluster, pod_with("c"), filters=False).scores() is None
    assert Attempt(a_world(a_claim("c")), pod_with("c")).scores() is None, "no alternatives, no scores"


def test_a_claim_that_has_its_devices_is_scored_too() -> None:
    allocation = an_allocation("x/d0")
    allocation["devices"]["results"][0]["request"] = "r0/s0"
    settled = a_claim("c", [an_ask()], status={"allocation": allocation})
    assert Attempt(a_world(settled, a_claim("d")), pod_with("c", "d")).scores() == [8, 8]


# ---- Reserve and PreBind


def test_devices_count_as_taken_from_reserve_on() -> None:
    attempt = Attempt(a_world(a_claim("c"), a_claim("d")), pod_with("c", "d"))
    assert attempt.plugin.reserve(attempt.context, "a") is None
    assert (attempt.given(0), attempt.given(1)) == (["r0=a/d0"], ["r0=a/d1"])
    assert attempt.cluster.claims.pending_ids() == {"uid-c", "uid-d"}
    assert sorted(device[2] for device in attempt.cluster.claims.exclusive) == ["d0", "d1"]
    assert attempt.state.node_claim is None and attempt.state.offered == set()


def shared_ids(seed: int) -> list[str]:
    device = a_device("d0", {"memory": "4Gi"}, allowMultipleAllocations=True)
    ask = an_ask(capacity={"requests": {"memory": "1Gi"}})
    claims = [a_claim("c", ask, ask), a_claim("d", ask)]
    attempt = Attempt(
        a_cluster(a_node("a"), a_class(), a_slice("a", device, node="a"), *claims), pod_with("c", "d"), seed=seed
    )
    attempt.plugin.reserve(attempt.context, "a")
    results = [each for index in range(2) for each in attempt.state.allocations[index].devices.results or ()]
    return [each.share_id or "" for each in results]


def test_shares_have_uuids_that_follow_from_the_attempt() -> None:
    first = shared_ids(1)
    assert [str(UUID(each)) for each in first] == first
    assert len(set(first)) == 3
    assert shared_ids(1) == first and not set(shared_ids(2)) & set(first)


def test_without_filter_no_devices_are_known() -> None:
    attempt = Attempt(a_world(a_claim("c")), pod_with("c"), filters=False)
    with pytest.raises(PluginError, match="^claim allocation not found for node$"):
        attempt.plugin.reserve(attempt.context, "a")
    extended = Attempt(a_world(), a_pod("p", requests={GPU: 1}), filters=False)
    assert extended.plugin.reserve(extended.context, "a") is None
    assert extended.state.allocations == {}
    both = Attempt(a_world(a_claim("c")), pod_with("c", requests={GPU: 1}), filters=False)
    with pytest.raises(PluginError, match="^claim allocation not found for node$"):
        both.plugin.reserve(both.context, "a")


def test_devices_that_were_taken_since_filter_are_searched_again() -> None:
    attempt = Attempt(a_world(a_claim("c")), pod_with("c"))
    attempt.cluster.put(a_claim("quick", status={"allocation": an_allocation("a/d0")}))
    attempt.plugin.reserve(attempt.context, "a")
    assert attempt.given() == ["r0=a/d1"]
    attempt = Attempt(a_world(a_claim("c")), pod_with("c"))
    attempt.cluster.put(a_claim("quick", status={"allocation": an_allocation("b/d0")}))
    with pytest.raises(PluginError, match="^claim allocation not found for node$"):
        attempt.plugin.reserve(attempt.context, "b")


def test_a_claim_that_has_its_devices_gets_no_others() -> None:
    attempt = Attempt(a_world(a_claim("c", status={"allocation": an_allocation("a/d0")})), pod_with("c"))
    assert attempt.plugin.reserve(attempt.context, "a") is None
    assert attempt.state.allocations == {} and attempt.cluster.claims.pending_ids() == set()
    work: Any = attempt.plugin.pre_bind(attempt.context, "a")
    assert next(work).name == "c"


@pytest.mark.parametrize("gate", [True, False])
def test_the_time_of_the_allocation_is_written_where_devices_may_have_to_be_prepared(gate: bool) -> None:
    claim = a_claim("c", metadata={"finalizers": ["resource.kubernetes.io/delete-protection"]})
    attempt = Attempt(a_world(claim), pod_with("c"), a_plugin(DRADeviceBindingConditions=gate))
    attempt.plugin.reserve(attempt.context, "a")
    work: Any = attempt.plugin.pre_bind(attempt.context, "a")
    status = next(work).body["status"]
    assert ("allocationTimestamp" in status["allocation"]) is gate


def test_what_was_reserved_is_given_back() -> None:
    attempt = Attempt(a_world(a_claim("c")), pod_with("c"))
    attempt.plugin.reserve(attempt.context, "a")
    attempt.plugin.unreserve(attempt.context, "a")
    assert attempt.cluster.claims.pending_ids() == set() and attempt.state.allocations == {}


# ---- devices that take from their node


def taking(cpu: str | None, node_cpu: str = "8") -> Cluster:
    mappings = {} if cpu is None else {"nodeAllocatableResources": parts_of_node(cpu=cpu)}
    device: Any = a_device("d0", **mappings)
    return a_cluster(a_node("a", cpu=node_cpu), a_node("b"), a_class(), a_slice("a", device, node="a"), a_claim("c"))


def a_user() -> Pod:
    pod = msgspec.to_builtins(pod_with("c", cpu="2"))
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return msgspec.convert(pod, Pod)


def test_nodes_must_have_room_for_what_devices_take() -> None:
    def told(cluster: Cluster, **gates: bool) -> dict[str, str]:
        return Attempt(cluster, a_user(), a_plugin(**gates)).told

    assert told(taking("6"), **NODE_RESOURCES) == {"b": NO_CHOICE}
    assert told(taking("7"), **NODE_RESOURCES) == {"a": "Insufficient cpu", "b": NO_CHOICE}
    assert told(taking("7")) == {"b": NO_CHOICE}
    assert told(taking(None, node_cpu="1"), **NODE_RESOURCES) == {"b": NO_CHOICE}, "NodeResourcesFit judges the pod"


def test_what_devices_take_is_known_from_prefilter_on() -> None:
    attempt = Attempt(taking("6"), a_user(), a_plugin(**NODE_RESOURCES))
    taken = [a_status("c", ["main"], cpu="6")]
    assert attempt.context.state.find(DEVICE_RESOURCES)("a") == taken
    assert attempt.plugin.reserve(attempt.context, "a") is None
    assert attempt.state.node_resources == taken
    nothing = Attempt(taking(None), a_user(), a_plugin(**NODE_RESOURCES))
    assert nothing.context.state.find(DEVICE_RESOURCES)("a") is None
    off = Attempt(taking("6"), a_user())
    assert off.context.state.find(DEVICE_RESOURCES) is None
    off.plugin.reserve(off.context, "a")
    assert off.state.node_resources == ()


def test_v137_17_9_a_claim_with_a_part_of_a_node_is_for_one_pod() -> None:
    device = a_device("d0", nodeAllocatableResources=parts_of_node(cpu="1"))
    reserved = [{"resource": "pods", "name": "q", "uid": "q"}]

    def told(node: str | None, **gates: bool) -> dict[str, str]:
        cluster = Cluster(gates)
        claim: ResourceClaim = a_claim(
            "c", status={"allocation": an_allocation("a/d0", node=node), "reservedFor": reserved}
        )
        for item in (a_node("a"), a_node("b"), a_class(), a_slice("a", device, node="a"), claim):
            cluster.put(item)
        return Attempt(cluster, pod_with("c"), a_plugin(**gates)).told

    used = "node allocatable resource claim c has a mapped device and cannot be shared across pods"
    assert told(None, **NODE_RESOURCES) == {"a": used, "b": used}
    assert told(None) == {}
    assert told("b", **NODE_RESOURCES) == {"a": UNAVAILABLE, "b": used}, "it cannot be used on node a anyway"


# ---- devices for which kubelets leave out calls of their driver

OPTIONAL = "DRAOptionalNodeOperations"


def test_v137_17_10_an_allocation_without_calls_of_the_driver_is_for_nodes_that_declare_it() -> None:
    allocation = an_allocation("a/d0", skipNodeOperations=["*"])
    cluster = a_cluster(a_node("a", features=[OPTIONAL]), a_node("b"), a_node("c", features=["Other"]), a_class())
    cluster.put(a_claim("c", status={"allocation": allocation}))
    attempt = Attempt(cluster, pod_with("c"))
    assert attempt.told == {"b": UNAVAILABLE, "c": UNAVAILABLE}, "the gate does not matter"
    assert attempt.state.unavailable == {0}
    cluster.put(a_claim("c", status={"allocation": an_allocation("a/d0")}))
    assert Attempt(cluster, pod_with("c")).told == {}


def test_v137_17_10_a_pending_allocation_of_the_group_is_for_nodes_that_declare_it() -> None:
    cluster, plugin = a_group_world(), a_plugin(**{OPTIONAL: True})
    cluster.put(a_slice("net", a_device("d0"), allNodes=True, driver="z", skipNodeOperations=["*"]))
    for item in (a_slice("a", node="a"), a_slice("b", node="b"), a_node("a", features=[OPTIONAL])):
        cluster.put(item)
    first, second = (claiming(a_member(name), "c") for name in ("1", "2"))
    assert cluster.groups is not None
    with cluster.groups.cycle([first.group_key or ""]):
        attempt = Attempt(cluster, first, plugin)
        assert attempt.told == {"b": NO_CHOICE}
        plugin.reserve(attempt.context, "a")
        assert attempt.state.allocations[0].devices.results[0].skip_node_operations == ["*"]  # type: ignore[index]
        follower = Attempt(cluster, second, plugin)
        text = "resource claim default/c allocation requires DRAOptionalNodeOperations feature on the node"
        assert follower.told == {"b": text}
        assert follower.state.unavailable == set()


# ---- members of a group


def a_group_world(**gates: bool) -> Cluster:
    cluster = Cluster({"GenericWorkload": True, **gates})
    slices = (a_slice("a", a_device("d0"), node="a"), a_slice("b", a_device("d0"), node="b"))
    for item in (a_node("a"), a_node("b"), a_class(), *slices, a_claim("c"), a_claim("own")):
        cluster.put(item)
    return cluster


def test_a_member_goes_where_the_allocation_of_an_earlier_member_can_be_used() -> None:
    cluster, plugin = a_group_world(), a_plugin()
    first, second, late = (claiming(a_member(name), "c") for name in ("one", "two", "late"))
    assert cluster.groups is not None
    with cluster.groups.cycle([first.group_key or ""]):
        attempt = Attempt(cluster, first, plugin)
        assert attempt.told == {} and attempt.state.shared == {}
        plugin.reserve(attempt.context, "a")
        assert attempt.state.offered == {0}
        follower = Attempt(cluster, second, plugin)
        assert follower.told == {"b": UNAVAILABLE}
        assert set(follower.state.shared) == {0} and follower.state.unavailable == set()
        plugin.reserve(follower.context, "a")
        assert follower.given() == ["r0=a/d0"] and follower.state.offered == set()
        assert cluster.claims.sharers("uid-c") == ["uid-one", "uid-two"]
    assert Attempt(cluster, late, plugin).told == {"": "resource claim default/c is in the process of being allocated"}


def test_a_member_with_a_claim_of_its_own_gets_devices_for_that_one() -> None:
    cluster, plugin = a_group_world(), a_plugin()
    cluster.put(a_slice("more", a_device("d1"), pool="more", nodeName="a"))
    first, second = claiming(a_member("one"), "c"), claiming(a_member("two"), "c", "own")
    assert cluster.groups is not None
    with cluster.groups.cycle([first.group_key or ""]):
        attempt = Attempt(cluster, first, plugin)
        plugin.reserve(attempt.context, "a")
        follower = Attempt(cluster, second, plugin)
        assert follower.told == {"b": UNAVAILABLE}
        plugin.reserve(follower.context, "a")
        assert (follower.given(0), follower.given(1)) == (["r0=a/d0"], ["r0=more/d1"])
        assert follower.state.offered == {1}
        plugin.unreserve(follower.context, "a")
        assert cluster.claims.pending_ids() == {"uid-c"}, "the first member counts on it"
        plugin.unreserve(attempt.context, "a")
        assert cluster.claims.pending_ids() == set()


def test_a_claim_whose_shared_allocation_ended_meanwhile_is_an_error() -> None:
    cluster, plugin = a_group_world(), a_plugin()
    first, second = claiming(a_member("one"), "c"), claiming(a_member("two"), "c")
    assert cluster.groups is not None
    with cluster.groups.cycle([first.group_key or ""]):
        attempt = Attempt(cluster, first, plugin)
        plugin.reserve(attempt.context, "a")
        follower = Attempt(cluster, second, plugin)
        plugin.unreserve(attempt.context, "a")
        with pytest.raises(PluginError, match="^claim allocation not found for node$"):
            plugin.reserve(follower.context, "a")


def test_what_a_shared_device_takes_counts_for_each_member() -> None:
    cluster, plugin = a_group_world(**NODE_RESOURCES), a_plugin(**NODE_RESOURCES)
    costs: Any = {"nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "2", "perContainer": "1"}}}}
    cluster.put(a_slice("a", a_device("d0", **costs), node="a"))
    first, second, idle = (
        _using(a_member(name), is_used) for name, is_used in (("1", True), ("2", True), ("3", False))
    )
    assert cluster.groups is not None
    with cluster.groups.cycle([first.group_key or ""]):
        attempt = Attempt(cluster, first, plugin)
        plugin.reserve(attempt.context, "a")
        follower = Attempt(cluster, second, plugin)
        assert follower.told == {"b": UNAVAILABLE}
        taken = [NodeAllocatableClaimStatus("c", ["main"], None, [OverheadResource("cpu", "2", "1")])]
        assert follower.context.state.find(DEVICE_RESOURCES)("a") == taken
        plugin.reserve(follower.context, "a")
        assert follower.state.node_resources == taken
        unused = [NodeAllocatableClaimStatus("c", [], None, [OverheadResource("cpu", "2", "1")])]
        other = Attempt(cluster, idle, plugin)
        assert other.context.state.find(DEVICE_RESOURCES)("a") == unused, "no container has to use the claim"


def _using(member: Pod, is_used: bool) -> Pod:
    pod = msgspec.to_builtins(claiming(member, "c"))
    if is_used:
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return msgspec.convert(pod, Pod)
