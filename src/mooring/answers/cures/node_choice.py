"""Cures by allowing more nodes: tolerations, the node selector, and the required node affinity."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from mooring.answers.cures.cure import CHANGE_RULE, TOLERATE, Patient
from mooring.answers.cures.relaxation import PodChange, Relaxation, with_spec
from mooring.answers.explain.obstacles import show_requirement, show_taint
from mooring.answers.new_nodes import STATE_TAINTS
from mooring.cluster.nodes.table import NodeTable
from mooring.model.meta import Requirement
from mooring.model.node import HARD_EFFECTS, Taint
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm, Toleration

MAX_TAINT_SETS = 40
"""How many different sets of taints are tried, those of most nodes first."""
MAX_LINES = 40
"""How many lines of the selection are tried one by one."""


class Tolerate(Relaxation):
    """Taints that the pod does not tolerate."""

    def relax(self, pod: Pod) -> Pod | None:
        return _tolerating(pod, [Toleration(operator="Exists")])

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        for taints in _taint_sets(patient.trials.cluster.nodes, pod):
            change = _toleration_of(taints)
            if patient.node_for(change.apply(pod)) is not None:
                yield change


def _taint_sets(nodes: NodeTable, pod: Pod) -> list[frozenset[Taint]]:
    """The sets of taints that keep the pod from nodes, the smallest first, then those of most nodes."""
    counts: Counter[frozenset[Taint]] = Counter()
    for node in nodes.nodes:
        for_pod = (node.spec.taints or ()) if node is not None else ()
        hard = frozenset(t for t in for_pod if t.effect in HARD_EFFECTS and not pod.shape.tolerance.covers(t))
        # A node that is not ready or cordoned is mended, not tolerated.
        if hard and not any(taint.key.startswith(STATE_TAINTS) for taint in hard):
            counts[hard] += 1
    return sorted(counts, key=lambda taints: (len(taints), -counts[taints], sorted(map(show_taint, taints))))[
        :MAX_TAINT_SETS
    ]


def _toleration_of(taints: frozenset[Taint]) -> PodChange:
    ordered = sorted(taints, key=show_taint)
    tolerations = [Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in ordered]
    text = f"tolerate the taint {' and '.join(map(show_taint, ordered))}"
    return PodChange("tolerate", text, TOLERATE * len(ordered), lambda pod: _tolerating(pod, tolerations))


def _tolerating(pod: Pod, more: list[Toleration]) -> Pod:
    return with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), *more])


class WidenSelection(Relaxation):
    """The node selector and the required node affinity."""

    def relax(self, pod: Pod) -> Pod | None:
        if not pod.spec.node_selector and _required(pod) is None:
            return None
        return _with_required(with_spec(pod, node_selector=None), None)

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """Each line alone: another value that helps, and without it. Everything together if no line alone helps."""
        is_found = False
        for change in [*_selector_lines(pod), *_affinity_lines(pod)][:MAX_LINES]:
            node = patient.node_for(change.apply(pod))
            if node is not None:
                is_found = True
                yield from self._widened(patient, pod, change, node)
                yield change
        everything = self.relax(pod)
        if not is_found and everything is not None and patient.node_for(everything) is not None:
            text = "drop the node selector and the required node affinity"
            yield PodChange("drop-selection", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)

    def _widened(self, patient: Patient, pod: Pod, dropped: PodChange, node: str) -> Iterator[PodChange]:
        """Instead of dropping a line of the node selector, the value that the node has which the pod would get without it.

        The node takes the pod with that value as well, so nothing has to be tried.
        """
        key = dropped.text.removeprefix(_DROP_SELECTOR).partition("=")[0]
        row = patient.trials.cluster.nodes.row_book.get(node)
        found = patient.trials.cluster.nodes.nodes[row] if row is not None else None
        value = found.labels.get(key) if found is not None else None
        if not dropped.text.startswith(_DROP_SELECTOR) or value is None:
            return
        yield _another_value(key, value, (pod.spec.node_selector or {})[key])


_DROP_SELECTOR = "drop the node selector "


def _selector_lines(pod: Pod) -> Iterator[PodChange]:
    """The pod without one line of its node selector."""
    for key, value in (pod.spec.node_selector or {}).items():
        yield PodChange("drop-selector", f"{_DROP_SELECTOR}{key}={value}", CHANGE_RULE, _without_key(key))


def _without_key(key: str) -> Callable[[Pod], Pod]:
    def apply(pod: Pod) -> Pod:
        left = {other: value for other, value in (pod.spec.node_selector or {}).items() if other != key}
        return with_spec(pod, node_selector=left or None)

    return apply


def _another_value(key: str, value: str, old: str) -> PodChange:
    def apply(pod: Pod) -> Pod:
        return with_spec(pod, node_selector={**(pod.spec.node_selector or {}), key: value})

    return PodChange("change-selector", f"select {key}={value} instead of {key}={old}", CHANGE_RULE - 1, apply)


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None


def _with_required(pod: Pod, required: NodeSelector | None) -> Pod:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=node_affinity))


def _affinity_lines(pod: Pod) -> Iterator[PodChange]:
    """The pod without one expression of one term. A term that loses its last one is dropped; without terms, all of it."""
    required = _required(pod)
    for t, term in enumerate(required.node_selector_terms or () if required is not None else ()):
        lines = [*(term.match_expressions or ()), *(term.match_fields or ())]
        for i, line in enumerate(lines):
            text = show_requirement(line.key, line.operator, line.values or ())
            yield PodChange(
                "drop-affinity", f"drop the required node affinity {text}", CHANGE_RULE, _without_line(t, i)
            )


def _without_line(number: int, index: int) -> Callable[[Pod], Pod]:
    def apply(pod: Pod) -> Pod:
        required = _required(pod)
        terms = list(required.node_selector_terms or ()) if required is not None else []
        if number >= len(terms):
            return pod
        kept = _term_without(terms[number], index)
        if kept is None:
            return _with_required(pod, None)  # a term that asks for nothing would match every node
        terms[number] = kept
        return _with_required(pod, NodeSelector(terms))

    return apply


def _term_without(term: NodeSelectorTerm, index: int) -> NodeSelectorTerm | None:
    """None if nothing is left of the term."""
    expressions: list[Requirement] = list(term.match_expressions or ())
    fields: list[Requirement] = list(term.match_fields or ())
    if index < len(expressions):
        del expressions[index]
    elif index - len(expressions) < len(fields):
        del fields[index - len(expressions)]
    return NodeSelectorTerm(expressions or None, fields or None) if expressions or fields else None
