"""Every timeline of the corpus with claims and volumes: what kube-scheduler v1.36.4 does, step by step."""

import gzip
import json
from pathlib import Path
from typing import Any

from corpus import CHECK
from mooring.sim.conform import follow

HERE = Path(__file__).parent
SCENARIOS = 50


def _differences(row: dict[str, Any]) -> str:
    """What is wrong with the answer to one scenario, on one line; empty if nothing is."""
    scenario, found = row["scenario"], follow(json.dumps(row["scenario"]).encode())
    return "; ".join(
        f"{scenario['name']}: {where}: expected {json.dumps(wanted)}, found {json.dumps(got)}"
        for where, wanted, got in CHECK.compare("timeline", row["expected"], found)
    )


def test_the_reference_is_matched() -> None:
    with gzip.open(HERE / "timeline-volumes.jsonl.gz", "rt") as corpus:
        rows = [json.loads(line) for line in corpus]
    assert len(rows) == SCENARIOS
    assert [wrong for wrong in map(_differences, rows) if wrong] == []
