"""Words that are Kubernetes' own and stay in an anonymous dump: conditions, reasons, kinds of owners."""

from mooring.model.kinds import BY_KIND

_CONDITIONS = frozenset(
    (
        *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget"),
        *("PodResizePending", "PodResizeInProgress", "DisruptionAllowed", "PodGroupScheduled"),
        *("Complete", "Failed", "Suspended", "SuccessCriteriaMet", "FailureTarget"),
        *("Available", "Progressing", "ReplicaFailure"),
    )
)
_REASONS = frozenset(
    (
        *("Unschedulable", "SchedulerError", "SchedulingGated", "Infeasible", "Deferred"),
        *("SufficientPods", "InsufficientPods", "SyncFailed", "PreemptionByScheduler", "DeletionByTaintManager"),
        *("EvictionByEvictionAPI", "TerminationByKubelet", "KubeletReady", "KubeletNotReady", "NodeStatusUnknown"),
    )
)
_EVENT_REASONS = frozenset(
    (
        *("FailedScheduling", "Scheduled", "Preempted", "WaitingForPodGroup", "FailedBinding", "FailedAttachVolume"),
        *("NotTriggerScaleUp", "TriggeredScaleUp", "TaintManagerEviction", "Evicted", "FailedCreate"),
    )
)
_OTHER = "Other"


def public_condition(text: str) -> bool:
    return text in _CONDITIONS


def public_reason(text: str) -> str:
    """The reason of a condition; empty for one that a custom controller wrote."""
    return text if text in _REASONS else ""


def public_event_reason(text: str) -> str:
    return text if text in _EVENT_REASONS else _OTHER


def public_owner(api_version: str, kind: str) -> bool:
    return (api_version, kind) in BY_KIND
