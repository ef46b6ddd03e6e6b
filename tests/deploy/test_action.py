"""The GitHub Action: its shell steps are run as a runner runs them, with the mooring of this environment."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from programs import BASH

ROOT = Path(__file__).parent.parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


class Ran(NamedTuple):
    status: int
    summary: str
    outputs: dict[str, str]


def run_action(folder: Path, **inputs: str) -> Ran:
    """Run the steps in order until one fails, as `shell: bash` of a composite action does."""
    files = {name: folder / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH")}
    for file in files.values():
        file.touch()
    given = {name: written.get("default", "") for name, written in ACTION["inputs"].items()} | inputs
    status = 0
    for step in ACTION["runs"]["steps"]:
        own = {
            name: given[text.removeprefix("${{ inputs.").removesuffix(" }}")]
            for name, text in step.get("env", {}).items()
        }
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "RUNNER_TEMP": str(folder),
            "GITHUB_ACTION_PATH": str(ROOT),
            **{name: str(file) for name, file in files.items()},
            **own,
        }
        command = [BASH.required(), "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        status = ran.returncode
        if status:
            break
    lines = files["GITHUB_OUTPUT"].read_text().splitlines()
    return Ran(status, files["GITHUB_STEP_SUMMARY"].read_text(), dict(line.split("=", 1) for line in lines))


def a_node_list(folder: Path) -> str:
    """What `kubectl get nodes -o json` prints: one node with 4 CPUs."""
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}
    (folder / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}))
    return "nodes.json"


def a_deployment(folder: Path, name: str, replicas: int) -> str:
    container: Any = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    written = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(written))
    return f"{name}.yaml"


@pytest.mark.slow
def test_a_pull_request_fails_if_it_does_not_fit_and_its_summary_says_why(tmp_path: Path) -> None:
    cluster, web, jobs = a_node_list(tmp_path), a_deployment(tmp_path, "web", 3), a_deployment(tmp_path, "jobs", 2)
    fitting = run_action(tmp_path, cluster=cluster, manifests=web)
    assert (fitting.status, fitting.outputs) == (0, {"fits": "true"})
    assert fitting.summary.startswith("## Mooring: Everything fits\n\n~~~~~~text\n")
    (tmp_path / "github_step_summary").unlink()
    full = run_action(tmp_path, cluster=cluster, manifests=f"{web}\n{jobs}\n")
    assert (full.status, full.outputs["fits"]) == (1, "false")
    assert full.summary.startswith("## Mooring: Not everything fits\n")
    assert "Insufficient cpu" in full.summary and full.summary.rstrip().endswith("~~~~~~")
    assert run_action(tmp_path, cluster=cluster, manifests=f"{web} {jobs}", fail="false").status == 0
    faulty = run_action(tmp_path, cluster=cluster, manifests="nowhere.yaml")
    assert (faulty.status, faulty.outputs["fits"]) == (2, "false")
    assert "## Mooring: The check could not be made" in faulty.summary and "nowhere.yaml" in faulty.summary


def test_no_input_is_put_into_a_script() -> None:
    """A text between `${{` and `}}` would become a part of the shell code; variables do not."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_the_guide_names_every_input() -> None:
    page = (ROOT / "docs" / "guides" / "check-pull-requests.md").read_text()
    assert all(f"| `{name}` |" in page for name in ACTION["inputs"])
