"""Which pods have to leave so that a pod group fits: upstream's search over the whole cluster.

All victims of lower priority leave. If the group fits then, they come back, the most important first, as long as it still
fits; those that break a disruption budget come back before the others. Each question is a trial of the whole group, unless
sums decide (group_sums.py).
"""

from collections.abc import Generator, Sequence

from mooring.framework.group_post_filter import GroupFitError, GroupSearch, GroupVictims, MovedPods
from mooring.framework.status import Rejection, curable, final
from mooring.model.pod import Pod
from mooring.plugins.preemption.group_sums import come_back, first_to_leave, slots_for
from mooring.plugins.preemption.group_victims import GroupVictim, split_by_budgets
from mooring.plugins.preemption.search import Budget
from mooring.plugins.preemption.victim_order import VictimOrder

NO_VICTIMS = final("No preemption victims found for incoming preemptor")
NEVER = curable("not eligible due to preemptionPolicy=Never.")
UNSCHEDULABLE_GROUP = curable("pod group is unschedulable")
"""Upstream's words, here and above."""
ONE_BY_ONE = 64
"""Up to so many victims are tried one after another. More of them come back in batches, each twice as large as the last
one that fitted: a trial takes about a millisecond, and a cluster may have 100,000 victims. Where pods only take room, the
outcome is the same. It may differ where members need a victim (affinity): upstream may then evict more."""


def search_victims(failure: GroupFitError, order: VictimOrder, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group."""
    if any(pod.spec.preemption_policy == "Never" for pod in failure.members):
        return NEVER
    order.refresh()
    victims = [entry[-1] for entry in order.below(failure.group.priority)]
    if not victims:
        return NO_VICTIMS
    breaking, others = split_by_budgets(victims, budgets)
    return (yield from _search([*breaking, *others], failure))


def _search(victims: Sequence[GroupVictim], failure: GroupFitError) -> GroupSearch:
    """The victims that cannot come back, in the order given."""
    slots = slots_for(failure)
    enough = failure.enough
    if slots is None or enough is None or slots.total >= enough:  # by sums it fits now: then sums do not decide
        return (yield from search_by_trials(victims))
    if enough > len(failure.members):
        return UNSCHEDULABLE_GROUP
    nominated = failure.cluster.nominated
    are_nominated = any(nominated.node_of(pod.id) is not None for pod in failure.members)
    first = first_to_leave(slots, victims, enough)
    if not are_nominated:
        return UNSCHEDULABLE_GROUP if first is None else _chosen(come_back(slots, victims[first:], enough))
    # The slots leave out what members are nominated to, though a member may take that itself. So there may be more of them,
    # and those that can stay by this count can stay.
    return (yield from search_by_trials(victims, first or 0))


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
