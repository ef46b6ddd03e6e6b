"""The notebook of the examples: it runs from top to bottom, and no outputs are stored in it."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=_at(ROOT))
    try:
        client.execute()
    except (OSError, RuntimeError) as error:
        if isinstance(error, nbclient.exceptions.CellExecutionError):
            raise
        pytest.skip(f"the kernel of the notebook cannot start: {error}")
    outputs = [_text(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert outputs[0].startswith("<mooring cluster: 5 nodes, ")
    assert "giant" in outputs[1]
    assert outputs[2] == "<Comparison: 2 runs of 12 pods: 1 pod has different nodes.>"
    assert "default/web-3" in outputs[3]
    assert "node_hours" in outputs[4] and "default" in outputs[5]
    assert "MostAllocated seed=3" in outputs[6]


def _at(folder: Path) -> dict[str, Any]:
    return {"metadata": {"path": str(folder)}}


def _text(cell: Any) -> str:
    """What the last expression of a cell shows."""
    return "".join(output["data"]["text/plain"] for output in cell.outputs if output.output_type == "execute_result")
