"""The context of one attempt to place one pod: what the framework hands to every plugin that takes part.

PostFilter plugins are handed a `FitError`, which has the context.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.float_columns import MAX_LINES, FloatColumns
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.status import PluginError
from mooring.model.pod import Pod
from mooring.model.shape import PodPart

T = TypeVar("T")

_PLAIN = PluginCaller()

KEPT_ONLY = "mooring/kept-only"
"""Is in the state while a self-check asks. A plugin whose searches cost effort then answers from what it keeps and raises
OutOfEffort for the rest, so that later attempts find what they would find without the self-check."""
DEVICE_RESOURCES = "mooring/device-resources"
"""In the state: a function of a node's name that returns what the pod's devices would take from the resources of that node.
The pod is assumed with it."""

DEVICE_TOTALS = "mooring/device-totals"
"""In the state: a function of an extended resource and rows that returns how many devices serve it there, and how many of
these are taken; None where no device class serves it."""

_REQUESTS = PodPart.REQUESTS  # Hot: as in shape.py


class CycleState:
    """Data that plugins pass from one extension point of an attempt to the next, each plugin under its own key. A new attempt
    begins with an empty state."""

    def __init__(self) -> None:
        self._data: dict[Hashable, Any] = {}

    def read(self, key: Hashable) -> Any:
        """Raises PluginError if nothing was written: upstream's ErrNotFound, with its text."""
        try:
            return self._data[key]
        except KeyError:
            raise PluginError("not found") from None

    def find(self, key: Hashable) -> Any:
        """The value, or None if nothing was written."""
        return self._data.get(key)

    def write(self, key: Hashable, value: Any) -> None:
        self._data[key] = value

    def delete(self, key: Hashable) -> None:
        self._data.pop(key, None)

    def clone(self) -> "CycleState":
        """A copy for a what-if; values that have a `clone` of their own are cloned."""
        other = CycleState()
        other._data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self._data.items()}
        return other


