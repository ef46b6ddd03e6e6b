"""The least harmful candidate, found without working out the victims of every node.

What comes first in the comparison of candidates is the priority of the most important victim, and that follows from
sums over the more important pods (kept_harm.py). Only nodes that are best by it have all their victims worked out. This
is possible where one filter compares sums (FilterPlugin.demand), and the others read nothing of pods or say which pods
they count (counted_rows). Rows with pods that count, or that a disruption budget protects, are tried one by one, if
sums leave them a chance to be the best. search.py finds the same by the long way, and for all nodes.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.cluster.nodes.ranks import NO_POD, NOT_STARTED_NS, PodRanks
from mooring.cluster.pods.nominated import Crowd, NominatedLoad
from mooring.framework.attempts.attempt import Attempt
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.refiltering import (
    RowArray,
    active_filters,
    counted_rows,
    crowd_beside,
    demand_of,
    rows_beyond_sums,
)
from mooring.framework.contract.points import FilterPlugin, Nomination, Reads, ResourceDemand
from mooring.framework.kept.asking import ask_filter
from mooring.model.pod import Pod
from mooring.plugins.preemption.kept_harm import (
    MOST_POSITIONS,
    PRIORITY_OFFSET,
    Flags,
    Harm,
    Ints,
    KeptHarm,
    Room,
    can_stay,
    fewest_leaving,
    harm_after,
    name_key,
    room_on,
    victims_on,
)
from mooring.plugins.preemption.victim_search import NodeDryRun, nominate

LEAST_PRIORITY = -(1 << 31)
FIRST_ROWS = 256
"""So many rows are judged first, if not more of them have the lowest priority."""
MORE_ROWS = 8
"""So many times more are judged in each step as in the one before."""


class SumsDecide(msgspec.Struct, frozen=True):
    """The filters of an attempt, where sums decide on most rows: one filter compares them, and the others say the same
    whichever pods leave, as long as none of those counts."""

    demand: ResourceDemand
    fixed: tuple[int, ...]
    """Indexes of filters that read nothing of pods."""
    counting: tuple[FilterPlugin, ...]
    """Filters that count some pods."""
    counted: Flags | None
    """The rows with such pods; None: there are no such filters."""


def sums_decide(attempt: Attempt, nominated: NominatedLoad) -> SumsDecide | None:
    """None: more than sums decides everywhere."""
    context, demand = attempt.context, None
    fixed, counting = [], []
    counted: Flags | None = None
    for index, plugin in active_filters(attempt):
        reads = attempt.runner.filter_reads[index]
        if reads <= Reads.NODE:
            fixed.append(index)
        elif reads is Reads.TOTALS and demand is None:
            demand = demand_of(plugin, context)
            if demand is None:
                return None
        else:
            rows = counted_rows(plugin, context, context.nodes.tallies)
            if rows is None:
                return None
            counted = rows if counted is None else counted | rows
            counting.append(plugin)
    if counted is not None and nominated:
        counted = counted | rows_beyond_sums(attempt, nominated)
    return SumsDecide(demand, tuple(fixed), tuple(counting), counted) if demand is not None else None


def passing_rows(attempt: Attempt, fixed: Sequence[int]) -> Flags:
    """The rows that the filters with these indexes let pass, which read nothing of pods."""
    nodes = attempt.context.nodes
    passes = nodes.alive[: nodes.height].copy()
    for index in fixed:
        codes = attempt.kept_codes(index)
        if codes is not None:
            passes &= codes[: len(passes)] == 0
    return passes


class Survey(msgspec.Struct):
    """Some rows, with what sums say of each: whether it can be a candidate, and its most important victim."""

    rows: RowArray
    room: Room
    start_ns: Ints
    """When pods started: positions x all rows of the table."""
    first: Ints
    """The position of the most important victim; behind the last pod if there need be none."""
    can_fit: Flags
    """Where the pod fits with all lower pods gone, and there are some."""

    def least_harmful(self, among: Flags) -> tuple[RowArray, tuple[int, int, int, int]]:
        """The rows that are equal by all measures, after each has kept its best; and these measures, those of HARMS
        without the first. `among` are the candidates, at least one."""
        left = np.flatnonzero(among)
        highest = self.room.priority[self.first[left], left]
        high = int(highest.min())
        left = left[highest == high]
        first = self.first[left]
        total, number = harm_after(self.room.part(left), first)
        best = np.flatnonzero(total == total.min())
        best = best[number[best] == number[best].min()]
        rows = self.rows[left[best]]
        started = -self.start_ns[first[best], rows]
        earliest, one = int(started.min()), best[0]
        return rows[started == earliest], (high, int(total[one]), int(number[one]), earliest)


class Choice(msgspec.Struct, frozen=True):
    """A candidate. The one with the least harm wins: kept_dry_run.HARMS, and last what the name of the node says."""

    harm: tuple[int, ...]
    row: int
    victims: tuple[Pod, ...] | None = None
    """None: they follow from sums, and are worked out for the winner alone."""


class LeastHarm:
    """Finds the least harmful candidate for one pod."""

    def __init__(self, failure: RejectedAttempt, ranks: PodRanks, filters: SumsDecide, alone: NodeDryRun) -> None:
        self._failure = failure
        self._attempt = failure.attempt
        self._pod = failure.attempt.context.pod
        self._nodes = ranks.nodes
        self._ranks = ranks
        self._filters = filters
        self._alone = alone

    def nominate(self, is_curable: Flags, kept: KeptHarm) -> Nomination | None:
        """The least harmful of the curable rows, with its victims; None: there is no candidate.

        `kept` is for pods of this shape and priority.
        """
        is_beyond_sums = self._filters.counted is not None or self._alone.has_budgets
        touched = kept.touched()
        if is_beyond_sums:
            kept.drop()
        elif touched is not None:
            try:
                row = self._best_kept(kept, touched, is_curable)
                return None if row is None else self._nomination(Choice((), row))
            except LookupError:
                pass  # most of what is kept does not concern this pod
        choice = self._best_of(is_curable)
        return None if choice is None else self._nomination(choice)

    def _best_of(self, is_curable: Flags) -> Choice | None:
        """The best of the curable rows; None: none of them is a candidate.

        The most important victim on a row has at least the lowest priority there. So rows are judged from the lowest of these
        priorities on, and no longer where it is above that of the most important victim of the best candidate so far.
        """
        lowest = np.where(is_curable, self._ranks.lowest[: len(is_curable)], NO_POD)
        crowd = crowd_beside(self._attempt) if self._failure.nominated else None
        beyond_sums = self._rows_beyond_sums()
        best: Choice | None = None
        most, number = self._pod.priority - 1, FIRST_ROWS
        least = int(lowest.min(initial=NO_POD))
        while least <= most:
            # Where no pod has to break a budget, a row with a lower pod may be better than the best so far.
            rows = _lowest_rows(lowest, least, most, len(lowest) if best is not None and not best.harm[0] else number)
            best, number = self._best_among(self.survey(rows, crowd), beyond_sums, best), number * MORE_ROWS
            lowest[rows] = NO_POD
            if best is not None and not best.harm[0]:
                most = best.harm[1]
            least = int(lowest.min()) if least < most else NO_POD
        return best

    def _best_among(self, survey: Survey, beyond_sums: Flags | None, best: Choice | None) -> Choice | None:
        """The best of these rows and of the best so far."""
        if not survey.can_fit.any():
            return best
        found = self._best_by_sums(survey, beyond_sums)
        if found is not None and (best is None or found.harm < best.harm):
            best = found
        return best if beyond_sums is None else self._best_beyond_sums(survey, beyond_sums, best)

    def _nomination(self, choice: Choice) -> Nomination:
        victims = self._victims_on(choice.row) if choice.victims is None else choice.victims
        return nominate(self._nodes.names[choice.row], victims, choice.harm[0] if choice.harm else 0)

    def _rows_beyond_sums(self) -> Flags | None:
        """Rows on which more than sums decides who has to leave; None: there are none."""
        counted, budgeted = self._filters.counted, self._alone.budgeted_rows()
        if counted is None or budgeted is None:
            return budgeted if counted is None else counted
        return counted | budgeted

    def survey(self, rows: RowArray, crowd: Crowd | None) -> Survey:
        """Judge these rows by sums, and by the filters that read nothing of pods."""
        height = self._nodes.height
        # Hot: slices are read several times as fast as single rows, so with most rows wanted all of them are judged.
        is_most = 2 * len(rows) > height
        room = room_on(self._ranks, self._filters.demand, crowd, slice(0, height) if is_most else rows)
        first = can_stay(room.held, room.limits, room.most_pods)
        if room.priority[:1].max(initial=LEAST_PRIORITY) < self._pod.priority:  # all pods of all these rows are lower
            can_fit = (first >= 0) & (room.count > 0)
        else:
            leaving = (room.priority < self._pod.priority).view(np.int8).sum(0, dtype=np.int64)
            can_fit = (first >= room.count - leaving) & (leaving > 0)
        if is_most:
            wanted = np.zeros(height, np.bool_)
            wanted[rows] = True
            can_fit &= wanted
            rows = np.arange(height)
        can_fit &= passing_rows(self._attempt, self._filters.fixed)[rows]
        return Survey(rows, room, self._ranks.start_ns, first, can_fit)

    # ---- where sums decide

    def _best_by_sums(self, survey: Survey, beyond_sums: Flags | None) -> Choice | None:
        """The best of the rows on which no pod counts."""
        among = survey.can_fit & (survey.first < survey.room.count)
        if beyond_sums is not None:
            among &= ~beyond_sums[survey.rows]
        if self._filters.counting and among.any():
            places = np.flatnonzero(among)
            for plugin in self._filters.counting:
                codes = ask_filter(plugin, self._attempt.context, survey.rows[places])
                if codes is not None:
                    places = places[codes == 0]
            among = np.zeros(len(among), np.bool_)
            among[places] = True
        if not among.any():
            return None
        rows, measures = survey.least_harmful(among)
        by_name = self._nodes.name_rank()[rows]
        place = by_name.argmax() if measures[-1] == -NOT_STARTED_NS else by_name.argmin()
        return Choice((0, *measures, name_key(int(by_name[place]), -measures[-1])), int(rows[place]))

    def _victims_on(self, row: int) -> tuple[Pod, ...]:
        """The victims on a candidate, the most important first."""
        pods = self._ranks.pods(row)
        positions = victims_on(
            self._ranks, row, self._pod.priority, self._filters.demand, self._failure.nominated, self._pod.id
        )
        assert positions is not None, "the row is a candidate"
        return tuple(pods[position] for position in positions)

    # ---- where more than sums decides

    def _best_beyond_sums(self, survey: Survey, beyond_sums: Flags, best: Choice | None) -> Choice | None:
        """Try the rows beyond sums one by one, as long as one of them may be better than the best so far."""
        places = np.flatnonzero(survey.can_fit & beyond_sums[survey.rows])
        if not len(places):
            return best
        rows = survey.rows[places]
        least = self.least_harm(survey.room.part(places), survey.first[places], rows)
        # The last key of lexsort is the first to sort by.
        for place in np.lexsort(least[::-1]).tolist():
            if best is not None and (0, *(int(measure[place]) for measure in least)) > best.harm:
                break
            row = int(rows[place])
            found = self._alone.harm_on(row)
            if found is None:
                continue
            victims, harm = found
            harm = (*harm, name_key(int(self._nodes.name_rank()[row]), -harm[-1]))
            if best is None or harm < best.harm:
                best = Choice(harm, row, victims)
        return best

    def least_harm(self, room: Room, first: Ints, rows: RowArray) -> tuple[Ints, ...]:
        """By row: measures that the harm there cannot be below, those of kept_dry_run.HARMS without the first, and the name.

        Whatever else decides, pods that do not fit by sums do not fit. So of the pods up to the first that cannot stay by
        sums one has to leave, and the most important victim has at least that one's priority. The other victims have at
        least the lowest priority of the row, and no victim started later than all lower pods.
        """
        last = np.maximum(room.count - 1, 0)
        highest = np.where(first <= last, room.priority[np.minimum(first, last), range(len(rows))], LEAST_PRIORITY)
        lower = room.priority < self._pod.priority
        number = fewest_leaving(room, lower)
        lowest = np.where(lower, room.priority, self._pod.priority).min(0, initial=self._pod.priority)
        total = highest + PRIORITY_OFFSET + (number - 1) * (lowest + PRIORITY_OFFSET)
        start_ns = self._ranks.start_ns[: len(lower), rows]
        started = np.where(lower, start_ns, -NOT_STARTED_NS).max(0, initial=-NOT_STARTED_NS)
        ranks = self._nodes.name_rank()[rows]
        return highest, total, number, -started, np.where(started == NOT_STARTED_NS, -ranks, ranks)

    # ---- what is kept for pods of one shape

    def _best_kept(self, kept: KeptHarm, touched: list[int], is_curable: Flags) -> int | None:
        """Find the row with the least harm from the kept heap, after the touched rows are judged again. The row of the pod's
        own nomination is judged separately."""
        nominated, demand = self._failure.nominated, self._filters.demand
        if kept.is_kept:
            try:
                kept.judge_again(touched, demand, nominated)
            except BaseException:
                kept.drop()
                raise
        else:
            kept.keep(self._all_harm(), passing_rows(self._attempt, self._filters.fixed))
        own = nominated.node_of(self._pod.id)
        own_row = self._nodes.row_book.get(own) if own is not None else None
        found = kept.least(is_curable, own_row)
        if own_row is not None and is_curable[own_row]:
            # For other pods its nomination takes room there, for itself it does not.
            harm = kept.harm_on(own_row, demand, nominated, self._pod.id)
            found = found if harm is None else min(found or (harm, own_row), (harm, own_row))
        return None if found is None else found[1]

    def _all_harm(self) -> dict[int, Harm]:
        """The harm of every candidate, for any pod of this shape and priority."""
        nominated, height = self._failure.nominated, self._nodes.height
        crowd = nominated.crowd_from(self._pod.priority) if nominated else None
        survey = self.survey(np.arange(height), crowd)
        left = np.flatnonzero(survey.can_fit & (survey.first < survey.room.count))
        if not len(left):
            return {}
        first = survey.first[left]
        total, number = harm_after(survey.room.part(left), first)
        started = survey.start_ns[first, survey.rows[left]].tolist()
        ranks = self._nodes.name_rank()[left].tolist()
        highest = survey.room.priority[first, left].tolist()
        names = (name_key(rank, start) for rank, start in zip(ranks, started, strict=True))
        harms = zip(highest, total.tolist(), number.tolist(), (-start for start in started), names, strict=True)
        return dict(zip(left.tolist(), harms, strict=True))


def _lowest_rows(lowest: Ints, least: int, most: int, number: int) -> RowArray:
    """The rows with the lowest priorities, from `least` up to `most`: so many of them, and all that are equal to the last of
    these."""
    rows = np.flatnonzero(lowest == least)
    if len(rows) >= number:
        return rows
    up_to = most if number >= len(lowest) else min(most, int(np.partition(lowest, number - 1)[number - 1]))
    return np.flatnonzero(lowest <= up_to)


def is_small(ranks: PodRanks) -> bool:
    """Whether no row has so many pods that their sums may be inexact."""
    return len(ranks.priority) <= MOST_POSITIONS
