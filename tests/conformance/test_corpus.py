"""Every scenario of the corpus without devices or a queue: what kube-scheduler v1.36.4 says, to the letter."""

import json
from pathlib import Path
from typing import Any

import pytest

from corpus import CHECK, rows
from mooring.sim.conform import decide

HERE = Path(__file__).parent
FILES = (
    *("taints", "nodeaffinity", "ports", "images", "resources", "spread", "podaffinity"),
    *("gates", "profiles", "mixed", "sequence", "preempt", "volumes"),
)
SCENARIOS = 60
"""In each file."""


def _differences(row: dict[str, Any]) -> str:
    """What is wrong with the answer to one scenario, on one line; empty if nothing is."""
    scenario, found = row["scenario"], decide(json.dumps(row["scenario"]).encode())
    return "; ".join(
        f"{scenario['name']}: {where}: expected {json.dumps(wanted)}, found {json.dumps(got)}"
        for where, wanted, got in CHECK.compare("decide", row["expected"] or [], found)
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "sequence" else name for name in FILES]
)
def test_the_reference_is_matched(name: str) -> None:
    found = rows(name)
    assert len(found) == SCENARIOS
    assert [wrong for wrong in map(_differences, found) if wrong] == []


def test_a_difference_is_found_and_named() -> None:
    """Or else agreement would mean nothing."""
    row = rows("taints")[0]
    step = next(step for step in row["expected"] if step["result"] == "scheduled")
    right = step["node"]
    step["node"] = "elsewhere"
    assert f'node: expected "elsewhere", found "{right}"' in _differences(row)
