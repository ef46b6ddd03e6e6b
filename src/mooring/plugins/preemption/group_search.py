"""Which pods have to leave so that a pod group fits: upstream's search over the whole cluster.

All victims of lower priority leave. If the group fits then, they come back, the most important first, as long as it still
fits; those that break a disruption budget come back before the others. Each question is a trial of the whole group.
"""

from collections.abc import Generator, Sequence

from mooring.framework.group_post_filter import GroupFitError, GroupSearch, GroupVictims, MovedPods
from mooring.framework.status import Rejection, curable, final
from mooring.model.pod import Pod
from mooring.plugins.preemption.group_victims import GroupVictim, split_by_budgets, victims_below
from mooring.plugins.preemption.search import Budget

NO_VICTIMS = final("No preemption victims found for incoming preemptor")
NEVER = curable("not eligible due to preemptionPolicy=Never.")
"""Upstream's words, here and above."""
ONE_BY_ONE = 64
"""Up to so many victims are tried one after another. More of them come back in batches, each twice as large as the last
one that fitted: a trial takes about a millisecond, and a cluster may have 100,000 victims. Where pods only take room, the
outcome is the same. It may differ where members need a victim (affinity): upstream may then evict more."""


def search_victims(failure: GroupFitError, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group, by trials."""
    if any(pod.spec.preemption_policy == "Never" for pod in failure.members):
        return NEVER
    victims = victims_below(failure.cluster, failure.group.priority)
    if not victims:
        return NO_VICTIMS
    refusal = yield MovedPods(leave=_pods_of(victims))
    if refusal is not None:
        return refusal
    breaking, others = split_by_budgets(victims, budgets)
    leaving = yield from reprieve([*breaking, *others])
    return GroupVictims(_pods_of(sorted(leaving, key=lambda victim: victim.importance)))


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


def _pods_of(victims: Sequence[GroupVictim]) -> tuple[Pod, ...]:
    return tuple(pod for victim in victims for pod in victim.pods)
