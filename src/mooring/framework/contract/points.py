"""The contract between scheduler and plugins: twelve extension points, in the order in which a pod meets them, and two for
pod groups.

A plugin is a class with a `name` that inherits from the points it extends and is built as `Plugin(args, handle)`.
The two hot points work on columns: `filter` and `score` answer for many nodes at once. `rows` says for which: it is a
slice or an integer array, so `column[rows]` reads what is asked for in either case. A plugin that would rather look
at one node at a time uses `PlainPlugin` (plain.py).

| point      | is called                          | answers                                                   |
| PreEnqueue | before a pod may be queued         | a Rejection holds the pod back (it is *gated*)             |
| QueueSort  | to order the queue                 | a sort key; exactly one plugin in a profile                |
| PreFilter  | once an attempt, before Filter     | nothing, SKIP, a Rejection of the pod, or the only NodeNames |
| Filter     | for the nodes still in             | a code for each row: 0 passes, anything else rejects       |
| PostFilter | when no node passed                | how to make room (preemption)                             |
| PreScore   | once an attempt, before Score      | nothing or SKIP                                           |
| Score      | for the nodes that passed          | an integer for each row; `normalize` brings it to 0..100   |
| Reserve    | when a node is chosen              | claims what the pod will use there; `unreserve` gives it back |
| Permit     | after Reserve                      | lets the pod go, refuses it, or makes it wait              |
| PreBind    | before binding                     | nothing, a Rejection, or Work that must be done first      |
| Bind       | to bind                            | binds, or SKIPs                                           |
| PostBind   | after binding                      | nothing; it may note that the pod is bound                |

The points of pod groups are in group_points.py:

| PlacementGenerate | before a group is tried            | the sets of nodes to try it on, one after the other |
| PlacementScore    | for the sets where enough pods fit | an integer for each; `normalize_placements` brings it to 0..100 |
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.resource_amounts import Resources
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.contract.context import FitError, SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.intents import Bind, CallFault, Intent, Write, WriteFault
from mooring.framework.contract.status import Rejection, Skip
from mooring.framework.contract.waiting import WaitingPods
from mooring.kit.metrics import MetricRegistry as MetricRegistry
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.workloads import AnyPodGroup


class Need(msgspec.Struct, frozen=True):
    """At `point` a plugin reads what it wrote at the point `earlier`. In profiles that disable it there, it fails with
    `error`. Points are named as in the configuration."""

    point: str
    earlier: str
    error: str


Rows = slice | NDArray[np.intp]
"""Which rows of the node table are meant; index a column with it."""

Codes = NDArray[np.signedinteger[Any]]
"""One verdict for each row asked about: 0 passes; what another number means, the plugin's `rejection` tells."""

Scores = NDArray[np.signedinteger[Any]]
"""One score for each row asked about. Both: integers of any size."""


class Reads(IntEnum):
    """Data that an answer of a plugin depends on, beside the profile. The less a plugin reads, the longer the framework keeps
    its answer."""

    SHAPE = 0
    """Only the pod's shape: PreFilter and PreScore are then asked once for each shape."""
    NODE = 1
    """Shape and the node itself (labels, taints, images, ...): asked again for nodes that were changed."""
    TOTALS = 2
    """Shape, the node and the sums over its pods (`requested`, `pod_count`): asked again for nodes that were touched."""
    COUNTS = 3
    """Shape, the node and whatever the table counts of its pods (sums, ports in use, images), but not the pods: asked
    again for nodes that were touched. Labels of pods that change touch no node for it."""
    ROW = 4
    """Shape, the node and the pods on it, but not their status: asked again for nodes that were touched."""
    CLUSTER = 5
    """Anything: asked in every attempt."""


M = TypeVar("M", bound=Callable[..., Any])


def reads(what: Reads, part: PodPart = PodPart.WHOLE) -> Callable[[M], M]:
    """Declare on `pre_filter`, `filter`, `pre_score` or `score` what its answer depends on (default: CLUSTER).

    `what` says what of the cluster the answer depends on, and `part` what of the pod. The framework keeps answers by both,
    and asks again only about rows that changed, and only for pods with another part. So a plugin that reads more than it
    declares gives answers that are silently stale: pods land on nodes that they do not fit, or that are worse than others.
    `tests/framework/test_reads.py` asks every built-in plugin with a shape that records what is read of it.

    The answer must follow from the declared part alone, and so must the meaning of its codes (`rejection`): the codes may
    have been asked for a pod with another shape that has the same part.

    A filter or score whose answers are kept is asked about all rows of the table, also those that other filters reject
    and those without a node: it must have an answer for them, scores without `normalize` one from 0 to 100. The `normalize`
    of a score whose answers are kept must depend on the scores alone.
    """

    def mark(method: M) -> M:
        method.reads = what  # type: ignore[attr-defined]
        method.part = part  # type: ignore[attr-defined]
        return method

    return mark


