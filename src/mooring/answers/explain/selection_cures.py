"""Cures by the choice of nodes: the node selector and the required node affinity of the pod, and labels of nodes."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice

import msgspec

from mooring.answers.explain.cure import CHANGE_NODE, CHANGE_RULE, OTHER_LABEL, CureChange, Patient, Relaxation
from mooring.answers.trial.counterfactual import with_spec
from mooring.answers.trial.reasons import show_requirement
from mooring.model.meta import Requirement
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm
from mooring.model.selectors import compile_node_term

MAX_LINES = 40
"""How many lines of the selection are tried one by one."""
MAX_LABELS = 5
"""How many labels a node gets in one change."""
_OWN_DOMAIN = "kubernetes.io/"
"""Labels with this in their key describe the node itself. People do not set them to make a pod fit."""


class WidenSelection(Relaxation):
    """The node selector and the required node affinity."""

    def relax(self, pod: Pod) -> Pod | None:
        if not pod.spec.node_selector and required_of(pod) is None:
            return None
        return _with_required(with_spec(pod, node_selector=None), None)

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """The pod without one of the lines."""
        yield from islice(chain(_selector_lines(pod), affinity_lines(pod)), MAX_LINES)

    def together(self, pod: Pod) -> CureChange:
        parts = ["the node selector"] if pod.spec.node_selector else []
        parts += ["the required node affinity"] if required_of(pod) is not None else []
        text = f"drop the whole of {' and '.join(parts)}"
        return CureChange("drop-selection", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)

    def instead(self, patient: Patient, change: CureChange, pod: Pod, node: str) -> Iterator[CureChange]:
        """Instead of dropping a line of the node selector, the value that the node has which the pod would get without it.

        The node takes the pod with that value as well, so nothing has to be tried.
        """
        key, nodes = change.dropped_key, patient.trials.cluster.nodes
        found = nodes.nodes[nodes.row_book[node]] if key and node in nodes.row_book else None
        value = found.labels.get(key) if found is not None else None
        if value is not None:
            yield _another_value(key, value, (pod.spec.node_selector or {})[key])
        yield change


# ---- the node selector


def _selector_lines(pod: Pod) -> Iterator[CureChange]:
    """The pod without one line of its node selector."""
    for key, value in (pod.spec.node_selector or {}).items():
        yield _dropped_line(key, value)


def _dropped_line(key: str, value: str) -> CureChange:
    return CureChange("drop-selector", f"drop the node selector {key}={value}", CHANGE_RULE, _without_key(key), key)


def _without_key(key: str) -> Callable[[Pod], Pod]:
    def apply(pod: Pod) -> Pod:
        left = {other: value for other, value in (pod.spec.node_selector or {}).items() if other != key}
        return with_spec(pod, node_selector=left or None)

    return apply


def _another_value(key: str, value: str, old: str) -> CureChange:
    def apply(pod: Pod) -> Pod:
        return with_spec(pod, node_selector={**(pod.spec.node_selector or {}), key: value})

    return CureChange("change-selector", f"select {key}={value} instead of {key}={old}", CHANGE_RULE - 1, apply)


# ---- the required node affinity


def required_of(pod: Pod) -> NodeSelector | None:
    """The required node affinity of the pod."""
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None


def _terms(pod: Pod) -> list[NodeSelectorTerm]:
    required = required_of(pod)
    return list(required.node_selector_terms or ()) if required is not None else []


def _lines(term: NodeSelectorTerm) -> list[Requirement]:
    return [*(term.match_expressions or ()), *(term.match_fields or ())]


def _with_required(pod: Pod, required: NodeSelector | None) -> Pod:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=node_affinity))


def affinity_lines(pod: Pod) -> Iterator[CureChange]:
    """The pod without one expression of one term. The last expression of a term is never dropped alone beside other terms:
    a term that asks for nothing matches no node, so without the term the pod would ask for the others."""
    terms = _terms(pod)
    for term in terms:
        lines = _lines(term)
        for line in lines if len(terms) == 1 or len(lines) > 1 else ():
            yield _dropped_requirement(term, line, len(terms) > 1)
    if len(terms) > 1:
        text = "drop the whole of the required node affinity"
        yield CureChange("drop-affinity", text, 2 * CHANGE_RULE, lambda pod: _with_required(pod, None))


def _dropped_requirement(term: NodeSelectorTerm, line: Requirement, is_one_of_many: bool) -> CureChange:
    """The sentence names the whole term where there are others: they may have the same line."""
    text = f"drop the required node affinity {_show(line)}"
    if is_one_of_many:
        text += f" of the term ({' and '.join(map(_show, _lines(term)))})"
    return CureChange("drop-affinity", text, CHANGE_RULE, _without_line(term, line))


def _show(line: Requirement) -> str:
    return show_requirement(line.key, line.operator, line.values or (), MAX_LINES)


def _without_line(term: NodeSelectorTerm, line: Requirement) -> Callable[[Pod], Pod]:
    """Drop a line of the first term that is equal to `term`."""

    def apply(pod: Pod) -> Pod:
        terms = _terms(pod)
        if term not in terms:
            return pod
        kept = _term_without(term, line)
        terms[terms.index(term)] = kept
        return _with_required(pod, NodeSelector(terms) if _lines(kept) else None)

    return apply


def _term_without(term: NodeSelectorTerm, line: Requirement) -> NodeSelectorTerm:
    """The term without the first line that is equal to `line`."""
    expressions, fields = list(term.match_expressions or ()), list(term.match_fields or ())
    listed = expressions if line in expressions else fields
    listed.remove(line)
    return NodeSelectorTerm(expressions or None, fields or None)


# ---- the choice of one node


def widen_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The first line of the selection that keeps the pod from a node, changed or dropped, and all lines: of the node
    selector, then of the term of the affinity that lacks least."""
    pod, node = patient.pod, patient.trials.cluster.nodes.nodes[row]
    assert node is not None
    selector = pod.spec.node_selector or {}
    unequal = [key for key, value in selector.items() if node.labels.get(key) != value]
    terms = _terms(pod)
    failing = ((_failing(each, node), each) for each in _short_terms(terms))
    lines, term = min(failing, key=lambda pair: len(pair[0]), default=([], None))
    for key in unequal[:1]:
        if key in node.labels:
            yield _another_value(key, node.labels[key], selector[key])
        yield _dropped_line(key, selector[key])
    if not unequal and lines and term is not None and (len(terms) == 1 or len(_lines(term)) > 1):
        yield _dropped_requirement(term, lines[0], len(terms) > 1)
    if len(unequal) + len(lines) > 1 or (terms and (term is None or (lines and len(terms) > 1))):
        yield from _dropped_whole(pod, bool(unequal), bool(terms) and (term is None or bool(lines)))


