"""`mooring bench`: the figures it prints, and the scenarios that it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import as_manifest, mooring

from build import a_node, a_pod
from mooring.sim.scenario import measure_with_queue

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import compare
import throughput
from cases import PARTS, PREEMPTION, WORKLOADS, Workload, choose


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


def test_the_benchmark_runs_each_workload_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "WORKLOADS", (Workload("basic", 5, 5, 7),))
    throughput.main(["--runs", "1", "--json", str(tmp_path / "figures.json")])
    shown = capsys.readouterr()
    head, row = shown.out.splitlines()
    assert head.split() == ["WORKLOAD", "(nodes/placed/pending)", "BEST", "MEDIAN", "P50", "P99", "PLACED"]
    assert row.startswith("basic 5/5/7 ") and row.endswith(" 7 of 7")
    assert shown.err == "basic 5/5/7: run 1 of 1\n"
    (entry,) = json.loads((tmp_path / "figures.json").read_text())
    amounts = {"nodes": 5, "placed": 5, "pending": 7, "templates": 0, "queue": False}
    assert entry["workload"] == {"kind": "basic", **amounts}
    assert 10 << 20 < entry["peak_bytes"][0] < 1000 << 20
    assert [run["name"] for run in entry["runs"]] == ["basic-5n-5i-7p"]


def test_the_benchmark_runs_with_queue_and_then_with_preemption_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four nodes full of four pods each; a preemptor has to be tried twice, and its victims have to leave. In `preemptors`
    each of eight is of another kind."""
    preempting = (Workload("preemption", 4, 16, 3, queue=True), Workload("preemptors", 12, 48, 8, queue=True))
    monkeypatch.setattr(throughput, "WORKLOADS", (Workload("basic", 5, 5, 7),))
    monkeypatch.setattr(throughput, "PREEMPTION", preempting)
    gangs = (Workload("gangs", 50, 0, 16, queue=True), Workload("gang-racks", 41, 0, 20, queue=True))
    monkeypatch.setattr(throughput, "GANGS", gangs)
    throughput.main(["--queue", "--runs", "1", "--json", str(tmp_path / "figures.json")])
    _, basic, preemption, preemptors, gangs_line, racks_line = capsys.readouterr().out.splitlines()
    assert basic.startswith("basic 5/5/7 with queue ") and basic.endswith(" 7 of 7")
    assert preemption.startswith("preemption 4/16/3 with queue ") and preemption.endswith(" 3 of 3")
    assert preemptors.startswith("preemptors 12/48/8 with queue ") and preemptors.endswith(" 8 of 8")
    assert gangs_line.startswith("gangs 50/0/16 with queue ") and gangs_line.endswith(" 16 of 16")
    assert racks_line.startswith("gang-racks 41/0/20 with queue ")
    assert racks_line.endswith(" 16 of 20"), "the last gang is not complete"
    _, *entries = json.loads((tmp_path / "figures.json").read_text())
    names = [run["name"] for entry in entries for run in entry["runs"]]
    assert names == ["preemption-4n-16i-3p", "preemptors-12n-48i-8p", "gangs-50n-0i-16p", "gang-racks-41n-0i-20p"]


def test_gates_of_a_scenario_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"featureGates": "Nope=true"}')
    ran = mooring("bench", "--queue", tmp_path / "odd.json")
    assert ran.code == 2
    assert ran.err.endswith("featureGates: unrecognized feature gate: Nope\n")


def test_preemption_is_a_workload_only_with_the_queue() -> None:
    with pytest.raises(SystemExit, match=r"^no such workload: preemption; there are affinity, anti, basic, "):
        throughput.main(["--only", "preemption"])


def test_the_benchmark_measures_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(throughput, "LARGE", Workload("basic", 5, 5, 7))
    throughput.main(["--memory"])
    words = capsys.readouterr().out.split()
    assert (words[:2], words[3:]) == (["basic", "5/5/7:"], ["MiB", "at", "the", "peak"])
    assert 10 < int(words[2]) < 1000


def test_the_benchmark_refuses_a_workload_that_it_does_not_know() -> None:
    with pytest.raises(SystemExit, match=r"^no such workload: nothing; there are affinity, anti, basic, "):
        throughput.main(["--only", "nothing"])


# ---- benchmarks/compare.py


VERDICTS: dict[str, tuple[list[float], list[float], str]] = {
    "the same figures": ([100, 101, 99], [100, 101, 99], "equal within noise"),
    "a little slower, and steady": ([1000, 1001, 999], [900, 901, 899], "SLOWER"),
    "a little faster, and steady": ([1000, 1001, 999], [1100, 1101, 1099], "faster"),
    "a little slower, on a noisy machine": ([1000, 700, 1200], [900, 1100, 650], "equal within noise"),
    "faster at times, when others left the machine alone": (
        [1000, 1010, 990, 1600],
        [1500, 1490, 1510, 980],
        "equal within noise",
    ),
    "faster but for one pair of runs": ([1000, 1010, 990, 1005, 1210], [1200, 1220, 1230, 1240, 1250], "faster"),
    "much faster, on a noisy machine": ([1000, 900, 1100], [3000, 2700, 3300], "faster"),
}


@pytest.mark.parametrize(("base", "here", "says"), VERDICTS.values(), ids=VERDICTS.keys())
def test_a_difference_counts_if_it_is_larger_than_the_noise(base: list[float], here: list[float], says: str) -> None:
    found = compare.Comparison(Workload("basic", 5, 5, 7), {"BASE": base, "HERE": here})
    assert found.says == says
    assert compare.table([found]).splitlines()[1].endswith(says)


