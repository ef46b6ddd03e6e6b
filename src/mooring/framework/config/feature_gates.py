"""`--feature-gates`: which there are in v1.36, what they are by default, and what can be made of them."""

from collections.abc import Iterable

ON, OFF = True, False

LOCKED_ON = (
    *("SchedulerQueueingHints", "DynamicResourceAllocation", "InPlacePodVerticalScaling", "SidecarContainers"),
    *("PodSchedulingReadiness", "NodeInclusionPolicyInPodTopologySpread", "MatchLabelKeysInPodAffinity"),
    *("PodObservedGenerationTracking", "VolumeAttributesClass"),
)
"""They cannot be turned off any more."""

STABLE_ON = ("DRAPrioritizedList", "DRAAdminAccess")
BETA_ON = (
    *("SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ", "OpportunisticBatching", "NodeDeclaredFeatures"),
    *("NominatedNodeNameForExpectation", "ClearingNominatedNodeNameAfterBinding", "PodLevelResources"),
    *("InPlacePodLevelResourcesVerticalScaling", "MatchLabelKeysInPodTopologySpread"),
    *("MatchLabelKeysInPodTopologySpreadSelectorMerge", "DRAExtendedResource", "DRAConsumableCapacity"),
    *("DRAPartitionableDevices", "DRADeviceTaints", "DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
    *("DRASchedulerFilterTimeout", "DRAResourceClaimGranularStatusAuthorization", "WatchListClient"),
    *("ComponentStatusz", "ComponentFlagz", "LoggingBetaOptions"),
)
BETA_OFF = ("SchedulerAsyncAPICalls", "DRADeviceTaintRules", "CoordinatedLeaderElection")
ALPHA = (
    *("DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAWorkloadResourceClaims", "GenericWorkload"),
    *("GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption", "WorkloadWithJob"),
    *("TaintTolerationComparisonOperators", "StorageCapacityScoring", "VolumeLimitScaling", "MutablePVNodeAffinity"),
)
STAGES = {"AllAlpha": ALPHA, "AllBeta": (*BETA_ON, *BETA_OFF)}
"""Gates that stand for all of a stage."""

DEFAULTS = {
    **dict.fromkeys((*LOCKED_ON, *STABLE_ON, *BETA_ON), ON),
    **dict.fromkeys((*BETA_OFF, *ALPHA), OFF),
}
NEEDS = {
    "GangScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
}
_VALUES = {"true": ON, "false": OFF, "1": ON, "0": OFF, "t": ON, "f": OFF, "True": ON, "False": OFF}
_COMPONENT = "kube:"


class GateError(ValueError):
    """A gate that cannot be had so."""


def parse_gates(text: str) -> dict[str, bool]:
    """All gates, with what `Name=true,kube:Other=false` makes of them. Raises GateError."""
    chosen: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.removeprefix(_COMPONENT).partition("=")
        if not equals:
            raise GateError(f"--feature-gates: missing bool value for {name}")
        if value.strip() not in _VALUES:
            raise GateError(f"--feature-gates: invalid value of {name}={value}: it is neither true nor false")
        chosen |= _choice(name.strip(), _VALUES[value.strip()])
    gates = {**DEFAULTS, **chosen}
    for name, needed in NEEDS.items():
        missing = [other for other in needed if not gates[other]]
        if gates[name] and missing:
            raise GateError(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
    return gates


def _choice(name: str, value: bool) -> dict[str, bool]:
    if name in STAGES:
        return dict.fromkeys(STAGES[name], value)
    if name not in DEFAULTS:
        raise GateError(f"unrecognized feature gate: {name}. Known are {_listed(DEFAULTS)}")
    if name in LOCKED_ON and not value:
        raise GateError(f"cannot set feature gate {name} to false, feature is locked to true")
    return {name: value}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
