"""Profiles that disable a plugin at PreFilter or PreScore, and not where it reads what it writes there.

kube-scheduler v1.36.4 then fails every attempt with these words, unless the plugin works its state out again.
"""

from typing import Any

import pytest

from small_scenarios import Json, a_node, a_pod, requesting, step


def disabled(**points: tuple[str, ...]) -> Json:
    """A configuration with these plugins disabled, by extension point."""
    plugins = {point: {"disabled": [{"name": name} for name in names]} for point, names in points.items()}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }


FILTERS = {
    "NodePorts": 'reading "PreFilterNodePorts" from cycleState: not found',
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "VolumeRestrictions": 'cannot read "PreFilterVolumeRestrictions" from cycleState',
    "VolumeBinding": "not found",
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
    "DynamicResources": "not found",
    "NodeDeclaredFeatures": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
}
SCORES = {
    "TaintToleration": 'failed to read "PreScoreTaintToleration" from cycleState: not found',
    "PodTopologySpread": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    "InterPodAffinity": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
}
DO_WITHOUT_PRE_FILTER = ("NodeAffinity", "VolumeZone", "NodeVolumeLimits")
DO_WITHOUT_PRE_SCORE = ("NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "VolumeBinding")


@pytest.mark.parametrize(("plugin", "text"), FILTERS.items())
def test_filter_fails_without_what_pre_filter_writes(plugin: str, text: str) -> None:
    found = step(a_node("a"), a_pod("p"), config=disabled(preFilter=(plugin,)))
    assert (found["result"], found.get("error")) == ("error", f'running "{plugin}" filter plugin: {text}')


@pytest.mark.parametrize("plugin", DO_WITHOUT_PRE_FILTER)
def test_filters_that_need_no_state_do_without_pre_filter(plugin: str) -> None:
    assert step(a_node("a"), a_pod("p"), config=disabled(preFilter=(plugin,)))["node"] == "a"


def test_volumes_are_counted_without_pre_filter() -> None:
    config = disabled(preFilter=("NodeVolumeLimits",))
    drivers = [{"name": "pd.csi.storage.gke.io", "nodeID": "a", "allocatable": {"count": 1}}]
    csi_node = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}}
    used, wanted = ([{"name": "v", "gcePersistentDisk": {"pdName": name}}] for name in ("d", "e"))
    found = step(a_node("a"), csi_node, a_pod("used", "a", volumes=used), a_pod("p", volumes=wanted), config=config)
    assert found["message"] == "0/1 nodes are available: 1 node(s) exceed max volume count."


@pytest.mark.parametrize(("plugin", "text"), SCORES.items())
def test_score_fails_without_what_pre_score_writes(plugin: str, text: str) -> None:
    found = step(a_node("a"), a_node("b"), a_pod("p"), config=disabled(preScore=(plugin,)))
    error = f'running Score plugins: plugin "{plugin}" failed with: {text}'
    assert (found["result"], found.get("error")) == ("error", error)


@pytest.mark.parametrize("plugin", SCORES)
def test_the_only_node_is_taken_without_a_score(plugin: str) -> None:
    assert step(a_node("a"), a_pod("p"), config=disabled(preScore=(plugin,)))["node"] == "a"


@pytest.mark.parametrize("plugin", DO_WITHOUT_PRE_SCORE)
def test_scores_that_need_no_state_are_the_same_without_pre_score(plugin: str) -> None:
    objects = a_node("a", cpu="8"), a_node("b"), a_pod("p")
    found, usual = step(*objects, config=disabled(preScore=(plugin,))), step(*objects)
    assert found["totals"] == usual["totals"]
    given = usual["scores"]["a"].get(plugin, 0), usual["scores"]["b"].get(plugin, 0)
    assert (found["scores"]["a"][plugin], found["scores"]["b"][plugin]) == given


def test_a_pod_without_requests_has_no_balance_without_pre_score() -> None:
    pod = a_pod("p", containers=requesting())
    name = "NodeResourcesBalancedAllocation"
    found = step(a_node("a"), a_node("b"), pod, config=disabled(preScore=(name,)))
    assert [scores[name] for scores in found["scores"].values()] == [0, 0]


