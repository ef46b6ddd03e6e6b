"""Placements of runs side by side, against plain loops over dictionaries."""

import base64
import hashlib
import zlib
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.answers.experiments import figures as placement_module
from mooring.answers.experiments.figures import PlacementTable, pack, placements_digest, unpack

PODS, NODES = [f"ns/p-{i}" for i in range(5)], ["n-0", "n-1", None]
placements = st.dictionaries(st.sampled_from(PODS), st.sampled_from(NODES))


@given(
    st.sampled_from([1, 7, 1 << 22]),
    st.lists(placements, min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(PODS[:2]), st.sampled_from(NODES[:2])),
)
def test_the_table_and_its_twin(block: int, runs: list[dict[str, str | None]], before: dict[str, str]) -> None:
    with mock.patch("mooring.answers.experiments.figures._BLOCK", block):
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


def test_a_digest_is_that_of_lines_with_pods_and_nodes() -> None:
    """Results files keep it, also those that an earlier version wrote."""
    expected = hashlib.sha256(b"ns/a n\nns/b \n").hexdigest()[:16]
    assert placements_digest({"ns/b": None, "ns/a": "n"}) == expected


def packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


def test_a_cell_has_the_pods_of_each_node() -> None:
    assert unpack(packed(b'{"n": ["ns/a"], "": ["ns/b"]}')) == {"ns/a": "n", "ns/b": None}


@pytest.mark.parametrize(
    "cell",
    [packed(b"[1]"), packed(b"{}")[:-4], base64.b64encode(b"no gzip").decode()],
    ids=["a list", "a part", "other bytes"],
)
def test_a_cell_with_other_content_is_not_complete(cell: str) -> None:
    with pytest.raises(ValueError, match="^the placements are not complete$"):
        unpack(cell)


def test_a_cell_with_other_characters_is_refused() -> None:
    with pytest.raises(ValueError):
        unpack(f"!{pack({'ns/a': 'n'})}")


def test_a_cell_that_would_take_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = pack({f"ns/{i}": "n" for i in range(50)})
    size = len(zlib.decompress(base64.b64decode(cell)))
    monkeypatch.setattr(placement_module, "_LARGEST_BYTES", size)
    assert len(unpack(cell)) == 50
    monkeypatch.setattr(placement_module, "_LARGEST_BYTES", size - 1)
    with pytest.raises(ValueError, match=f"^its content has more than {size - 1} bytes$"):
        unpack(cell)
