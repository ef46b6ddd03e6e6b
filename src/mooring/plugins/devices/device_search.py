"""The search for devices: depth first, and the first choice that serves all requests of all claims is taken.

Claims and requests are served in order; the devices for a request are tried in the order of pools, slices and devices.
A device that does not work out in the end is dropped again, and the next one is tried. This is upstream's allocator
(structured parameters), and the order matters: the first complete choice wins, so another order would pick other
devices.

The search is exact: it finds a choice if there is one. It avoids work only where the outcome is known: selectors are
evaluated once for devices that are alike, a request that no device serves is remembered (`hopeless`), devices of one
request are picked in ascending order (a set of devices is tried once, not in all permutations). Its worst case is still
exponential, so steps are counted and limited (Effort).

Invariant: `_pick` and `_drop` come in pairs like brackets, so constraints, counters, marks and the free list always
describe exactly the picks on the current path.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import DeviceAttribute, DeviceId
from mooring.model.node import tolerates_hard
from mooring.plugins.devices.allocation import DeviceChoice, Pick
from mooring.plugins.devices.constraints import PickConstraint, constraint_of, published
from mooring.plugins.devices.device_capacity import CapacityFault, Counters, Share, fits, shares_of
from mooring.plugins.devices.device_demand import MAX_DEVICES, Ask, Demand, DeviceFeatures, Fatal
from mooring.plugins.devices.effort import CelFault, Effort
from mooring.plugins.devices.node_groups import NodeGroup
from mooring.plugins.devices.pools import DeviceInSlice, FreeList, Likeness

MANY_DEVICES = 256
"""A search that may go deeper than this keeps a list of what is free. Hot: for a few devices looking at each is
quicker."""


class InvalidPools(Exception):
    """The search found no devices, but it could find some if all pools were valid and complete."""


class _Result(Enum):
    """The outcome of serving a request and all that follow."""

    # FOUND and NONE end the search or make it go back to the next device.
    FOUND = 1
    NONE = 2
    TOO_MANY = 3
    """More devices than a claim can have: other devices will not do either, only another alternative."""


def search(
    demand: Demand, group: NodeGroup, ledger: ClaimLedger, features: DeviceFeatures, effort: Effort | None = None
) -> DeviceChoice | None:
    """Devices for all claims on the nodes of the group; None: there are none.

    Raises Fatal, TookTooLong or InvalidPools.
    """
    return _Search(demand, group, ledger, features, effort or Effort()).run()


@dataclass(slots=True, eq=False)
class _Search:
    """One search. Nothing in it outlives the search but what `Likeness` remembers."""

    demand: Demand
    group: NodeGroup
    ledger: ClaimLedger
    features: DeviceFeatures
    effort: Effort
    picks: list[list[Pick]] = field(default_factory=list)
    preferences: list[list[int]] = field(default_factory=list)
    constraints: list[list[PickConstraint]] = field(default_factory=list)
    all_of: dict[Ask, list[DeviceInSlice]] = field(default_factory=dict)
    """For requests of all devices (allocationMode All): which devices these are."""
    marked: dict[DeviceId, set[int]] = field(default_factory=dict)
    """Devices that were picked and cannot be shared -> the claims that they were picked for."""
    shared: dict[DeviceId, list[dict[str, Share]]] = field(default_factory=dict)
    """Devices that were picked and can be shared -> what each share consumes."""
    hopeless: set[Ask] = field(default_factory=set)
    """Requests that no device serves, whatever else is picked. Hot: otherwise each choice for earlier requests would
    try again."""
    selected: dict[tuple[Ask, Likeness], bool] = field(default_factory=dict)
    """Whether a request selects devices that are alike."""
    large: dict[tuple[Ask, Likeness], bool] = field(default_factory=dict)
    """Whether devices that are alike have enough capacity for a request if no claim consumes any of it."""
    counters: Counters = field(init=False)
    free: FreeList | None = field(init=False, default=None)
    """With many devices wanted: the positions of those that neither this search nor another claim has taken."""
    out: dict[DeviceId, int] = field(default_factory=dict)
    """Devices that this search has taken out of it, with their position."""
    position_of: dict[DeviceId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counters = Counters(self.ledger, self.features.compatibility_groups)
        if self._deepest() > MANY_DEVICES:
            self.position_of = {site.id: position for position, site in enumerate(self.group.sites)}
            exclusive = (p for device, p in self.position_of.items() if device in self.ledger.exclusive)
            self.free = FreeList(len(self.group.sites), exclusive)

    def run(self) -> DeviceChoice | None:
        """Check limits, search, and say why there is no choice."""
        for index, claim in enumerate(self.demand):
            fewest = sum(self._fewest(request) for request in claim.requests)
            if fewest > MAX_DEVICES:
                text = f": number of requested devices {fewest} exceeds the claim limit of {MAX_DEVICES}"
                raise Fatal(text, index)
            self.picks.append([])
            self.preferences.append([0] * len(claim.requests))
            self.constraints.append(self._constraints(index))
        with _depth(self._deepest()):
            result = self._serve(0, 0)
        if result is _Result.TOO_MANY:
            raise Fatal("allocation max size exceeded")
        if result is _Result.FOUND:
            return DeviceChoice(self.picks, self.preferences)
        # Parity: without a choice, an invalid pool is the reason that upstream reports.
        if any(pool.is_invalid for pool in self.group.pools):
            raise InvalidPools
        return None

    # ---- before the search

    def _constraints(self, claim: int) -> list[PickConstraint]:
        written, has_lists = self.demand[claim].constraints, self.features.list_attributes
        return [constraint_of(claim, i, each, has_lists, self._attribute) for i, each in enumerate(written)]

    def _deepest(self) -> int:
        """How many calls the search can be deep."""
        return sum(_calls(claim.requests) for claim in self.demand)

    def _fewest(self, alternatives: Sequence[Ask]) -> int:
        """The fewest devices that serve a request. Raises Fatal as `_count` does, and where a feature is off that the request
        needs."""
        for ask in alternatives:
            if ask.capacity is not None and self.features.refuses_capacity:
                why = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                raise Fatal(f", {'subrequest' if ask.parent else 'request'} {ask.name}: {why}", ask.claim)
        return min(self._count(ask) for ask in alternatives)

    def _count(self, ask: Ask) -> int:
        """How many devices the request needs. Raises Fatal where it cannot be served, whatever there is."""
        if ask.derived and not self.features.derived_attributes:
            why = "cannot handle request with derived attributes, the feature is disabled"
            raise Fatal(f", request {ask.name}: {why}", ask.claim)
        if ask.fault is not None:
            raise Fatal(ask.fault, ask.claim)
        if not ask.wants_all:
            return ask.count
        for pool in self.group.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                text = f", request {ask.name}: asks for all devices, but resource pool {pool.name} is currently {state}"
                raise Fatal(text, ask.claim)
            for site in pool.sites:
                if self._is_selected(ask, site) and self._is_large(ask, site):
                    self.all_of.setdefault(ask, []).append(site)
        return len(self.all_of.get(ask, ()))

    # ---- the search

    def _serve(self, claim: int, request: int) -> _Result:
        """Serve this request and all that follow."""
        if claim == len(self.demand):
            return _Result.FOUND
        requests = self.demand[claim].requests
        if request == len(requests):
            result = self._serve(claim + 1, 0)
            return _Result.NONE if result is _Result.TOO_MANY else result
        if not requests[request][0].parent:
            return self._take(requests[request][0], request, 0, 0)
        return self._serve_best(claim, request)

    def _serve_best(self, claim: int, request: int) -> _Result:
        """Serve the first alternative with which everything that follows can be served too."""
        outcome = _Result.TOO_MANY
        for preference, ask in enumerate(self.demand[claim].requests[request]):
            result = self._take(ask, request, 0, 0)
            if result is _Result.FOUND:
                self.preferences[claim][request] = preference
                return result
            if result is _Result.NONE:
                outcome = result
        return outcome

    def _take(self, ask: Ask, request: int, taken: int, start: int) -> _Result:
        """Pick the devices of a request that are still missing, from this position on; then serve what follows."""
        self.effort.spend(1)
        wanted = len(self.all_of.get(ask, ())) if ask.wants_all else ask.count
        if ask.wants_all and not wanted:
            return _Result.NONE
        if taken >= wanted:
            return self._serve(ask.claim, request + 1)
        if len(self.picks[ask.claim]) + wanted - taken > MAX_DEVICES:
            return _Result.TOO_MANY
        if ask.wants_all:
            return self._take_this(ask, request, taken)
        if ask in self.hopeless:
            return _Result.NONE
        free = None if ask.has_admin_access else self.free
        # `has_candidates`: whether a device exists that could serve the request if the search had picked otherwise
        # before. If none does the request is hopeless on every path. The free list skips what this search has taken, so
        # anything taken counts as a candidate.
        has_candidates = free is not None and bool(self.out)
        sites, position = self.group.sites, start - 1
        while (position := position + 1 if free is None else free.after(position)) < len(sites):
            site = sites[position]
            self.effort.spend(1)
            if self._is_in_use(ask, site):
                has_candidates = has_candidates or site.id in self.marked
                continue
            if not self._is_selected(ask, site):
                continue
            has_candidates = True
            if self._has_capacity(ask, site) and self._pick(ask, site):
                result = self._take(ask, request, taken + 1, position + 1)
                if result is _Result.FOUND:
                    return result
                self._drop(ask.claim)
                # Other devices do not change their number, so trying them is pointless.
                if result is _Result.TOO_MANY:
                    return result
        if not has_candidates and not start:
            self.hopeless.add(ask)
        return _Result.NONE

    def _take_this(self, ask: Ask, request: int, taken: int) -> _Result:
        """All devices are wanted, so there is no choice: each is taken in turn, and one that a constraint forbids is an
        error."""
        if not self._pick(ask, self.all_of[ask][taken], is_needed=True):
            return _Result.NONE
        result = self._take(ask, request, taken + 1, 0)
        if result is not _Result.FOUND:
            self._drop(ask.claim)
        return result

    # ---- one device

    def _is_in_use(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device is taken. Admin access ignores other claims, but a claim cannot have a device twice."""
        marked = self.marked.get(site.id)
        if ask.has_admin_access:
            return bool(marked) and ask.claim in (marked or ())
        return bool(marked) or site.id in self.ledger.exclusive or self._is_shared_in_vain(site)

    def _is_shared_in_vain(self, site: DeviceInSlice) -> bool:
        """Where capacity cannot be consumed in parts, a device that a claim shares is taken as a whole."""
        return not self.features.consumable_capacity and site.id in self.ledger.shares

    def _is_selected(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the class and the request select the device, and it is for these nodes."""
        if not self.features.binding_conditions and site.device.binding_conditions:
            return False
        is_selected = self.selected.get((ask, site.likeness))
        if is_selected is None:
            is_selected = self._matches(ask, site)
            self.selected[ask, site.likeness] = is_selected
        return is_selected and site.id not in self.group.hidden

    def _matches(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Ask the selectors of the class, then those of the request. A fault is an error of the attempt, as upstream."""
        of_class, own = (f"class {ask.class_name}", None, ask.class_selectors), ("", ask.claim, ask.selectors)
        for where, claim, selectors in (of_class, own):
            for i, selector in enumerate(selectors):
                answer = self._answer(selector, site.likeness)
                if isinstance(answer, CelFault):
                    raise Fatal(f"{where}: selector #{i}{_describe(answer, site)}", claim)
                if not answer:
                    return False
        return True

    def _answer(self, selector: str, likeness: Likeness) -> bool | CelFault:
        """Return the answer of a selector for a device. Only an evaluation costs steps, not a kept answer: the same search
        may cost less the next time."""
        answer = likeness.known(selector)
        if answer is None:
            answer, cost = likeness.ask(selector, self.effort.max_cost(selector))
            self.effort.learn(selector, cost)
        return answer

    def _attribute(self, ask: Ask, site: DeviceInSlice, name: str) -> DeviceAttribute | None:
        """Find an attribute of a device for a constraint: the one that the request derives, or else the one that the driver
        published. None: there is no such attribute."""
        expression = ask.derived.get(name) if ask.derived else None
        if expression is None:
            return published(ask, site, name)
        value = site.likeness.derived(expression)
        if value is None:
            value, cost = site.likeness.derive(expression, self.effort.max_cost(expression))
            self.effort.learn(expression, cost)
        if not isinstance(value, CelFault):
            return value
        if value.is_of_compilation:
            raise Fatal(f"compile derived attribute {name} failed: {value}")
        raise Fatal(f"evaluate derived attribute {name} on device {site.name} failed: {value}")

    def _has_capacity(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether enough capacity is left beside what claims and this search consume."""
        consumption, shares = self.ledger.consumed.get(site.id), self.shared.get(site.id)
        if consumption is None and not shares:
            return self._is_large(ask, site)
        given: Mapping[str, int] = consumption.amounts if consumption is not None else {}
        picked = ({name: share.nano for name, share in each.items()} for each in shares or ())
        return not self.features.consumable_capacity or self._fits(ask, site, given, *picked)

    def _is_large(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device has the capacity if no claim consumes any of it. Otherwise a request for all devices does not
        mean it. Raises Fatal."""
        if not self.features.consumable_capacity or (not site.device.capacity and not ask.capacity):
            return True
        is_large = self.large.get((ask, site.likeness))
        if is_large is None:
            is_large = self.large[ask, site.likeness] = self._fits(ask, site)
        return is_large

    def _fits(self, ask: Ask, site: DeviceInSlice, *consumed: Mapping[str, int]) -> bool:
        """Whether the device has the capacity beside what is consumed. Raises Fatal. Parity: where all devices are wanted,
        the error does not name driver and pool."""
        is_fractional = self.features.fractional_ranges
        try:
            return fits(site.device.capacity or {}, ask.capacity, *consumed, is_fractional=is_fractional)
        except CapacityFault as fault:
            name = site.id[2] if ask.wants_all else site.name
            text = f", request {ask.name}: checking capacity for device {name}: {fault}"
            raise Fatal(text, ask.claim) from None

    def _pick(self, ask: Ask, site: DeviceInSlice, is_needed: bool = False) -> bool:
        """Take the device if it is free, tolerated, within its counters and allowed by all constraints. Leaves no trace
        if not."""
        is_shareable = self.features.consumable_capacity and site.is_shareable
        if (not is_shareable or not ask.has_admin_access) and self._is_in_use(ask, site):
            return False
        if site.slice.spec.skip_node_operations and not self._skips_operations():
            return False
        pick = Pick(ask, site)
        if self.features.optional_node_operations:
            pick.skip_node_operations = site.slice.spec.skip_node_operations
        # A shared device consumes its counters once, with its first share.
        if site.device.consumes_counters and not (is_shareable and self._has_shares(site)):
            if not self.features.partitionable:
                return False
            if not self.counters.take(self.group.pool_book[site.id[:2]], site):
                return False
            pick.took_counters = True
        if not self._is_admitted(pick, is_needed):
            if pick.took_counters:
                self.counters.give_back(site)
            return False
        self._mark(pick, is_shareable)
        return True

    def _skips_operations(self) -> bool:
        """Whether the nodes can leave out calls of the driver, as the device wants. Parity: without alpha features upstream's
        allocator does not look at that."""
        if self.features.optional_node_operations:
            return self.group.skips_operations
        return not self.features.is_experimental

    def _is_admitted(self, pick: Pick, is_needed: bool) -> bool:
        """Taints and constraints; and capacity once more, because a request for all devices does not check it before."""
        ask, site = pick.ask, pick.site
        if self.features.taints and site.device.taints and not tolerates_hard(ask.tolerations, site.device.taints):
            return False
        constraints = self.constraints[ask.claim]
        for i, constraint in enumerate(constraints):
            if not constraint.admit(ask, site):
                for admitted in reversed(constraints[:i]):
                    admitted.drop(ask, site)
                if is_needed:
                    why = "because a claim constraint would not be satisfied"
                    raise Fatal(f", request {ask.name}: cannot add device {site.name} {why}", ask.claim)
                return False
        if not is_needed or self._has_capacity(ask, site):
            return True
        for constraint in reversed(constraints):
            constraint.drop(ask, site)
        return False

    def _has_shares(self, site: DeviceInSlice) -> bool:
        """Whether the device is shared already, by a claim or in this search."""
        return site.id in self.ledger.shares or bool(self.shared.get(site.id))

    def _mark(self, pick: Pick, is_shareable: bool) -> None:
        """Note the pick: a share of a device that can be shared, or the whole device."""
        ask, site = pick.ask, pick.site
        if is_shareable:
            pick.shares = shares_of(site.device.capacity or {}, ask.capacity, self.features.fractional_ranges)
            self.shared.setdefault(site.id, []).append(pick.shares)
        else:
            self._mark_for(site.id, ask.claim)
            pick.is_marked = True
        self.picks[ask.claim].append(pick)

    def _mark_for(self, device: DeviceId, claim: int) -> None:
        """Mark a device for a claim. With admin access several claims may mark one device; it leaves the free list
        once."""
        self.marked.setdefault(device, set()).add(claim)
        if self.free is not None and device not in self.out:
            self.out[device] = self.position_of[device]
            self.free.take_out(self.out[device])

    def _unmark_for(self, device: DeviceId, claim: int) -> None:
        """Undo `_mark_for`; the device is free again when no claim marks it."""
        self.marked[device].discard(claim)
        if self.free is not None and not self.marked[device]:
            self.free.put_back(self.out.pop(device))

    def _drop(self, claim: int) -> None:
        """Take back the last pick of a claim."""
        pick = self.picks[claim].pop()
        if pick.is_marked:
            self._unmark_for(pick.site.id, claim)
        if pick.shares is not None:
            self.shared[pick.site.id].pop()
        for constraint in reversed(self.constraints[claim]):
            constraint.drop(pick.ask, pick.site)
        if pick.took_counters:
            self.counters.give_back(pick.site)


def _calls(requests: Sequence[Sequence[Ask]]) -> int:
    """How many calls it takes to serve a claim: one for each device, or two where all devices are wanted; two for each
    request, or three where it has alternatives; and two for the claim."""
    asks = [ask for request in requests for ask in request]
    for_a_device = 2 if any(ask.wants_all for ask in asks) else 1
    for_a_request = 3 if any(ask.parent for ask in asks) else 2
    return for_a_device * min(_most(requests), MAX_DEVICES) + for_a_request * len(requests) + 2


def _most(requests: Sequence[Sequence[Ask]]) -> int:
    """The most devices that a claim may come to."""
    return sum(max(MAX_DEVICES if ask.wants_all else ask.count for ask in request) for request in requests)


@contextmanager
def _depth(calls: int) -> Iterator[None]:
    """Let Python go so many calls deeper: a pod may have thousands of claims.

    Since Python 3.11 calls from Python to Python take no room on the stack of the process.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


_OPTIONAL = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has()"
"""Upstream's advice for expressions that read what a device does not have."""


def _describe(fault: CelFault, site: DeviceInSlice) -> str:
    """The fault of a selector in upstream's words, which tell compiling from running on a device."""
    text = str(fault)
    if fault.is_of_compilation:
        return f": CEL compile error: {text}"
    advice = f". {_OPTIONAL} for optional fields" if "no such key:" in text else ""
    return f" on device {site.name}: CEL runtime error: {text}{advice}"
