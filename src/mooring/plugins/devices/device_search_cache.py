"""Keeps the results of searches for devices, for claims with the same demand. The search runs once for each group of nodes,
and later only for groups whose devices changed.

The result of a search is the devices that it chose, or why there are none. It depends on the demand, the group of nodes,
and on which devices of its pools are taken; so it stays good until a device of a pool that the group sees changes
hands. The ledger logs those pools. Pods of a Deployment ask for the same, so each placement costs one search.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from heapq import heappop, heappush

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.points import Codes, Scores
from mooring.framework.contract.status import OutOfEffort, PluginError
from mooring.model.devices import DeviceClass, ResourceClaim
from mooring.plugins.devices.allocation import DeviceChoice
from mooring.plugins.devices.device_demand import Demand, DeviceFeatures, Fatal, read_demand
from mooring.plugins.devices.device_search import InvalidPools, search
from mooring.plugins.devices.effort import Effort, TookTooLong
from mooring.plugins.devices.node_groups import NodeGroup, NodeGroups

# ---- Shares of time: how much of it namespaces may use for costly searches, so that the claims of one do not hold up
# others.
#
# A search for devices can take most of a second, and one user may write thousands of claims that need such a search.
# The steps of an attempt that costs more than ORDINARY_STEPS are charged to its namespace. Namespaces that owe repay
# REPAID_A_SECOND together, in equal parts. Attempts get fewer steps while too much is owed, so in the long run costly
# searches take a tenth of the time, and each namespace that wants them gets an equal part of it.


ORDINARY_STEPS = 2_000
"""4 ms: a search on some hundred nodes. Cheaper searches are neither charged nor cut short."""
MODERATE_STEPS = 50_000
"""0.1 s: a new demand on 5,000 nodes with 8 devices each. A namespace that owes no more than this gets as much, whatever
others owe."""
BURST = 500_000
"""1 s: while all namespaces together owe no more than this, those that owe no more than an equal part of it get all steps
of an attempt. So a namespace may come with a dozen new demands at once."""
REPAID_A_SECOND = 50_000
"""A tenth of the time: a step takes 2 us."""

_NANO = 1_000_000_000


class NamespaceShares:
    """The debts of namespaces. Time is an argument, so that a recorded run can be repeated.

    Debts shrink together, so only their difference to a common mark is kept: `_repaid` is what a namespace has repaid that
    was in debt all the time. All amounts are in steps times 10^9, because time is in nanoseconds.
    """

    def __init__(self) -> None:
        self._repaid = 0
        self.total = 0
        """The sum of all debts."""
        self._seen_ns = 0
        self._ends: dict[str, int] = {}
        """Namespaces that owe -> the mark at which they owe nothing."""
        self._order: list[tuple[int, str]] = []
        """The marks of `_ends` as a heap. Entries that `_ends` contradicts are outdated; a namespace has as many as it was
        charged for, and it is charged only for steps that it was allowed."""

    def allowance(self, namespace: str, now_ns: int) -> int | None:
        """The steps that an attempt for a pod of the namespace may take; None: all that an attempt may take."""
        if not self._ends:
            return None  # Hot: the usual case
        self._repay(now_ns)
        owed = self._ends.get(namespace, self._repaid) - self._repaid
        count = len(self._ends) + (namespace not in self._ends)
        if self.total <= BURST * _NANO and owed * count <= BURST * _NANO:
            return None
        return MODERATE_STEPS if owed <= MODERATE_STEPS * _NANO else ORDINARY_STEPS

    def charge(self, namespace: str, steps: int, now_ns: int) -> None:
        """An attempt for a pod of the namespace took so many steps. Ordinary ones are free."""
        if steps <= ORDINARY_STEPS:
            return
        self._repay(now_ns)
        end = self._ends[namespace] = self._ends.get(namespace, self._repaid) + steps * _NANO
        self.total += steps * _NANO
        heappush(self._order, (end, namespace))

    def owed(self, namespace: str, now_ns: int) -> float:
        """The steps that a namespace owes."""
        self._repay(now_ns)
        return (self._ends.get(namespace, self._repaid) - self._repaid) / _NANO

    def _repay(self, now_ns: int) -> None:
        """Let time pass. The namespace that owes least is free first, and from then on the others repay faster."""
        left = max(now_ns - self._seen_ns, 0) * REPAID_A_SECOND
        self._seen_ns = now_ns
        while self._order and left:
            end, namespace = self._order[0]
            if self._ends.get(namespace) == end:
                count = len(self._ends)
                part = min(left // count, end - self._repaid)
                self._repaid += part
                self.total -= part * count
                if self._repaid < end:
                    return
                left -= part * count
                del self._ends[namespace]
            heappop(self._order)


NO_CHOICE, INVALID_POOLS = 1, 2
"""Codes of groups without devices."""
# Codes that never leave this module: not searched yet, and an error to raise.
_UNKNOWN, _FAULTY = -1, -2

MAX_PREFERENCE = 8
"""Score of the first of several alternatives (upstream: FirstAvailableDeviceRequestMaxSize). Each further alternative scores
one less."""

DEMANDS = 64
"""How many demands are remembered: as many as the framework keeps shapes."""

RowArray = NDArray[np.intp]

_encode = msgspec.json.Encoder(order="deterministic").encode


class SearchResult(msgspec.Struct, eq=False):
    """The outcome of the search for one group of nodes."""

    code: int
    choice: DeviceChoice | None = None
    score: int = 0
    fault: Fatal | None = None
    took_too_long: bool = False


class SearchResults(msgspec.Struct, eq=False):
    """The results for one demand. Columns are indexed by the place of a group in NodeGroups."""

    demand: Demand
    by_group: dict[int, SearchResult] = msgspec.field(default_factory=dict)
    """By serial of the group."""
    codes: Codes = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    scores: Scores = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    node_groups_version: int = -1
    position: int = 0
    """Up to where in the ledger's log the results are good."""


