"""What validation says, word for word and in upstream's order."""

from typing import Any

import pytest

from mooring.framework.config import ConfigError, from_object
from mooring.framework.config.args import NodeResourcesFitArgs
from mooring.framework.config.validate_args import check_fit_args

V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
REMOVED = 'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_PART = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def problems(obj: dict[str, Any], **gates: bool) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        from_object({**V1, **obj}, feature_gates=gates)
    assert refused.value.stage == "validate"
    return refused.value.problems


def a_profile(name: str = "default-scheduler", **fields: Any) -> dict[str, Any]:
    return {"schedulerName": name, **fields}


def with_args(plugin: str, args: Any) -> dict[str, Any]:
    return {"profiles": [a_profile(pluginConfig=[{"name": plugin, "args": args}])]}


def sorted_by(*names: str, **fields: Any) -> dict[str, Any]:
    return {"plugins": {"queueSort": {"enabled": [{"name": name} for name in names]}}, **fields}


TOP_LEVEL = {
    "burst": ({"clientConnection": {"burst": -1}}, ["clientConnection.burst: Invalid value: -1: must be non-negative"]),
    "negative lease times": (
        {"leaderElection": {"leaseDuration": "-1s", "renewDeadline": "-1m30s", "retryPeriod": "-2s"}},
        [
            'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
            'leaderElection.renewDeadline: Invalid value: "-1m30s": must be greater than zero',
            'leaderElection.retryPeriod: Invalid value: "-2s": must be greater than zero',
        ],
    ),
    "the deadline is shown where the lease is too short": (
        {"leaderElection": {"leaseDuration": "10s"}},
        ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
    ),
    "only leases lock": (
        {"leaderElection": {"resourceLock": "endpoints"}},
        ['leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'],
    ),
    "an explicit zero is not the default": (
        {"parallelism": 0},
        ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
    ),
    "percentage": (
        {"percentageOfNodesToScore": -1},
        ["percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
    ),
    "backoffs": (
        {"podInitialBackoffSeconds": 0, "podMaxBackoffSeconds": -3},
        [
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            "podMaxBackoffSeconds: Invalid value: -3: must be greater than or equal to PodInitialBackoffSeconds",
        ],
    ),
}
PROFILES = {
    "an empty name": ({"profiles": [a_profile("")]}, ["profiles[0].schedulerName: Required value"]),
    "a missing name, where there are several": (
        {"profiles": [a_profile("a"), {}]},
        ["profiles[1].schedulerName: Required value"],
    ),
    "two missing names": (
        {"profiles": [{}, {}]},
        [
            "profiles[0].schedulerName: Required value",
            "profiles[1].schedulerName: Required value",
            "profiles[1].schedulerName: Duplicate value: {}",
        ],
    ),
    "percentage": (
        {"profiles": [a_profile(percentageOfNodesToScore=101)]},
        ["profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
    ),
    "removed plugins": (
        {
            "profiles": [
                a_profile(
                    plugins={"score": {"enabled": [{"name": "EBSLimits"}]}},
                    pluginConfig=[{"name": "CinderLimits"}],
                )
            ]
        },
        [
            f'profiles[0].plugins.score.enabled[0]: Invalid value: "EBSLimits": {REMOVED}',
            f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}',
        ],
    ),
    "repeated arguments": (
        {"profiles": [a_profile(pluginConfig=[{"name": "DefaultPreemption"}, {"name": "DefaultPreemption"}])]},
        ['profiles[0].pluginConfig[1]: Duplicate value: "DefaultPreemption"'],
    ),
    "the kind in place of the name": (
        with_args("NodeResourcesFitArgs", {"a": [1]}),
        ['profiles[0].pluginConfig[0].args: Invalid value: {"a":[1]}: has to match plugin args'],
    ),
    "two queue sorts": (
        {"profiles": [a_profile(**sorted_by("A", "B"))]},
        ["profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled"],
    ),
    "queue sorts that differ": (
        {"profiles": [a_profile("a", **sorted_by("A")), a_profile("b", **sorted_by("B"))]},
        [
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"B","Weight":0}],"Disabled":null}: '
            "must be the same for all profiles"
        ],
    ),
    "queue sorts with different arguments": (
        {
            "profiles": [
                a_profile("a", **sorted_by("A", pluginConfig=[{"name": "A", "args": {"x": 1}}])),
                a_profile("b", **sorted_by("A", pluginConfig=[{"name": "A", "args": {"x": 2}}])),
            ]
        },
        ['profiles[1].pluginConfig.args: Invalid value: {"x":2}: queueSort must be the same for all profiles'],
    ),
}
EXTENDERS = {
    "a weight is needed to prioritize": (
        {"extenders": [{"prioritizeVerb": "p"}]},
        ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
    ),
    "resource names": (
        {"extenders": [{"managedResources": [{"name": "cpu!"}, {"name": "cpu"}, {"name": "kubernetes.io/x"}]}]},
        [
            f'extenders[0].managedResources[0].name: Invalid value: "cpu!": {NAME_PART}',
            'extenders[0].managedResources[1].name: Invalid value: "cpu": is an invalid extended resource name',
            'extenders[0].managedResources[2].name: Invalid value: "kubernetes.io/x": '
            "is an invalid extended resource name",
        ],
    ),
    "a resource has one extender": (
        {"extenders": [{"managedResources": [{"name": "a.com/x"}]}, {"managedResources": [{"name": "a.com/x"}]}]},
        [
            'extenders[1].managedResources[0].name: Invalid value: "a.com/x": duplicate extender managed resource name',
        ],
    ),
    "one extender binds": (
        {"extenders": [{"bindVerb": "b"}, {"bindVerb": "b"}, {}]},
        [
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ],
    ),
}
ALL = {**TOP_LEVEL, **{f"profiles: {k}": v for k, v in PROFILES.items()}, **EXTENDERS}


