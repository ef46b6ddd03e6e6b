"""What a configuration comes to when it leaves things out, and how written plugin sets change the default ones."""

from typing import Any

import pytest

from mooring.framework.config import default, from_object, load
from mooring.framework.config.args import (
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from mooring.framework.config.defaults import merge_set
from mooring.framework.config.durations import Duration
from mooring.framework.config.types import KubeSchedulerProfile, PluginEntry, PluginSet

V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def a_profile(**fields: Any) -> dict[str, Any]:
    return {**V1, "profiles": [{"schedulerName": "default-scheduler", **fields}]}


def with_args(plugin: str, args: Any) -> dict[str, Any]:
    return a_profile(pluginConfig=[{"name": plugin, "args": args}])


def first_args(obj: dict[str, Any], **gates: bool) -> Any:
    return from_object(obj, feature_gates=gates).profiles[0].plugin_config[0].args


def test_a_file_that_says_nothing_is_the_default_configuration() -> None:
    assert load("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration") == default()


def test_the_defaults() -> None:
    config = default()
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    election = config.leader_election
    assert election.leader_elect
    assert [str(d) for d in (election.lease_duration, election.renew_deadline, election.retry_period)] == [
        "15s",
        "10s",
        "2s",
    ]
    lock = (election.resource_lock, election.resource_namespace, election.resource_name)
    assert lock == ("leases", "kube-system", "kube-scheduler")
    client = config.client_connection
    assert (client.qps, client.burst, client.content_type) == (50.0, 100, "application/vnd.kubernetes.protobuf")
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert (config.extenders, config.delay_cache_until_active) == ([], False)


def test_zero_means_unset_for_value_fields() -> None:
    zeros = {
        "clientConnection": {"qps": 0, "burst": 0, "contentType": ""},
        "leaderElection": {"leaseDuration": "0s", "renewDeadline": "0", "retryPeriod": "0s", "resourceLock": ""},
    }
    assert from_object({**V1, **zeros}) == default()


def test_null_means_unset() -> None:
    fields = ("parallelism", "podMaxBackoffSeconds", "profiles", "extenders", "leaderElection", "enableProfiling")
    assert from_object({**V1, **dict.fromkeys(fields)}) == default()


def test_contention_profiling_needs_profiling() -> None:
    assert from_object({**V1, "enableProfiling": False}).enable_contention_profiling is False
    asked = from_object({**V1, "enableProfiling": False, "enableContentionProfiling": True})
    assert asked.enable_contention_profiling is True


def names_with_args(profile: KubeSchedulerProfile) -> list[str]:
    return [config.name for config in profile.plugin_config]


def test_every_enabled_plugin_has_arguments_and_the_written_ones_come_first() -> None:
    profile = from_object(with_args("VolumeBinding", None)).profiles[0]
    assert names_with_args(profile) == [
        "VolumeBinding",
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
    ]
    only_fit = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}
    assert names_with_args(from_object(a_profile(plugins=only_fit)).profiles[0]) == ["NodeResourcesFit"]


CPU_AND_MEMORY = [ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)]
COMPLETED_ARGS: dict[str, tuple[str, Any, Any]] = {
    "nothing written": ("InterPodAffinity", None, InterPodAffinityArgs(hard_pod_affinity_weight=1)),
    "an explicit zero stays": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 0},
        InterPodAffinityArgs(hard_pod_affinity_weight=0),
    ),
    "an empty list of resources is cpu and memory": (
        "NodeResourcesBalancedAllocation",
        {"resources": []},
        NodeResourcesBalancedAllocationArgs(resources=CPU_AND_MEMORY),
    ),
    "weight 0 is 1": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "gpu", "weight": 0}]}},
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(type="MostAllocated", resources=[ResourceSpec(name="gpu", weight=1)])
        ),
    ),
    "no strategy is LeastAllocated": (
        "NodeResourcesFit",
        {"scoringStrategy": None},
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)),
    ),
    "an empty defaulting type is System": (
        "PodTopologySpread",
        {"defaultingType": ""},
        PodTopologySpreadArgs(defaulting_type="System"),
    ),
    "timeouts of DynamicResources": (
        "DynamicResources",
        {"bindingTimeout": "1m30s"},
        DynamicResourcesArgs(filter_timeout=Duration.of_seconds(10), binding_timeout=Duration.of_seconds(90)),
    ),
    "v1.37, 3.4: a shape that prefers free capacity": (
        "VolumeBinding",
        {},
        VolumeBindingArgs(
            bind_timeout_seconds=600, shape=[UtilizationShapePoint(score=10), UtilizationShapePoint(utilization=100)]
        ),
    ),
    "v1.37, 3.4: a shape of its own": (
        "VolumeBinding",
        {"shape": [{"utilization": 3, "score": 4}]},
        VolumeBindingArgs(bind_timeout_seconds=600, shape=[UtilizationShapePoint(utilization=3, score=4)]),
    ),
}


