"""`mooring study` as users see it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import mooring

from tiny_studies import a_faulty_plugin, a_study

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(a_study(tmp_path, seeds=2)))
    return path


def test_a_study_shows_the_configurations_side_by_side(study: Path, tmp_path: Path) -> None:
    results, page, notebook = tmp_path / "r.csv", tmp_path / "r.html", tmp_path / "deep" / "r.ipynb"
    notebook.parent.mkdir()
    ran = mooring("study", study, "--results", results, "--html", page, "--notebook", notebook)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "4 runs of the study tiny: all were made."
    assert lines[2] == "placed: mean ± standard deviation over seeds; * differs from spread (p < 0.05)"
    assert lines[3].split() == ["WORKLOAD", "SPREAD", "PACKED"] and lines[4].startswith("w ")
    assert page.read_text().startswith("<!doctype html>")
    with results.open() as file:
        rows = [*csv.DictReader(file)]
    assert [*rows[0]] == [
        *("run", "cluster", "workload", "policy", "seed", "load", "pods", "failed", "bound", "placed", "pending"),
        *("allocated_cpu_percent", "at_50", "at_100"),
        *("study", "configuration", "parameters", "mooring", "python", "numpy"),
    ]
    again = mooring("study", study, "--results", results)
    assert (again.out, again.err) == (ran.out, f"note: 4 of 4 runs are in {results} already\n")


def test_the_cells_of_the_notebook_run(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mooring("study", study, "--results", tmp_path / "r.csv", "--notebook", tmp_path / "r.ipynb")
    written = json.loads((tmp_path / "r.ipynb").read_text())
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for cell in written["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)
    assert len(scope["runs"]) == 4  # type: ignore[arg-type]
    assert mooring("study", study, "--notebook", tmp_path / "x.ipynb").complaints == [
        "--notebook loads the rows of --results: name that file too"
    ]


def test_a_bound_beside_the_policies(study: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.csv"
    ran = mooring("study", study, "--bound", "--processes", "1", "--results", results)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == [
        "6 runs of the study tiny: all were made.",
        "Optimal is a bound that no placement of the pods exceeds: exact in 2 runs.",
    ]
    assert [*map(str.split, lines)].count(["WORKLOAD", "SPREAD", "PACKED", "Optimal"]) == 1
    with results.open() as file:
        rows = [*csv.DictReader(file)]
    assert [(row["policy"], row["bound"], row["placed"] == "") for row in rows] == [
        *(("spread", "", False),) * 2,
        *(("packed", "", False),) * 2,
        *(("Optimal", "exact", True),) * 2,
    ]
    again = mooring("study", study, "--bound", "--processes", "1", "--results", results)
    assert (again.out, again.err) == (ran.out, f"note: 6 of 6 runs are in {results} already\n")


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_where_it_was(study: Path, tmp_path: Path) -> None:
    study.write_text(json.dumps(a_study(tmp_path, seeds=8)))
    results = tmp_path / "r.csv"
    command = ["study", str(study), "--bound", "-o", "json"]
    on_two = [*command, "--processes", "2", "--results", str(results)]
    process = subprocess.Popen([sys.executable, "-m", "mooring.cli.main", *on_two], stdout=subprocess.DEVNULL)
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s and (not results.exists() or results.read_bytes().count(b"\n") < 3):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = results.read_bytes().splitlines(keepends=True)
    assert 3 <= len(kept) <= 25
    ran = mooring(*on_two)
    assert ran.out == mooring(*command, "--processes", "1").out
    assert results.read_bytes().count(b"\n") == 25
    assert results.read_bytes().splitlines(keepends=True)[: len(kept) - 1] == kept[:-1], "rows stay as they were"


def test_only_some_runs(study: Path) -> None:
    ran = mooring("study", study, "--only", "seed=2", "--only", "policy=packed", "-o", "json")
    (run,) = json.loads(ran.out)["runs"]
    assert (run["policy"], run["seed"], run["failed"]) == ("packed", 2, None)
    assert mooring("study", study, "--only", "seed").complaints == ["--only seed: no value; write NAME=VALUE"]
    twice = mooring("study", study, "--only", "seed=1", "--only", "seed=2")
    assert (twice.code, twice.complaints) == (2, ["--only seed: given twice; write it once"])


def test_a_run_that_failed_is_told_and_is_the_exit_status(tmp_path: Path) -> None:
    faulty = a_faulty_plugin(tmp_path, 'raise RuntimeError("no such luck")')
    written = a_study(tmp_path, seeds=1)
    written["configurations"].append(faulty)
    (tmp_path / "s.json").write_text(json.dumps(written))
    ran = mooring("study", tmp_path / "s.json")
    assert ran.code == 1 and "1 failed" in ran.out.splitlines()[0] and "no such luck" in ran.out


def test_without_data_the_study_says_where_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = mooring("study", "examples/studies/fragmentation.yaml")
    (told,) = ran.complaints
    assert ran.code == 2 and told.startswith(
        "examples/studies/fragmentation.yaml:8: parameters.traces: the study needs a value: --set traces=VALUE; it is the "
    )
    assert "github.com/alibaba/clusterdata" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"clusters": [{"name": "c", "manifests": "/nowhere.yaml"}]}, "/nowhere.yaml: cannot be read: No such file"),
        ({"configurations": [{"name": "a", "config": "/no.yaml"}]}, "/no.yaml: cannot be read: No such file"),
        ({"configurations": [{"name": "a", "plugins": ["/no.py"]}]}, "/no.py: cannot be read: No such file"),
        (
            {"configurations": [{"name": "a", "set": {"paralelism": 3}}]},
            "configuration a: set: paralelism: unknown field 'paralelism'; did you mean parallelism?",
        ),
        ({"metrics": [{"python": "/no.py:f"}]}, "/no.py: cannot be read: No such file"),
    ],
    ids=["manifests", "config", "plugins", "set", "python"],
)
def test_what_cannot_be_used_is_one_line(change: dict[str, object], told: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(a_study(tmp_path, **change)))
    ran = mooring("study", tmp_path / "s.json")
    assert (ran.code, len(ran.complaints)) == (2, 1) and told in ran.err


def test_parquet_without_pyarrow_is_told(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = mooring("study", study, "--results", tmp_path / "r.parquet")
    assert (ran.code, len(ran.complaints)) == (2, 1) and "Parquet needs pyarrow, which is not installed" in ran.err