def _dropped_whole(pod: Pod, selector: bool, affinity: bool) -> Iterator[CureChange]:
    """The pod without its node selector, without its required node affinity, and without both: as far as they are in the
    way."""
    if selector:
        text = "drop the whole of the node selector"
        yield CureChange("drop-selection", text, 2 * CHANGE_RULE, lambda pod: with_spec(pod, node_selector=None))
    if affinity:
        text = "drop the whole of the required node affinity"
        yield CureChange("drop-affinity", text, 2 * CHANGE_RULE, lambda pod: _with_required(pod, None))
    if selector and affinity:
        yield WidenSelection().together(pod)


def _short_terms(terms: list[NodeSelectorTerm]) -> list[NodeSelectorTerm]:
    """The terms that are looked at line by line: not too many, and none that is too long."""
    return [term for term in terms[:MAX_LINES] if len(_lines(term)) <= MAX_LINES]


def _failing(term: NodeSelectorTerm, node: Node) -> list[Requirement]:
    """The lines of a term that a node does not match."""
    alone = [(line, NodeSelectorTerm([line])) for line in term.match_expressions or ()]
    alone += [(line, NodeSelectorTerm(None, [line])) for line in term.match_fields or ()]
    compiled = [(line, compile_node_term(each)) for line, each in alone]
    return [line for line, each in compiled if each is None or not each.matches(node.name, node.labels)]


def label_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The node with the labels that the pod selects, if labels alone are lacking."""
    node = patient.trials.cluster.nodes.nodes[row]
    assert node is not None
    wanted = labels_for(patient.pod, node)
    if not wanted or len(wanted) > MAX_LABELS or any(_OWN_DOMAIN in key for key in wanted):
        return
    parts = [f"{key}={value}{_instead(node.labels, key)}" for key, value in wanted.items()]
    text = f"label node {node.name} with {' and '.join(parts)}"
    cost = CHANGE_NODE * len(wanted) + OTHER_LABEL * sum(key in node.labels for key in wanted)
    yield CureChange("label-node", text, cost, node=node.name, apply_to_node=lambda node: labelled(node, wanted))


def _instead(labels: Mapping[str, str], key: str) -> str:
    return f" instead of {key}={labels[key]}" if key in labels else ""


def labelled(node: Node, labels: Mapping[str, str]) -> Node:
    """The node with further labels, or other values of those that it has."""
    metadata = msgspec.structs.replace(node.metadata, labels={**node.labels, **labels})
    return msgspec.structs.replace(node, metadata=metadata)


def labels_for(pod: Pod, node: Node) -> dict[str, str] | None:
    """The fewest labels that a node has to get so that the pod selects it; None if other labels would have to go."""
    wanted = {key: value for key, value in (pod.spec.node_selector or {}).items() if node.labels.get(key) != value}
    terms = _terms(pod)
    found = [added for term in _short_terms(terms) if (added := _added_for(term, labelled(node, wanted))) is not None]
    if terms and not found:
        return None
    more = min(found, key=len, default={})
    is_contradicted = any(key in wanted for key in more)
    return None if is_contradicted else {**wanted, **more}


def _added_for(term: NodeSelectorTerm, node: Node) -> dict[str, str] | None:
    """The labels with which a node matches a term: the first value of a list, and a number next to a limit."""
    added: dict[str, str] = {}
    for line in _failing(term, node):
        values = line.values or ()
        if line.operator == "In" and values:
            added[line.key] = values[0]
        elif line.operator == "Exists":
            added[line.key] = "true"
        elif line.operator in ("Gt", "Lt") and values and values[0].lstrip("-").isdigit():
            added[line.key] = str(int(values[0]) + (1 if line.operator == "Gt" else -1))
    return added if _lines(term) and not _failing(term, labelled(node, added)) else None
