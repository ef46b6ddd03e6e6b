"""Which pods have to leave so that a pod group fits: upstream's search over the whole cluster.

All units of lower priority leave, and the group is tried once. If it fits, the nodes of its members stay the same from then
on: units come back, the most important first and those that break a disruption budget before the others, as long as the
members still fit on their nodes.
"""

from collections.abc import Sequence, Set

from mooring.framework.contract.group_points import GroupFitError, GroupRoom, GroupSearch, PodsLeave
from mooring.framework.contract.status import Rejection, curable, final
from mooring.plugins.preemption.victim_order import SplitUnits, VictimOrder, split_by_budgets
from mooring.plugins.preemption.victim_search import Budget, is_being_preempted

_PREFIX = "pod group preemption: "
NEVER = curable(f"{_PREFIX}not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = final(f"{_PREFIX}No preemption victims found for incoming preemptor")
ONGOING = f"{_PREFIX}ongoing preemption on nominated nodes"
"""Upstream's words, here and above."""


def answer_at_once(failure: GroupFitError, goes_by_group: bool) -> GroupRoom | Rejection | None:
    """The answer for a group that may not preempt, or whose victims are leaving already; None: victims have to be searched.

    `goes_by_group`: whether the preemption policy of the group counts, not that of its pods.
    """
    policies = [failure.group.spec.preemption_policy]
    if not goes_by_group:
        policies = [pod.spec.preemption_policy for pod in failure.members]
    if "Never" in policies:
        return NEVER
    if is_ongoing(failure):
        return GroupRoom(ONGOING, {pod.key: pod.status.nominated_node_name for pod in failure.members})
    return None


def search_victims(failure: GroupFitError, order: VictimOrder, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group."""
    priority = failure.group.priority
    if not order.has_below(priority):
        return NO_VICTIMS
    found = yield PodsLeave(priority=priority)
    if isinstance(found, Rejection):
        return Rejection((f"{_PREFIX}{found.message}",) if found.message else (), found.code)
    breaking, others = _split(order, priority, budgets, found.rows)
    staying_away = [(unit, violations) for unit, violations in breaking if not found.reprieve(unit.pods)]
    staying_away += [(unit, 0) for unit in others if not found.reprieve(unit.pods)]
    victims = sorted((unit for unit, _ in staying_away), key=lambda unit: unit.importance)
    pods = tuple(pod for unit in victims for pod in unit.pods)
    return GroupRoom(
        f"{_PREFIX}found a placement for podgroup, preempting {len(pods)} victims",
        found.nodes,
        pods,
        violations=sum(violations for _, violations in staying_away),
        disrupted_groups=sum(unit.is_group for unit in victims),
    )


def _split(order: VictimOrder, priority: int, budgets: Sequence[Budget], rows: Set[int] | None) -> SplitUnits:
    """The units of lower priority with pods on these rows (None: on all rows), split by budgets. Units on other rows count
    for budgets as well."""
    if rows is None:
        return split_by_budgets(order.below(priority), budgets)
    near = order.below_on(priority, rows)
    if not budgets:
        return [], near
    breaking, others = split_by_budgets(order.below(priority), budgets)
    wanted = {id(unit) for unit in near}
    return [each for each in breaking if id(each[0]) in wanted], [unit for unit in others if id(unit) in wanted]


def is_ongoing(failure: GroupFitError) -> bool:
    """Whether pods of lower priority are leaving a node that a member is nominated to, because they were preempted."""
    nodes, tree = failure.cluster.nodes, failure.cluster.group_tree
    nominated = dict.fromkeys(pod.status.nominated_node_name for pod in failure.members)
    rows = (nodes.row_book.get(name or "") for name in nominated)
    return any(
        is_being_preempted(pod) and tree.victim_priority(pod) < failure.group.priority
        for row in rows
        if row is not None
        for pod in nodes.pods_on[row]
    )
