"""`--html FILE` of all commands that have it: a whole file or none, beside the usual answer."""

import re
import stat
from pathlib import Path

import click
import pytest
from command import mooring, write

from build import a_node, a_pod
from mooring.cli.main import main

ROOT = Path(__file__).parents[2]

OFFERS = "- {name: n, price: 1, node: {status: {allocatable: {cpu: '4', memory: 8Gi, pods: '9'}}}}\n"
COMMANDS = {
    "simulate": ("simulate", "CLUSTER"),
    "day": ("simulate", "CLUSTER", "--arrivals", "DAY"),
    "explained": ("simulate", "CLUSTER", "--explain", "p0"),
    "what-if": ("what-if", "--from", "CLUSTER", "--cordon", "n"),
    "compare": ("compare", "--from", "CLUSTER", "--vary", "seed=1,2", "--processes", "1"),
    "plan": ("plan", "--from", "CLUSTER", "--offer", "OFFERS"),
}
HEADINGS = {
    "simulate": "Simulation",
    "day": "Simulated day",
    "explained": "Simulation",
    "what-if": "What if",
    "compare": "Comparison",
    "plan": "Plan",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    cluster = write(tmp_path / "c.json", a_node("n", cpu="4"), *(a_pod(f"p{i}", cpu="3", image="i") for i in range(2)))
    (tmp_path / "o.yaml").write_text(OFFERS)
    (tmp_path / "d.yaml").write_text("- {at: 0, run: 10, cpu: 1}\n")
    (tmp_path / "reports").mkdir()
    return {"CLUSTER": cluster, "OFFERS": tmp_path / "o.yaml", "DAY": tmp_path / "d.yaml", "OUT": tmp_path / "reports"}


def arguments(kind: str, files: dict[str, Path]) -> list[str | Path]:
    return [files.get(each, each) for each in COMMANDS[kind]]


@pytest.mark.parametrize("kind", [*COMMANDS])
def test_a_report_is_written_beside_the_usual_answer(kind: str, files: dict[str, Path]) -> None:
    report = files["OUT"] / "r.html"
    usual, ran = mooring(*arguments(kind, files)), mooring(*arguments(kind, files), "--html", report)
    assert ran.code == usual.code < 2
    assert without_times(ran.out) == without_times(usual.out)
    assert ran.err == usual.err
    page = report.read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert f'<h1>{HEADINGS[kind]}</h1><p class="made">Made by mooring ' in page
    assert [*files["OUT"].iterdir()] == [report], "nothing else is left"


def without_times(text: str) -> list[str]:
    return [line for line in text.splitlines() if " simulated in " not in line]


@pytest.mark.parametrize("kind", [*COMMANDS])
def test_a_file_that_cannot_be_written_is_refused_before_the_work_begins(kind: str, files: dict[str, Path]) -> None:
    report = files["OUT"] / "missing" / "r.html"
    files = {**files, "CLUSTER": Path("no-such-cluster.yaml")}
    ran = mooring(*arguments(kind, files), "--html", report)
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints == [f"{report}: cannot be written: No such file or directory"]


def test_what_is_no_file_is_not_replaced(files: dict[str, Path]) -> None:
    for path in (files["OUT"], Path("/dev/null")):
        ran = mooring(*arguments("plan", files), "--html", path)
        assert (ran.code, ran.complaints) == (2, [f"{path}: cannot be written: it is not a file"])
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    ran = mooring(*arguments("plan", files), "--html", "a\0b")
    assert (ran.code, len(ran.complaints)) == (2, 1)


def test_the_old_report_stays_if_there_is_no_new_one(files: dict[str, Path], tmp_path: Path) -> None:
    report = files["OUT"] / "r.html"
    report.write_text("old")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("- {name: n}\n")
    ran = mooring("plan", "--from", files["CLUSTER"], "--offer", wrong, "--html", report)
    assert (ran.code, report.read_text(), [*files["OUT"].iterdir()]) == (2, "old", [report])


def test_a_full_disk_is_told_in_one_line(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    report = files["OUT"] / "r.html"
    report.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mooring.kit.private_files.os.fsync", fail)
    ran = mooring(*arguments("plan", files), "--html", report)
    assert (ran.code, ran.complaints[-1]) == (2, f"{report}: cannot be written: No space left on device")
    assert (report.read_text(), [*files["OUT"].iterdir()]) == ("old", [report])


def test_links_stay_and_only_the_owner_may_read_the_report(files: dict[str, Path]) -> None:
    target, link = files["OUT"] / "target.html", files["OUT"] / "link.html"
    link.symlink_to(target)
    assert mooring(*arguments("plan", files), "--html", link).code == 0
    assert link.is_symlink() and target.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_the_page_about_reports_names_the_commands_that_write_them() -> None:
    page = (ROOT / "docs" / "reports.md").read_text()
    named = {line.split()[1] for line in page.splitlines() if line.startswith("    mooring ") and "--html" in line}
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    have = {name for name, each in commands.items() if each and any(param.name == "html" for param in each.params)}
    assert (
        named
        == have
        == {*("simulate", "compare", "study", "what-if", "plan", "explain", "capacity", "agree", "replay")}
    )


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "reports.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(code.replace('"drain.html"', f'"{tmp_path}/drain.html"'), {})
    assert "<h1>What if</h1>" in (tmp_path / "drain.html").read_text()
