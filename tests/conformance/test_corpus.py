"""Every scenario of both corpora: the answer of kube-scheduler v1.37, and that of v1.36.4 where no rule changed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from changed_answers import FILES, LIST, answered, changed_answers, listed

from corpus import CHECK, FOLDER, rows, rows_of_v137
from how_many import some_of

SCENARIOS = {"timeline-updates": 120}
"""By file of the corpus of v1.37; the others have 60."""
NAMES = [*FILES, "timeline-updates"]


def _slow(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name == "sequence" else name


def _differences(name: str, row: dict[str, Any]) -> str:
    """What is wrong with the answer to one scenario, on one line; empty if nothing is."""
    scenario, mode = row["scenario"], CHECK.mode_of(name)
    return "; ".join(
        f"{scenario['name']}: {where}: expected {json.dumps(wanted)}, found {json.dumps(got)}"
        for where, wanted, got in CHECK.compare(mode, row["expected"], answered(mode, scenario))
    )


@pytest.mark.parametrize("name", [_slow(name) for name in NAMES])
def test_v137_is_matched(name: str) -> None:
    found = rows_of_v137(name)
    assert len(found) == SCENARIOS.get(name, 60)
    assert [wrong for row in found if (wrong := _differences(name, row))] == []


@pytest.mark.parametrize("name", [_slow(name) for name in some_of(FILES, fewest=6)])
def test_v136_is_matched_but_for_what_v137_changes(name: str) -> None:
    """tools/changed_answers.py makes the list, and finds the section for each of its rows. `make soak` asks about all files;
    those of v1.37 have the same subjects."""
    assert changed_answers(name) == listed(name)


def test_both_corpora_are_whole() -> None:
    assert sorted(NAMES) == sorted(path.name.split(".")[0] for path in (FOLDER / "v1.37").glob("*.gz"))
    assert sorted(FILES) == sorted(path.name.split(".")[0] for path in FOLDER.glob("*.gz"))
    assert sum(len(rows(name)) for name in FILES) == 1118


def test_the_list_of_changed_answers_is_short() -> None:
    """Or else agreement with v1.36.4 would mean nothing."""
    assert len(LIST.read_text().splitlines()) < 60


def test_a_difference_is_found_and_named() -> None:
    """Or else agreement would mean nothing."""
    row = rows_of_v137("taints")[0]
    step = next(step for step in row["expected"] if step["result"] == "scheduled")
    right = step["node"]
    step["node"] = "elsewhere"
    assert f'node: expected "elsewhere", found "{right}"' in _differences("taints", row)
