"""Placements of runs side by side, against plain loops over dictionaries."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.answers.compare.placements import PlacementTable, pack, placements_digest, unpack

PODS, NODES = [f"ns/p-{i}" for i in range(5)], ["n-0", "n-1", None]
placements = st.dictionaries(st.sampled_from(PODS), st.sampled_from(NODES))


@given(
    st.sampled_from([1, 7, 1 << 22]),
    st.lists(placements, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(PODS[:2]), st.sampled_from(NODES[:2])),
)
def test_the_table_and_its_twin(block: int, runs: list[dict[str, str | None]], before: dict[str, str]) -> None:
    with mock.patch("mooring.answers.compare.placements._BLOCK", block):
        _check_table(runs, before)


def _check_table(runs: list[dict[str, str | None]], before: dict[str, str]) -> None:
    table = PlacementTable(before)
    for run in runs:
        table.add(run)
    whole = [{**before, **run} for run in runs]
    named = {pod for run in runs for pod in run}
    differing = [
        (pod, [run.get(pod) for run in whole])
        for pod in sorted(named)
        if len({run[pod] for run in whole if pod in run}) > 1
    ]
    assert table.differences(100) == (len(differing), differing)
    count, few = table.differences(1)
    assert count == len(differing) and len(few) == min(count, 1) and all(each in differing for each in few)
    assert table.moved() == [
        sum(pod in whole[0] and pod in run and run[pod] != whole[0][pod] for pod in named) for run in whole
    ]


@given(placements)
def test_packing_keeps_everything(given_placements: dict[str, str | None]) -> None:
    assert unpack(pack(given_placements)) == given_placements
    assert unpack("") == {}


@given(placements, placements)
def test_digests_are_equal_where_placements_are(one: dict[str, str | None], other: dict[str, str | None]) -> None:
    turned = dict(reversed(one.items()))
    assert placements_digest(turned) == placements_digest(one)
    assert (placements_digest(one) == placements_digest(other)) == (one == other)


@pytest.mark.parametrize("cell", ["x", "eJw=", "é", pack({})[:-4]], ids=["no base64", "torn", "no ASCII", "cut"])
def test_a_cell_that_is_not_packed_placements(cell: str) -> None:
    with pytest.raises(ValueError):
        unpack(cell)
