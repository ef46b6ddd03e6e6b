"""Who gives quota back: victims among the pods of teams that have borrowed, for a pod of a team within its quota.

The dry run on each node, the budgets and the comparison of candidates are those of DefaultPreemption. Only the rule is
another: not the priority decides who may have to leave, but whether its team has more than its quota.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from mooring.plugin import (
    Cluster,
    FitError,
    GroupFitError,
    GroupRoom,
    GroupSearch,
    KeptBudgets,
    NodeDryRun,
    NodeTable,
    Nomination,
    NoRoom,
    Pod,
    PodGroup,
    PodRanks,
    PodsLeave,
    RejectedAttempt,
    Rejection,
    choose,
    curable,
    final,
    is_being_preempted,
)

from .teams import Amounts, Teams
from .usage import TeamUsage, add, amounts_of, subtract

ENOUGH = 20
"""How many candidates are compared, if one of them breaks no disruption budget. A dry run takes some 100 µs."""


@dataclass(slots=True)
class VictimRule:
    """Which pods may have to leave for one pod.

    A pod of another team may, if that team has so much more than its quota of a resource which the preemptor asks for that
    it has its quota without the pod, too. The least important are taken first: lowest priority, then newest. The pods of a
    gang leave together.
    """

    teams: Teams
    pod: Pod
    team: int
    wanted: Amounts
    may_reclaim: bool
    spare: list[list[int]]
    """By team: what it has more than its quota."""
    cluster: Cluster

    def may_leave(self, pods: Sequence[Pod]) -> list[Pod]:
        """Of the pods of a node, the most important first, those that may leave together."""
        spare = [[*amounts] for amounts in self.spare]
        leaving: set[str] = set()
        for pod in reversed(pods):
            if pod.is_terminating:
                leaving.add(pod.id)
            elif pod.id not in leaving:
                gang = gang_of(self.cluster, pod)
                if self._take(gang, spare):
                    leaving.update(member.id for member in gang)
        return [pod for pod in pods if pod.id in leaving]

    def teams_with_victims(self) -> set[int]:
        """The teams of which some pod may have to leave."""
        found = {self.team} if self.teams.teams[self.team].preempts_own else set()
        if self.may_reclaim:
            found |= {
                team
                for team, spare in enumerate(self.spare)
                if team != self.team and any(w and s > 0 for w, s in zip(self.wanted, spare, strict=True))
            }
        return found

    def _take(self, gang: Sequence[Pod], spare: list[list[int]]) -> bool:
        """Whether these pods may leave together; their quota is taken off what is to spare."""
        team = self.teams.of_namespace.get(gang[0].namespace)
        if team is None:
            return False
        policy = self.teams.teams[self.team]
        is_lower = all(pod.priority < self.pod.priority for pod in gang)
        if team == self.team:
            return policy.preempts_own and is_lower
        if not self.may_reclaim or (policy.reclaim == "LowerPriority" and not is_lower):
            return False
        sums = [0] * len(self.wanted)
        for pod in gang:
            add(sums, amounts_of(self.teams, pod))
        if not any(w and a and a <= s for w, a, s in zip(self.wanted, sums, spare[team], strict=True)):
            return False
        subtract(spare[team], sums)
        return True


def gang_of(cluster: Cluster, pod: Pod) -> Sequence[Pod]:
    """The pods that leave if this one does: the members of its gang that have a node, or the pod alone."""
    groups, key = cluster.groups, pod.group_key
    if groups is None or key is None:
        return (pod,)
    declared = cast("PodGroup | None", cluster.objects[PodGroup].get(key))
    members = groups.of(pod)
    if declared is None or declared.spec.scheduling_policy.gang is None or members is None:
        return (pod,)
    found = {each.id: each for each in (*members.assumed.values(), *members.assigned.values())}
    return [each for each in found.values() if not each.is_terminating] if pod.id in found else (pod,)


@dataclass(slots=True)
class Reclaim:
    """Finds victims, and remembers those that were found until they are gone: their quota is given back only once."""

    teams: Teams
    _found: dict[str, tuple[Pod, tuple[Pod, ...]]] = field(default_factory=dict)
    """By id of the preemptor: the preemptor, and the victims that were found for it."""
    _evicting: set[str] = field(default_factory=set)
    """Ids of preemptors whose victims are being evicted."""
    _ranks: PodRanks | None = None
    _budgets: KeptBudgets = field(default_factory=KeptBudgets)

    def is_evicting(self, pod: Pod) -> bool:
        return pod.id in self._evicting

    def eviction_began(self, pod: Pod) -> None:
        self._evicting.add(pod.id)

    def eviction_ended(self, pod: Pod) -> None:
        """The victims are gone or terminating, or their eviction failed."""
        self._evicting.discard(pod.id)
        if pod.id in self._found:
            self._found[pod.id] = pod, ()

    def find(self, failure: FitError, usage: TeamUsage) -> Nomination | NoRoom:
        """Room for a pod of a team. A pod of no team is left to the plugins that follow; for one of a team they are not
        asked, since they would take from teams that have not borrowed."""
        assert isinstance(failure, RejectedAttempt), "only the framework makes these"
        pod = failure.context.pod
        team = self.teams.of_namespace.get(pod.namespace)
        if team is None:
            return NoRoom(curable())
        refusal = _ineligible(failure)
        if refusal is not None:
            return NoRoom(final(refusal))
        self._drop_stale(failure.context.cluster, pod)
        rule = self._rule(pod, amounts_of(self.teams, pod), failure.context.cluster, usage)
        found = self._best(failure, usage, rule)
        if found is None:
            return NoRoom(final(self._why_not(rule)), clear_nomination=True)
        self._found[pod.id] = pod, found.victims
        return found

    def find_for_group(self, failure: GroupFitError, usage: TeamUsage) -> GroupSearch:
        """Room for a group of a team, anywhere in the cluster. As many pods leave as the other teams have to spare, and those
        come back, the most important first, that the members on their nodes have room for."""
        first, cluster = failure.members[0], failure.cluster
        team = self.teams.of_namespace.get(first.namespace)
        if team is None:
            return curable()
        if first.spec.preemption_policy == "Never":
            return final("not eligible due to preemptionPolicy=Never.")
        self._drop_stale(cluster, first)
        sums = [0] * len(self.teams.resources)
        for pod, context in zip(failure.members, failure.contexts, strict=True):
            if context is not None:
                add(sums, amounts_of(self.teams, pod))
        rule = self._rule(first, tuple(sums), cluster, usage)
        leaving = rule.may_leave(_by_importance(cluster.nodes))
        if not leaving:
            return final(self._why_not(rule))
        found = yield PodsLeave(_with_gangs(cluster, leaving))
        if isinstance(found, Rejection):
            return final(self._why_not(rule))
        victims: list[Pod] = []
        for gang in {id(gang[0]): gang for gang in (gang_of(cluster, pod) for pod in leaving)}.values():
            if not found.reprieve(gang):
                victims += gang
        self._found[first.id] = first, tuple(victims)
        return GroupRoom(f"{len(victims)} pods give back what their teams have borrowed", found.nodes, tuple(victims))

    def _drop_stale(self, cluster: Cluster, pod: Pod) -> None:
        """Forget victims that nobody evicts, and preemptors that have a node or lost the promise of one."""
        for other_id in [*self._found]:
            is_waiting = other_id in self._evicting or cluster.nominated.node_of(other_id) is not None
            if not is_waiting or other_id == pod.id:
                del self._found[other_id]

    def _rule(self, pod: Pod, wanted: Amounts, cluster: Cluster, usage: TeamUsage) -> VictimRule:
        teams, team = self.teams, self.teams.of_namespace[pod.namespace]
        spare = [[*used] for used in usage.used]
        for place, one in enumerate(teams.teams):
            subtract(spare[place], usage.leaving[place])
            subtract(spare[place], one.quota)
        for victim in {victim.id: victim for _, victims in self._found.values() for victim in victims}.values():
            place_of = teams.of_namespace.get(victim.namespace)
            if place_of is not None and usage.is_on_node(victim.id) and not usage.is_leaving(victim.id):
                subtract(spare[place_of], amounts_of(teams, victim))
        mine = [*spare[team]]
        for other, _ in self._found.values():
            if teams.of_namespace.get(other.namespace) == team and not usage.is_on_node(other.id):
                add(mine, amounts_of(teams, other))
        is_within = all(not amount or mine[i] + amount <= 0 for i, amount in enumerate(wanted))
        may_reclaim = is_within and teams.teams[team].reclaim != "Never"
        return VictimRule(teams, pod, team, wanted, may_reclaim, spare, cluster)

    def _best(self, failure: RejectedAttempt, usage: TeamUsage, rule: VictimRule) -> Nomination | None:
        """The least harmful of the candidates: fewest broken budgets, fewest pods on other nodes, then as upstream."""
        nodes, teams = failure.context.nodes, rule.teams_with_victims()
        rows = failure.curable_rows()
        if not teams or not len(rows):
            return None
        dry_run = NodeDryRun(failure, self._ranked(nodes), self._budgets.of(rule.cluster), rule.may_leave)
        best: tuple[tuple[int, ...], int, tuple[Pod, ...]] | None = None
        count = 0
        for row in np.roll(rows, -choose(failure.context.seed, len(rows))).tolist():
            found = dry_run.harm_on(row) if not teams.isdisjoint(usage.teams_on(row)) else None
            if found is None:
                continue
            victims, harm = _with_gangs(rule.cluster, found[0]), found[1]
            rank = (harm[0], len(victims) - len(found[0]), *harm[1:], int(nodes.name_rank()[row]))
            best = (rank, row, victims) if best is None else min(best, (rank, row, victims), key=lambda one: one[:2])
            count += 1
            if count >= ENOUGH and not best[0][0] and not failure.examine_all:
                break
        return None if best is None else Nomination(nodes.names[best[1]], best[2])

    def _ranked(self, nodes: NodeTable) -> PodRanks:
        if self._ranks is None or self._ranks.nodes is not nodes:
            self._ranks = PodRanks(nodes)
        self._ranks.refresh()
        return self._ranks

    def _why_not(self, rule: VictimRule) -> str:
        team = self.teams.teams[rule.team]
        if not rule.may_reclaim:
            reason = (
                "it reclaims none" if team.reclaim == "Never" else "with this pod it would have more than its quota"
            )
            return f'team "{team.name}" does not reclaim quota: {reason}'
        return f'team "{team.name}" has quota left, but no node has enough pods of teams that have more than theirs'


def _ineligible(failure: RejectedAttempt) -> str | None:
    """Why the pod may not preempt (again) now."""
    context = failure.context
    if context.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    row = context.nodes.row_book.get(context.pod.status.nominated_node_name)
    if row is not None and not failure.is_final(row) and any(map(is_being_preempted, context.nodes.pods_on[row])):
        return "not eligible due to a terminating pod on the nominated node."
    return None


def _by_importance(nodes: NodeTable) -> list[Pod]:
    """All pods on nodes, the most important first: highest priority, then oldest."""
    return sorted(nodes.pods(), key=lambda pod: (-pod.priority, pod.status.start_time or "~", pod.key))


def _with_gangs(cluster: Cluster, victims: Sequence[Pod]) -> tuple[Pod, ...]:
    """The victims, and the other members of their gangs wherever they are."""
    members = {member.id: member for victim in victims for member in gang_of(cluster, victim)}
    return tuple({**{victim.id: victim for victim in victims}, **members}.values())