class DeviceSearchCache:
    """Keeps the results for the demands of the last pods."""

    def __init__(self, features: DeviceFeatures, max_steps: int | None, now_ns: Callable[[], int] = lambda: 0) -> None:
        """`max_steps` are for one attempt; None: there is no limit, and no namespace has to wait for its share."""
        self.node_groups = NodeGroups(features)
        self._features = features
        self.max_steps = max_steps
        self._now_ns = now_ns
        self.shares = NamespaceShares()
        self.demands: OrderedDict[tuple[bytes, ...], SearchResults] = OrderedDict()
        self._class_version = -1
        self._is_kept_only = False

    def kept_only(self) -> "DeviceSearchCache":
        """The cache for a self-check: it searches nothing, charges no namespace, and changes nothing that is kept.
        It raises OutOfEffort where attempts would search."""
        view = copy(self)
        view._is_kept_only = True
        return view

    def results(self, cluster: Cluster, claims: Sequence[ResourceClaim]) -> SearchResults:
        """The results for these claims, as far as they are still good. Raises PluginError."""
        self.node_groups.refresh(cluster)
        if self.node_groups.fault is not None:
            raise PluginError(self.node_groups.fault)
        if self._is_kept_only:
            return self._kept_results(cluster, claims)
        if self._class_version != cluster.versions[DeviceClass]:
            self._class_version = cluster.versions[DeviceClass]
            self.demands.clear()
        key = _key_of(claims)
        results = self.demands.get(key)
        if results is None:
            classes = cluster.objects[DeviceClass]
            results = SearchResults(read_demand(claims, lambda name: classes.get(name)))  # type: ignore[arg-type, return-value]
            self.demands[key] = results
            if len(self.demands) > DEMANDS:
                self.demands.popitem(last=False)
        self.demands.move_to_end(key)
        self._refresh(cluster, results)
        return results

    def _kept_results(self, cluster: Cluster, claims: Sequence[ResourceClaim]) -> SearchResults:
        """A copy of the results that are kept for these claims. Raises OutOfEffort if there are none."""
        found = self.demands.get(_key_of(claims))
        if found is None or self._class_version != cluster.versions[DeviceClass]:
            raise OutOfEffort(_NOT_SEARCHED)
        results = msgspec.structs.replace(
            found, by_group=dict(found.by_group), codes=found.codes.copy(), scores=found.scores.copy()
        )
        self._refresh(cluster, results)
        return results

    def codes(self, cluster: Cluster, claims: Sequence[ResourceClaim], rows: RowArray) -> Codes:
        """For each row 0 if it has devices for all claims, or why not. Raises PluginError.

        Parity: an error on any node that is asked about ends the attempt, as upstream's filter does.
        """
        results, groups = self._asked(cluster, claims, rows)
        codes = results.codes[groups]
        faulty = np.flatnonzero(codes == _FAULTY)
        if len(faulty):
            row = int(rows[faulty[0]])
            self._raise_fault(self._result(results, row), claims, cluster.nodes.names[row])
        return codes

    def scores(self, cluster: Cluster, claims: Sequence[ResourceClaim], rows: RowArray) -> Scores:
        """How well each row serves requests with alternatives."""
        results, groups = self._asked(cluster, claims, rows)
        return results.scores[groups]

    def choice(self, cluster: Cluster, claims: Sequence[ResourceClaim], row: int) -> DeviceChoice | None:
        """The devices that the search chose on the node of the row; None if there are none."""
        results, _ = self._asked(cluster, claims, np.array([row], np.intp))
        return self._result(results, row).choice

    def choices(
        self, cluster: Cluster, claims: Sequence[ResourceClaim], rows: RowArray
    ) -> list[tuple[DeviceChoice, NDArray[np.intp]]]:
        """The devices that the searches chose on these rows, each with the places in `rows` that have them."""
        results, groups = self._asked(cluster, claims, rows)
        found = ((results.by_group[self.node_groups.groups[each].serial].choice, each) for each in np.unique(groups))
        return [(choice, np.flatnonzero(groups == each)) for choice, each in found if choice is not None]

    def _result(self, results: SearchResults, row: int) -> SearchResult:
        return results.by_group[self.node_groups.groups[self.node_groups.group_of[row]].serial]

    def _asked(
        self, cluster: Cluster, claims: Sequence[ResourceClaim], rows: RowArray
    ) -> tuple[SearchResults, NDArray[np.intp]]:
        """Make sure that the groups of these rows have been searched. Raises PluginError.

        An attempt that takes too long ends with a timeout, and the next one goes on from there: it finds the results of
        the groups that were searched, and the answers of selectors. A single group that needs more than all steps is
        given up for good.
        """
        results = self.results(cluster, claims)
        groups = self.node_groups.group_of[rows]
        unknown = groups[results.codes[groups] == _UNKNOWN]
        if not len(unknown):
            return results, groups
        if self._is_kept_only:
            raise OutOfEffort(_NOT_SEARCHED)
        namespace = claims[0].namespace
        effort = self.effort(namespace)
        try:
            for place, index in enumerate(np.unique(unknown).tolist()):
                result = self._seek(cluster, results.demand, self.node_groups.groups[index], effort)
                # With all the steps for itself, or with the selectors compiled, the search may come to an end next time.
                if result.took_too_long and (place or effort.compiled or effort.is_short):
                    row = int(rows[np.flatnonzero(groups == index)[0]])
                    raise OutOfEffort(_timed_out(cluster.nodes.names[row]))
                self._put(results, index, result)
        finally:
            if self.max_steps is not None:
                self.shares.charge(namespace, effort.steps, self._now_ns())
        return results, groups

    def effort(self, namespace: str) -> Effort:
        """The effort that an attempt for a pod of the namespace may take."""
        most = self.max_steps
        share = None if most is None else self.shares.allowance(namespace, self._now_ns())
        return Effort(most) if most is None or share is None else Effort(min(most, share), is_short=True)

    def _refresh(self, cluster: Cluster, results: SearchResults) -> None:
        """Forget what is no longer good: results of groups that see a pool whose devices changed hands."""
        log, node_groups = cluster.claims.log, self.node_groups
        touched = log.since(results.position)
        results.position = log.end
        if results.node_groups_version != node_groups.version or touched is None:
            self._rearrange(results, is_void=touched is None)
        for pool in touched or ():
            for index in node_groups.groups_seeing.get(pool, ()):
                results.by_group.pop(node_groups.groups[index].serial, None)
                results.codes[index] = _UNKNOWN

    def _rearrange(self, results: SearchResults, is_void: bool) -> None:
        """Bring the columns in line with the groups as they are now; results of groups that still exist are kept."""
        groups = self.node_groups.groups
        before = {} if is_void else results.by_group
        results.node_groups_version, results.by_group = self.node_groups.version, {}
        results.codes = np.full(len(groups), _UNKNOWN, np.int64)
        results.scores = np.zeros(len(groups), np.int64)
        for index, group in enumerate(groups):
            known = before.get(group.serial)
            if known is not None:
                self._put(results, index, known)

    def _put(self, results: SearchResults, index: int, result: SearchResult) -> None:
        results.by_group[self.node_groups.groups[index].serial] = result
        results.codes[index] = result.code
        results.scores[index] = result.score

    def _seek(self, cluster: Cluster, demand: Demand, group: NodeGroup, effort: Effort) -> SearchResult:
        """One search, with every outcome as a value: errors are kept like other results."""
        try:
            choice = search(demand, group, cluster.claims, self._features, effort)
        except InvalidPools:
            return SearchResult(INVALID_POOLS)
        except TookTooLong:
            return SearchResult(_FAULTY, took_too_long=True)
        except Fatal as fault:
            return SearchResult(_FAULTY, fault=fault.with_traceback(None))
        return SearchResult(NO_CHOICE) if choice is None else SearchResult(0, choice, _worth(choice))

    def _raise_fault(self, result: SearchResult, claims: Sequence[ResourceClaim], node_name: str) -> None:
        """Raise what went wrong for this node, naming the claims of this pod."""
        if result.fault is None:
            raise OutOfEffort(_timed_out(node_name))
        raise PluginError(result.fault.describe(claims))


_NOT_SEARCHED = "no attempt has searched devices for these claims"


def _key_of(claims: Sequence[ResourceClaim]) -> tuple[bytes, ...]:
    """The content of the claims, not their names: claims from one template are alike."""
    return tuple(_encode(claim.spec.devices) for claim in claims)


def _timed_out(node_name: str) -> str:
    return f"node {node_name}: timed out trying to allocate devices"


def _worth(choice: DeviceChoice) -> int:
    """The score of a choice. Parity: an alternative of which no device was taken, as it asked for none, scores nothing."""
    taken = {
        (ask.claim, ask.full_name): ask.preference
        for picks in choice.picks
        for ask in (p.ask for p in picks)
        if ask.parent
    }
    return sum(MAX_PREFERENCE - preference for preference in taken.values())