@pytest.mark.parametrize(("obj", "expected"), ALL.values(), ids=ALL.keys())
def test_what_is_wrong_is_listed(obj: dict[str, Any], expected: list[str]) -> None:
    assert problems(obj) == expected


def test_one_problem_stands_bare_and_several_are_bracketed_in_order() -> None:
    everything = {
        "extenders": [{"prioritizeVerb": "p"}],
        "podInitialBackoffSeconds": 20,
        "percentageOfNodesToScore": 101,
        "profiles": [a_profile("", **sorted_by("A", "B"))],
        "parallelism": 0,
        "leaderElection": {"resourceLock": "x"},
        "clientConnection": {"burst": -1},
    }
    found = problems(everything)
    assert [text.partition(":")[0] for text in found] == [
        "clientConnection.burst",
        "leaderElection.resourceLock",
        "parallelism",
        "profiles[0].schedulerName",
        "profiles[0].plugins.queueSort.Enabled",
        "percentageOfNodesToScore",
        "podMaxBackoffSeconds",
        "extenders[0].weight",
    ]
    assert str(ConfigError("validate", found[:1])) == found[0]
    assert str(ConfigError("validate", [*found[:2], found[0]])) == f"[{found[0]}, {found[1]}]"


def test_leases_are_not_looked_at_where_nobody_is_elected() -> None:
    off = {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "endpoints"}
    assert from_object({**V1, "leaderElection": off}).leader_election.resource_lock == "endpoints"


def test_a_removed_plugin_in_multi_point_is_left_to_the_build() -> None:
    sets = {"multiPoint": {"enabled": [{"name": "EBSLimits"}]}}
    config = from_object({**V1, "profiles": [a_profile(plugins=sets)]})
    assert config.profiles[0].plugins.multi_point.enabled[-1].name == "EBSLimits"


def a_constraint(**fields: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}


def spread(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"defaultingType": "List", "defaultConstraints": list(constraints)}


