"""Positions that are taken out and put back, last out first in."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins.devices.pools import FreeList


def members(free: FreeList) -> list[int]:
    found, position = [], free.after(-1)
    while position < free.size:
        found.append(position)
        position = free.after(position)
    return found


@given(st.integers(0, 8), st.sets(st.integers(0, 7)), st.lists(st.one_of(st.none(), st.integers(0, 7))))
def test_what_is_in_is_what_was_not_taken_out(size: int, left_out: set[int], steps: list[int | None]) -> None:
    free = FreeList(size, left_out)
    taken: list[int] = []
    for step in steps:
        if step is None and taken:
            free.put_back(taken.pop())
        elif step is not None and step < size and step not in taken:
            before = free.after(step)
            free.take_out(step)
            assert free.after(step) == before
            taken.append(step)
        assert members(free) == [p for p in range(size) if p not in left_out and p not in taken]
