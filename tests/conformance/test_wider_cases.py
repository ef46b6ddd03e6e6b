"""The smallest scenarios in which an earlier Mooring differed from kube-scheduler v1.37.0-rc.1, with upstream's answers.

Random clusters that combine more than the corpus does found them. Each was given to the real scheduler in process.
"""

import json
from typing import Any

import pytest

from mooring.sim.conform import follow
from small_scenarios import Json, a_node, a_pod, requesting, step, steps

NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
GROUPS = "GenericWorkload=true"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


# ---- A nominated node that PreFilter rules out


def _only(*names: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": list(names)}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_a_nominated_node_tells_its_own_reason_though_the_pod_names_other_nodes() -> None:
    status = {"nominatedNodeName": "a"}
    found = step(a_node("a"), a_node("b"), a_pod("p", status=status, affinity=_only("gone")))
    assert found["message"] == (
        f"0/2 nodes are available: 1 {NODE_AFFINITY}, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert (list(found["rejected"]), found["unschedulablePlugins"]) == (["a"], ["NodeAffinity"])


def test_the_plugin_that_rejects_the_nominated_node_is_named_for_all_others_too() -> None:
    tainted: Json = {**a_node("a"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    found = step(tainted, a_node("b"), a_pod("p", status={"nominatedNodeName": "a"}, affinity=_only("gone")))
    assert found["message"] == (
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration], "
        "1 node(s) had untolerated taint(s)."
    )
    assert found["unschedulablePlugins"] == ["NodeAffinity", "TaintToleration"]


# ---- Volumes of in-tree plugins


def _object(kind: str, name: str, namespace: str = "", annotations: Json | None = None, **content: Any) -> Json:
    metadata = {"name": name, "uid": name, "annotations": annotations or {}}
    return {"kind": kind, "metadata": metadata | ({"namespace": namespace} if namespace else {}), **content}


def _csi_node(name: str, *drivers: str, migrated: str = "") -> Json:
    listed = [{"name": driver, "nodeID": name} for driver in drivers]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return _object("CSINode", name, annotations=annotations, spec={"drivers": listed})


def _strict(driver: str) -> Json:
    return _object("CSIDriver", driver, spec={"preventPodSchedulingIfMissing": True})


def _a_user_of(claim: str) -> Json:
    return a_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def _bound(volume: str) -> Json:
    spec = {"volumeName": volume, "accessModes": ["ReadWriteOnce"]}
    return _object("PersistentVolumeClaim", "c", "default", {"pv.kubernetes.io/bind-completed": "yes"}, spec=spec)


def _a_volume(labels: Json | None = None, **spec: Any) -> Json:
    volume = _object("PersistentVolume", "pv", spec={"accessModes": ["ReadWriteOnce"], **spec})
    volume["metadata"]["labels"] = labels or {}
    return volume


INLINE = a_pod("p", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}])
MIGRATED: dict[str, tuple[list[Json], Json]] = {
    "a volume that the pod names": ([], INLINE),
    "a bound claim": ([_bound("pv"), _a_volume(awsElasticBlockStore={"volumeID": "vol-1"})], _a_user_of("c")),
}


@pytest.mark.parametrize(("objects", "pod"), MIGRATED.values(), ids=MIGRATED.keys())
def test_a_missing_driver_keeps_in_tree_volumes_only_off_nodes_with_a_csinode(objects: list[Json], pod: Json) -> None:
    found = step(
        a_node("a"), a_node("b"), a_node("c"), _csi_node("b"), _csi_node("c", EBS), _strict(EBS), *objects, pod
    )
    assert found["feasible"] == ["a", "c"]
    assert found["rejected"]["b"]["reasons"] == [f"{EBS} CSI driver is not installed on the node"]


def test_a_missing_driver_keeps_its_own_volumes_off_nodes_without_a_csinode() -> None:
    volume = _a_volume(csi={"driver": EBS, "volumeHandle": "vol-1"})
    objects = [a_node("a"), a_node("b"), _csi_node("b", EBS), _strict(EBS), _bound("pv"), volume]
    assert step(*objects, _a_user_of("c"))["feasible"] == ["b"]


def test_pods_whose_volumes_cannot_be_told_are_no_error_where_a_driver_is_missing() -> None:
    other = _object("PersistentVolumeClaim", "run-e", "default", spec={"accessModes": ["ReadWriteOnce"]})
    running = a_pod("run", "a", volumes=[{"name": "e", "ephemeral": {}}])
    limited = _csi_node("a", "other.example.com")
    limited["spec"]["drivers"][0]["allocatable"] = {"count": 2}
    volume = _a_volume(csi={"driver": EBS, "volumeHandle": "vol-1"})
    found = step(a_node("a"), limited, _strict(EBS), other, running, _bound("pv"), volume, _a_user_of("c"))
    assert found["message"] == f"0/1 nodes are available: 1 {EBS} CSI driver is not installed on the node."


def test_an_affinity_that_only_asks_for_a_zone_is_not_translated() -> None:
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "Exists"}]}]
    volume = _a_volume(
        awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity={"required": {"nodeSelectorTerms": terms}}
    )
    node = a_node("a")
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "za"
    migrated = _csi_node("a", EBS, migrated="kubernetes.io/aws-ebs")
    assert step(node, migrated, _bound("pv"), volume, _a_user_of("c"))["result"] == "scheduled"