class NodeNames(msgspec.Struct, frozen=True):
    """From PreFilter: only these nodes can be right; the others are not even asked."""

    names: frozenset[str]


PodListener = Callable[[Pod | None, Pod | None], None]
"""Takes a pod before and after a change: a new pod has no `old`, a deleted one no `new`."""


class SchedulerServices(msgspec.Struct, frozen=True):
    """Services of the running scheduler that plugins can use. All profiles share one object. It exists before the plugins are
    built; without a scheduler behind it, it does nothing."""

    cluster: Cluster = msgspec.field(default_factory=Cluster)
    """The cluster that decisions are made on, for points that are not handed it."""
    waiting: WaitingPods = msgspec.field(default_factory=WaitingPods)
    """Pods that Permit plugins hold back: look at them, allow them, reject them."""
    now_ns: Callable[[], int] = lambda: 0
    """The time on the scheduler's clock."""
    activate: Callable[[Sequence[Pod]], None] = lambda pods: None
    """Have these pods tried again without delay. That happens when the present input or attempt has been dealt with."""
    want: Callable[[Intent], None] = lambda intent: None
    """Have something done in the world. A plugin that needs the answer yields a Write in PreBind instead."""
    pod_listeners: list[PodListener] = msgspec.field(default_factory=list)
    """Called with every change of a pod that the scheduler gets, of any scheduler, after the cluster and the queue have it.
    For plugins that count pods, or that know better than a hint which pods to activate."""


class Handle(msgspec.Struct, frozen=True):
    """Access to the framework that a plugin gets at construction, beside its arguments."""

    profile_name: str = "default-scheduler"
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    services: SchedulerServices = msgspec.field(default_factory=SchedulerServices)
    metrics: MetricRegistry = msgspec.field(default_factory=MetricRegistry)
    """Where a plugin declares metrics of its own. What it records is shown at /metrics."""


class Plugin(ABC):
    """Base of all plugins. `args` is the typed arguments object of the configuration, or None."""

    name: ClassVar[str]
    is_same_in_all_profiles: ClassVar[bool] = False
    """Whether kept answers depend on the class and the arguments alone: then profiles with equal arguments share them."""
    reads_other_nodes: ClassVar[bool] = True
    """Whether kept answers about a node may change when other nodes come or go. False: only rows that were touched are asked
    about again then. Hot: a plan tries nodes that it adds and removes again."""
    is_in_range: ClassVar[bool] = False
    """Whether what `score` gives is in 0..100 by construction, so that it is not checked. Hot: 3 µs for 5,000 nodes."""
    needs_feasible: ClassVar[bool] = True
    """Whether Filter is asked only about nodes that passed before, and PreScore is told which nodes are feasible. False: if
    these are most of the rows, all rows may be meant, those without a node too. Hot: on 100,000 nodes of which one is full,
    the list of the others takes 110 µs to make, and as much to index a column with."""
    skips_resizes: ClassVar[bool] = False
    """Whether PreFilter, Filter and PostFilter are left out for pods on nodes whose resize was deferred, because a resize
    does not change what the plugin looks at."""
    annotations: ClassVar[Sequence[str]] = ()
    """The keys of annotations that the plugin reads, of any object: `example.com/watts`, or `example.com/*` for all keys that
    begin so. Dumps and recordings keep these; they leave out other annotations."""
    shape_annotations: ClassVar[Sequence[str]] = ()
    """Keys of annotations of pods that belong to the shape: plugins read them as `context.shape.annotations`, and kept
    answers go by them. Dumps and recordings keep them too."""
    needs: tuple[Need, ...] = ()
    """The points at which the plugin cannot do without an earlier one (profile/profiles.py)."""

    def __init__(self, args: Any, handle: Handle) -> None:
        del args, handle

    def events(self) -> Sequence[Registration] | None:
        """The cluster events that could make a pod schedulable that this plugin rejected, with hints (events.py).

        None: it does not say, so any event may. Empty: no event does.
        """
        return None

    concerned_by: ClassVar[PodPart | None] = None
    """The part of the shape that `concerns` follows from, so that it is asked once for all pods with this part; None: it
    is asked about each pod."""

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        """Whether there is anything to filter or score for this pod: a cheap way out for plugins that most pods do not need.

        A plugin that says False rejects no node, and scores 0 for each.
        """
        return True

    def has_binding_work(self, context: SchedulingContext) -> bool:
        """Whether Reserve or PreBind may have anything to do for this pod. A plugin that says False is not asked there.

        Hot: most pods have no volumes and no claims, and are bound without a question to any plugin.
        """
        return True

    def version(self, cluster: Cluster) -> Hashable:
        """Changes with the objects that SKIP_FOR_NOW depends on."""
        return 0


