"""Which pods have to leave so that a pod group fits: upstream's search over the whole cluster.

All victims of lower priority leave. If the group fits then, they come back, the most important first, as long as it still
fits; those that break a disruption budget come back before the others. Each question is a trial of the whole group, unless
sums decide (group_sums.py).
"""

from collections.abc import Generator, Sequence

import numpy as np

from mooring.framework.attempts.group_post_filter import (
    UNSCHEDULABLE_GROUP,
    GroupFitError,
    GroupSearch,
    GroupVictims,
    MovedPods,
)
from mooring.framework.contract.status import Rejection, curable, final
from mooring.model.pod import Pod
from mooring.plugins.preemption.group_gains import GainsByShape, victims_on
from mooring.plugins.preemption.group_sums import Slots, come_back, first_to_leave, slots_for
from mooring.plugins.preemption.group_victims import GroupVictim, split_by_budgets
from mooring.plugins.preemption.search import Budget
from mooring.plugins.preemption.victim_order import VictimOrder

NO_VICTIMS = final("No preemption victims found for incoming preemptor")
NEVER = curable("not eligible due to preemptionPolicy=Never.")
NOT_ENOUGH_ROOM = curable(UNSCHEDULABLE_GROUP)
"""Upstream's words, here and above."""
ONE_BY_ONE = 64
"""Up to so many victims are tried one after another. More of them come back in batches, each twice as large as the last
one that fitted: a trial takes about a millisecond, and a cluster may have 100,000 victims. Where pods only take room, the
outcome is the same. It may differ where members need a victim (affinity): upstream may then evict more."""


def search_victims(failure: GroupFitError, gains: GainsByShape, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group."""
    if any(pod.spec.preemption_policy == "Never" for pod in failure.members):
        return NEVER
    order, priority = gains.order, failure.group.priority
    order.refresh()
    if not order.has_below(priority):
        return NO_VICTIMS
    slots = slots_for(failure)
    enough = failure.enough or 0
    if slots is None or slots.total >= enough:  # by sums it fits now: then sums do not decide
        return (yield from search_by_trials(_in_order(order, priority, budgets)))
    if enough > len(failure.members):
        return NOT_ENOUGH_ROOM
    nominated = failure.cluster.nominated
    if any(nominated.node_of(pod.id) is not None for pod in failure.members):
        # The slots leave out what members are nominated to, though a member may take that itself. So there may be more of
        # them, and those that can stay by this count can stay.
        victims = _in_order(order, priority, budgets)
        return (yield from search_by_trials(victims, first_to_leave(slots, victims, enough) or 0))
    if budgets:
        return _search_by_sums(slots, _in_order(order, priority, budgets), enough)
    return _search_few(failure, gains, slots, enough)


def _search_few(failure: GroupFitError, gains: GainsByShape, slots: Slots, enough: int) -> GroupVictims | Rejection:
    """The same as `_search_by_sums` for all victims, on the nodes alone that gain slots first."""
    member, priority = failure.members[0], failure.group.priority
    kept = gains.of(member.shape, member.priority, priority)
    kept.refresh(slots)
    rows = kept.rows(enough - slots.total, slots.passing)
    slots.passing = np.zeros(len(slots.passing), np.bool_)
    slots.passing[rows] = True
    return _search_by_sums(slots, victims_on(gains.order, rows, priority), enough)


def _search_by_sums(slots: Slots, victims: Sequence[GroupVictim], enough: int) -> GroupVictims | Rejection:
    """The victims that cannot come back in the order given."""
    first = first_to_leave(slots, victims, enough)
    return NOT_ENOUGH_ROOM if first is None else _chosen(come_back(slots, victims[first:], enough))


def _in_order(order: VictimOrder, priority: int, budgets: Sequence[Budget]) -> list[GroupVictim]:
    """All victims in the order in which they come back."""
    breaking, others = split_by_budgets((entry[-1] for entry in order.below(priority)), budgets)
    return [*breaking, *others]


def search_by_trials(victims: Sequence[GroupVictim], first: int = 0) -> GroupSearch:
    """The same by trials. The group is known to fit beside the victims before `first`."""
    refusal = yield MovedPods(leave=_pods_of(victims[first:]))
    if refusal is not None:
        return refusal
    return _chosen((yield from reprieve(victims[first:])))


def reprieve(victims: Sequence[GroupVictim]) -> Generator[MovedPods, Rejection | None, list[GroupVictim]]:
    """Let victims that have left come back, in this order, where the group still fits. Returns those that stay away."""
    staying_away: list[GroupVictim] = []
    refused: tuple[Pod, ...] = ()
    place, size = 0, 1
    while place < len(victims):
        batch = victims[place : place + size]
        back = _pods_of(batch)
        refusal = yield MovedPods(leave=refused, come_back=back)
        refused = () if refusal is None else back
        if refusal is None:
            place += len(batch)
            size = 2 * size if len(victims) > ONE_BY_ONE else 1
        elif len(batch) > 1:
            size = len(batch) // 2
        else:
            staying_away += batch
            place += 1
    return staying_away


def _chosen(victims: Sequence[GroupVictim]) -> GroupVictims:
    return GroupVictims(_pods_of(sorted(victims, key=lambda victim: victim.importance)))


def _pods_of(victims: Sequence[GroupVictim]) -> tuple[Pod, ...]:
    return tuple(pod for victim in victims for pod in victim.pods)
