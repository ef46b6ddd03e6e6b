"""Node selectors over columns say what a plain reading of the selector says, node by node."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes.match import match_labels, match_nodes, match_rule, match_term
from mooring.cluster.nodes.table import NodeTable
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm
from mooring.model.selectors import NodeMatcher, compile_node_selector, compile_node_term, compile_rule

Labels = dict[str, str]
Nodes = dict[str, Labels]
Line = dict[str, Any]

KEYS = ("zone", "example.com/disk", "n")
NUMBERS = ("7", "007", "-7", "+7", "8", "9223372036854775807", "9223372036854775808", "7.0", " 7")
VALUES = ("a", "b", "", *NUMBERS)
NAMES = tuple(f"n{i}" for i in range(6))

LEGAL = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(("a", "b", "", "7", "absent")), min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(KEYS),
        st.sampled_from(("Exists", "DoesNotExist")),
    ),
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
        st.sampled_from(KEYS),
        st.sampled_from(("Gt", "Lt")),
        st.sampled_from(("0", "7", "007", "8", "9223372036854775807")),
    ),
)
FAULTY_LINES = (
    {"key": "zone", "operator": "In"},
    {"key": "zone", "operator": "NotIn", "values": []},
    {"key": "zone", "operator": "Exists", "values": ["a"]},
    {"key": "zone", "operator": "DoesNotExist", "values": [""]},
    {"key": "n", "operator": "Gt", "values": ["1", "2"]},
    {"key": "n", "operator": "Lt"},
    {"key": "n", "operator": "Gt", "values": ["x"]},
    {"key": "n", "operator": "Gt", "values": ["-5"]},
    {"key": "n", "operator": "Lt", "values": ["+5"]},
    {"key": "zone", "operator": "In", "values": ["a", "not legal"]},
    {"key": "a/b/c", "operator": "Exists"},
    {"key": "", "operator": "Exists"},
    {"key": "zone", "operator": "Equals", "values": ["a"]},
)
FIELD = st.builds(
    lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
    st.sampled_from(("metadata.name", "metadata.name", "metadata.uid")),
    st.sampled_from(("In", "NotIn")),
    st.sampled_from((*NAMES, "", "ghost", "unknown")),
)
FAULTY_FIELDS = (
    {"key": "metadata.name", "operator": "Exists"},
    {"key": "metadata.name", "operator": "In", "values": ["n0", "n1"]},
    {"key": "metadata.name", "operator": "NotIn"},
    {"key": "metadata.name", "operator": "Gt", "values": ["1"]},
)


@dataclass
class Term:
    """A term as it is written, and whether upstream could read it."""

    lines: list[Line]
    fields: list[Line]
    is_faulty: bool = False

    def written(self) -> NodeSelectorTerm:
        return msgspec.convert({"matchExpressions": self.lines, "matchFields": self.fields}, NodeSelectorTerm)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    lines = draw(st.lists(LEGAL, max_size=3))
    fields = draw(st.lists(FIELD, max_size=2))
    if draw(st.integers(0, 5)):
        return Term(lines, fields)
    if draw(st.booleans()):
        return Term([*lines, draw(st.sampled_from(FAULTY_LINES))], fields, is_faulty=True)
    return Term(lines, [*fields, draw(st.sampled_from(FAULTY_FIELDS))], is_faulty=True)


NODES = st.dictionaries(
    st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1
)


# ---- the twin: one node, one requirement, as upstream documents them


def line_holds(line: Line, labels: Labels) -> bool:
    value, values = labels.get(line["key"]), line.get("values", [])
    match line["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number = number_in(value)
    if number is None:
        return False
    return number > int(values[0]) if line["operator"] == "Gt" else number < int(values[0])


def number_in(value: str | None) -> int | None:
    """What Go's ParseInt makes of the few values that these tests use."""
    return {"7": 7, "007": 7, "-7": -7, "+7": 7, "8": 8, "9223372036854775807": (1 << 63) - 1}.get(value or "")


def field_holds(line: Line, name: str) -> bool:
    found = name if line["key"] == "metadata.name" else ""
    return bool((found == line["values"][0]) == (line["operator"] == "In"))


def term_holds(term: Term, name: str, labels: Labels) -> bool:
    if term.is_faulty or not (term.lines or term.fields):
        return False
    return all(line_holds(line, labels) for line in term.lines) and all(field_holds(f, name) for f in term.fields)


# ---- the columns


