"""Resources that few nodes have: they take memory for the cells that are not 0, and count as all others do."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.nodes.resource_amounts import FEW_LINES, _clear_row, _copy

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
