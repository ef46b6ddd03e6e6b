"""docs/performance.md: it shows what the committed record has, and text of a record does no harm in it."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import performance
import records
from cases import Workload
from performance import PageError, files_of, tables_of, with_tables
from records import Commit, Machine, Measurement, MemoryPoint, Record

MACHINE = Machine("Sail 9000", 2, 8192, "Linux 6.1", "3.12.1", "2.1.0", 0.1)
HOSTILE = "<script>alert(1)</script>|![x](http://evil)`\n# big"


def a_measurement(workload: Workload, cost_us: float, *parts: str) -> Measurement:
    rates = [1e6 / cost_us, 2e6 / cost_us, 0.5e6 / cost_us]
    return Measurement(workload, list(parts), rates, [3.0, 1.0, 2.0], [30.0, 10.0, 20.0], [70.0, 71.0, 69.0], 7)


def a_record(kind: str = "basic", machine: Machine = MACHINE) -> Record:
    workloads = [
        a_measurement(Workload(kind, 5000, 1000, 3000), 100, "workloads", "nodes"),
        a_measurement(Workload(kind, 5000, 1000, 3000, queue=True), 125, "workloads"),
        a_measurement(Workload("preemption", 5000, 20000, 1000, queue=True), 1000, "workloads"),
        a_measurement(Workload(kind, 100000, 1000, 3000), 170, "nodes"),
        a_measurement(Workload(kind, 5000, 0, 3000), 90, "pods"),
        a_measurement(Workload(kind, 5000, 0, 3000, templates=10), 90, "templates"),
        a_measurement(Workload(kind, 5000, 0, 3000), 95, "templates"),
    ]
    memory = [MemoryPoint(5000, 30000, 100, count, 150.0, 151.0) for count in (5000, 50000)]
    return Record("2026-11-16T03:12:59Z", Commit("04c325bd0c6f", False), machine, 3, workloads, memory)


def a_scale_record() -> Record:
    """`a_measurement` has 1 µs as the least median of a run."""
    slow = msgspec.structs.replace(a_measurement(Workload("basic", 1_000_000, 10, 10), 9, "scale"), p50_us=[4.0, 2.5])
    return msgspec.structs.replace(
        a_record(), workloads=[a_measurement(Workload("basic", 100_000, 10, 10), 5, "scale"), slow]
    )


def test_the_page_and_its_plots_are_what_the_committed_records_give() -> None:
    scale = records.read_record(records.SCALE_RECORD) if records.SCALE_RECORD.exists() else None
    made = files_of(records.read_record(records.BASELINE), scale, performance.PAGE.read_text())
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "make performance"


def test_every_plot_is_shown_on_the_page() -> None:
    page = performance.PAGE.read_text()
    assert [path.name for path in sorted(performance.PLOTS.iterdir()) if f"](plots/{path.name})" not in page] == []


def test_rows_of_workloads_have_medians_and_the_share_with_queue() -> None:
    assert tables_of(a_record())["workloads"].splitlines()[2:] == [
        "| basic | 5,000 | 1,000 | 3,000 | 10,000 | 100 | 1 | 10 | 71 | 8,000 | 80% |",
        "| preemption | 5,000 | 20,000 | 1,000 |  |  | 1 | 10 | 71 | 1,000 |  |",
    ]


def test_growth_is_cost_by_number() -> None:
    tables = tables_of(a_record())
    assert tables["nodes"].splitlines() == [
        "| µs a pod, by nodes | 5,000 | 100,000 | 5,000 to 100,000 |",
        "| --- | ---: | ---: | ---: |",
        "| basic | 100 | 170 | 1.7x |",
    ]
    assert tables["templates"].splitlines()[0] == "| µs a pod, by templates | 10 | 3,000 |"
    assert tables["memory"].splitlines()[-1] == "| 5,000 | 30,000 | 100 | 50,000 | 150 | 151 |"


def test_growth_to_many_nodes_is_the_median_of_single_decisions() -> None:
    assert performance.scale_table(a_scale_record()).splitlines()[4:] == [
        "| p50 µs, by nodes | 100,000 | 1,000,000 | 100,000 to 1,000,000 |",
        "| --- | ---: | ---: | ---: |",
        "| basic | 1 | 2 | 2.5x |",
        "| peak MiB | 71 | 71 |  |",
    ]
    with pytest.raises(PageError, match="has less than two sizes: make bench-scale"):
        performance.scale_table(msgspec.structs.replace(a_scale_record(), workloads=[]))


def test_figures_of_a_busy_machine_are_called_provisional() -> None:
    assert tables_of(a_record())["source"] == (
        "Measured on 2026-11-16 at commit 04c325b: Sail 9000, 2 cores, 8 GiB, Linux 6.1, Python 3.12.1, NumPy 2.1.0; "
        "3 runs of each, load before 0.1."
    )
    busy = tables_of(a_record(machine=msgspec.structs.replace(MACHINE, load_before=2.5)))["source"]
    assert busy.splitlines()[-1] == "**Provisional: the machine was busy, so these figures are too low.**"


def test_text_of_a_record_is_neither_html_nor_markup() -> None:
    hostile = a_record(HOSTILE, msgspec.structs.replace(MACHINE, cpu=HOSTILE))
    made = files_of(hostile, a_scale_record(), performance.PAGE.read_text())
    shown = r"&lt;script&gt;alert(1)&lt;/script&gt;\|\!\[x\](http://evil)\` \# big"
    page = made.pop(performance.PAGE)
    assert f"| {shown} | 5,000 |" in page and f": {shown}, 2 cores" in page
    assert "<script" not in page and "![x]" not in page
    for text in made.values():
        assert "<script" not in text
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert tags <= {"svg", "title", "desc", "rect", "text", "line", "polyline", "circle", "polygon"}


def test_a_page_must_have_a_place_for_each_table() -> None:
    page = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter\n"
    assert with_tables(page, {"one": "new"}) == "before\n<!-- table: one -->\n\nnew\n\n<!-- end -->\nafter\n"
    for wrong in ("nothing", page + page):
        with pytest.raises(PageError, match=r"must have `<!-- table: one -->` once"):
            with_tables(wrong, {"one": "new"})


@pytest.mark.parametrize("part", ["nodes", "pods", "templates", "memory"])
def test_a_record_without_a_part_makes_no_page(part: str) -> None:
    record = a_record()
    if part == "memory":
        record.memory.clear()
    else:
        record.workloads = [each for each in record.workloads if part not in each.parts]
    with pytest.raises(PageError, match=rf"the record has no measurements of (the part )?{part}"):
        files_of(record, a_scale_record(), performance.PAGE.read_text())


def test_check_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "performance.md"
    page.write_text(performance.PAGE.read_text())
    monkeypatch.setattr(performance, "PAGE", page)
    monkeypatch.setattr(performance, "PLOTS", tmp_path / "plots")
    records.write_record(a_record(), tmp_path / "record.json")
    records.write_record(a_scale_record(), tmp_path / "scale.json")
    monkeypatch.setattr(performance, "SCALE_RECORD", tmp_path / "scale.json")
    arguments = ["--record", str(tmp_path / "record.json")]
    with pytest.raises(SystemExit, match=r"performance\.md is not what the record gives: make performance"):
        performance.main([*arguments, "--check"])
    assert not (tmp_path / "plots").exists()
    performance.main(arguments)
    assert capsys.readouterr().out.startswith(f"wrote {page}\n")
    with pytest.raises(SystemExit) as ended:
        performance.main([*arguments, "--check"])
    assert ended.value.code == 0
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "memory.svg",
        "nodes.svg",
        "pods.svg",
        "scale.svg",
        "templates.svg",
    ]


def test_a_missing_record_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^performance: .*none\.json: No such file or directory$"):
        performance.main(["--record", str(tmp_path / "none.json")])
