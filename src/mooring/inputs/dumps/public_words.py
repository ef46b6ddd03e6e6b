"""Words that are Kubernetes' own and stay in an anonymous dump: conditions, reasons, kinds of owners, constants of the API.

All are exact words, or forms that have no room for a word: a name such as `acme.kubernetes.io/x` only looks like Kubernetes'
own.
"""

import re

from mooring.api.kinds import BY_KIND, KINDS
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.model.volumes import IN_TREE_PLUGINS

PUBLIC_FINALIZERS = frozenset(
    (
        *("kubernetes", "foregroundDeletion", "orphan", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"),
        *("resource.kubernetes.io/delete-protection", "batch.kubernetes.io/job-tracking"),
        *("service.kubernetes.io/load-balancer-cleanup", "scheduling.k8s.io/podgroup-protection"),
    )
)
PUBLIC_PROVISIONERS = IN_TREE_PLUGINS | {"kubernetes.io/no-provisioner"}
"""Provisioners that come with Kubernetes; decisions tell the last one from others."""
PUBLIC_FEATURES = frozenset(DEFAULTS)
"""Nodes declare features under the names of their gates."""

_DIGITS = r"[0-9]{1,30}"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")
NUMBER = re.compile(_DIGITS)
AMOUNT = re.compile(rf"[+-]?({_DIGITS})?\.?({_DIGITS})?([eE][+-]?{_DIGITS}|[numkMGTPE]|[KMGTPE]i)?%?")
"""A quantity or a percentage."""
DURATION = re.compile(r"([0-9.]{1,30}(ns|us|ms|s|m|h))+")
HUGE_PAGES = re.compile(rf"hugepages-{_DIGITS}([KMGTPE]i)?")
OWN_REQUEST = re.compile(rf"container-{_DIGITS}-request-{_DIGITS}")
"""The names of requests in claims for extended resources, which the scheduler writes."""

_CONSTANTS = """
True False Unknown NoSchedule PreferNoSchedule NoExecute None In NotIn Exists DoesNotExist Gt Lt Equal
Never PreemptLowerPriority Pending Running Succeeded Failed Bound Available Released Lost Active Terminating
Always OnFailure Restart RestartAllContainers TCP UDP SCTP DoNotSchedule ScheduleAnyway Honor Ignore
ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Filesystem Block Immediate WaitForFirstConsumer
Container IfHealthyBudget AlwaysAllow Indexed NonIndexed ExactCount All FromClass FromClaim Normal Warning PodGroup v1
LeastAllocated MostAllocated RequestedToCapacityRatio List System
"""
WORDS = frozenset(_CONSTANTS.split()) | {*KINDS, *(kind for _, kind in BY_KIND)}
"""Constants of fields, and kinds."""

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
