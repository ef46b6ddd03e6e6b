"""Records of benchmarks: what `make bench` stores, what it prints beside it, and when ratios mean little."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from programs import GIT

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import bench
import records
import template_memory
from cases import GROWTH, PARTS, WORKLOADS, Workload
from records import Commit, Machine, Measurement, MemoryPoint, Record, RecordError

pytestmark = pytest.mark.slow

BASIC, QUEUED = Workload("basic", 5, 5, 7), Workload("basic", 5, 5, 7, queue=True)
HERE = Machine("Sail 9000", 2, 8000, "Linux 6.1 x86_64", "3.12.1", "2.1.0", 0.1)


def a_measurement(workload: Workload = BASIC, rate: float = 1000.0, *parts: str) -> Measurement:
    return Measurement(workload, list(parts or ("workloads",)), [rate] * 3, [90.0] * 3, [200.0] * 3, [70.0] * 3, 7)


def a_record(*measurements: Measurement, machine: Machine = HERE, dirty: bool = False) -> Record:
    commit = Commit("04c325bd0c6f4a7aa23f3ab3a2e9ed6ca09dd1ba", dirty)
    memory = [MemoryPoint(5000, 30000, 100, 5000, 150.5, 151.0)]
    return Record("2026-11-16T03:12:59Z", commit, machine, 3, list(measurements), memory)


# ---- files


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = a_record(a_measurement(), a_measurement(QUEUED, 800.0, "workloads", "nodes"))
    records.write_record(record, tmp_path / "results" / "one.json")
    assert records.read_record(tmp_path / "results" / "one.json") == record


def test_the_form_of_a_record() -> None:
    """Other programs read it: names and order stay."""
    assert records.as_text(a_record(a_measurement())) == (
        "{\n"
        ' "date": "2026-11-16T03:12:59Z",\n'
        ' "commit": {"id":"04c325bd0c6f4a7aa23f3ab3a2e9ed6ca09dd1ba","dirty":false},\n'
        ' "machine": {"cpu":"Sail 9000","cores":2,"memoryMiB":8000,"system":"Linux 6.1 x86_64","python":"3.12.1",'
        '"numpy":"2.1.0","loadBefore":0.1},\n'
        ' "runs": 3,\n'
        ' "format": 1,\n'
        ' "workloads": [\n'
        '  {"workload":{"kind":"basic","nodes":5,"placed":5,"pending":7,"templates":0,"queue":false},'
        '"parts":["workloads"],"perSecond":[1000.0,1000.0,1000.0],"p50us":[90.0,90.0,90.0],'
        '"p99us":[200.0,200.0,200.0],"peakMiB":[70.0,70.0,70.0],"scheduled":7}\n'
        " ],\n"
        ' "memory": [\n'
        '  {"nodes":5000,"pods":30000,"alive":100,"templates":5000,"rssMiB":150.5,"peakMiB":151.0}\n'
        " ]\n"
        "}\n"
    )


def test_a_record_without_figures_is_json_as_well() -> None:
    record = a_record()
    record.memory.clear()
    assert json.loads(records.as_text(record))["workloads"] == []


def test_the_name_of_a_file_has_date_and_commit() -> None:
    assert records.file_name(a_record()) == "2026-11-16T0312Z-04c325b.json"
    assert records.file_name(a_record(dirty=True)) == "2026-11-16T0312Z-04c325b-dirty.json"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lambda it: it.update(format=2), "format 2; this version reads 1", id="a later format"),
        pytest.param(lambda it: it.pop("machine"), "Object missing required field `machine`", id="no machine"),
        pytest.param(
            lambda it: it["workloads"][0].update(perSecond=[]),
            "a workload has no runs, or a rate that is not positive",
            id="no runs",
        ),
        pytest.param(
            lambda it: it["workloads"][0].update(perSecond=[0]),
            "a workload has no runs, or a rate that is not positive",
            id="a rate of 0",
        ),
    ],
)
def test_a_file_that_is_no_record_is_refused(change: Any, complaint: str, tmp_path: Path) -> None:
    content = json.loads(records.as_text(a_record(a_measurement())))
    change(content)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError) as raised:
        records.read_record(path)
    assert str(raised.value) == f"{path}: {complaint}"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json: No such file or directory$"):
        records.read_record(tmp_path / "none.json")


def test_the_committed_baseline_has_every_part() -> None:
    baseline = records.read_record(records.BASELINE)
    for name, workloads in PARTS.items():
        recorded = {each.workload for each in baseline.part(name)}
        assert recorded == set(workloads), f"{name}: make bench-baseline"
    assert baseline.memory


# ---- commit and machine


def test_only_changes_of_code_make_a_commit_dirty(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            [GIT.required(), "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=tmp_path, check=True
        )

    git("init", "-q")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results" / "some.json").write_text("{}")
    (tmp_path / "README.md").write_text("changed")
    found = records.this_commit(tmp_path)
    assert (len(found.id), found.dirty) == (40, False)
    (tmp_path / "src" / "code.py").write_text("2\n")
    assert records.this_commit(tmp_path) == Commit(found.id, True)


def test_a_folder_without_a_repository_has_an_unknown_commit(tmp_path: Path) -> None:
    assert records.this_commit(tmp_path) == Commit("unknown", True)


def test_the_model_of_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Sail 9000 @ 2 GHz\nmodel name\t: Sail 9000\n")
    assert records.cpu_model(tmp_path / "cpuinfo") == "Sail 9000 @ 2 GHz"
    assert records.cpu_model(tmp_path / "none")


def test_this_machine_is_the_same_as_itself() -> None:
    machine = records.this_machine()
    assert machine.cores >= 1 and machine.memory_mib > 100
    assert records.differences(machine, msgspec.structs.replace(machine, load_before=9.0, system="Linux 7")) == []


def test_what_differs_between_machines() -> None:
    other = msgspec.structs.replace(HERE, cpu="Oar 1", cores=8, memory_mib=8100, numpy="2.2.0")
    assert records.differences(HERE, other) == [
        "cpu: Sail 9000 here, Oar 1 there",
        "cores: 2 here, 8 there",
        "numpy: 2.1.0 here, 2.2.0 there",
    ]
    assert records.differences(HERE, msgspec.structs.replace(HERE, memory_mib=16000)) == [
        "memory MiB: 8000 here, 16000 there"
    ]


# ---- benchmarks/bench.py


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Tiny workloads, a folder of its own, and a quiet machine."""
    parts = {"workloads": (BASIC, QUEUED), "nodes": (BASIC, Workload("basic", 9, 5, 7))}
    for module in (bench, records):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
        monkeypatch.setattr(module, "BASELINE", tmp_path / "baseline.json")
        monkeypatch.setattr(module, "SCALE_RECORD", tmp_path / "scale.json")
    monkeypatch.setattr(bench, "SCALE", (BASIC,))
    monkeypatch.setattr(bench, "PARTS", parts)
    monkeypatch.setattr(bench, "MEMORY_ALIVE", (2, 3))
    monkeypatch.setattr(bench, "MEMORY_COMMAND", [*bench.MEMORY_COMMAND, "--nodes", "5", "--pods", "20"])
    monkeypatch.setattr(bench, "new_record", lambda runs: msgspec.structs.replace(a_record(), runs=runs, memory=[]))
    return tmp_path


