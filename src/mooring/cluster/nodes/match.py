"""Node selectors over columns: which rows a selector matches."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import ABSENT, LabelColumn
from mooring.cluster.nodes.table import NodeTable
from mooring.model.selectors import FieldRule, LabelRule, NodeMatcher, NodeTerm

Mask = NDArray[np.bool_]
Rows = slice | NDArray[np.intp]


def match_nodes(nodes: NodeTable, matcher: NodeMatcher, rows: Rows) -> Mask:
    """Rows on which at least one term matches."""
    found = np.zeros(len(nodes.alive[rows]), np.bool_)
    for term in matcher.terms:
        found |= match_term(nodes, term, rows)
    return found


def match_term(nodes: NodeTable, term: NodeTerm, rows: Rows) -> Mask:
    """Rows on which all rules of a term hold; a term with faults matches none."""
    if term.faults:
        return np.zeros(len(nodes.alive[rows]), np.bool_)
    found = np.ones(len(nodes.alive[rows]), np.bool_)
    for rule in term.labels:
        found &= match_rule(nodes, rule, rows)
    for field in term.fields:
        found &= _match_field(nodes, field, rows)
    return found


def match_rule(nodes: NodeTable, rule: LabelRule, rows: Rows) -> Mask:
    """Rows on which a rule about a label holds: evaluated for each distinct value, then looked up by code."""
    column = nodes.labels.column(rule.key)
    return _admitted(column, rule)[column.codes[rows]]


def match_labels(nodes: NodeTable, wanted: dict[str, str], rows: Rows) -> Mask:
    """Rows whose node has all these labels (a plain nodeSelector)."""
    found = np.ones(len(nodes.alive[rows]), np.bool_)
    for key, value in wanted.items():
        column = nodes.labels.column(key)
        # -1 is no code, so a value that no node has matches no row.
        found &= column.codes[rows] == column.value_book.get(value, -1)
    return found


def _admitted(column: LabelColumn, rule: LabelRule) -> Mask:
    """For each code of the column whether the rule admits its value."""
    if rule.operator in ("In", "NotIn"):
        admitted = np.full(column.width, rule.operator == "NotIn")
        for value in rule.values:
            code = column.value_book.get(value)
            if code is not None:
                admitted[code] = rule.operator == "In"
        return admitted
    if rule.operator in ("Exists", "DoesNotExist"):
        admitted = np.full(column.width, rule.operator == "Exists")
        admitted[ABSENT] = rule.operator == "DoesNotExist"
        return admitted
    return np.fromiter((rule.admits(value) for value in column.values), np.bool_, column.width)


def _match_field(nodes: NodeTable, rule: FieldRule, rows: Rows) -> Mask:
    """The only field that selectors know is metadata.name. A rule about another one sees a value that no node can
    have ("-"), so it holds only if it is negated."""
    if rule.key != "metadata.name":
        return np.full(len(nodes.alive[rows]), rule.admits("-"))
    named = np.zeros(nodes.height, np.bool_)
    row = nodes.row_book.get(rule.value)
    if row is not None:
        named[row] = True
    matched: Mask = named[rows] != rule.negated
    return matched
