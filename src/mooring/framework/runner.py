"""A profile at work: opens attempts and keeps, from one to the next, the answers that can be kept (memo.py)."""

from collections import OrderedDict
from weakref import ref

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempt import Attempt
from mooring.framework.context import SchedulingContext
from mooring.framework.memo import ShapeMemo
from mooring.framework.plugin_caller import PluginCaller
from mooring.framework.prepared import PreparedProfile, SearchCursor
from mooring.framework.profiles import Profile
from mooring.model.pod import Pod
from mooring.model.shape import PodShape


class Runner(PreparedProfile):
    """A profile with what it keeps between attempts."""

    MEMO_LIMIT = 64
    """Shapes kept at once; one takes some 50 bytes a node."""

    def __init__(
        self, profile: Profile, caller: PluginCaller | None = None, cursor: SearchCursor | None = None
    ) -> None:
        super().__init__(profile, caller, cursor)
        self._memos: OrderedDict[ref[PodShape], ShapeMemo] = OrderedDict()
        """Least recently used first. What is kept for a shape goes with the last pod that has it."""
        self._table: NodeTable | None = None

    def open(self, pod: Pod, cluster: Cluster, seed: int = 0) -> Attempt:
        """Begin an attempt to place a pod."""
        cluster.nodes.settle()
        memo = self._memo(pod.shape, cluster.nodes)
        return Attempt(self, SchedulingContext(pod, cluster, seed, memo.kept_values, self.caller.wrap_for(seed)), memo)

    def _memo(self, shape: PodShape, nodes: NodeTable) -> ShapeMemo:
        """What is kept for the shape. It follows one table; for a fork of it nothing is kept."""
        if nodes.is_fork:
            return ShapeMemo()
        if nodes is not self._table:
            self._memos.clear()
            self._table = nodes
        memo = self._memos.get(ref(shape))
        if memo is None:
            memo = self._memos[ref(shape, self._forget)] = ShapeMemo()
            if len(self._memos) > self.MEMO_LIMIT:
                self._memos.popitem(last=False)
        else:
            self._memos.move_to_end(ref(shape))
        return memo

    def _forget(self, shape: "ref[PodShape]") -> None:
        self._memos.pop(shape, None)
