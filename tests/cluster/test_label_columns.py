"""Label columns: only labels that nodes have are kept, and no more of them than there is room for."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.columns.labels import ABSENT, LabelColumns
from mooring.model.names import HOSTNAME

ROWS, KEYS, VALUES = range(4), ("a", "b", HOSTNAME), ("", "x", "y")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(ROWS), LABELS),
        st.tuples(st.just("clear"), st.sampled_from(ROWS)),
        st.tuples(st.just("ask"), st.sampled_from((*KEYS, "nowhere"))),
    )
)


def columns(capacity: int = len(ROWS), limit: int = LabelColumns.LIMIT) -> LabelColumns:
    made = LabelColumns()
    made.LIMIT = limit
    made.grow(capacity)
    return made


@given(STEPS, st.integers(1, 3))
def test_columns_say_what_nodes_say(steps: list[Any], limit: int) -> None:
    labels, model = columns(limit=limit), dict[int, dict[str, str]]()
    for step in steps:
        match step:
            case ("put", row, given_labels):
                labels.put(row, given_labels)
                model[row] = given_labels
            case ("clear", row):
                labels.put(row, {})
                model.pop(row, None)
            case ("ask", key):
                labels.column(key)
        assert len(labels.kept_keys()) <= limit
        for key in (*KEYS, "nowhere"):
            is_there = any(key in known for known in model.values())
            column = labels.column(key)
            assert (labels.has(key), column.is_nowhere) == (is_there, not is_there)
            found = [column.values[column.codes[row]] for row in ROWS]
            assert found == [model.get(row, {}).get(key) for row in ROWS]


def test_labels_that_no_node_has_leave_nothing_behind() -> None:
    labels = columns()
    labels.put(0, {"zone": "a"})
    for i in range(5000):
        assert not labels.column(f"key-{i}").codes.any()
    assert labels.kept_keys() == []
    labels.column("zone")
    labels.put(0, {})
    assert (labels.kept_keys(), labels.rows_by_key(), labels.on_row(0)) == ([], {}, {})


def test_a_label_that_a_node_gets_later_is_seen_by_who_asks_again() -> None:
    labels = columns()
    assert labels.column("zone").codes[0] == ABSENT
    version = labels.keys_version
    labels.put(0, {"zone": "a"})
    assert labels.keys_version > version
    column = labels.column("zone")
    assert column.values[column.codes[0]] == "a"


def test_values_of_the_past_are_forgotten() -> None:
    """Host names come and go with nodes, and every sum over the column is as long as it has values."""
    labels = columns()
    for i in range(1000):
        labels.put(0, {"host": f"h{i}"})
        assert labels.column("host").width < 200
    column = labels.column("host")
    assert column.values[column.codes[0]] == "h999"


def test_the_column_of_host_names_does_not_wait_for_a_pod_that_asks() -> None:
    labels = columns()
    labels.put(1, {HOSTNAME: "h1", "zone": "a"})
    assert labels.kept_keys() == [HOSTNAME]
    assert labels.column(HOSTNAME).codes.tolist() == [ABSENT, 1, ABSENT, ABSENT]