@pytest.mark.parametrize(
    ("zones", "fault"),
    [
        ("za__zb", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: za"),
        ("us-e1-a__us-c1-b", "multiple or no regions gotten from zones, got: map[us-c1:{} us-e1:{}]"),
    ],
)
def test_a_disk_in_zones_of_no_region_fails_where_its_driver_has_taken_over(zones: str, fault: str) -> None:
    volume = _a_volume({"topology.kubernetes.io/zone": zones}, gcePersistentDisk={"pdName": "d"})
    migrated = _csi_node("a", GCE, migrated="kubernetes.io/gce-pd")
    found = step(a_node("a"), migrated, _bound("pv"), volume, _a_user_of("c"))
    assert found["error"] == (
        f'running "VolumeBinding" filter plugin: could not translate pv: failed to get region from zones: {fault}'
    )


# ---- Selectors that cannot be read


UNREADABLE = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
PARSING = '"Near" is not a valid label selector operator'


def test_a_pod_whose_terms_cannot_be_read_tells_in_which_lists() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [UNREADABLE]}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": UNREADABLE}],
    }
    affinity = {"podAffinity": required, "podAntiAffinity": required | preferred}
    found = step(a_node("a"), a_pod("p", affinity=affinity))
    lists = ("requiredAffinityTerms", "requiredAntiAffinityTerms", "preferredAntiAffinityTerms")
    faults = ", ".join(f"{name}: {PARSING}" for name in lists)
    assert found["message"] == f"0/1 nodes are available: parsing pod: [{faults}]."


@pytest.mark.parametrize(
    ("action", "doing"),
    [
        ("DoNotSchedule", 'PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod\'s hard'),
        ("ScheduleAnyway", 'PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft'),
    ],
)
def test_a_pod_whose_spread_cannot_be_read_tells_which(action: str, doing: str) -> None:
    constraint = UNREADABLE | {"maxSkew": 1, "whenUnsatisfiable": action}
    found = step(a_node("a"), a_node("b"), a_pod("p", topologySpreadConstraints=[constraint]))
    assert found["error"] == f"running {doing} topology spread constraints: {PARSING}"


# ---- Scores


def test_added_preferences_that_match_nothing_give_every_node_a_score_of_0() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeAffinityArgs",
        "addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {}}]},
    }
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeAffinity", "args": args}]}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    found = step(a_node("a"), a_node("b"), a_pod("p"), config=config)
    assert [found["scores"][name]["NodeAffinity"] for name in "ab"] == [0, 0]


# ---- Devices


