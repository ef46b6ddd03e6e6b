"""NodeAffinity: required and preferred node affinity, nodeSelector, and affinity that a profile adds to every pod."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mooring.cluster.columns.kernels import scale_to_max
from mooring.cluster.nodes.match import match_labels, match_nodes, match_term
from mooring.framework.config.args import NodeAffinityArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, Action, Change, ClusterEvent, Registration, new_node_of, nodes_of
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    NodeNames,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    reads,
)
from mooring.framework.contract.status import SKIP, PluginError, Rejection, Skip, final
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeSelectorTerm
from mooring.model.selectors import NodeMatcher, NodeTerm, aggregated, compile_node_selector, compile_node_term
from mooring.model.shape import PodPart, PodShape

# Codes of `filter`: the profile's addedAffinity is checked first upstream, so its code wins over the pod's own.
_NOT_ENFORCED, _NOT_WANTED = 1, 2


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """The pod's own terms are compiled with its shape; those of the profile are compiled once, here."""

    name = "NodeAffinity"
    skips_resizes = True
    is_same_in_all_profiles = True
    reads_other_nodes = False

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        added = args.added_affinity if isinstance(args, NodeAffinityArgs) else None
        self._added_required: NodeMatcher | None = None
        self._added_preferred: list[tuple[int, NodeTerm]] = []
        self._adds_preferences = added is not None and bool(added.preferred)
        """Parity: terms that match no node count here, too: Score runs for them, and gives every node 0."""
        if added is not None and added.required is not None:
            self._added_required = compile_node_selector(added.required)
        for i, preferred in enumerate((added.preferred if added else None) or ()):
            term = compile_node_term(preferred.preference, f"[{i}]") if preferred.weight else None
            if term is not None:
                self._added_preferred.append((preferred.weight, term))
        wrong = {
            "required": self._added_required.faults() if self._added_required else [],
            "preferred": [fault for _, term in self._added_preferred for fault in term.faults],
        }
        for kind, faults in wrong.items():
            if faults:
                raise ValueError(
                    f"parsing addedAffinity.{kind}DuringSchedulingIgnoredDuringExecution: {aggregated(faults)}"
                )

    def events(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_wanted),)

    def _node_wanted(self, pod: Pod, change: Change) -> bool:
        """Queueing hint: whether the pod wants the node as it is now, and did not before.

        Parity: what the profile adds is checked only for the node as it is now, so the hint misses a node that the pod
        always wanted and that the profile admits only now.
        """
        (old, _), new, shape = nodes_of(change), new_node_of(change), pod.shape
        if self._added_required is not None and not self._added_required.matches(new.name, new.labels):
            return False
        if not _wants(shape, new):
            return _is_in_doubt(shape, new)
        return old is None or not _wants(shape, old)

    @reads(Reads.SHAPE, PodPart.NODE_SELECTION)
    def pre_filter(self, context: SchedulingContext) -> NodeNames | Rejection | Skip | None:
        """The only node names that can match, where every term restricts metadata.name; terms are alternatives, so one
        term without names leaves all nodes.

        Reads.SHAPE is right: the answer comes from the affinity in the pod's spec and the profile's arguments alone.
        """
        shape = context.shape
        required = shape.node_affinity.required if shape.node_affinity else None
        if required is None:
            return SKIP if shape.node_selector is None and self._added_required is None else None
        if not required.node_selector_terms:
            return None
        names: set[str] = set()
        for term in required.node_selector_terms:
            named = _names_of(term)
            if named is None:
                return None
            names |= named
        return NodeNames(frozenset(names)) if names else final("pod affinity terms conflict")

    @reads(Reads.NODE, PodPart.NODE_SELECTION)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """nodeSelector and all of required affinity must match, and so must the profile's.

        Reads.NODE is right: selectors see the labels and the name of the node and nothing else.
        """
        nodes, shape = context.nodes, context.shape
        wanted = np.ones(len(nodes.alive[rows]), np.bool_)
        if shape.node_selector:
            wanted &= match_labels(nodes, shape.node_selector, rows)
        if shape.required_nodes is not None:
            wanted &= match_nodes(nodes, shape.required_nodes, rows)
        codes = np.where(wanted, 0, _NOT_WANTED)
        if self._added_required is not None:
            codes[~match_nodes(nodes, self._added_required, rows)] = _NOT_ENFORCED
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code == _NOT_ENFORCED:
            return final("node(s) didn't match scheduler-enforced node affinity")
        return final("node(s) didn't match Pod's node affinity/selector")

    @reads(Reads.SHAPE, PodPart.NODE_SELECTION)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """SKIP without preferred terms. Reads.SHAPE is right: only the terms and the profile decide. Terms that do not
        compile fail the attempt, as upstream."""
        if context.shape.preferred_nodes is None and not self._adds_preferences:
            return SKIP
        _preferred(context)
        return None

    @reads(Reads.NODE, PodPart.NODE_SELECTION)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """The sum of the weights of the preferred terms that match. Reads.NODE is right for the same reason as in
        `filter`."""
        total = np.zeros(len(context.nodes.alive[rows]), np.int64)
        for weight, term in (*_preferred(context), *self._added_preferred):
            total += weight * match_term(context.nodes, term, rows)
        return total

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        return scale_to_max(scores)


def _preferred(context: SchedulingContext) -> tuple[tuple[int, NodeTerm], ...]:
    """The preferred terms of the pod. Terms that do not compile fail the attempt: at PreScore, or at Score in a profile
    without it."""
    preferred = context.shape.preferred_nodes or ()
    faults = [fault for _, term in preferred for fault in term.faults]
    if faults:
        raise PluginError(aggregated(faults))
    return preferred


def _wants(shape: PodShape, node: Node) -> bool:
    """Whether nodeSelector and required affinity match a node."""
    required = shape.required_nodes
    return _has_labels(shape, node) and (required is None or required.matches(node.name, node.labels))


def _is_in_doubt(shape: PodShape, node: Node) -> bool:
    """Whether a node is rejected for a term that does not compile, and not for its labels. A hint that cannot tell says
    yes."""
    return _has_labels(shape, node) and shape.required_nodes is not None and bool(shape.required_nodes.faults())


def _has_labels(shape: PodShape, node: Node) -> bool:
    labels = node.labels
    return all(labels.get(key) == value for key, value in (shape.spec.node_selector or {}).items())


def _names_of(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that the fields of a term leave; None where they do not restrict names."""
    names: frozenset[str] | None = None
    for field in term.match_fields or ():
        if field.key == "metadata.name" and field.operator == "In":
            listed = frozenset(field.values or ())
            names = listed if names is None else names & listed
    return names


PLUGINS = (NodeAffinity,)