@pytest.mark.parametrize(("plugin", "args", "completed"), COMPLETED_ARGS.values(), ids=COMPLETED_ARGS.keys())
def test_arguments_are_completed(plugin: str, args: Any, completed: Any) -> None:
    assert first_args(with_args(plugin, args)) == completed


def test_gates_decide_about_some_arguments() -> None:
    assert first_args(with_args("VolumeBinding", {}), StorageCapacityScoring=False).shape is None
    off = first_args(
        with_args("DynamicResources", {}), DRASchedulerFilterTimeout=False, DRADeviceBindingConditions=False
    )
    assert off == DynamicResourcesArgs(filter_timeout=None, binding_timeout=None)


def test_arguments_of_unknown_plugins_are_left_alone() -> None:
    written = {"kind": "Whatever", "deep": [{"x": 1}]}
    assert first_args(with_args("MyPlugin", written)) == written


def test_v137_3_1_deferred_pod_scheduling_is_before_node_resources_fit_with_its_gate() -> None:
    def listed(is_on: bool) -> list[str]:
        (profile,) = default(feature_gates={"InPlacePodVerticalScalingSchedulerPreemption": is_on}).profiles
        return [entry.name for entry in profile.plugins.multi_point.enabled]

    place = listed(True).index("DeferredPodScheduling")
    assert listed(True)[place + 1] == "NodeResourcesFit"
    assert listed(False) == [name for name in listed(True) if name != "DeferredPodScheduling"]


def test_gates_add_default_plugins_at_the_end() -> None:
    def last(**gates: bool) -> list[str]:
        return [entry.name for entry in default(feature_gates=gates).profiles[0].plugins.multi_point.enabled][-2:]

    assert last() == ["DefaultBinder", "NodeDeclaredFeatures"]
    assert last(GenericWorkload=True) == ["NodeDeclaredFeatures", "GangScheduling"]
    assert last(TopologyAwareWorkloadScheduling=True) == ["TopologyPlacementGenerator", "PodGroupPodsCount"]


def a_set(enabled: str, disabled: str = "") -> PluginSet:
    """`A B*5` enabled, `C *` disabled."""
    entries = [name.partition("*") for name in enabled.split()]
    return PluginSet(
        enabled=[PluginEntry(name=name, weight=int(weight or 0)) for name, _, weight in entries],
        disabled=[PluginEntry(name=name) for name in disabled.split()],
    )


MERGES = {
    "nothing written keeps the defaults": (a_set(""), a_set("A*3 B C")),
    "new plugins follow the defaults": (a_set("D E"), a_set("A*3 B C D E")),
    "a default that is listed again keeps its place and takes the new weight": (a_set("B*5"), a_set("A*3 B*5 C")),
    "a missing weight counts as written": (a_set("A"), a_set("A B C")),
    "a disabled default goes": (a_set("", "B"), a_set("A*3 C", "B")),
    "enabled beats disabled, at the end": (a_set("B", "B"), a_set("A*3 C B", "B")),
    "a star disables all defaults": (a_set("D B", "*"), a_set("D B", "*")),
    "of two entries the last replaces and the other stays": (a_set("B*5 B*6"), a_set("A*3 B*6 C B*5")),
}


@pytest.mark.parametrize(("written", "merged"), MERGES.values(), ids=MERGES.keys())
def test_written_sets_are_merged_into_the_defaults(written: PluginSet, merged: PluginSet) -> None:
    assert merge_set(a_set("A*3 B C"), written) == merged


def test_what_the_defaults_disable_stays_disabled() -> None:
    assert merge_set(a_set("A B", "B"), a_set("", "C")) == a_set("A", "C B")


def test_an_extender_waits_five_seconds_unless_told_otherwise() -> None:
    config = from_object({**V1, "extenders": [{"urlPrefix": "http://a"}, {"urlPrefix": "b", "httpTimeout": "1s"}]})
    assert [extender.timeout.seconds for extender in config.extenders] == [5.0, 1.0]
