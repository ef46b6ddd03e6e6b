"""Which claim holds which device: claims as the watch shows them, as they were written since, and as they are about
to be written."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import msgspec

from mooring.cluster.change_log import ChangeLog
from mooring.model.devices import AllocatedDevice, ClaimConsumer, DeviceId, PoolId, ResourceClaim
from mooring.model.quantity import parse

# ---- Turns: writes to one claim go one after another
#
# A claim that many pods share would otherwise be written by all of them at once, and the API server would refuse all but
# one of the writes for their resourceVersion.


class _Turn(msgspec.Struct, eq=False):
    """The writers of one claim: the pod whose write is under way, and those behind it."""

    holder: str = ""
    """The pod whose write is under way; empty: the next pod that asks gets the turn."""
    waiting: dict[str, ClaimConsumer | None] = msgspec.field(default_factory=dict)
    """Pods that come next, in order of arrival. A pod that needs nothing but a reservation gives its entry, so that
    the pod whose turn it is can write it along."""


class ClaimTurns:
    """The turns of all claims. Claims and pods are known by their ids. One write may carry the reservations of many
    pods, so n pods that share a claim need far fewer than n writes."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._along: dict[tuple[str, str], bool] = {}
        """Claims and pods whose reservation another pod is writing -> whether they have given up meanwhile."""

    def take(self, claim: str, pod: str, consumer: ClaimConsumer | None = None) -> bool:
        """Whether it is the pod's turn to write the claim. If not, it waits; `consumer` is what others may write for it."""
        if (claim, pod) in self._along:
            self._along[claim, pod] = False
        turn = self._turns.setdefault(claim, _Turn())
        if turn.holder in ("", pod):
            turn.holder = pod
            turn.waiting.pop(pod, None)
            return True
        turn.waiting[pod] = consumer
        return False

    def leave(self, claim: str, pod: str, is_served: bool) -> None:
        """The pod has its reservation, or does not want it any more. If another pod is writing its reservation, that
        has to be undone later: `end` returns such pods."""
        if (claim, pod) in self._along and not is_served:
            self._along[claim, pod] = True
        turn = self._turns.get(claim)
        if turn is None:
            return
        turn.waiting.pop(pod, None)
        if turn.holder == pod:
            turn.holder = ""
        if not turn.holder and not turn.waiting:
            del self._turns[claim]

    def consumers(self, claim: str) -> Sequence[ClaimConsumer]:
        """Pods that wait for nothing but a reservation, in the order in which they came."""
        turn = self._turns.get(claim)
        return [each for each in turn.waiting.values() if each is not None] if turn is not None else ()

    def begin(self, claim: str, consumers: Sequence[ClaimConsumer]) -> None:
        """Their reservations are being written."""
        for consumer in consumers:
            self._along[claim, consumer.uid] = False

    def end(self, claim: str, consumers: Sequence[ClaimConsumer]) -> list[ClaimConsumer]:
        """That is done, or has failed. Returns those that have given up meanwhile."""
        return [each for each in consumers if self._along.pop((claim, each.uid), False)]


K = TypeVar("K", bound=Hashable)


def claim_id(claim: ResourceClaim) -> str:
    """Identifier of a claim: its uid, or its key if a manifest has no uid."""
    return claim.uid or claim.key


class Consumption(msgspec.Struct):
    """Sum of the capacity that all shares of one device consume, in nano-units, and the number of these shares."""

    shares: int = 0
    amounts: dict[str, int] = msgspec.field(default_factory=dict)


