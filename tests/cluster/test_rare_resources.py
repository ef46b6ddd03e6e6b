"""Resources that few nodes have: they take memory for the cells that are not 0, and count as all others do."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from counted_lines import lines_run
from mooring.cluster.cache import check_table
from mooring.cluster.columns.resource_amounts import FEW_LINES, NOWHERE, _clear_row, _copy
from mooring.cluster.nodes.table import NodeTable

CELLS = st.lists(st.tuples(st.integers(0, 2 * FEW_LINES - 1), st.integers(0, 9), st.integers(-5, 1 << 60)), max_size=30)


@given(CELLS, st.sampled_from([1, FEW_LINES, FEW_LINES + 1, 2 * FEW_LINES]), st.integers(0, 300), st.integers(0, 20))
def test_a_copy_has_the_same_cells_and_empty_new_ones(
    cells: list[tuple[int, int, int]], height: int, lines: int, capacity: int
) -> None:
    matrix = np.zeros((height, 10), np.int64)
    for line, row, amount in cells:
        matrix[line % height, row] = amount
    before = matrix.copy()
    made = _copy(matrix, lines, capacity)
    assert made.shape == (max(lines, height), max(capacity, 10))
    assert (made[:height, :10] == before).all() and made.sum(dtype=object) == before.sum(dtype=object)
    _clear_row(made, 3)
    before_made = made.copy()
    made[:, 4] = 1
    assert not made[:, 3].any() and (before_made[:height, :3] == before[:, :3]).all()
    assert (matrix == before).all(), "a copy shares nothing"


_MEASURED = """
import sys
sys.path.insert(0, sys.argv[1])
from build import a_node
from mooring.cluster.nodes.table import NodeTable

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

table = NodeTable()
rare = {f"acme.com/r{i}": "5" for i in range(1500)}
for number in range(5000):
    table.put_node(a_node(f"n{number}", allocatable=rare if number == 7 else {}))
before = resident()
places = table.amounts.resources(rare)
assert (table.amounts.allocatable[places, 7] == 5).all()
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says how much memory is resident")
def test_many_resources_of_one_node_take_little_memory() -> None:
    """As lines they would take 400 MB: 2,048 lines of 8,192 rows, three times."""
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", _MEASURED, tests], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100 << 20


# ---- many resources get their places together

RARE = [f"acme.com/r{i}" for i in range(2 * FEW_LINES)]


def a_table(nodes: int) -> NodeTable:
    """The node n7 has all rare resources, all nodes have r0, and each has three pods that request it."""
    table = NodeTable()
    for number in range(nodes):
        there = dict.fromkeys(RARE, "5") if number == 7 else {RARE[0]: "4"}
        table.put_node(a_node(f"n{number}", allocatable=there))
        for pod in range(3):
            table.place(a_pod(f"p{number}-{pod}", requests={RARE[0]: "1"}), f"n{number}")
    return table


@pytest.mark.parametrize("what", ["table", "fork", "sketch"])
def test_one_walk_over_nodes_and_pods_gives_all_places(what: str) -> None:
    def work(nodes: int) -> int:
        table = a_table(nodes)
        asked = {"table": table, "fork": table.fork(), "sketch": table.sketch()}[what]
        return lines_run(partial(asked.amounts.resources, RARE))

    assert work(80) - work(40) <= 40 * len(RARE), (
        "each further node takes some lines for its pods, not for each resource"
    )


RESOURCES = st.dictionaries(st.sampled_from(RARE[:6]), st.integers(0, 9).map(str), max_size=6)
ASKED = st.lists(st.lists(st.sampled_from([*RARE[:6], "cpu", "acme.com/none"]), min_size=1, max_size=6), max_size=4)


@given(st.lists(st.tuples(RESOURCES, st.lists(RESOURCES, max_size=3)), min_size=1, max_size=4), ASKED, ASKED)
def test_places_that_are_given_together_count_as_plain_sums(
    nodes: list[tuple[dict[str, str], list[dict[str, str]]]], first: list[list[str]], second: list[list[str]]
) -> None:
    table = NodeTable()
    for number, (there, pods) in enumerate(nodes):
        table.put_node(a_node(f"n{number}", allocatable=there))
        for pod, requests in enumerate(pods):
            table.place(a_pod(f"p{number}-{pod}", requests=requests), f"n{number}")
    for names in first:
        table.amounts.resources(names)
    table.put_node(a_node("n0"))  # resources that it alone had lose their places
    copy = table.fork()
    nodes[0] = {}, nodes[0][1]
    for names in second:
        for amounts in (copy.amounts, table.amounts):
            for name, place in zip(names, amounts.places(names), strict=True):
                assert (place == NOWHERE) == (name != "cpu" and not any(name in there for there, _ in nodes))
                for row, (there, pods) in enumerate(nodes) if place > NOWHERE else ():
                    assert amounts.allocatable[place, row] == int(there.get(name, 0))
                    assert amounts.requested[place, row] == sum(int(pod.get(name, 0)) for pod in pods)
    assert check_table(table) == []