def test_a_rule_that_taints_devices_counts() -> None:
    node = a_node("a")
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d-0"}, {"name": "d-1"}]
    published = _object(
        "ResourceSlice", "a", spec={"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": devices}
    )
    taint = {"key": "bad", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    rule = _object("DeviceTaintRule", "r", spec={"deviceSelector": {"device": "d-1"}, "taint": taint})
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    claim = _object("ResourceClaim", "c", "default", spec={"devices": {"requests": [{"name": "r", "exactly": wanted}]}})
    pod = a_pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    objects = [node, published, _object("DeviceClass", "gpu", spec={}), claim]
    assert step(*objects, pod)["result"] == "scheduled"
    assert step(*objects, rule, pod)["message"] == "0/1 nodes are available: 1 cannot allocate all claims."


@pytest.mark.parametrize(("gates", "result"), [("", "error"), (",DRADeviceBindingConditions=false", "unschedulable")])
def test_requests_with_capacity_are_no_error_where_the_newer_features_of_devices_are_all_off(
    gates: str, result: str
) -> None:
    wanted = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "capacity": {"requests": {}}}
    claim = _object("ResourceClaim", "c", "default", spec={"devices": {"requests": [{"name": "r", "exactly": wanted}]}})
    pod = a_pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    off = f"DRAConsumableCapacity=false,DRAFractionalCapacityRange=false{gates}"
    found = steps(a_node("a"), _object("DeviceClass", "any", spec={}), claim, pod, pods=["p"], gates=off)
    assert found[0]["result"] == result


