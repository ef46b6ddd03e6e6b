"""Notebooks: they run from top to bottom in a kernel, and no outputs are stored in that of the examples."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from forked_commands import run_mooring

nbclient: Any = import_module("nbclient")
nbformat: Any = import_module("nbformat")
ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = ROOT / "examples" / "answers.ipynb"


def test_no_outputs_are_stored() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 4
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_runs() -> None:
    outputs = executed(NOTEBOOK, ROOT)
    assert outputs[0].startswith("<mooring cluster: 5 nodes, ")
    assert "giant" in outputs[1]
    assert outputs[2] == "<Comparison: 2 runs of 12 pods: 1 pod has different nodes.>"
    assert "default/web-3" in outputs[3]
    assert "node_hours" in outputs[4] and "default" in outputs[5]
    assert "MostAllocated seed=3" in outputs[6]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebooks_of_an_agent_and_of_a_study_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_SHORT", "1")
    assert "round 1: best " in "".join(executed(ROOT / "examples" / "agents" / "train.ipynb", ROOT))
    results, notebook = tmp_path / "r.csv", tmp_path / "r.ipynb"
    study, part = ROOT / "examples" / "studies" / "packing.yaml", ("--only", "workload=pending", "--only", "seed=1,2")
    ran = run_mooring("study", study, *part, "--results", results, "--notebook", notebook)
    assert ran.returncode == 0, ran.stderr
    outputs = executed(notebook, tmp_path)
    assert "placed" in outputs[0] and "mean" in outputs[2]


def executed(path: Path, folder: Path) -> list[str]:
    """What the cells of a notebook print and show in a kernel of its own."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=_at(folder))
    try:
        client.execute()
    except (OSError, RuntimeError) as error:
        if isinstance(error, nbclient.exceptions.CellExecutionError):
            raise
        pytest.skip(f"the kernel of the notebook cannot start: {error}")
    return [_text(cell) for cell in notebook.cells if cell.cell_type == "code"]


def _at(folder: Path) -> dict[str, Any]:
    return {"metadata": {"path": str(folder)}}


def _text(cell: Any) -> str:
    """The text that a cell prints, and what its last expression shows."""
    return "".join(
        output["data"]["text/plain"] if output.output_type == "execute_result" else output.get("text", "")
        for output in cell.outputs
    )
