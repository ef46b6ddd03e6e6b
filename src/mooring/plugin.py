"""The one door for authors of plugins: `from mooring.plugin import ...` has everything that a plugin may use.

Names in `__all__` are promised: they change with `API_VERSION` and an entry in CHANGELOG.md. All other modules of Mooring may
change in any release. The module has nothing of its own; docs/plugins.md shows how the names are used, and
docs/reference/python.md lists them.
"""

from mooring.api.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from mooring.api.kinds.scheduling import COMPOSITE_POD_GROUP, POD_GROUP
from mooring.api.kinds.storage import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from mooring.cluster.change_log import Follower
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.contract.context import CycleState, FitError, SchedulingContext
from mooring.framework.contract.events import (
    ANYTHING,
    ASSIGNED_POD,
    NODE,
    POD,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    EventKeys,
    Hint,
    Registration,
)
from mooring.framework.contract.group_points import (
    GroupFitError,
    GroupRoom,
    GroupSearch,
    MembersPlaced,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementProgress,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
    PodGroupPostFilterPlugin,
    PodsLeave,
)
from mooring.framework.contract.intents import Bind, CallFault, Evict, PatchStatus, Record, Write, WriteFault
from mooring.framework.contract.plain import NodeView, PlacementView, PlainPlugin
from mooring.framework.contract.points import (
    BindPlugin,
    Candidates,
    Codes,
    FilterPlugin,
    Handle,
    Need,
    NodeNames,
    Nomination,
    NoRoom,
    Pause,
    PermitPlugin,
    Plugin,
    PodGone,
    PodListener,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ResourceDemand,
    Rows,
    SchedulerServices,
    ScorePlugin,
    Scores,
    Victims,
    Wait,
    Work,
    reads,
)
from mooring.framework.contract.special_points import DeviceShares, DeviceSharing, NodeMatrix, TotalsPlugin
from mooring.framework.contract.status import (
    SKIP,
    SKIP_FOR_NOW,
    SKIP_SHAPE,
    Code,
    PluginError,
    Rejection,
    Skip,
    curable,
    final,
)
from mooring.framework.contract.waiting import WaitingPod, WaitingPods
from mooring.kit.choice import choose
from mooring.kit.heap import KeyedHeap
from mooring.kit.metrics import Description, MetricRegistry, exponential
from mooring.model.affinity import PodPredicate
from mooring.model.meta import KubeObject, LabelSelector
from mooring.model.node import Node, Taint
from mooring.model.pod import Pod
from mooring.model.quantity import MAX_AMOUNT, QuantityError, show_amount, to_amount, to_milli_amount
from mooring.model.quantity import parse as parse_quantity
from mooring.model.selectors import compile_selector
from mooring.model.shape import PodPart
from mooring.model.workloads import AnyPodGroup, CompositePodGroup, PodDisruptionBudget, PodGroup
from mooring.plugins.group_plugins import is_own_group, joins_group
from mooring.plugins.preemption.victim_search import KeptBudgets, NodeDryRun, is_being_preempted

API_VERSION = "1"
"""The version of this list of names. It rises when a name goes away or changes so that a plugin has to follow."""

__all__ = ["API_VERSION"]

# The two forms of plugins, and what both are built with.
__all__ += ["Handle", "NodeView", "PlacementView", "PlainPlugin", "Plugin", "PodListener", "SchedulerServices"]

# Extension points of pods, and of pod groups.
__all__ += ["BindPlugin", "FilterPlugin", "PermitPlugin", "PlacementGeneratePlugin", "PlacementScorePlugin"]
__all__ += ["PostBindPlugin", "PostFilterPlugin", "PreBindPlugin", "PreEnqueuePlugin", "PreFilterExtensions"]
__all__ += ["PreFilterPlugin", "PreScorePlugin", "QueueSortPlugin", "ReservePlugin", "ScorePlugin"]
__all__ += ["DeviceShares", "DeviceSharing", "PlacementFeasiblePlugin", "PodGroupPostFilterPlugin", "TotalsPlugin"]

# Arguments of the points, and what an answer depends on.
__all__ += ["CycleState", "FitError", "Need", "PodGroupAssignments", "PodGroupContext", "PodGroupPlacement", "PodPart"]
__all__ += ["GroupFitError", "GroupName", "MembersPlaced", "PlacementProgress", "Reads", "RejectedAttempt", "Rows"]
__all__ += ["SchedulingContext", "reads"]

# Answers of the points.
__all__ += ["SKIP", "SKIP_FOR_NOW", "SKIP_SHAPE", "Candidates", "Code", "Codes", "NoRoom", "NodeNames", "Nomination"]
__all__ += ["Pause", "PluginError", "PodGone", "Rejection", "ResourceDemand", "Scores", "Skip", "Victims", "Wait"]
__all__ += ["GroupRoom", "GroupSearch", "PodsLeave", "Work", "curable", "final"]

# Writes to the API server, and pods that wait.
__all__ += ["Bind", "CallFault", "Evict", "PatchStatus", "Record", "WaitingPod", "WaitingPods", "Write", "WriteFault"]

# Events that help pods which a plugin rejected, and the kinds that have events (`STORAGE_CLASS.event`).
__all__ += ["ANYTHING", "ASSIGNED_POD", "CSI_DRIVER", "CSI_NODE", "CSI_STORAGE_CAPACITY", "DEVICE_CLASS", "NODE"]
__all__ += ["PERSISTENT_VOLUME", "PERSISTENT_VOLUME_CLAIM", "POD", "POD_GROUP", "RESOURCE_CLAIM", "RESOURCE_SLICE"]
__all__ += ["COMPOSITE_POD_GROUP"]
__all__ += ["STORAGE_CLASS", "UNSCHEDULABLE_POD", "VOLUME_ATTACHMENT", "Action", "Change", "ClusterEvent", "EventKeys"]
__all__ += ["TARGET_POD", "UNSCHEDULED_POD", "Hint", "Registration"]

# Objects.
__all__ += ["KubeObject", "LabelSelector", "Node", "Pod", "PodDisruptionBudget", "PodGroup", "PodPredicate", "Taint"]
__all__ += ["AnyPodGroup", "CompositePodGroup", "compile_selector"]

# The cluster over columns.
__all__ += ["Cluster", "Follower", "NodeMatrix", "NodeTable", "PodRanks"]

# Parts of the built-in plugins that others can use.
__all__ += ["KeptBudgets", "NodeDryRun", "is_being_preempted", "is_own_group", "joins_group"]

# Quantities, metrics, and choices that replay.
__all__ += ["MAX_AMOUNT", "QuantityError", "parse_quantity", "show_amount", "to_amount", "to_milli_amount"]
__all__ += ["Description", "KeyedHeap", "MetricRegistry", "choose", "exponential"]