def _two_full_nodes(*incomplete: str) -> list[Json]:
    """Nodes with room for one pod and a pod each; p asks for all their devices, and pools of these nodes are incomplete."""
    wanted = {"deviceClassName": "any", "allocationMode": "All"}
    claim = _object("ResourceClaim", "c", "default", spec={"devices": {"requests": [{"name": "r", "exactly": wanted}]}})

    def published(name: str) -> Json:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + (name in incomplete)}
        spec = {"driver": "d.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "d-0"}]}
        return _object("ResourceSlice", name, spec=spec)

    return [
        *(a_node(name, pods="1") for name in ("a", "b")),
        *(published(name) for name in ("a", "b")),
        *(a_pod(f"on-{name}", name) for name in ("a", "b")),
        _object("DeviceClass", "any", spec={}),
        claim,
        a_pod("p", priority=10, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
    ]


def test_a_filter_that_fails_about_one_node_leaves_the_other_candidates_of_a_preemption() -> None:
    for incomplete, chosen in (("a", "b"), ("b", "a")):
        found = step(*_two_full_nodes(incomplete))["preemption"]
        assert (found["node"], found["acceptable"]) == (chosen, [chosen])


def test_a_preemption_without_candidates_tells_what_failed_about_each_node() -> None:
    failed = (
        'running "DynamicResources" filter plugin: claim default/c, request r: asks for all devices, but resource pool'
    )
    faults = ", ".join(f"{failed} d.example.com/{name} is currently being updated" for name in ("a", "b"))
    assert step(*_two_full_nodes("a", "b"))["preemption"]["message"] == f"preemption: [{faults}]"


# ---- Timelines: what changes between attempts


def _states(*ops: Json, gates: str = "") -> list[Json]:
    """The states after these operations."""
    line = {"name": "s", "config": None, "featureGates": gates, "ops": ops}
    found: list[Json] = follow(json.dumps(line).encode())["states"]
    return found


def _create(item: Json) -> Json:
    return {"op": "create", "object": item}


def _update(item: Json) -> Json:
    return {"op": "update", "object": item}


def test_an_image_gets_the_size_that_the_only_node_reports_that_is_left() -> None:
    def with_image(name: str, size: int) -> Json:
        node = a_node(name, cpu="16" if name == "b" else "4")
        node["status"]["images"] = [{"names": ["big:1"], "sizeBytes": size}]
        return node

    pod = a_pod("p", containers=[{"name": "c", "image": "big:1", "resources": {"requests": {"cpu": "1"}}}])
    b = with_image("b", 1_000_000_000)
    first = [
        _create(with_image("a", 0)),
        _create(with_image("c", 0)),
        _create(b),
        {"op": "delete", "kind": "Node", "name": "a"},
    ]
    gone = {"op": "delete", "kind": "Node", "name": "c"}
    idle = a_node("d", cpu="32")
    for last, expected in (([], "d"), ([_update(b)], "b")):
        assert _states(*first, gone, _create(idle), *last, _create(pod))[-1]["bound"] == {"default/p": expected}


def test_gates_of_the_members_that_are_left_still_count_a_member_that_goes() -> None:
    group = _object("PodGroup", "g", "default", spec={"schedulingPolicy": {"gang": {"minCount": 2}}})
    group["apiVersion"] = "scheduling.k8s.io/v1beta1"
    members = [_create(a_pod(name, schedulingGroup={"podGroupName": "g"})) for name in ("p", "q")]
    leaves = {"op": "delete", "kind": "Pod", "name": "default/p"}
    found = _states(
        _create(a_node("a", cpu="1")), _create(group), *members, leaves, {"op": "advance", "seconds": 5}, gates=GROUPS
    )
    before, after = found[-2]["pending"]["default/q"], found[-1]["pending"]["default/q"]
    assert (before["where"], before["attempts"]) == ("backoff", 1)
    assert (after["where"], after["attempts"]) == ("gated", 2)


def test_a_backoff_goes_by_the_members_at_the_end_of_the_attempt_though_more_come_while_a_gate_holds_them() -> None:
    """Two members are left when the last attempt fails: the backoff ends 14 s after that, not 17 s as with three."""
    basic, gang = (
        {
            **_object("PodGroup", name, "default", spec={"schedulingPolicy": policy}),
            "apiVersion": "scheduling.k8s.io/v1beta1",
        }
        for name, policy in (("basic", {"basic": {}}), ("gang", {"gang": {"minCount": 3}}))
    )
    members = [_create(a_pod(name, schedulingGroup={"podGroupName": "gang"})) for name in ("p", "q", "r", "s")]
    leaves = {"op": "delete", "kind": "Pod", "name": "default/q"}
    other = _create(a_pod("t", schedulingGroup={"podGroupName": "basic"}))
    ops = [
        _create(basic),
        _create(gang),
        *members[:3],
        _wait(70),
        leaves,
        _wait(11),
        members[3],
        _wait(5),
        other,
        _wait(5),
    ]
    assert _states(*ops, gates=GROUPS)[-1]["attempted"] == ["default/p", "default/t", "default/t"]


def _wait(seconds: int) -> Json:
    return {"op": "advance", "seconds": seconds}


def test_a_group_with_pods_on_a_node_that_is_gone_is_no_victim_but_an_error() -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}, "priority": 0}
    group = {**_object("PodGroup", "g", "default", spec=spec), "apiVersion": "scheduling.k8s.io/v1beta1"}
    other: Json = {
        **_object("PodGroup", "h", "default", spec=spec | {"priority": 10}),
        "apiVersion": group["apiVersion"],
    }
    members = [_create(a_pod(name, schedulingGroup={"podGroupName": "g"})) for name in ("p", "q")]
    gone = {"op": "delete", "kind": "Node", "name": "b"}
    nodes = [_create(a_node(name, cpu="1")) for name in ("a", "b")]
    alone = _create(a_pod("r", priority=10))
    together = [_create(a_pod(name, priority=10, schedulingGroup={"podGroupName": "h"})) for name in ("s", "t")]
    found = _states(*nodes, _create(group), *members, gone, _create(other), alone, *together, gates=GROUPS)
    assert found[4]["bound"] == {"default/p": "a", "default/q": "b"}
    fault = 'failed to get node info for node "b" from snapshot: nodeinfo not found for node name "b"'
    pending = found[-1]["pending"]
    assert pending["default/r"]["message"] == (f"0/1 nodes are available: 1 Insufficient cpu. preemption: {fault}")
    assert pending["default/s"]["message"] == (
        f'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: failed to create domain: {fault}'
    )


