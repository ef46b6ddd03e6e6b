"""The ledger of TeamQueues: what each team has and was promised, and which pods wait for quota.

A team has what its pods on nodes request (usage.py), and what those of its pods request that were admitted and have no node
yet. A pod is admitted if its team then has no more than its quota, or if it may borrow what is more: other teams have so
much idle that they lend. The pods of a gang are one unit: all of them are admitted, or none.

Within a team the unit with the highest priority comes first, then the one that has waited longest, and no other passes it.
So a unit that is not larger than the quota of its team is admitted at the latest when the pods of the team before it are
gone, whatever other teams do. What can be borrowed goes to the team with the smallest weighted dominant share.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from mooring.plugin import Cluster, KeyedHeap, Pod

from .teams import Amounts, Teams
from .units import Gathered, WaitingUnit, gather
from .usage import TeamUsage, add, amounts_of, subtract

INCOMPLETE = "waits for the other pods of its gang"


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """A pod that may be queued. It is known until the watch shows it on a node, or until it is gone."""

    team: int
    amounts: Amounts
    priority: int
    share_before: float
    """The share of the team without it, when it was admitted."""


class TeamLedger:
    """The books of all teams of one scheduler. `activate` takes pods that were admitted while they waited."""

    def __init__(
        self, teams: Teams, cluster: Cluster, now_ns: Callable[[], int], activate: Callable[[Sequence[Pod]], None]
    ) -> None:
        self.teams = teams
        self.usage = TeamUsage(teams, cluster.nodes, self._moved)
        self._cluster = cluster
        self._now_ns = now_ns
        self._activate = activate
        self._admitted: dict[str, AdmittedPod] = {}
        self._promised = [[0] * len(teams.resources) for _ in teams.teams]
        """By team: what admitted pods request that are on no node."""
        self._by_priority: list[dict[int, list[int]]] = [{} for _ in teams.teams]
        """The same by priority; the last number counts the pods."""
        self._waiting: dict[int, KeyedHeap[WaitingUnit]] = {}
        """By team, those that have units which wait."""
        self._unit_of: dict[str, WaitingUnit] = {}
        """By id of the pod."""
        self._settled_at: int | None = None
        """The version of the usage at which all units were admitted that could be; None: something else changed since."""
        self._kept_idle: tuple[int, list[int]] | None = None
        lent = [sum(min(team.most_lent[i], team.quota[i]) for team in teams.teams) for i in range(len(teams.resources))]
        self._most = [
            tuple(
                quota + min(borrowed, everything - min(team_lent, quota))
                for quota, borrowed, team_lent, everything in zip(
                    team.quota, team.most_borrowed, team.most_lent, lent, strict=True
                )
            )
            for team in teams.teams
        ]
        """By team: what it can have if no other team needs anything."""

    # ---- What the plugin asks

    def ask(self, pod: Pod) -> str | None:
        """Admit the pod, or say why it has to wait. Its gang is admitted with it."""
        team = self.teams.of_namespace.get(pod.namespace)
        if team is None:
            return None
        self.usage.refresh()
        if pod.id in self._admitted:
            return self._reconsider(pod, team)
        unit = self._unit_of.get(pod.id)
        if unit is not None and unit.pods[pod.id].shape is pod.shape and unit.priority >= pod.priority:
            unit.pods[pod.id] = pod  # Hot: pods that wait long ask every five minutes, and nothing changed
            self._settle(pod.id)
            return None if pod.id in self._admitted else self._why(unit)
        unit = self._unit(pod, team)
        if unit is None:
            return INCOMPLETE
        if team not in self._waiting and self._is_within_quota(team, unit.amounts):
            self._admit(unit, pod.id)
            return None
        if not self._is_possible(team, unit.amounts):
            if pod.id in self._unit_of:
                self._stop_waiting(self._unit_of[pod.id])  # it asked for less before
            return self._why_never(unit)
        self._wait(unit)
        self._settle(pod.id)
        return None if pod.id in self._admitted else self._why(unit)

    def has_admitted_kin(self, pod: Pod) -> bool:
        """Whether another member of the pod's group was admitted, or has a node."""
        groups = self._cluster.groups
        members = groups.of(pod) if groups is not None else None
        if members is None:
            return False
        return members.scheduled_count > 0 or any(pod_id in self._admitted for pod_id in members.unscheduled)

    def share_before(self, pod: Pod) -> float:
        """The weighted dominant share of the team when it is the pod's turn: with the pods of the team that are on nodes,
        and with those that were admitted before it or have a higher priority. 0 for pods without a team.

        It hardly changes while the pod waits, so that it is good for a queue: a pod of the team that gets its node was
        counted before. A pod that comes back to the queue keeps its place among those of its team.
        """
        team = self.teams.of_namespace.get(pod.namespace)
        if team is None:
            return 0.0
        sums = [*self.usage.used[team], 0]
        for priority, promised in self._by_priority[team].items():
            if priority >= pod.priority:
                add(sums, promised)
        own = self._admitted.get(pod.id)
        if own is None:
            return self.teams.share(team, sums[:-1])
        if not self.usage.is_on_node(pod.id):
            subtract(sums, own.amounts)
        return min(own.share_before, self.teams.share(team, sums[:-1]))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Any pod was created, changed or deleted. What it gives back may admit others."""
        pod = new or old
        if pod is None or pod.namespace not in self.teams.of_namespace:
            return
        is_gone = new is None or new.is_finished
        if old is not None and (is_gone or pod.id != old.id):
            self._forget(old.id)
        elif new is not None and new.spec.node_name and new.id in self._admitted:
            self.usage.refresh()
            self._forget(new.id)
        elif old is None or new is None or old.shape is new.shape:
            return
        if self._waiting:
            self.usage.refresh()
            self._settle()

    def used(self, team: int) -> list[int]:
        """What a team has on nodes, and was promised."""
        return [*map(int.__add__, self.usage.used[team], self._promised[team])]

    def waiting(self) -> list[str]:
        """Names of the pods that wait for quota."""
        return sorted(unit.pods[pod_id].key for pod_id, unit in self._unit_of.items())

    # ---- Units

    def _unit(self, pod: Pod, team: int) -> WaitingUnit | None:
        """The unit that the pod is judged with; None: its gang is not complete. If a team can never have all of a gang, its
        minimum is judged, and the others alone after it."""
        gathered = gather(self._cluster, pod, self._admitted)
        if gathered is None:
            return None
        amounts = self._sum(gathered)
        if not self._is_possible(team, amounts) and gathered.least < len(gathered.pods):
            gathered = gathered.fewest(pod)
            amounts = self._sum(gathered)
        before = self._waiting[team].get(gathered.key) if team in self._waiting else None
        since_ns = self._now_ns() if before is None else before.since_ns
        priority = max(each.priority for each in gathered.pods.values())
        return WaitingUnit(gathered.key, team, gathered.pods, amounts, priority, since_ns)

    def _sum(self, gathered: Gathered) -> Amounts:
        sums = [0] * len(self.teams.resources)
        for pod in gathered.pods.values():
            add(sums, amounts_of(self.teams, pod))
        return tuple(sums)

    def _is_possible(self, team: int, amounts: Amounts) -> bool:
        return all(amount <= most for amount, most in zip(amounts, self._most[team], strict=True))

    def _wait(self, unit: WaitingUnit) -> None:
        """A unit waits from now on, or with other members than before."""
        heap = self._waiting.get(unit.team)
        if heap is not None and (before := heap.get(unit.key)) is not None:
            self._stop_waiting(before)
            heap = self._waiting.get(unit.team)
        if heap is None:
            heap = self._waiting[unit.team] = KeyedHeap(lambda one: (-one.priority, one.since_ns))
        heap.push(unit)
        self._settled_at = None
        for pod_id in unit.pods:
            self._unit_of[pod_id] = unit

    def _stop_waiting(self, unit: WaitingUnit) -> None:
        self._settled_at = None  # another unit may be the first of its team now
        heap = self._waiting.get(unit.team)
        if heap is not None:
            heap.remove(unit.key)
            if not len(heap):
                del self._waiting[unit.team]
        for pod_id in unit.pods:
            self._unit_of.pop(pod_id, None)

    def _forget(self, pod_id: str) -> None:
        """A pod is gone, or counts on its node from now on. A gang that lost a member is judged anew."""
        admitted = self._admitted.get(pod_id)
        if admitted is not None:
            if not self.usage.is_on_node(pod_id):
                self._promise(admitted, subtract)
            del self._admitted[pod_id]
        unit = self._unit_of.get(pod_id)
        if unit is None:
            return
        self._stop_waiting(unit)
        for pod in unit.pods.values():
            if pod.id != pod_id and pod.id not in self._unit_of:
                again = self._unit(pod, unit.team)
                if again is not None:
                    self._wait(replace(again, since_ns=unit.since_ns))

    # ---- Admission

    def _settle(self, asking: str = "") -> None:
        """Admit all units whose turn has come, and activate their pods, but for the one that asks."""
        if self._settled_at == self.usage.version:
            return
        while (unit := self._next()) is not None:
            self._stop_waiting(unit)
            self._admit(unit, asking)
        self._settled_at = self.usage.version

    def _next(self) -> WaitingUnit | None:
        """The unit that is admitted next: one within the quota of its team, or the borrower with the smallest share."""
        best: tuple[float, int] | None = None
        idle = self._idle()
        for team, heap in self._waiting.items():
            unit = heap.peek()
            assert unit is not None, "teams without units that wait are not kept"
            if self._is_within_quota(team, unit.amounts):
                return unit
            if self._may_borrow(team, unit.amounts, idle):
                rank = self.teams.share(team, self.used(team)), team
                best = rank if best is None else min(best, rank)
        return None if best is None else self._waiting[best[1]].peek()

    def _admit(self, unit: WaitingUnit, asking: str) -> None:
        for pod in unit.pods.values():
            share = self.share_before(pod)
            admitted = AdmittedPod(unit.team, amounts_of(self.teams, pod), pod.priority, share)
            self._admitted[pod.id] = admitted
            if not self.usage.is_on_node(pod.id):
                self._promise(admitted, add)
        others = {**unit.pods, **self._members_beside(unit)}
        others.pop(asking, None)
        if others:
            self._activate([*others.values()])

    def _members_beside(self, unit: WaitingUnit) -> dict[str, Pod]:
        """Members of the gang that are not in the unit: now that it is complete, they are judged alone."""
        groups, pod = self._cluster.groups, next(iter(unit.pods.values()))
        if groups is None or unit.key != pod.group_key:
            return {}
        members = groups.of(pod)
        waiting = () if members is None else members.unscheduled.values()
        return {each.id: each for each in waiting if each.id not in self._admitted}

    def _moved(self, pod_id: str, is_on_node: bool) -> None:
        """A pod came to a node, or lost it again: its binding failed, or it is gone."""
        admitted = self._admitted.get(pod_id)
        if admitted is not None:
            self._promise(admitted, subtract if is_on_node else add)

    def _promise(self, pod: AdmittedPod, change: Callable[[list[int], Iterable[int]], None]) -> None:
        self._kept_idle = self._settled_at = None
        change(self._promised[pod.team], pod.amounts)
        levels = self._by_priority[pod.team]
        sums = levels.setdefault(pod.priority, [0] * (len(pod.amounts) + 1))
        change(sums, (*pod.amounts, 1))
        if not sums[-1]:
            del levels[pod.priority]

    def _is_within_quota(self, team: int, amounts: Amounts) -> bool:
        used, promised, quota = self.usage.used[team], self._promised[team], self.teams.teams[team].quota
        return all(not amount or used[i] + promised[i] + amount <= quota[i] for i, amount in enumerate(amounts))

    def _idle(self) -> list[int]:
        """By resource: what teams lend and do not use, less what is borrowed already. Negative: lenders need it back."""
        kept = self._kept_idle
        if kept is not None and kept[0] == self.usage.version:
            return kept[1]
        idle = [0] * len(self.teams.resources)
        for place in range(len(self.teams.teams)):
            for i in range(len(idle)):
                idle[i] += self._lends(place, i) - self._borrows(place, i)
        self._kept_idle = self.usage.version, idle
        return idle

    def _lends(self, team: int, i: int) -> int:
        one = self.teams.teams[team]
        return max(0, min(one.most_lent[i], one.quota[i] - self.usage.used[team][i] - self._promised[team][i]))

    def _borrows(self, team: int, i: int) -> int:
        return max(0, self.usage.used[team][i] + self._promised[team][i] - self.teams.teams[team].quota[i])

    def _may_borrow(self, team: int, amounts: Amounts, idle: Sequence[int]) -> bool:
        """Whether the team may have so much more. A team does not borrow from itself."""
        one = self.teams.teams[team]
        for i, amount in enumerate(amounts):
            over = self.usage.used[team][i] + self._promised[team][i] + amount - one.quota[i]
            if amount and over > 0:
                from_others = idle[i] - self._lends(team, i) + self._borrows(team, i)
                if over > min(one.most_borrowed[i], from_others):
                    return False
        return True

    def _reconsider(self, pod: Pod, team: int) -> str | None:
        """A pod that was admitted did not get a node. It has to wait again if it is on borrowed quota that is needed back."""
        idle = self._idle()
        if self.usage.is_on_node(pod.id) or min(idle) >= 0:
            return None
        pods = {pod.id: pod}
        groups = self._cluster.groups
        if groups is not None and (members := groups.of(pod)) is not None:
            pods |= {each.id: each for each in members.unscheduled.values() if each.id in self._admitted}
        sums = [0] * len(self.teams.resources)
        for pod_id in pods:
            add(sums, self._admitted[pod_id].amounts)
        used, quota = self.used(team), self.teams.teams[team].quota
        if not any(amount and idle[i] < 0 and used[i] - amount >= quota[i] for i, amount in enumerate(sums)):
            return None
        for pod_id in pods:
            self._promise(self._admitted.pop(pod_id), subtract)
        unit = self._unit(pod, team)
        if unit is None:
            return INCOMPLETE
        self._wait(unit)
        return self._why(unit)

    # ---- Texts

    def _why(self, unit: WaitingUnit) -> str:
        """Why a unit waits: the first resource of which there is too little, or who comes first."""
        team, idle = self.teams.teams[unit.team], self._idle()
        for i, amount in enumerate(unit.amounts):
            used = self.used(unit.team)[i]
            over = used + amount - team.quota[i]
            if not amount or over <= 0:
                continue
            from_others = max(0, idle[i] - self._lends(unit.team, i) + self._borrows(unit.team, i))
            may = max(0, min(team.most_borrowed[i], from_others) - self._borrows(unit.team, i))
            if over > min(team.most_borrowed[i], from_others):
                has = f'team "{team.name}" has {self.teams.show(i, used)} of its quota of {self.teams.show(i, team.quota[i])}'
                return f"{has} and may borrow {self.teams.show(i, may)} more: {unit.asks_for()} {self.teams.show(i, amount)}"
        first = self._waiting[unit.team].peek()
        name = next(iter(first.pods.values())).key if first is not None else ""
        return f'team "{team.name}": {name} comes first'

    def _why_never(self, unit: WaitingUnit) -> str:
        place = next(i for i, amount in enumerate(unit.amounts) if amount > self._most[unit.team][i])
        most = self.teams.show(place, self._most[unit.team][place])
        amount = self.teams.show(place, unit.amounts[place])
        name = self.teams.teams[unit.team].name
        return f'team "{name}" can have {most} at most, its quota and what others lend: {unit.asks_for()} {amount}'

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        self.usage.refresh()
        faults = []
        for place, team in enumerate(self.teams.teams):
            sums = [0] * len(self.teams.resources)
            for pod_id, pod in self._admitted.items():
                if pod.team == place and not self.usage.is_on_node(pod_id):
                    add(sums, pod.amounts)
            if sums != self._promised[place]:
                faults.append(f"team {team.name}: promised {self._promised[place]}, but admitted pods ask for {sums}")
        faults += [f"{pod_id} is admitted, and waits" for pod_id in self._unit_of if pod_id in self._admitted]
        waiting = {id(unit) for heap in self._waiting.values() for unit in heap}
        faults += [f"{pod_id} waits in no team" for pod_id, unit in self._unit_of.items() if id(unit) not in waiting]
        return faults