class ClaimLedger:
    """Devices that are taken, over all claims. The cluster reports each change of a claim; the code that allocates
    reports each allocation on its way.

    An allocation is *pending* from the moment a node is chosen until the claim is written, or given up. If its writer
    is stopped before the answer arrives, it is *in doubt*: it stays pending until the answer is known, because the
    devices may be taken already. A claim that has its allocation does not count a second time as pending.
    """

    def __init__(self, shown: Mapping[str, ResourceClaim], has_group_claims: bool = False) -> None:
        """`has_group_claims`: whether claims may belong to pod groups (gate DRAWorkloadResourceClaims)."""
        self._shown = shown
        self.has_group_claims = has_group_claims
        self._written: dict[str, ResourceClaim] = {}
        """Claims as the API server returned them for a write of ours, by key, while the watch lags behind."""
        self._owner_of: dict[str, str] = {}
        """Keys of claims that have a controller -> its uid."""
        self._by_owner: dict[str, dict[str, None]] = {}
        """Uids of controllers -> the keys of their claims, in the order in which they came."""
        self._pending: dict[str, ResourceClaim] = {}
        """By id: copies of claims with the allocation that they are about to get."""
        self._pending_by_key: dict[str, dict[str, None]] = {}
        self._doubts: dict[str, int] = {}
        """Claims in doubt -> how many answers are awaited."""
        self._sharers: dict[str, dict[str, None]] = {}
        """Pending allocations that members of a group share -> the pods that count on them."""
        self._leaving: dict[tuple[str, str], int] = {}
        """Claims and pods that are giving up their reservation of them."""
        self._held: dict[tuple[str, str], list[AllocatedDevice]] = {}
        """Results of the allocations that are counted, by whether they are pending and the claim's id or key."""
        self.exclusive: dict[DeviceId, int] = {}
        """Devices that belong to a claim -> how many claims think so."""
        self.shares: dict[DeviceId, int] = {}
        """Devices that several claims may use -> the number of shares."""
        self.consumed: dict[DeviceId, Consumption] = {}
        """Devices that several claims may use -> what those shares consume that have a capacity."""
        self.log: ChangeLog[PoolId] = ChangeLog()
        """Pools whose devices were given or taken back."""
        self.turns = ClaimTurns()
        self.on_devices: Callable[[], None] = _ignore
        """Called when devices were given or taken back, if they are followed."""
        self.is_followed = False
        """See Cluster.follow_devices."""

    # ---- claims

    def get(self, key: str) -> ResourceClaim | None:
        """The claim as it is known: as it was written, until the watch shows that or something newer."""
        return self._written.get(key) or self._shown.get(key)

    def owned_by(self, uid: str) -> list[ResourceClaim]:
        """The claims whose controller has this uid, by name, so that their order does not depend on the past."""
        return [claim for key in sorted(self._by_owner.get(uid, ())) if (claim := self.get(key)) is not None]

    def changed(self, key: str) -> None:
        """The watch showed a claim, or its removal."""
        shown, written = self._shown.get(key), self._written.get(key)
        if written is not None and (shown is None or _version(shown) >= _version(written) or shown.uid != written.uid):
            del self._written[key]
        self._count(key)

    def wrote(self, claim: ResourceClaim) -> bool:
        """The claim was written. False: the watch does not know it, or knows better. Answers may come in another order than
        the writes were carried out: an older one changes nothing."""
        shown, written = self._shown.get(claim.key), self._written.get(claim.key)
        if shown is None or shown.uid != claim.uid or _version(shown) > _version(claim):
            return False
        if _version(shown) < _version(claim) and (written is None or _version(written) < _version(claim)):
            self._written[claim.key] = claim
            self._count(claim.key)
        return True

    # ---- allocations on their way

    def is_settled(self) -> bool:
        """Whether all is as the watch shows it: no allocation or release is on its way, and no answer is awaited."""
        return not (self._written or self._pending or self._doubts or self._leaving)

    def pending(self, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim with the allocation that it is about to get; None: it is not being allocated."""
        return self._pending.get(claim_id(claim))

    def pending_claims(self) -> list[ResourceClaim]:
        """All claims that are about to be allocated, with the allocations that they are about to get."""
        return list(self._pending.values())

    def pending_ids(self) -> set[str]:
        return set(self._pending)

    def begin(self, claim: ResourceClaim) -> None:
        """The claim is about to get the allocation that this copy of it has."""
        self._pending[claim_id(claim)] = claim
        self._pending_by_key.setdefault(claim.key, {})[claim_id(claim)] = None
        self._count_pending(claim_id(claim))

    def share(self, pending_id: str, pod_id: str) -> bool:
        """One more member of a group counts on the allocation, which stays pending until the last of them has left.
        False: it is not pending."""
        if pending_id in self._pending:
            self._sharers.setdefault(pending_id, {})[pod_id] = None
        return pending_id in self._pending

    def leave(self, pending_id: str, pod_id: str) -> bool:
        """The pod does not count on the allocation any more. False: other pods do, or as for `end`."""
        sharers = self._sharers.get(pending_id)
        if sharers is not None:
            sharers.pop(pod_id, None)
            if sharers:
                return False
            del self._sharers[pending_id]
        return self.end(pending_id)

    def sharers(self, pending_id: str) -> Sequence[str]:
        """The pods that count on an allocation that is pending for several."""
        return list(self._sharers.get(pending_id, ()))

    def end_for_all(self, pending_id: str) -> bool:
        """The claim was written, so that no pod has to count on the pending allocation any more."""
        self._sharers.pop(pending_id, None)
        return self.end(pending_id)

    def end(self, pending_id: str) -> bool:
        """The claim was written, or will not be. False: it was not pending, is in doubt, or other pods count on it."""
        if pending_id in self._doubts or pending_id in self._sharers or pending_id not in self._pending:
            return False
        key = self._pending.pop(pending_id).key
        del self._pending_by_key[key][pending_id]
        if not self._pending_by_key[key]:
            del self._pending_by_key[key]
        self._count_pending(pending_id)
        return True

    def doubt(self, pending_id: str) -> None:
        """It is not known whether the claim was written: it stays pending until `settle` was called once for each
        doubt."""
        if pending_id in self._pending:
            _add(self._doubts, pending_id, 1)

    def settle(self, pending_id: str) -> None:
        """The answer to a write in doubt has arrived."""
        if pending_id in self._doubts:
            _add(self._doubts, pending_id, -1)
        self.end(pending_id)

    def adopt(self, other: "ClaimLedger") -> None:
        """Know of allocations on their way what another ledger of the same claims knows, and nothing else."""
        written = _changed_keys(self._written, other._written)
        pending = _changed_keys(self._pending, other._pending)
        self._doubts, self._leaving = dict(other._doubts), dict(other._leaving)
        self._sharers = {pending_id: dict(pods) for pending_id, pods in other._sharers.items()}
        if written or pending:
            self._written, self._pending = dict(other._written), dict(other._pending)
            self._pending_by_key = {key: dict(ids) for key, ids in other._pending_by_key.items()}
        for key in written:
            self._count(key)
        for pending_id in pending:
            self._count_pending(pending_id)

    def count_anew(self) -> None:
        """Count all allocations again: the counts turned out to be wrong."""
        holders = list(self._held)
        for counts in (self.exclusive, self.shares, self.consumed):
            counts.clear()
        self._held.clear()
        for key in {*self._shown, *(key for what, key in holders if not what)}:
            self._count(key)
        for pending_id in self._pending:
            self._count_pending(pending_id)
        self.log.forget()

    def is_in_doubt(self, pending_id: str) -> bool:
        """Whether it is not known if a pending allocation was written."""
        return pending_id in self._doubts

    # ---- reservations on their way out

    def give_back(self, claim: ResourceClaim, pod_id: str) -> Callable[[object], None]:
        """A pod gives up its reservation of the claim. Returns the callback for the answer to that write."""
        leaving = (claim_id(claim), pod_id)
        _add(self._leaving, leaving, 1)

        def answered(answer: object) -> None:
            _add(self._leaving, leaving, -1)
            if isinstance(answer, ResourceClaim):
                self.wrote(answer)

        return answered

    def is_given_back(self, claim: ResourceClaim, pod_id: str) -> bool:
        """Whether that is still under way."""
        return (claim_id(claim), pod_id) in self._leaving

    # ---- counting

    def _count(self, key: str) -> None:
        """Count the allocation of a claim anew. Pending copies of it too: whether they count depends on it."""
        claim = self.get(key)
        self._file_by_owner(key, claim)
        self._hold(("", key), _results(claim))
        for pending_id in self._pending_by_key.get(key, ()):
            self._count_pending(pending_id)

    def _file_by_owner(self, key: str, claim: ResourceClaim | None) -> None:
        """Note which controller a claim has now."""
        owner = claim.controller() if claim is not None else None
        before, uid = self._owner_of.get(key), owner.uid if owner is not None else None
        if before == uid:
            return
        if before is not None:
            del self._owner_of[key], self._by_owner[before][key]
            if not self._by_owner[before]:
                del self._by_owner[before]
        if uid is not None:
            self._owner_of[key] = uid
            self._by_owner.setdefault(uid, {})[key] = None

    def _count_pending(self, pending_id: str) -> None:
        """A pending allocation counts only while the claim itself has none: its devices would count twice otherwise."""
        claim = self._pending.get(pending_id)
        known = None if claim is None else self.get(claim.key)
        is_written = known is not None and claim_id(known) == pending_id and known.status.allocation is not None
        self._hold(("pending", pending_id), [] if is_written else _results(claim))

    def _hold(self, holder: tuple[str, str], results: list[AllocatedDevice]) -> None:
        """Replace the devices that a holder has by these. Only a difference changes counts and the log."""
        before = self._held.pop(holder, [])
        if results:
            self._held[holder] = results
        if before == results:
            return
        for result in before:
            self._book(result, -1)
        for result in results:
            self._book(result, 1)
        if self.is_followed:
            self.on_devices()

    def _book(self, result: AllocatedDevice, change: int) -> None:
        """Count one device, or count it no longer. Parity: an allocation with admin access takes nothing away from
        others."""
        if result.admin_access:
            return
        device = (result.driver, result.pool, result.device)
        _add(self.exclusive if result.share_id is None else self.shares, device, change)
        if result.share_id is not None and result.consumed_capacity is not None:
            consumption = self.consumed.setdefault(device, Consumption())
            consumption.shares += change
            for name, text in result.consumed_capacity.items():
                _add(consumption.amounts, name, change * parse(text))
            if not consumption.shares:
                del self.consumed[device]
        self.log.note((result.driver, result.pool))

    def check(self) -> list[str]:
        """The invariants that do not hold, in words.

        That a device is counted twice is none of them: a watch that lags shows claims that are gone.
        """
        fresh = ClaimLedger(self._shown)
        fresh._written, fresh._pending = self._written, self._pending
        for key in self._shown:
            fresh._count(key)
        for pending_id in self._pending:
            fresh._count_pending(pending_id)
        faults = [f"claim {each} is in doubt but not pending" for each in self._doubts if each not in self._pending]
        faults += [f"claim {each} is shared but not pending" for each in self._sharers if each not in self._pending]
        if (fresh.exclusive, fresh.shares, fresh.consumed) != (self.exclusive, self.shares, self.consumed):
            faults.append("the devices that are counted as given are not those that claims hold")
        if (fresh._owner_of, fresh._by_owner) != (self._owner_of, self._by_owner):
            faults.append("claims are not filed by the controllers that they have")
        return faults


def _ignore() -> None:
    """Nobody is interested in devices that change hands."""


def _results(claim: ResourceClaim | None) -> list[AllocatedDevice]:
    """The devices of a claim's allocation; empty without one."""
    allocation = claim.status.allocation if claim is not None else None
    return [] if allocation is None else allocation.devices.results or []


def _version(claim: ResourceClaim) -> int:
    """Versions of a real server are numbers that grow; where there are none, nothing is newer than anything."""
    text = claim.metadata.resource_version or ""
    return int(text) if text.isdecimal() else 0


def _changed_keys(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return [key for key in {**ours, **theirs} if ours.get(key) is not theirs.get(key)] if ours or theirs else []


def _add(counts: dict[K, int], key: K, change: int) -> None:
    """Add to a count; counts of 0 are removed, so that `in` means: there is at least one."""
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]