def a_table(nodes: Nodes, *keys: str) -> NodeTable:
    """With a row that has only a pod among the others, and one that was given up; some label columns exist already."""
    table = NodeTable()
    table.put_node(a_node("gone", labels={"zone": "a"}))
    table.put_node(a_node("ghost", labels=dict.fromkeys(KEYS, "a")))
    table.place(a_pod("left behind"), "ghost")
    for key in keys:
        table.labels.column(key)
    for name, labels in nodes.items():
        table.put_node(a_node(name, labels=labels))
    table.remove_node("ghost")
    table.remove_node("gone")
    return table


def some_rows(table: NodeTable, data: st.DataObject) -> Any:
    """All rows as a slice, or any of them as an array."""
    if data.draw(st.booleans(), "a slice"):
        return slice(0, table.height)
    rows = data.draw(st.lists(st.sampled_from(range(table.height)), max_size=8), "rows")
    return np.array(rows, np.intp)


def alive_answers(table: NodeTable, rows: Any, found: Any) -> dict[str, bool]:
    """By node name; every row must have an answer, but only that of rows with a node means anything."""
    asked = np.arange(table.height)[rows]
    assert len(found) == len(asked)
    assert found.dtype == np.bool_
    return {table.names[row]: bool(answer) for row, answer in zip(asked, found, strict=True) if table.alive[row]}


@given(NODES, st.lists(terms(), max_size=3), st.sets(st.sampled_from(KEYS)), st.data())
def test_a_node_selector_matches_what_its_terms_say(
    nodes: Nodes, drawn: list[Term], asked_before: set[str], data: st.DataObject
) -> None:
    table = a_table(nodes, *sorted(asked_before))
    matcher = compile_node_selector(NodeSelector(node_selector_terms=[term.written() for term in drawn]))
    rows = some_rows(table, data)
    found = alive_answers(table, rows, match_nodes(table, matcher, rows))
    assert found == {name: any(term_holds(term, name, nodes[name]) for term in drawn) for name in found}
    assert found == {name: matcher.matches(name, nodes[name]) for name in found}


@given(NODES, terms(), st.data())
def test_a_term_matches_where_all_its_rules_hold(nodes: Nodes, drawn: Term, data: st.DataObject) -> None:
    term = compile_node_term(drawn.written())
    assert (term is None) == (not drawn.lines and not drawn.fields)
    if term is None:
        return
    assert bool(term.faults) == drawn.is_faulty
    table = a_table(nodes)
    rows = some_rows(table, data)
    found = alive_answers(table, rows, match_term(table, term, rows))
    assert found == {name: term_holds(drawn, name, nodes[name]) for name in found}


@given(NODES, st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*VALUES, "absent"))), st.data())
def test_a_plain_selector_wants_every_label(nodes: Nodes, wanted: Labels, data: st.DataObject) -> None:
    table = a_table(nodes)
    rows = some_rows(table, data)
    found = alive_answers(table, rows, match_labels(table, wanted, rows))
    assert found == {name: wanted.items() <= nodes[name].items() for name in found}


RULES = {
    "In": (("zone", "In", ["a", "b"]), [True, False, False]),
    "NotIn holds where the label is absent": (("zone", "NotIn", ["a"]), [False, True, True]),
    "NotIn holds for a value that no node has": (("zone", "NotIn", ["z"]), [True, True, True]),
    "Exists holds for an empty value": (("zone", "Exists", []), [True, True, False]),
    "DoesNotExist": (("zone", "DoesNotExist", []), [False, False, True]),
    "In with the empty value is not absence": (("zone", "In", [""]), [False, True, False]),
    "Gt": (("n", "Gt", ["5"]), [True, False, False]),
    "Lt": (("n", "Lt", ["8"]), [True, False, False]),
    "Gt is strict": (("n", "Gt", ["7"]), [False, False, False]),
    "a key that no node has": (("rack", "NotIn", ["a"]), [True, True, True]),
}


@pytest.mark.parametrize(("rule", "expected"), RULES.values(), ids=RULES.keys())
def test_a_rule(rule: tuple[str, str, list[str]], expected: list[bool]) -> None:
    table = a_table({"n0": {"zone": "a", "n": "7"}, "n1": {"zone": "", "n": "seven"}, "n2": {}})
    rows = np.array([table.row_book[name] for name in ("n0", "n1", "n2")], np.intp)
    assert match_rule(table, compile_rule(*rule), rows).tolist() == expected


def test_a_selector_without_terms_matches_no_node() -> None:
    table = a_table({"n0": {}})
    assert not match_nodes(table, NodeMatcher(()), slice(0, table.height)).any()