def test_a_preferred_term_that_does_not_compile_fails_score_without_pre_score() -> None:
    bad = {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": bad}]}}
    found = step(a_node("a"), a_node("b"), a_pod("p", affinity=affinity), config=disabled(preScore=("NodeAffinity",)))
    start = 'running Score plugins: plugin "NodeAffinity" failed with: [0].matchExpressions[0].values: Invalid value: '
    assert found["error"].startswith(start)


@pytest.mark.parametrize("plugin", ["VolumeBinding", "DynamicResources"])
def test_reserve_fails_without_what_pre_filter_writes(plugin: str) -> None:
    config = disabled(preFilter=(plugin,), filter=(plugin,), score=(plugin,))
    assert step(a_node("a"), a_pod("p"), config=config)["result"] == "reserve-failed"


def test_score_of_dynamic_resources_fails_without_pre_filter() -> None:
    config = disabled(preFilter=("DynamicResources",), filter=("DynamicResources",))
    found = step(a_node("a"), a_node("b"), a_pod("p"), config=config)
    assert found["error"] == 'running Score plugins: plugin "DynamicResources" failed with: not found'


# ---- Reserve without what Filter finds (upstream v1.36.4: nodeAllocations, podVolumesByNode)


GPU = "example.com/gpu"
DEVICES = (
    {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}},
    {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        },
    },
)
CLAIM = {
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default", "uid": "c"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
            ]
        }
    },
}
CLAIMING = a_pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


def test_reserve_of_a_claim_fails_without_filter() -> None:
    objects = a_node("a"), *DEVICES, CLAIM, CLAIMING
    assert step(*objects)["node"] == "a"
    assert step(*objects, config=disabled(filter=("DynamicResources",)))["result"] == "reserve-failed"


def test_a_claim_that_has_its_devices_needs_no_filter() -> None:
    results = [{"request": "r", "driver": "d.example.com", "pool": "a", "device": "d0"}]
    given = CLAIM | {"status": {"allocation": {"devices": {"results": results}}}}
    found = step(a_node("a"), *DEVICES, given, CLAIMING, config=disabled(filter=("DynamicResources",)))
    assert found["node"] == "a"


def test_extended_resources_need_no_filter() -> None:
    pod = a_pod("p", containers=requesting(**{GPU: "1"}))
    assert step(a_node("a"), *DEVICES, pod, config=disabled(filter=("DynamicResources",)))["node"] == "a"


# ---- Nodes that an earlier filter rejects do not reach the one that fails


def test_nodes_that_were_rejected_before_are_no_error() -> None:
    found = step(a_node("a"), a_pod("p", containers=requesting(cpu="9")), config=disabled(preFilter=("NodePorts",)))
    assert found["result"] == "error", "NodePorts comes before NodeResourcesFit"
    late = disabled(preFilter=("PodTopologySpread",))
    found = step(a_node("a"), a_pod("p", containers=requesting(cpu="9")), config=late)
    assert found["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert found["preemption"]["message"].endswith("1 Preemption is not helpful for scheduling.")


@pytest.mark.parametrize("plugin", ["PodTopologySpread", "InterPodAffinity"])
def test_a_filter_that_fails_in_the_dry_run_is_the_message_of_preemption(plugin: str) -> None:
    low, high = a_pod("low", "a", priority=0), a_pod("p", containers=requesting(cpu="4"), priority=9)
    found = step(a_node("a"), low, high, config=disabled(preFilter=(plugin,)))
    assert found["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert found["preemption"] == {"message": f'preemption: running "{plugin}" filter plugin: {FILTERS[plugin]}'}


DISK: list[Any] = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]


def test_disks_are_looked_at_before_the_state_is_read() -> None:
    config, used = disabled(preFilter=("VolumeRestrictions",)), a_pod("used", "a", volumes=DISK)
    found = step(a_node("a"), used, a_pod("p", volumes=DISK), config=config)
    assert found["message"] == "0/1 nodes are available: 1 node(s) had no available disk."
    found = step(a_node("a"), a_node("b"), used, a_pod("p", volumes=DISK), config=config)
    assert found["error"] == f'running "VolumeRestrictions" filter plugin: {FILTERS["VolumeRestrictions"]}'


def test_volume_zone_finds_its_rules_in_filter_without_pre_filter() -> None:
    others = ("VolumeRestrictions", "VolumeBinding", "NodeVolumeLimits")
    config = disabled(multiPoint=others, preFilter=("VolumeZone",))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    found = step(a_node("a"), a_pod("p", volumes=volumes), config=config)
    reasons = ['persistentvolumeclaim "claim" not found']
    code = "UnschedulableAndUnresolvable"
    assert found["rejected"] == {"a": {"plugin": "VolumeZone", "code": code, "reasons": reasons}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"volumeName": "disk"},
    }
    labels = {"topology.kubernetes.io/zone": "here"}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "disk", "labels": labels}, "spec": {}}
    here, there = a_node("a"), a_node("b")
    here["metadata"]["labels"] |= labels
    there["metadata"]["labels"] |= {"topology.kubernetes.io/zone": "there"}
    found = step(here, there, claim, volume, a_pod("p", volumes=volumes), config=config)
    assert (found["feasible"], list(found["rejected"])) == (["a"], ["b"])
