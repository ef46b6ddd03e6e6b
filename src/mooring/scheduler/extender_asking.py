"""Questions to extenders in an attempt: which extenders are asked, and what they say to nodes, scores and victims."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.images import Images
from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, ScoreCard, Verdicts
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallFault, CallReply
from mooring.framework.contract.points import Rows, Victims
from mooring.framework.contract.status import Rejection, curable, final
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import NARROWED_OUT
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container
from mooring.scheduler.extender_replies import (
    FilterReply,
    MetaVictims,
    Unusable,
    filter_call,
    preempt_call,
    prioritize_call,
    read_filter,
    read_scores,
    read_victims,
)
from mooring.scheduler.extender_steps import Steps

# ---- Which scheduler extenders are asked about a pod, and in which order.


class InterestedExtenders(msgspec.Struct, frozen=True):
    """The extenders that are interested in one pod, in the order in which they are asked."""

    extenders: tuple[Extender, ...]
    report: Callable[[str], None] = lambda text: None
    """Receives a line about an ignorable extender that failed."""
    tell: Callable[[str], None] = lambda text: None
    """Receives lines for the story of the pod."""

    @property
    def reviews_victims(self) -> bool:
        """Whether one of them takes part in the choice of victims (preemptVerb)."""
        return any(extender.preempt_verb for extender in self.extenders)

    def skip(self, text: str, extender: Extender, fault: object) -> None:
        """Report that an ignorable extender failed and is passed over."""
        self.report(f"{text}: extender {extender.shown_url}: {fault}")


def in_asking_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Parity: ignorable extenders come after the others, otherwise the order is that of the configuration."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def interested_in(extenders: Iterable[Extender], pod: Pod) -> tuple[Extender, ...]:
    """The extenders that take part in attempts for this pod, in their order."""
    return tuple(extender for extender in extenders if is_interested(extender, pod))


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Whether a container requests or limits a resource that the extender manages. An extender that manages none
    takes part for all pods."""
    managed = {resource.name for resource in extender.managed_resources}
    if not managed:
        return True
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return any(not managed.isdisjoint(_named(container)) for container in containers)


def _named(container: Container) -> set[str]:
    """The resources that a container requests or limits."""
    resources = container.resources
    return set() if resources is None else {*(resources.requests or ()), *(resources.limits or ())}


# ---- Extenders review preemption: each may drop candidate nodes, and change the victims on the others.


SKIPPED_IN_REVIEW = "Skipped extender as it returned error and has ignorable flag set"
IGNORED_NODE = "Ignored node for which the extender didn't report victims"


def review(
    interested: InterestedExtenders, pod: Pod, nodes: NodeTable, victims: Mapping[str, Victims]
) -> Steps[Mapping[str, Victims] | CallFault]:
    """The victims by node after all extenders with a preemptVerb have reviewed them; a fault if one fails that is not
    ignorable.

    Parity: a node without victims ends preemption with an error, unless the extender is ignorable: then the node is
    dropped.
    """
    for extender in interested.extenders:
        if not extender.preempt_verb:
            continue
        (reply,) = yield (preempt_call(extender, pod, victims),)
        try:
            victims = {name: _found(extender, name, meta, nodes) for name, meta in read_victims(reply).items()}
        except Unusable as fault:
            if not extender.ignorable:
                return CallFault(str(fault))
            interested.skip(SKIPPED_IN_REVIEW, extender, fault)
            continue
        empty = [name for name, on in victims.items() if not on.pods]
        if empty and not extender.ignorable:
            return CallFault(f'expected at least one victim pod on node "{empty[0]}"')
        for name in empty:
            interested.skip(IGNORED_NODE, extender, f"node {name}")
        victims = {name: on for name, on in victims.items() if on.pods}
        if not victims:
            break
    return victims


def _found(extender: Extender, name: str, meta: MetaVictims, nodes: NodeTable) -> Victims:
    """The pods that are meant, in the order in which the extender gave them."""
    row = nodes.row_book.get(name)
    if row is None or not nodes.alive[row]:
        raise Unusable(f'nodeinfo not found for node name "{name}"')
    there = {pod.id: pod for pod in nodes.pods_on[row]}
    for uid in meta.uids:
        if uid not in there:
            raise Unusable(
                f"extender: {extender.shown_url} claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not "
                "found on that node"
            )
    return Victims(tuple(there[uid] for uid in meta.uids), meta.violations)


