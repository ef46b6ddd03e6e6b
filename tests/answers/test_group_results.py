"""Tables, lines and data about pod groups in the answers of simulations, word for word."""

import msgspec
import pytest

from mooring.answers.simulate.simulation_answer import (
    group_counts,
    group_table,
    group_wait_table,
    told_group_waits,
    told_groups,
)
from mooring.answers.simulate.simulation_form import GroupWaitForm, group_form
from mooring.sim.results import GroupState, GroupWait

PLACED = GroupState("ns/placed", 2, {"ns/a": "n1", "ns/b": "n2", "ns/c": ""}, 3.2)
SOON = GroupState("ns/soon", 1, {"ns/d": "n1"}, 0.001)
BEFORE = GroupState("ns/before", 1, {"ns/e": "n1"})
LOOSE = GroupState("ns/loose", None, {"ns/f": "n1", "ns/g": ""}, None, "0/2 nodes are available")

LINES = {
    "no groups": ((), []),
    "one that was placed": ((PLACED,), ["1 of 1 pod group placed, after 3.2s."]),
    "several, with the shortest and the longest wait": (
        (LOOSE, PLACED, SOON),
        ["2 of 3 pod groups placed, after 1ms to 3.2s."],
    ),
    "one that ran before has no wait": ((BEFORE,), ["1 of 1 pod group placed."]),
    "none that was placed": ((LOOSE,), ["0 of 1 pod group placed."]),
}


@pytest.mark.parametrize(("groups", "lines"), LINES.values(), ids=LINES.keys())
def test_a_line_says_how_many_groups_were_placed_and_when(groups: tuple[GroupState, ...], lines: list[str]) -> None:
    assert told_groups(groups) == lines


def test_pending_groups_come_first_in_the_table() -> None:
    table = group_table([PLACED, LOOSE])
    assert (table.title, table.columns, table.is_detail) == (
        "Pod groups",
        ("group", "result", "pods on nodes", "minimum", "waited", "reason"),
        False,
    )
    assert list(table.rows) == [
        ("ns/loose", "pending", "1/2", "-", "-", "0/2 nodes are available"),
        ("ns/placed", "placed", "2/3", 2, "3.2s", "-"),
    ]


def test_counts_and_entries_of_the_data() -> None:
    assert group_counts([]) == {}
    assert group_counts([PLACED, LOOSE, SOON]) == {"groups": 3, "groupsPlaced": 2, "groupsPending": 1}
    assert [group_form(group).content() for group in (PLACED, LOOSE)] == [
        {
            "podGroup": "ns/placed",
            "result": "placed",
            "minCount": 2,
            "members": 3,
            "onNodes": 2,
            "waitedSeconds": 3.2,
            "message": "",
        },
        {
            "podGroup": "ns/loose",
            "result": "pending",
            "minCount": None,
            "members": 2,
            "onNodes": 1,
            "waitedSeconds": None,
            "message": "0/2 nodes are available",
        },
    ]


def test_groups_of_a_day_are_ordered_by_their_wait_after_those_that_still_wait() -> None:
    waits = [
        GroupWait("ns/b", 2, 1.0),
        GroupWait("ns/a", 3, 9.0),
        GroupWait("ns/c", 4, None),
        GroupWait("ns/0", 1, 1.0),
    ]
    table = group_wait_table(waits)
    assert (table.title, table.columns, table.is_detail) == ("Pod groups", ("group", "pods", "waited"), True)
    assert list(table.rows) == [("ns/c", 4, "-"), ("ns/a", 3, "9.0s"), ("ns/0", 1, "1.0s"), ("ns/b", 2, "1.0s")]
    assert told_group_waits(waits) == ["3 of 4 pod groups placed, after 1.0s to 9.0s."]
    written = msgspec.convert(waits[2], GroupWaitForm, from_attributes=True).content()
    assert written == {"podGroup": "ns/c", "members": 4, "waitedSeconds": None}