def test_a_run_is_printed_and_stored(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--runs", "1", "--parts", "workloads,nodes"])
    shown = capsys.readouterr()
    head, *rows, last = shown.out.splitlines()
    assert head.split() == ["WORKLOAD", "(nodes/placed/pending)", "PODS/S", "P50", "P99", "PEAK", "PLACED", "RATIO"]
    names = ["basic 5/5/7", "basic 5/5/7 with queue", "basic 9/5/7"]
    assert [row.split("  ")[0] for row in rows] == names
    assert all(row.endswith("7 of 7       -") for row in rows)
    assert last == "There is no baseline to compare with: make bench-baseline records one."
    (path,) = small.iterdir()
    assert shown.err.splitlines()[0] == "[1/3] basic 5/5/7: run 1 of 1"
    assert shown.err.splitlines()[-1] == f"stored in {path}"
    record = records.read_record(path)
    assert [(str(each.workload), each.scheduled) for each in record.workloads] == [(name, 7) for name in names]
    assert len(record.part("workloads")) == 2


def test_a_workload_of_two_parts_runs_once_and_belongs_to_both(small: Path) -> None:
    bench.main(["--runs", "2", "--only", "basic/5"])
    (path,) = small.iterdir()
    first = records.read_record(path).workloads[0]
    assert (first.workload, first.parts) == (BASIC, ["workloads", "nodes"])
    assert len(first.per_second) == len(first.peak_mib) == 2


def test_memory_is_part_of_a_whole_run(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "MEMORY_COMMAND", [*bench.MEMORY_COMMAND, "--templates", "3,6"])
    bench.main(["--runs", "1", "--parts", "memory"])
    (path,) = small.iterdir()
    memory = records.read_record(path).memory
    assert [(point.alive, point.templates) for point in memory] == [(2, 3), (2, 6), (3, 3), (3, 6)]
    assert all(10 < point.rss_mib < 1000 for point in memory)


def test_a_baseline_replaces_the_one_before(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "MEMORY_COMMAND", [*bench.MEMORY_COMMAND, "--templates", "3"])
    (small / "baseline.json").write_text("no record")
    bench.main(["--runs", "1", "--baseline"])
    assert [path.name for path in small.iterdir()] == ["baseline.json"]
    baseline = records.read_record(small / "baseline.json")
    assert (len(baseline.workloads), len(baseline.memory)) == (3, 2)


def test_growth_to_many_nodes_is_a_record_of_its_own(small: Path) -> None:
    bench.main(["--runs", "1", "--scale"])
    (measured,) = records.read_record(small / "scale.json").part("scale")
    assert (measured.workload, measured.scheduled) == (BASIC, 7)
    with pytest.raises(SystemExit):
        bench.main(["--scale", "--only", "basic"])


def test_a_run_that_fails_stores_what_it_has_but_never_as_the_baseline(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.PARTS, "workloads", (BASIC, Workload("nothing", 5, 5, 7)))  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match=r"^bench: not complete: Command .* returned non-zero exit status 1\.$"):
        bench.main(["--runs", "1", "--baseline"])
    (path,) = small.iterdir()
    assert path.name == "2026-11-16T0312Z-04c325b.json"
    assert [each.workload for each in records.read_record(path).workloads] == [BASIC]
    assert "basic 5/5/7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--baseline", "--only", "basic"], "a baseline has everything: leave --only and --parts out"),
        (["--baseline", "--parts", "nodes"], "a baseline has everything: leave --only and --parts out"),
        (["--parts", "nothing"], "no such part: nothing; there are workloads, nodes, pods, templates, memory"),
        (["--runs", "0"], "argument --runs: found 0; allowed: 1 or more"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(arguments)
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {complaint}")


def test_a_baseline_that_is_damaged_stops_a_run_before_it_begins(small: Path) -> None:
    (small / "baseline.json").write_text("{")
    with pytest.raises(SystemExit, match=r"^bench: .*baseline\.json: Input data was truncated$"):
        bench.main(["--runs", "1"])


# ---- ratios


def test_ratios_are_of_medians() -> None:
    now = a_measurement(BASIC, 1500.0)
    rows = bench.report(a_record(now, a_measurement(QUEUED)), a_record(a_measurement())).splitlines()
    assert rows[1].split()[-1] == "1.50"
    assert rows[2].split()[-1] == "-", "the baseline has not measured it"
    assert rows[3:] == [
        "5000 nodes, 30000 pods, 5000 templates of which 100 are in use: 150 MiB",
        "RATIO is to the baseline: commit 04c325b, 2026-11-16T03:12:59Z.",
    ]


def test_a_baseline_of_another_machine_is_called_that() -> None:
    baseline = a_record(machine=msgspec.structs.replace(HERE, cores=8, python="3.13.0"), dirty=True)
    assert bench.basis(a_record(), baseline) == (
        "RATIO is to the baseline: commit 04c325b, with changes, 2026-11-16T03:12:59Z.\n"
        "The baseline is from ANOTHER MACHINE (cores: 2 here, 8 there; python: 3.12.1 here, 3.13.0 there): "
        "the ratios do not compare code alone."
    )


def test_a_busy_machine_is_called_that() -> None:
    busy = a_record(machine=msgspec.structs.replace(HERE, load_before=3.5))
    for now, baseline, loads in ((busy, a_record(), "3.5 here, 0.1 there"), (a_record(), busy, "0.1 here, 3.5 there")):
        assert bench.basis(now, baseline).splitlines()[1:] == [
            f"A machine was busy (load before: {loads}): the ratios may be wrong."
        ]


# ---- what is measured


def test_the_series_vary_one_number() -> None:
    assert sorted({each.nodes for each in GROWTH["nodes"]}) == [1000, 5000, 20000, 100000]
    assert sorted({each.placed for each in GROWTH["pods"]}) == [0, 5000, 30000]
    assert {each.templates for each in GROWTH["templates"]} == {1, 10, 100, 400, 1000, 0}


def test_workloads_with_100000_nodes_are_measured() -> None:
    assert {each.kind for each in WORKLOADS if each.nodes == 100000} == {"basic", "spread", "anti", "mixed"}


def test_counts_of_templates_must_grow() -> None:
    for wrong in (["--templates", "9,3", "--alive", "1"], ["--templates", "9", "--alive", "10"]):
        with pytest.raises(SystemExit, match=r"^template_memory: --templates must grow, and --alive be at most "):
            template_memory.main(wrong)