class PreEnqueuePlugin(Plugin):
    """Holds pods back before they are queued."""

    is_asked_by_group: ClassVar[bool] = False
    """Whether `pre_enqueue` says the same about all pods of a PodGroup, so that one of those that wait together is asked."""

    @classmethod
    def may_gate(cls, pod: Pod) -> bool:
        """Whether `pre_enqueue` may hold this pod back: a cheap way out. It follows from the pod alone. Each member of a
        PodGroup that may be held back is asked about whenever another one comes."""
        return True

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Rejection | None: ...


class QueueSortPlugin(Plugin):
    """Orders the queue; a profile has exactly one of them."""

    @abstractmethod
    def sort_key(self, pod: Pod, queued_at: float) -> Any:
        """Pods are taken in ascending order of this; `queued_at` is in seconds of the scheduler's clock."""

    def group_sort_key(self, group: AnyPodGroup | None, pods: Sequence[Pod], queued_at: float) -> Any:
        """The key of a pod group, which is taken as one with the members that wait; it is compared with those of pods."""
        return self.sort_key(pods[0], queued_at)


class PreFilterPlugin(Plugin):
    """Looks at the pod once an attempt, before Filter."""

    is_asked_if_concerned: ClassVar[bool] = False
    """Whether `pre_filter` has nothing to say about pods that the plugin does not concern (`concerns`), so that it is not
    asked about them. With `concerned_by` this counts as SKIP_SHAPE."""

    @abstractmethod
    def pre_filter(self, context: SchedulingContext) -> NodeNames | Rejection | Skip | None:
        """SKIP leaves the plugin's `filter` out of this attempt. SKIP_SHAPE and SKIP_FOR_NOW say for which others too."""


class PreFilterExtensions(PreFilterPlugin):
    """A PreFilter whose state counts pods: it is told when a pod comes to a node, or leaves it, in a what-if.

    The state is the one in `context.state`, cloned for the what-if. Afterwards `filter` is asked about that node only.
    """

    @abstractmethod
    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None: ...

    @abstractmethod
    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None: ...


class ResourceDemand(msgspec.Struct, frozen=True):
    """Comparison that a filter makes, if it compares only sums: a row passes if it may take one more pod, and if amount <=
    allocatable - requested holds for each resource."""

    resources: Resources
    """Places of the resources in the matrices of the node table."""
    amounts: NDArray[np.int64]
    """Resources x 1."""
    waived: NDArray[np.bool_] | None = None
    """Resources x 1: those that do not matter on rows that have none of them. None: all matter everywhere."""


