"""Topology spread constraints as programs see them: how many pods of a kind the domains of a label may have."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.framework.attempts.attempt import Attempt
from mooring.model.pod import Pod
from mooring.model.well_known_labels import HOSTNAME
from mooring.plugins.affinity.pod_topology_spread import PodTopologySpread
from mooring.plugins.affinity.spread_constraints import SpreadConstraint
from mooring.plugins.affinity.spread_counts import SkewCheck

NO_DOMAIN = ""
"""Stands for an absent label."""
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class SpreadLimit:
    """A required constraint of a kind of pods that counts these pods themselves.

    In the end no domain has more pods than `max_skew` above the one with the fewest.
    """

    max_skew: int
    held: dict[str, int]
    """Pods that count already, by domain of the present nodes; domains without any have 0."""
    offers: dict[int, str]
    """By number of the offer: its domain."""
    domains: Sequence[str] = field(repr=False)
    """By row of the node table."""
    constraint: SpreadConstraint = field(repr=False)

    def most_above_lowest(self, domain: str) -> int:
        """How many pods a domain may get beyond the lowest count of all domains in the end; it may be negative.

        A domain that has more pods than the skew allows now keeps them, and gets one when the lowest count has risen enough.
        """
        return max(self.max_skew - self.held.get(domain, 0), -min(self.held.values(), default=0))

    def counts_pods_like(self, pod: Pod) -> bool:
        return pod.namespace == self.constraint.namespace and self.constraint.selector.matches(pod.labels)


def spread_limit(attempt: Attempt, samples: Sequence[int]) -> SpreadLimit | None:
    """The first constraint over domains that have several nodes. Others are left to the trials: a program may leave out a
    constraint, and is then only less exact."""
    for check in _checks(attempt):
        if check.itself and check.constraint.key != HOSTNAME and check.constraint.predicate is not None:
            codes = check.column.codes[: attempt.context.nodes.height].tolist()
            values = [value or NO_DOMAIN for value in check.column.values]
            present = {codes[row] for row in check.eligible.rows.tolist() if row not in samples and codes[row]}
            held = {values[code]: int(check.counts[code]) for code in sorted(present)}
            offers = {number: values[codes[row]] for number, row in enumerate(samples)}
            domains = [values[code] for code in codes]
            return SpreadLimit(check.constraint.max_skew, held, offers, domains, check.constraint)
    return None


def most_on_a_node(attempt: Attempt, samples: Sequence[int], room: Sequence[int]) -> int:
    """How many pods a constraint over host names lets one node have. `room` has how many of them each row of the node table
    can take: the lowest count of all nodes never exceeds what a present node has and can take."""
    found = _NO_LIMIT
    for check in _checks(attempt):
        if check.itself and check.constraint.key == HOSTNAME and check.constraint.predicate is not None:
            codes = check.column.codes
            rows = [row for row in check.eligible.rows.tolist() if row not in samples]
            held = [int(check.counts[codes[row]]) + room[row] for row in rows]
            if held:
                found = min(found, min(held) + check.constraint.max_skew)
    return max(found, 1)


def _checks(attempt: Attempt) -> Sequence[SkewCheck]:
    found = attempt.context.state.find((PodTopologySpread.name, "checks"))
    return found.checks if found is not None else ()