def test_two_trees_are_measured_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The order changes from round to round, so that none is always the one that warms the machine up. Each gets the
    scenario of its own script."""
    order: list[tuple[str, str]] = []
    writer = tmp_path / "tests/conformance/workloads.py"
    writer.parent.mkdir(parents=True)
    writer.write_text("print('that of the other tree')")

    def rate(tree: Path, scenario: Path, workload: Workload) -> float:
        order.append(("base" if tree == tmp_path else "here", scenario.read_text()[:24]))
        return 100.0

    monkeypatch.setattr(compare, "rate", rate)
    found = compare.compare(Workload("basic", 5, 5, 7), tmp_path, 3)
    here, base = ("here", '{"name":"basic-5n-5i-7p"'), ("base", "that of the other tree\n")
    assert order == [here, base, base, here, here, base]
    assert found.rates == {"BASE": [100.0] * 3, "HERE": [100.0] * 3}


def test_the_code_below_a_folder_is_what_is_measured(tmp_path: Path) -> None:
    workload = Workload("basic", 5, 5, 7)
    scenario = workload.write(tmp_path)
    assert compare.rate(compare.ROOT, scenario, workload) > 0
    (tmp_path / "src" / "mooring").mkdir(parents=True)
    (tmp_path / "src" / "mooring" / "__init__.py").write_text("raise SystemExit('the other tree')")
    with pytest.raises(subprocess.CalledProcessError):
        compare.rate(tmp_path, scenario, workload)


def test_an_unknown_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^compare: no-such-commit is no commit of this repository$"):
        compare.unpack("no-such-commit", tmp_path)


def test_a_comparison_ends_with_what_is_larger_than_the_noise() -> None:
    steady: list[float] = [1000, 1001, 999]
    kinds = {"basic": steady, "spread": [2000.0, 2001.0, 1999.0], "anti": [500.0, 501.0, 499.0]}
    found = [
        compare.Comparison(Workload(kind, 5, 5, 7), {"BASE": steady, "HERE": here}) for kind, here in kinds.items()
    ]
    assert compare.summary(found) == (
        "Larger than the noise: spread 5/5/7 faster (2.00); anti 5/5/7 SLOWER (0.50). Equal within noise: 1 of 3."
    )
    assert compare.summary(found[:1]) == "Larger than the noise: nothing. Equal within noise: 1 of 1."


def test_a_workload_that_a_commit_cannot_run_is_a_line_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rate(tree: Path, scenario: Path, workload: Workload) -> float:
        if workload.kind == "basic" and tree == tmp_path:
            raise subprocess.CalledProcessError(2, "mooring bench")
        return 100.0

    monkeypatch.setattr(compare, "rate", rate)
    monkeypatch.setattr(compare, "unpack", lambda commit, folder: tmp_path)
    monkeypatch.setattr(Workload, "write", lambda workload, folder, root: folder)
    monkeypatch.setitem(PARTS, "workloads", (Workload("basic", 5, 5, 7), Workload("spread", 5, 5, 7)))
    compare.main(["v0"])
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("basic 5/5/7 ") and out[1].endswith("BASE cannot run it")
    assert out[2].endswith("equal within noise")
    assert out[3] == "Larger than the noise: nothing. Equal within noise: 1 of 2."


# ---- benchmarks/cases.py


def test_workloads_are_chosen_by_kind_or_by_kind_and_nodes() -> None:
    chosen = choose(WORKLOADS, "spread/100000,mixed")
    assert [str(each) for each in chosen] == [
        "spread 100000/5000/2000",
        "mixed 5000/2000/1000",
        "mixed 100000/2000/1000",
    ]
    assert choose(WORKLOADS, "") == list(WORKLOADS)
    with pytest.raises(SystemExit, match=r"^no such workload: basic/7, x; there are affinity, anti, "):
        choose(WORKLOADS, "basic/7,anti,x")


@pytest.mark.parametrize(
    ("workload", "name", "templates"),
    [
        (Workload("requests", 5, 5, 7), "requests-5n-5i-7p", 7),
        (Workload("diverse", 5, 5, 7, templates=2), "diverse-5n-5i-7p", 2),
        (Workload("requests", 5, 5, 7, templates=3), "requests-5n-5i-7p", 3),
        (Workload("preemption", 4, 16, 3, queue=True), "preemption-4n-16i-3p", 1),
        (Workload("preemptors", 12, 48, 8, queue=True), "preemptors-12n-48i-8p", 8),
        (Workload("volumes-bound", 4, 0, 3), "volumes-bound-4n-3p", 1),
        (Workload("devices-selector", 4, 0, 3), "devices-selector-4-3", 1),
    ],
    ids=str,
)
def test_a_workload_is_written_with_its_templates(
    workload: Workload, name: str, templates: int, tmp_path: Path
) -> None:
    written = json.loads(workload.write(tmp_path).read_text())
    assert (written["name"], len(written["pods"])) == (name, workload.pending)
    pods = {f"{item['metadata'].get('namespace')}/{item['metadata']['name']}": item for item in written["objects"]}
    requests = {json.dumps(pods[key]["spec"]["containers"][0].get("resources")) for key in written["pods"]}
    assert len(requests) == templates


@pytest.mark.parametrize("kind", ["group-preemption", "whole-groups"])
def test_groups_that_preempt_are_tried_again_until_all_are_bound(kind: str, tmp_path: Path) -> None:
    written = Workload(kind, 12, 48, 16, queue=True).write(tmp_path).read_bytes()
    figures = measure_with_queue(written)
    assert (figures.scheduled, figures.failed) == (16, 0)


def test_preemption_is_part_of_what_is_compared() -> None:
    assert set(PREEMPTION) <= set(PARTS["workloads"])
    assert all(each.queue for each in PREEMPTION)