def test_members_leave_no_room_for_members_of_their_own_group_that_are_nominated() -> None:
    """Both members are nominated to a node, which then becomes too small for both: one of them goes there."""
    spec = {"schedulingPolicy": {"basic": {}}, "priority": 10}
    group = {**_object("PodGroup", "g", "default", spec=spec), "apiVersion": "scheduling.k8s.io/v1beta1"}
    low = _create(a_pod("low", containers=requesting(cpu="3")))
    members = [
        _create(a_pod(name, priority=10, containers=requesting(cpu="2"), schedulingGroup={"podGroupName": "g"}))
        for name in ("p", "q")
    ]
    smaller = _update(a_node("a", cpu="3"))
    found = _states(_create(a_node("a")), low, *members, _create(group), smaller, _wait(5), gates=GROUPS)
    assert [pod["nominatedNode"] for pod in found[4]["pending"].values()] == ["a", "a"]
    assert len(found[-1]["bound"]) == 1


def test_a_group_with_a_topology_finds_no_placement_in_a_cluster_without_nodes() -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    group = {**_object("PodGroup", "g", "default", spec=spec), "apiVersion": "scheduling.k8s.io/v1beta1"}
    member = a_pod("p", schedulingGroup={"podGroupName": "g"})
    gates = f"{GROUPS},TopologyAwareWorkloadScheduling=true"
    pending = _states(_create(group), _create(member), gates=gates)[-1]["pending"]["default/p"]
    assert (pending["reason"], pending["message"]) == ("Unschedulable", "no feasible placements found")


def test_pods_of_a_composite_group_tell_the_error_of_the_whole_group() -> None:
    """A member is on a node that is gone, so that nothing says in which rack the others have to be."""
    policy: Json = {"schedulingPolicy": {"basic": {}}}
    root = {**_object("CompositePodGroup", "c", "default", spec=policy), "apiVersion": "scheduling.k8s.io/v1alpha3"}
    below = {"parentCompositePodGroupName": "c", "schedulingConstraints": {"topology": [{"key": "zone"}]}}
    group = {**_object("PodGroup", "g", "default", spec=policy | below), "apiVersion": "scheduling.k8s.io/v1beta1"}
    first, second = (_create(a_pod(name, schedulingGroup={"podGroupName": "g"})) for name in ("p", "q"))
    gone = {"op": "delete", "kind": "Node", "name": "a"}
    gates = f"{GROUPS},TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
    found = _states(_create(a_node("a")), _create(root), _create(group), first, gone, second, gates=gates)
    assert found[-1]["pending"]["default/q"]["message"] == (
        "composite pod group evaluation failed due to child error: cannot determine domain for already scheduled pods: "
        'getting node for pod default/p: nodeinfo not found for node name "a"'
    )


def test_a_claim_that_a_pod_mentions_twice_takes_the_devices_that_were_found_first() -> None:
    spec = {"driver": "d.example.com", "nodeName": "a", "devices": [{"name": "d-0"}, {"name": "d-1"}]}
    published = _object(
        "ResourceSlice", "a", spec=spec | {"pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}}
    )
    published["spec"]["devices"][1]["attributes"] = {"n": {"int": 1}}

    def claim(name: str, *selectors: str) -> Json:
        chosen = [{"cel": {"expression": text}} for text in selectors]
        wanted = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": chosen}
        requests = [{"name": "r", "exactly": wanted}]
        return _object("ResourceClaim", name, "default", spec={"devices": {"requests": requests}})

    twice = a_pod("p", resourceClaims=[{"name": name, "resourceClaimName": "c"} for name in ("x", "y")])
    after = a_pod("q", resourceClaims=[{"name": "x", "resourceClaimName": "e"}])
    found = steps(
        a_node("a"),
        published,
        _object("DeviceClass", "any", spec={}),
        claim("c"),
        claim("e", 'device.attributes["d.example.com"].n > 1'),
        twice,
        after,
        pods=["p", "q"],
    )
    assert (found[0]["result"], found[1].get("message")) == (
        "scheduled",
        "0/1 nodes are available: 1 cannot allocate all claims.",
    )
