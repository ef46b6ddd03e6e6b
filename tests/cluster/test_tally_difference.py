"""What one tally counts and another does not, by row and by value of a label."""

import pytest

from mooring.cluster.columns.labels import LabelColumn
from mooring.cluster.tallies.tally import Tally, TallyDifference

ZONES = ("east", "west", None)

CASES = {
    "no pods": ([], [], None),
    "nothing is excluded": ([0, 0, 1, 2], [], {"east": 2, "west": 1}),
    "some are excluded": ([0, 0, 1, 2], [0], {"east": 1, "west": 1}),
    "all of a zone are excluded": ([0, 1], [0], {"west": 1}),
    "all are excluded": ([0, 1], [0, 1], None),
    "only one without a zone is left": ([0, 2], [0], None),
    "one without a zone is excluded": ([0, 2], [2], {"east": 1}),
}


@pytest.mark.parametrize(("shared", "excluded", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_left(shared: list[int], excluded: list[int], expected: dict[str, int] | None) -> None:
    """By the rows of the pods; None: no pod is in a zone."""
    column = LabelColumn("zone", len(ZONES))
    for row, zone in enumerate(ZONES):
        column.put(row, zone)
    difference = TallyDifference(a_tally(shared), a_tally(excluded))
    assert difference.total == len(shared) - len(excluded)
    assert difference.counts.tolist() == [shared.count(row) - excluded.count(row) for row in range(len(ZONES))]
    assert {zone: int(difference.by_value(column)[column.value_book[zone]]) for zone in ZONES if zone} == {
        "east": 0,
        "west": 0,
        **(expected or {}),
    }
    assert (difference.by_value_if_any(column) is None) == (expected is None)


def a_tally(rows: list[int]) -> Tally:
    tally = Tally(len(ZONES))
    for row in rows:
        tally.add((row, 1))
    return tally