class KeptValues:
    """Values that outlive an attempt: they belong to a part of a shape, or to it and the nodes as they are. An instance
    serves one part."""

    LIMIT = 256
    """Keys of one part. Plugins use a handful each; a plugin that puts changing values into its key must not fill
    the memory, so at the limit all are dropped."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, tuple[int, Any]] = {}
        """Each value with the version that it is for."""

    def get(self, key: Hashable, version: int, build: Callable[[], T]) -> T:
        """The value that was kept under the key for this version; otherwise it is built now."""
        kept = self.kept.get(key)
        if kept is None or kept[0] != version:
            return self.put(key, version, build())
        value: T = kept[1]
        return value

    def put(self, key: Hashable, version: int, value: T) -> T:
        """Keep a value under the key for this version. Returns the value."""
        if len(self.kept) >= self.LIMIT:
            self.kept.clear()
        self.kept[key] = (version, value)
        return value

    def copy(self) -> "KeptValues":
        other = KeptValues()
        other.kept = dict(self.kept)
        return other


class ValuesByPart(Protocol):
    """Access to the values that plugins keep for the parts of one shape."""

    @property
    def values(self) -> Mapping[PodPart, KeptValues]:
        """Every part has its values. Hot: a mapping, because plugins read from it six times in a decision."""


class SchedulingContext:
    """The context of an attempt. `seed` decides ties; `nodes` is the node table of `cluster`, or a copy of it in a
    what-if."""

    __slots__ = ("_kept", "caller", "cluster", "nodes", "pod", "seed", "shape", "state", "unreached", "wrap")

    is_resize: ClassVar[bool] = False
    """Whether the attempt is about a pod on a node whose resize was deferred (`ResizeContext`)."""

    def __init__(
        self, pod: Pod, cluster: Cluster, seed: int, kept: ValuesByPart, caller: PluginCaller = _PLAIN
    ) -> None:
        self.pod = pod
        self.shape = pod.shape
        self.cluster = cluster
        self.nodes = cluster.nodes
        self.seed = seed
        self.state = CycleState()
        self.unreached: Collection[str] = ()
        """The PreFilter plugins that were not asked, because one before them ended the attempt."""
        self.caller = caller
        """Told of every extension point of this attempt, its binding cycle included."""
        self.wrap = caller.wrap_for(seed)
        """The caller's wrapper around each plugin method in this attempt: `wrap(point, name, method)(...)`
        (metrics)."""
        self._kept = kept

    def on(self, nodes: NodeTable, state: CycleState) -> "SchedulingContext":
        """This attempt in a what-if: other counts on the nodes, another state of the plugins."""
        other: SchedulingContext = object.__new__(type(self))
        for name in SchedulingContext.__slots__:
            setattr(other, name, getattr(self, name))
        other.nodes, other.state = nodes, state
        return other

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """The pod as it counts on a node that was chosen: with what its devices take there. Ask before Reserve."""
        taken = self.state.find(DEVICE_RESOURCES)
        return pod if taken is None else pod.with_device_resources(taken(node_name))

    def float_columns(self, resources: slice | NDArray[np.intp]) -> FloatColumns | None:
        """The amounts as floats, if these resources have them and all are exact. None in a what-if: there other pods are on
        the nodes."""
        if not isinstance(resources, slice) or resources.stop > MAX_LINES:
            return None
        if self.nodes is not self.cluster.nodes or self.nodes.are_sums_supposed:
            return None
        floats = self.cluster.float_columns()
        return floats if floats.is_exact else None

    def floats_of(self, resources: slice | NDArray[np.intp]) -> FloatColumns | None:
        """`float_columns`, where every node has something of each of these resources; None elsewhere."""
        floats = self.float_columns(resources)
        return floats if floats is not None and floats.has_all(cast("slice", resources)) else None

    def of_shape(self, key: Hashable, build: Callable[[], T], part: PodPart = PodPart.WHOLE) -> T:
        """A value that follows from a part of the pod's shape (and the key) alone: built once, then kept."""
        values = self._kept.values[part]
        kept = values.kept.get(key)  # Hot: six times in a decision, and nearly always it is there
        if kept is not None and kept[0] == 0:
            value: T = kept[1]
            return value
        return values.put(key, 0, build())

    def of_requests(self, key: Hashable, build: "Callable[[SchedulingContext], T]") -> T:
        """A value that follows from what the pod requests and from the places of resources in the node table: built anew when
        a resource got another place.

        Versions are below 0, because those of `of_shape` and `of_nodes` are not.
        """
        values, version = self._kept.values[_REQUESTS], -1 - self.nodes.amounts.resources_version
        kept = values.kept.get(key)
        if kept is not None and kept[0] == version:
            value: T = kept[1]
            return value
        return values.put(key, version, build(self))

    def of_nodes(self, key: Hashable, build: Callable[[], T], part: PodPart = PodPart.WHOLE) -> T:
        """A value that follows from the same and from facts of nodes, not from pods: built anew after a node changed.

        The version is one more than the end of the log, because 0 belongs to `of_shape`.
        """
        return self._kept.values[part].get(key, self.nodes.node_touches.end + 1, build)


class ResizeContext(SchedulingContext):
    """The context of an attempt to make room for a resize (gate InPlacePodVerticalScalingSchedulerPreemption). Plugins with
    `skips_resizes` are not asked in it. No answer is kept: it depends on the node that the pod is on."""

    __slots__ = ()

    is_resize = True


class FitError(Protocol):
    """A pod that fits nowhere, as PostFilter plugins are handed it."""

    @property
    def context(self) -> SchedulingContext:
        """The context of the attempt, with the state that PreFilter and Filter plugins left in it."""

    @property
    def nominated(self) -> NominatedLoad:
        """The pods that are promised a node."""

    @property
    def examine_all(self) -> bool:
        """Whether every node may be tried, or only as many as the plugin's arguments allow."""

    @property
    def is_reviewed(self) -> bool:
        """Whether extenders have a say in who must leave: then the plugin may answer with Candidates."""

    def curable_rows(self) -> NDArray[np.intp]:
        """The nodes that could take the pod if other pods left: their rejection is Unschedulable."""

    def is_final(self, row: int) -> bool:
        """Whether the node can never take the pod, whichever pods leave."""
