"""The example agent: its notebook in short form, and its policy in a simulation."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = ROOT / "examples" / "agents" / "train.ipynb"


def code() -> list[str]:
    """The code of the notebook, a text for each cell."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    found = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in found)
    return ["".join(cell["source"]) for cell in found]


def test_the_notebook_trains_an_agent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MOORING_SHORT", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    scope: dict[str, Any] = {}
    for cell in code():
        exec(cell, scope)
    assert "round 1: best " in capsys.readouterr().out
    assert scope["mean"].shape == (6,)
    assert len(scope["agent"]) == len(scope["default"]) == 2


def test_the_trained_agent_fills_nodes_that_the_default_profile_leaves_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    outcome = CliRunner().invoke(
        main, ["simulate", "examples/cluster.yaml", "--config", "examples/agents/config.yaml", "-o", "json"]
    )
    plain = CliRunner().invoke(main, ["simulate", "examples/cluster.yaml", "-o", "json"])
    assert (outcome.exit_code, plain.exit_code) == (0, 0), outcome.output
    nodes = [{pod["name"]: pod.get("node") for pod in json.loads(each.stdout)["pods"]} for each in (outcome, plain)]
    assert nodes[0].keys() == nodes[1].keys()
    assert nodes[0] != nodes[1]