class FilterPlugin(Plugin):
    """Rejects nodes that cannot take the pod."""

    @abstractmethod
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """A code for each row; None: all pass. `rows` may name a row twice."""

    def filter_row(self, context: SchedulingContext, row: int) -> int:
        """The code of one row; the same as `filter` gives.

        Hot: after a pod was placed, kept answers are asked for about its node alone. A plugin whose answers are kept
        should define this in plain numbers, which takes a fifth of what arrays of one row take.
        """
        codes = self.filter(context, np.array([row], np.intp))
        return 0 if codes is None else int(codes[0])

    def filter_before_state(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """The codes that follow without what PreFilter writes (`needs`); None: none do."""
        return None

    @abstractmethod
    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        """Return the rejection that a code of `filter` stands for. The framework calls this only for messages that people
        read."""

    def demand(self, context: SchedulingContext) -> ResourceDemand | None:
        """Describe the comparison of `filter`, if `filter` passes exactly the rows that a ResourceDemand passes; None if no
        ResourceDemand describes it.

        For filters with Reads.TOTALS. Preemption then works out itself which pods have to leave: five times as quick as
        asking the filter after each pod that comes back.
        """
        return None

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> NDArray[np.bool_] | None:
        """The rows with pods that count: if one of them left, the answer for its row might be another. None: any pod may.

        For filters that read more of pods than sums. The tallies are those of pods on nodes, or of pods that are nominated
        to nodes: there the question is whether the answer might be another if one came. What-ifs ask about rows without
        such pods once, not for each pod that leaves or comes back. May say too many rows, never too few.
        """
        return None

    def codes_beside(self, context: SchedulingContext, tallies: PodTallies) -> NDArray[np.int64] | None:
        """By row the code with which the pods that `tallies` has there close the row, 0 where they close nothing; None: such
        pods may do more than to close their own row, or cannot be told apart by row.

        The lower of this code and the one without these pods counts. Hot: rows with nominated pods that count are asked about
        at once, not each with the nominated pods put on it.
        """
        return None


class Nomination(msgspec.Struct, frozen=True):
    """From PostFilter: the pod will fit on this node once these pods have left it."""

    node_name: str
    victims: tuple[Pod, ...] = ()
    message: str = ""
    """Text for the fit error of the pod, which stays unschedulable until they have left."""
    violations: int = 0
    """How many of the victims violate a disruption budget."""


class NoRoom(msgspec.Struct, frozen=True):
    """From PostFilter: why no room can be made."""

    rejection: Rejection
    clear_nomination: bool = False
    """Whether a node that the pod was promised earlier is to be forgotten."""


class Victims(msgspec.Struct, frozen=True):
    """Who would have to leave a node, the most important first, and how many of them break a disruption budget."""

    pods: tuple[Pod, ...]
    violations: int = 0


class Candidates(msgspec.Struct, frozen=True):
    """From PostFilter, where others have a say in it (`FitError.is_reviewed`): every way to make room."""

    victims: dict[str, Victims]
    """By name of the node."""
    choose: Callable[[Mapping[str, Victims] | CallFault], Nomination | NoRoom]
    """The plugin's choice among those that are left, or its words where the others failed."""


class PostFilterPlugin(Plugin):
    """Makes room for pods that fit nowhere: preemption."""

    @abstractmethod
    def post_filter(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        """Find room for a pod that fits nowhere, or say why that cannot be done. Others act on what it finds."""

    def eviction_began(self, pod: Pod) -> None:
        """The victims that were found for the pod are being evicted."""

    def eviction_ended(self, pod: Pod) -> None:
        """The eviction of the victims that were found for the pod is over."""


class PreScorePlugin(Plugin):
    """Prepares Score once an attempt."""

    @abstractmethod
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """`rows` are the feasible nodes. SKIP leaves the plugin's `score` out of this attempt, as at PreFilter."""


class ScorePlugin(Plugin):
    """Ranks the nodes that passed Filter."""

    @abstractmethod
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """Any integer for each row, the higher the better; None: 0 for all. Must end in 0..100 after `normalize`.
        `rows` may name a row twice."""

    def score_row(self, context: SchedulingContext, row: int) -> int:
        """The score of one row; the same as `score` gives (see `FilterPlugin.filter_row`)."""
        scores = self.score(context, np.array([row], np.intp))
        return 0 if scores is None else int(scores[0])

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        """Bring the scores of all feasible nodes to 0..100. Must not write to `scores`.

        When `score` gave None it is asked with a single 0, and what it says holds for all nodes.
        """
        return scores

    @classmethod
    def normalizes(cls) -> bool:
        return cls.normalize is not ScorePlugin.normalize


class ReservePlugin(Plugin):
    """Claims what the pod will use on its node, before it is bound."""

    @abstractmethod
    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Claim what the pod will use on the node that was chosen for it."""

    @abstractmethod
    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        """Give it back. Called for all plugins in reverse order, also for those that had not claimed anything yet."""


class Wait(msgspec.Struct, frozen=True):
    """From Permit: hold the binding until someone allows it, at most this long."""

    timeout_s: float
    reason: str = ""


class PermitPlugin(Plugin):
    """Lets the pod be bound, refuses it, or makes it wait."""

    @abstractmethod
    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None: ...


class Pause(msgspec.Struct, frozen=True):
    """A step of Work: nothing to do until one of these objects changes, a second has passed, or the time has come."""

    until_ns: int | None = None
    on: frozenset[tuple[type[KubeObject], str]] = frozenset()
    """Kind and key of each object."""


class PodGone(Exception):
    """Raised inside Work when its pod was deleted."""


Work = Generator[Write | Pause, KubeObject | WriteFault | None, Rejection | None]
"""Steps of PreBind as a generator. The scheduler answers each Write with the object as written or with a WriteFault, and each
Pause with None. The generator returns a Rejection, or None when the pod can be bound; an exception is an error of the pod.
The scheduler closes the generator if the pod is preempted meanwhile."""


class PreBindPlugin(Plugin):
    """Does what must be done before the pod is bound."""

    @abstractmethod
    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | Rejection | None: ...


class BindPlugin(Plugin):
    """Binds the pod."""

    @abstractmethod
    def bind(self, context: SchedulingContext, node_name: str) -> Bind | Rejection | Skip | None:
        """Say how to bind the pod to the node (`Bind`: as usual; None: it is done). SKIP hands it to the next plugin."""


class PostBindPlugin(Plugin):
    """Notes that the pod is bound."""

    @abstractmethod
    def post_bind(self, context: SchedulingContext, node_name: str) -> None: ...


POINTS: dict[str, type[Plugin]] = {
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "reserve": ReservePlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
    "permit": PermitPlugin,
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
}
"""Configuration name -> point, in the order in which upstream builds them (it decides which error comes first)."""