# ---- Scores by extenders: all are called at once, and their scores are added to those of the plugins.


MAX_EXTENDER_SCORE = 10
"""Upstream's MaxExtenderPriority: scores are scaled from 0..10 to the plugins' 0..100. Parity: the range is not
checked."""
NO_SCORE = "Failed to run extender's priority function. No score given by this extender."
"""Upstream's log message. An extender that fails to score never fails the attempt."""


def add_scores(
    interested: InterestedExtenders, attempt: Attempt, card: ScoreCard, explain: bool = False
) -> Steps[NDArray[np.bool_]]:
    """Add what extenders give. Returns a mask of the places on the card that one of them scored.

    Parity: those win ties against the others. An extender without a prioritizeVerb counts as having scored every node.
    """
    nodes, pod = attempt.context.nodes, attempt.context.pod
    if not attempt.runner.scores:
        card.totals[:] = 0  # Parity: nodes are worth 1 each only if neither plugins nor extenders score them
    rows: list[int] = np.arange(nodes.height)[card.rows].tolist()
    scoring = [extender for extender in interested.extenders if extender.prioritize_verb]
    spoken_of = np.full(len(rows), len(scoring) < len(interested.extenders), np.bool_)
    calls = tuple(prioritize_call(extender, pod, nodes, rows) for extender in scoring)
    replies = (yield calls) if calls else []
    places = {nodes.names[row]: place for place, row in enumerate(rows)}
    for extender, reply in zip(scoring, replies, strict=True):
        try:
            given = _weighed(extender, reply, places, spoken_of)
        except Unusable as fault:
            interested.tell(f"{NO_SCORE} extender {extender.shown_url}: {fault}")
            continue
        card.totals += given
        if explain:
            card.by_plugin[extender.shown_url] = given
    return spoken_of


