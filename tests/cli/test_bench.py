"""`mooring bench`: the figures it prints, and the scenarios that it refuses."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from command import as_manifest, mooring

from build import a_node, a_pod


def test_the_figures_are_one_line_of_json(tmp_path: Path) -> None:
    pods = [
        a_pod(name, cpu=cpu, schedulerName="default-scheduler") for name, cpu in (("a", "1"), ("b", "1"), ("c", "9"))
    ]
    objects = [as_manifest(item) for item in (a_node("n", cpu="4"), *pods)]
    scenario = {"name": "three", "config": None, "objects": objects, "pods": [pod.key for pod in pods]}
    (tmp_path / "three.json").write_text(json.dumps(scenario))
    ran = mooring("bench", tmp_path / "three.json")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    figures = json.loads(ran.out)
    assert list(figures) == ["name", "pods", "scheduled", "failed", "seconds", "perSecond", "p50us", "p99us"]
    assert {key: figures[key] for key in ("name", "pods", "scheduled", "failed")} == {
        "name": "three",
        "pods": 3,
        "scheduled": 2,
        "failed": 1,
    }
    assert 0 < figures["p50us"] <= figures["p99us"]


def test_a_scenario_without_pods_is_measured_as_nothing() -> None:
    ran = mooring("bench", "-", stdin=b"{}")
    assert json.loads(ran.out)["perSecond"] == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "Input data was truncated", id="an empty file"),
        pytest.param(b"kind: Pod", "JSON is malformed: invalid character (byte 0)", id="no JSON"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="no scenario"),
        pytest.param(
            b'{"objects": [{"kind": 7}]}', "objects[0]: Expected `str`, got `int` - at `$.kind`", id="no object"
        ),
    ],
)
def test_a_file_that_is_no_scenario_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.json").write_bytes(content)
    ran = mooring("bench", "odd.json")
    assert (ran.code, ran.out, ran.err) == (2, "", f"odd.json: {complaint}\n")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json"):
        ran = mooring("bench", path)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[-1].startswith("Error: Invalid value for 'SCENARIO': ")


# ---- benchmarks/throughput.py


def load_script(name: str, monkey: pytest.MonkeyPatch) -> Any:
    """A benchmark script as a module."""
    spec = spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkey.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def throughput() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as monkey:
        yield load_script("throughput", monkey)


def test_the_benchmark_runs_each_workload_in_a_process_of_its_own(
    throughput: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "WORKLOADS", (throughput.Workload("basic", 5, 5, 7),))
    throughput.main(["--runs", "1", "--json", str(tmp_path / "figures.json")])
    shown = capsys.readouterr()
    head, row = shown.out.splitlines()
    assert head.split() == ["WORKLOAD", "(nodes/placed/pending)", "BEST", "MEDIAN", "P50", "P99", "PLACED"]
    assert row.startswith("basic 5/5/7 ") and row.endswith(" 7 of 7")
    assert shown.err == "basic 5/5/7: run 1 of 1\n"
    (entry,) = json.loads((tmp_path / "figures.json").read_text())
    assert entry["workload"] == {"kind": "basic", "nodes": 5, "placed": 5, "pending": 7}
    assert [run["name"] for run in entry["runs"]] == ["basic-5n-5i-7p"]


def test_the_benchmark_runs_with_queue_and_then_with_preemption_too(
    throughput: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four nodes full of four pods each; a preemptor has to be tried twice, and its victims have to leave. In `preemptors`
    each of eight is of another kind."""
    assert throughput.WITH_QUEUE[:-2] == throughput.WORKLOADS
    preempting = (throughput.Workload("preemption", 4, 16, 3), throughput.Workload("preemptors", 12, 48, 8))
    assert {workload.kind for workload in throughput.WITH_QUEUE[-2:]} == {workload.kind for workload in preempting}
    workloads = (throughput.Workload("basic", 5, 5, 7), *preempting)
    monkeypatch.setattr(throughput, "WITH_QUEUE", workloads)
    throughput.main(["--queue", "--runs", "1", "--json", str(tmp_path / "figures.json")])
    _, basic, preemption, preemptors = capsys.readouterr().out.splitlines()
    assert basic.startswith("basic 5/5/7 ") and basic.endswith(" 7 of 7")
    assert preemption.startswith("preemption 4/16/3 ") and preemption.endswith(" 3 of 3")
    assert preemptors.startswith("preemptors 12/48/8 ") and preemptors.endswith(" 8 of 8")
    _, *entries = json.loads((tmp_path / "figures.json").read_text())
    assert [run["name"] for entry in entries for run in entry["runs"]] == [
        "preemption-4n-16i-3p",
        "preemptors-12n-48i-8p",
    ]


