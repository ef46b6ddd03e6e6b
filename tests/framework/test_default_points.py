"""The points of the default profile in v1.37 (sections 3.1 to 3.4), and the set podGroupPostFilter."""

from typing import Any

import pytest

from mooring.framework.config import ConfigError, default, from_object
from mooring.framework.config.settings import as_object
from mooring.framework.profile.profiles import Profile, build_profiles
from mooring.state.scheduler_assembly import all_plugins

V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile_of(plugins: Any = None, **gates: bool) -> Profile:
    written = {**V1, "profiles": [{"schedulerName": "x", "plugins": plugins or {}}]}
    (profile,) = build_profiles(from_object(written, feature_gates=gates), all_plugins(), gates).values()
    return profile


def test_v137_3_1_the_named_node_is_checked_before_cordons() -> None:
    """So a node that both reject is said not to be the one that the pod names."""
    listed = [entry.name for entry in default().profiles[0].plugins.multi_point.enabled]
    assert listed[:6] == [
        *("SchedulingGates", "PrioritySort", "NodeName"),
        *("NodeUnschedulable", "TaintToleration", "NodeAffinity"),
    ]
    assert profile_of().describe()["filter"][:3] == ["NodeName", "NodeUnschedulable", "TaintToleration"]


def test_v137_3_2_three_plugins_have_pre_filter() -> None:
    assert profile_of().describe()["preFilter"] == [
        *("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
        *("InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    ]


def test_v137_3_3_the_set_for_pod_groups_is_filled_from_multi_point() -> None:
    profile = profile_of()
    assert [plugin.name for plugin in profile.pod_group_post_filters] == ["DynamicResources", "DefaultPreemption"]
    off = profile_of({"podGroupPostFilter": {"disabled": [{"name": "DynamicResources"}]}})
    assert [plugin.name for plugin in off.pod_group_post_filters] == ["DefaultPreemption"]
    assert profile_of({"podGroupPostFilter": {"disabled": [{"name": "*"}]}}).pod_group_post_filters == ()


def test_v137_3_3_the_set_is_described_where_groups_are_scheduled() -> None:
    assert "podGroupPostFilter" not in profile_of().describe()
    described = profile_of(GenericWorkload=True).describe()
    assert described["podGroupPostFilter"] == ["DynamicResources", "DefaultPreemption"]


def test_v137_3_3_the_configuration_shows_sixteen_sets() -> None:
    """/configz and --write-config-to show what `as_object` gives."""
    plugins = as_object(default())["profiles"][0]["plugins"]
    assert len(plugins) == 16
    assert [*plugins][-1] == "podGroupPostFilter"
    kept = from_object({**V1, "profiles": [{"plugins": {"podGroupPostFilter": {"disabled": [{"name": "*"}]}}}]})
    assert as_object(kept)["profiles"][0]["plugins"]["podGroupPostFilter"]["disabled"][0]["name"] == "*"


WRONG = {
    "a plugin that upstream removed": (
        "EBSLimits",
        'profiles[0].plugins.podGroupPostFilter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
        '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
    ),
    "a plugin that is not there": (
        "Nope",
        'initializing profiles: creating profile for scheduler name x: PodGroupPostFilterPlugin "Nope" does not exist',
    ),
    "a plugin of other points": (
        "NodeName",
        "initializing profiles: creating profile for scheduler name x: "
        'plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin',
    ),
}


@pytest.mark.parametrize(("name", "text"), WRONG.values(), ids=WRONG.keys())
def test_v137_3_3_plugins_that_cannot_make_room_for_groups(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as told:
        profile_of({"podGroupPostFilter": {"enabled": [{"name": name}]}})
    assert str(told.value) == text


def test_v137_3_4_the_default_arguments_have_a_shape() -> None:
    args = {config["name"]: config["args"] for config in as_object(default())["profiles"][0]["pluginConfig"]}
    shape = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    assert (args["VolumeBinding"]["bindTimeoutSeconds"], args["VolumeBinding"]["shape"]) == (600, shape)


@pytest.mark.parametrize("point", ["preFilter", "filter"])
def test_v137_3_2_a_point_can_be_switched_off_by_itself(point: str) -> None:
    names = ("NodeName", "NodeUnschedulable", "TaintToleration")
    described = profile_of({point: {"disabled": [{"name": name} for name in names]}}).describe()
    assert not {*described[point]} & {*names}
    assert {*names} <= {*described["filter" if point == "preFilter" else "preFilter"]}