def required(*lines: dict[str, Any], by: str = "matchExpressions") -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{}, {by: list(lines)}]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
ARGS: dict[str, tuple[str, Any, list[str]]] = {
    "a share of candidates out of range": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": -1, "minCandidateNodesAbsolute": -1},
        [
            "minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]",
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ],
    ),
    "no candidates at all": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [
            "minCandidateNodesPercentage: Invalid value: 0: "
            "cannot be zero at the same time as minCandidateNodesAbsolute",
            "minCandidateNodesAbsolute: Invalid value: 0: "
            "cannot be zero at the same time as minCandidateNodesPercentage",
        ],
    ),
    "hard affinity": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 101},
        ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
    ),
    "balanced resources": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
        ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
    ),
    "an unknown defaulting type": (
        "PodTopologySpread",
        {"defaultingType": "Maybe"},
        ['defaultingType: Unsupported value: "Maybe": supported values: "System", "List"'],
    ),
    "constraints without their type": (
        "PodTopologySpread",
        {"defaultConstraints": [a_constraint()]},
        ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
    ),
    "an empty constraint": (
        "PodTopologySpread",
        spread({"labelSelector": {}}),
        [
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            "defaultConstraints[0].labelSelector: Forbidden: "
            "constraint must not define a selector, as they deduced for each pod",
        ],
    ),
    "a constraint that is repeated, and misspelt ones": (
        "PodTopologySpread",
        spread(a_constraint(), a_constraint(maxSkew=2), a_constraint(topologyKey="a b", whenUnsatisfiable="Never")),
        [
            'defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"',
            f'defaultConstraints[2].topologyKey: Invalid value: "a b": {NAME_PART}',
            'defaultConstraints[2].whenUnsatisfiable: Unsupported value: "Never": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"',
        ],
    ),
    "a negative timeout": (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        ["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"],
    ),
    "timeouts of devices": (
        "DynamicResources",
        {"filterTimeout": "-5s", "bindingTimeout": "999ms"},
        [
            'filterTimeout: Invalid value: "-5s": must be zero or positive',
            'bindingTimeout: Invalid value: "999ms": must be at least 1 second',
        ],
    ),
    "an operator that does not exist": (
        "NodeAffinity",
        required({"key": "a", "operator": "Has"}),
        [
            f'{REQUIRED}.matchExpressions[0].operator: Unsupported value: "Has": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
        ],
    ),
    "values that the operators do not take": (
        "NodeAffinity",
        required(
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Gt", "values": ["1", "x"]},
            {"key": "a!", "operator": "NotIn", "values": ["b!"]},
        ),
        [
            f"{REQUIRED}.matchExpressions[0].values: Invalid value: null: "
            "for 'in', 'notin' operators, values set can't be empty",
            f'{REQUIRED}.matchExpressions[1].values: Invalid value: ["b"]: '
            "values set must be empty for exists and does not exist",
            f'{REQUIRED}.matchExpressions[2].values: Invalid value: ["1","x"]: '
            "for 'Gt', 'Lt' operators, exactly one value is required",
            f'{REQUIRED}.matchExpressions[2].values[1]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            f'{REQUIRED}.matchExpressions[3].key: Invalid value: "a!": {NAME_PART}',
            f'{REQUIRED}.matchExpressions[3].values[0][a!]: Invalid value: "b!": {VALUE_PART}',
        ],
    ),
    "an empty list of values that is written": (
        "NodeAffinity",
        required({"key": "k", "operator": "In", "values": []}),
        [
            f"{REQUIRED}.matchExpressions[0].values: Invalid value: []: "
            "for 'in', 'notin' operators, values set can't be empty"
        ],
    ),
    "fields": (
        "NodeAffinity",
        required({"key": "k", "operator": "Exists"}, {"key": "k", "operator": "In"}, by="matchFields"),
        [
            f'{REQUIRED}.matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            f"{REQUIRED}.matchFields[1].values: Invalid value: null: must have one element",
        ],
    ),
    "preferences, but not those of weight 0": (
        "NodeAffinity",
        {
            "addedAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                    for weight in (0, 1)
                ]
            }
        },
        [
            f"{PREFERRED}[1].matchExpressions[0].values: Invalid value: null: "
            "for 'in', 'notin' operators, values set can't be empty"
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "expected"), ARGS.values(), ids=ARGS.keys())
def test_what_is_wrong_with_arguments_is_listed(plugin: str, args: Any, expected: list[str]) -> None:
    assert problems(with_args(plugin, args)) == [f"profiles[0].pluginConfig[0].args.{text}" for text in expected]