def test_preemption_is_a_workload_only_with_the_queue(throughput: Any) -> None:
    with pytest.raises(SystemExit, match=r"^no such workload: preemption; there are affinity, anti, basic, "):
        throughput.main(["--only", "preemption"])


def test_the_benchmark_measures_memory(
    throughput: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "LARGE", throughput.Workload("basic", 5, 5, 7))
    throughput.main(["--memory"])
    words = capsys.readouterr().out.split()
    assert (words[:2], words[3:]) == (["basic", "5/5/7:"], ["MiB", "at", "the", "peak"])
    assert 10 < int(words[2]) < 1000


def test_the_benchmark_refuses_a_workload_that_it_does_not_know(throughput: Any) -> None:
    with pytest.raises(SystemExit, match=r"^no such workload: nothing; there are affinity, anti, basic, "):
        throughput.main(["--only", "nothing"])


# ---- benchmarks/compare.py


@pytest.fixture
def compare(throughput: Any) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as monkey:
        yield load_script("compare", monkey)


VERDICTS: dict[str, tuple[list[float], list[float], str]] = {
    "the same figures": ([100, 101, 99], [100, 101, 99], "equal within noise"),
    "a little slower, and steady": ([1000, 1001, 999], [900, 901, 899], "SLOWER"),
    "a little faster, and steady": ([1000, 1001, 999], [1100, 1101, 1099], "faster"),
    "a little slower, on a noisy machine": ([1000, 700, 1200], [900, 1100, 650], "equal within noise"),
    "much faster, on a noisy machine": ([1000, 900, 1100], [3000, 2700, 3300], "faster"),
}


@pytest.mark.parametrize(("base", "here", "says"), VERDICTS.values(), ids=VERDICTS.keys())
def test_a_difference_counts_if_it_is_larger_than_the_noise(
    compare: Any, base: list[float], here: list[float], says: str
) -> None:
    found = compare.Comparison(compare.Workload("basic", 5, 5, 7), base, here)
    assert found.says == says
    assert compare.table([found]).splitlines()[1].endswith(says)


def test_two_trees_are_measured_in_turn(compare: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The order changes from round to round, so that none is always the one that warms the machine up."""
    order: list[str] = []

    def rate(source: Path, scenario: Path, queue: bool) -> float:
        order.append("base" if source == tmp_path else "here")
        return 100.0

    monkeypatch.setattr(compare, "rate", rate)
    found = compare.compare(compare.Workload("basic", 5, 5, 7), tmp_path, 3, queue=False)
    assert order == ["here", "base", "base", "here", "here", "base"]
    assert (found.base, found.here) == ([100.0] * 3, [100.0] * 3)


def test_the_code_below_a_folder_is_what_is_measured(compare: Any, tmp_path: Path) -> None:
    scenario = compare.write(compare.Workload("basic", 5, 5, 7), tmp_path)
    assert compare.rate(compare.ROOT / "src", scenario, False) > 0
    (tmp_path / "mooring").mkdir()
    (tmp_path / "mooring" / "__init__.py").write_text("raise SystemExit('the other tree')")
    with pytest.raises(subprocess.CalledProcessError):
        compare.rate(tmp_path, scenario, False)


def test_an_unknown_commit_is_refused(compare: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^compare: no-such-commit is no commit of this repository$"):
        compare.unpack("no-such-commit", tmp_path)
