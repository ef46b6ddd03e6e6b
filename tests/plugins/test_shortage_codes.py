"""Codes of what a node is short of, against bits that are put together one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins.resources.pod_amounts import as_bits


def code_of(full: bool, hopeless: bool, short: tuple[bool, ...]) -> int:
    """The bits of a row in the order of the lowest: full, hopeless, then the resources."""
    return sum(1 << place for place, bit in enumerate((full, hopeless, *short)) if bit)


@given(st.data(), st.integers(0, 60))
def test_codes_are_the_bits_of_each_row(data: st.DataObject, resources: int) -> None:
    row = st.tuples(st.booleans(), st.booleans(), st.tuples(*[st.booleans()] * resources))
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    short = np.array([each[2] for each in rows], np.bool_).reshape(len(rows), resources).T
    codes = as_bits(np.array([each[0] for each in rows]), np.array([each[1] for each in rows]), short)
    assert codes.tolist() == [code_of(*each) for each in rows]


def test_five_resources_fit_into_a_byte() -> None:
    everything = np.ones(1, np.bool_)
    for resources, item_bytes in ((5, 1), (6, 8)):
        codes = as_bits(everything, everything, np.ones((resources, 1), np.bool_))
        assert (codes.itemsize, codes.tolist()) == (item_bytes, [(4 << resources) - 1])