GATED: dict[str, tuple[str, Any, dict[str, bool], list[str]]] = {
    "a shape that falls": (
        "VolumeBinding",
        {"shape": [{"utilization": 50}, {"utilization": 50, "score": 11}]},
        {},
        [
            "shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
            "shape[1].score: Invalid value: 11: not in valid range [0, 10]",
        ],
    ),
    "v1.37, 3.4: a shape while its gate is off": (
        "VolumeBinding",
        {"shape": [{"utilization": 5, "score": 1}]},
        {"StorageCapacityScoring": False},
        [
            'shape: Invalid value: [{"Utilization":5,"Score":1}]: '
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        ],
    ),
    "a filter timeout without its gate": (
        "DynamicResources",
        {"filterTimeout": "5s"},
        {"DRASchedulerFilterTimeout": False},
        ["filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled"],
    ),
    "a binding timeout without its gate": (
        "DynamicResources",
        {"bindingTimeout": "5s"},
        {"DRADeviceBindingConditions": False},
        [
            "bindingTimeout: Forbidden: "
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "gates", "expected"), GATED.values(), ids=GATED.keys())
def test_gates_decide_what_is_wrong(plugin: str, args: Any, gates: dict[str, bool], expected: list[str]) -> None:
    found = problems(with_args(plugin, args), **gates)
    assert found == [f"profiles[0].pluginConfig[0].args.{text}" for text in expected]


# ---- NodeResourcesFit: validated by its plugin


def fit_args(args: dict[str, Any]) -> NodeResourcesFitArgs:
    config = from_object({**V1, **with_args("NodeResourcesFit", args)})
    found = config.profiles[0].plugin_config[0].args
    assert isinstance(found, NodeResourcesFitArgs)
    return found


def ratio(*points: tuple[int, int], kind: str = "RequestedToCapacityRatio") -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {"scoringStrategy": {"type": kind, "requestedToCapacityRatio": {"shape": shape}}}


SHAPE = "scoringStrategy.requestedToCapacityRatio"
TYPES = '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
FIT: dict[str, tuple[dict[str, Any], str]] = {
    "ignored resources are qualified names": (
        {"ignoredResources": ["a b"]},
        f'ignoredResources[0]: Invalid value: "a b": {NAME_PART}',
    ),
    "groups have no slash": (
        {"ignoredResourceGroups": ["a/b"]},
        "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
    ),
    "a written strategy needs a type": (
        {"scoringStrategy": {}},
        f'scoringStrategy.type: Unsupported value: "": supported values: {TYPES}',
    ),
    "weights go to 100": (
        {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
        "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
    ),
    "a ratio needs its shape": (
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        f"{SHAPE}: Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    "others must have none": (
        ratio((0, 0), kind="MostAllocated"),
        f"{SHAPE}: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    "a shape has points": (ratio(), f"{SHAPE}.shape: Required value: at least one point must be specified"),
    "only the first descent is told, ranges are told of every point": (
        ratio((101, 0), (50, -1), (10, 0)),
        f"[{SHAPE}.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order, "
        f"{SHAPE}.shape[0].utilization: Invalid value: 101: not in valid range [0, 100], "
        f"{SHAPE}.shape[1].score: Invalid value: -1: not in valid range [0, 10]]",
    ),
}


@pytest.mark.parametrize(("args", "error"), FIT.values(), ids=FIT.keys())
def test_fit_arguments_pass_validation_and_fail_their_own_check(args: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_fit_args(fit_args(args))
    assert str(refused.value) == error


def test_good_fit_arguments_pass() -> None:
    check_fit_args(fit_args(ratio((0, 0), (100, 10))))
    check_fit_args(NodeResourcesFitArgs())