def _weighed(
    extender: Extender, reply: CallReply, places: dict[str, int], spoken_of: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The scores of an extender for each place, on the plugins' scale. Nodes that were not asked about are left out."""
    given = [0] * len(places)
    for host, score in read_scores(reply):
        place = places.get(host)
        if place is not None:
            given[place] += score * extender.weight * (MAX_SCORE // MAX_EXTENDER_SCORE)
            spoken_of[place] = True
    return np.array([_wrapped(total) for total in given], np.int64)


def _wrapped(number: int) -> int:
    """Parity: upstream adds int64 without checks, so a sum that does not fit into 64 bits wraps around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


# ---- Filtering by extenders: one after another, each on the nodes that the ones before it left.
#
# Extenders come after the Filter plugins and see only nodes that these let pass. Each may drop nodes with a reason, and
# say whether preemption could help there (failed) or not (unresolvable).


RowArray = NDArray[np.intp]

SKIPPED = "Skipping extender as it returned error and has ignorable flag set"
"""Upstream's log message."""


class Left(msgspec.Struct, frozen=True):
    """The rows that every extender let pass."""

    rows: RowArray
    are_bare: bool = False
    """Whether an extender gave them back whole, so that no more is known of them (`on_bare_nodes`)."""


def passing(
    interested: InterestedExtenders, attempt: Attempt, verdicts: Verdicts, feasible: Rows
) -> Steps[tuple[RowArray, Attempt]]:
    """The feasible rows that every extender lets pass, and the attempt that scores them. The verdicts are brought in line.

    Raises AttemptError where an extender fails that must not.
    """
    nodes = attempt.context.nodes
    before: RowArray = np.arange(nodes.height)[feasible]
    left = yield from _ask_all(interested, attempt, before, verdicts.objections)
    _settle(verdicts, nodes, before, left.rows)
    return left.rows, on_bare_nodes(attempt, left.rows) if left.are_bare else attempt


def still_passes(
    interested: InterestedExtenders, attempt: Attempt, objections: dict[str, Rejection], row: int
) -> Steps[bool]:
    """Whether extenders agree to the node that the pod is nominated to, when they are asked about it alone. Their reasons
    against it are added to `objections`.

    Parity: a failure of an extender here is no reason to give up: the attempt goes on with all nodes.
    """
    try:
        left = yield from _ask_all(interested, attempt, np.array([row], np.intp), objections)
    except AttemptError as fault:
        interested.report(f"Evaluation failed on nominated node {attempt.context.nodes.names[row]}: {fault}")
        return False
    return bool(np.array_equal(left.rows, [row]))


def _ask_all(
    interested: InterestedExtenders, attempt: Attempt, rows: RowArray, objections: dict[str, Rejection]
) -> Steps[Left]:
    """The rows that every extender lets pass. Their reasons against other nodes are added to `objections`.

    Raises AttemptError if an extender fails that is not ignorable.
    """
    nodes, are_bare = attempt.context.nodes, False
    for extender in interested.extenders:
        if not len(rows):
            break
        if not extender.filter_verb:
            continue
        (reply,) = yield (filter_call(extender, attempt.context.pod, nodes, rows.tolist()),)
        try:
            read = read_filter(reply)
            rows = _left(extender, read, nodes, rows)
        except Unusable as fault:
            if not extender.ignorable:
                raise AttemptError(str(fault)) from None
            interested.skip(SKIPPED, extender, fault)
        else:
            _note(read, objections)
            are_bare = are_bare or not _goes_by_names(extender, read)
    return Left(rows, are_bare)


def _settle(verdicts: Verdicts, nodes: NodeTable, before: RowArray, after: RowArray) -> None:
    """Bring the verdicts in line with what extenders said of the nodes that filters had let pass.

    NARROWED_OUT means: rejected, but by no filter whose reason could be looked up. The reason is in `objections`, if
    there is one.
    """
    verdicts.is_thinned = len(after) != len(before)
    verdicts.first = verdicts.first.copy()
    verdicts.first[np.setdiff1d(before, after)] = NARROWED_OUT
    for name in verdicts.objections:
        row = nodes.row_book.get(name)
        if row is not None:
            verdicts.first[row] = NARROWED_OUT


def _left(extender: Extender, read: FilterReply, nodes: NodeTable, rows: RowArray) -> RowArray:
    """The rows that the reply names."""
    if _goes_by_names(extender, read):
        asked = {nodes.names[row]: row for row in rows.tolist()}
        for name in read.node_names or ():
            if name not in asked:
                raise Unusable(
                    f'extender "{extender.shown_url}" claims a filtered node "{name}" which is not found in the input '
                    "node list"
                )
        return _distinct(asked[name] for name in read.node_names or ())
    # Parity: whole nodes are taken as they come, asked about or not. Nodes that the table does not know are left out:
    # upstream would bind the pod to them.
    known = (nodes.row_book.get(name) for name in read.nodes or ())
    return _distinct(row for row in known if row is not None and nodes.alive[row])


def _goes_by_names(extender: Extender, read: FilterReply) -> bool:
    """Parity: an extender that knows the cluster (nodeCacheCapable) answers with names; if it did not, upstream
    falls back to the whole nodes."""
    return extender.node_cache_capable and read.node_names is not None


def _distinct(rows: Iterable[int]) -> RowArray:
    """Rows without repetitions, in the order of the reply."""
    return np.fromiter(dict.fromkeys(rows), np.intp)


def _note(read: FilterReply, objections: dict[str, Rejection]) -> None:
    """Parity: what an extender says of a node replaces what was said of it before, by filters too."""
    for name, reason in read.failed.items():
        objections[name] = curable(reason)
    for name, reason in read.unresolvable.items():
        objections[name] = final(reason)


# ---- Nodes that came back whole from an extender are scored bare: without their pods and their images
#
# Parity: upstream builds them anew from what it was sent; only nodes that extenders name keep what was known of them.


def on_bare_nodes(attempt: Attempt, rows: NDArray[np.intp]) -> Attempt:
    """A copy of the attempt, for scoring, on nodes as an extender knows them."""
    context = attempt.context.on(_bare(attempt.context.nodes, rows), attempt.context.state)
    return type(attempt)(attempt.runner, context, attempt.runner.forgetful_memo())


def _bare(nodes: NodeTable, rows: NDArray[np.intp]) -> NodeTable:
    """A sketch with nothing on these rows. What is counted over all nodes by their labels stays as it is."""
    bare = nodes.sketch()
    bare.amounts.scored = nodes.amounts.scored.copy()
    for matrix in (bare.amounts.requested, bare.amounts.scored):
        matrix[:, rows] = 0
    bare.pod_count[rows] = 0
    bare.images = Images()
    for row in rows.tolist():
        bare.pods_on[row] = []
    return bare
