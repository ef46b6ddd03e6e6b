"""Tables fit the terminal, leave out columns of zeros, and have emphasis where a terminal shows it and nowhere else."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import mooring, write
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from forked_commands import start_mooring
from mooring.answers.form.report_parts import AnswerTable
from mooring.cli.report import LEAST_WIDTH, format_table

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_widest_column_is_narrowed_and_takes_several_lines() -> None:
    rows = [("1", "web", "one two three four five six seven"), ("2", "db", "short")]
    assert format_table(("N", "NAME", "REASON"), rows, 32) == [
        "N   NAME   REASON",
        "1   web    one two three four",
        "           five six seven",
        "2   db     short",
    ]
    assert format_table(("N", "NAME", "REASON"), rows, 200) == format_table(("N", "NAME", "REASON"), rows)


CELLS = st.text("ab c", max_size=60).map(lambda text: " ".join(text.split()))


def test_a_name_stays_whole_where_a_column_with_shorter_words_can_be_narrowed() -> None:
    rows = [
        ("NodeUnschedulable", "node(s) were unschedulable"),
        ("TaintToleration", "node(s) had untolerated taint(s)"),
    ]
    assert format_table(("PLUGIN", "REASON"), rows, 37) == [
        "PLUGIN              REASON",
        "NodeUnschedulable   node(s) were",
        "                    unschedulable",
        "TaintToleration     node(s) had",
        "                    untolerated",
        "                    taint(s)",
    ]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.integers(3 * LEAST_WIDTH + 6, 120))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(rows: list[tuple[str, ...]], most: int) -> None:
    lines = format_table(("A", "B", "C"), rows, most)
    assert all(len(line) <= most for line in lines)
    assert sorted("".join(lines[1:]).replace(" ", "")) == sorted("".join(map("".join, rows)).replace(" ", ""))


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([("a", 0, "-", "x"), ("b", "0", "-", "-")], ("name", "reason")),
        ([("a", 0, "-", ""), ("b", 1, "", "0")], ("name", "moved")),
        ([("0", 0, 0, 0)], ("name",)),
        ([("a", "0.0%", "0ms", 7)], ("name", "moved", "new", "reason")),
    ],
    ids=["zeros and dashes go", "one number keeps its column", "the first column stays", "shares and times stay"],
)
def test_columns_in_which_everything_is_zero_are_left_out(
    rows: list[tuple[object, ...]], columns: tuple[str, ...]
) -> None:
    table = AnswerTable("Pods", ("name", "moved", "new", "reason"), rows)
    shown = table.without_zeros()
    assert shown.columns == columns and all(len(row) == len(columns) for row in shown.rows)


# ---- emphasis


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "c.json", a_node("n"), a_pod("huge", cpu="64", image="i"))


def on_a_terminal(*arguments: object, columns: int, **variables: str) -> str:
    """What a command shows on a terminal."""
    ours, its = os.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    environment |= {"COLUMNS": str(columns), "TERM": "xterm", **variables}
    started = start_mooring(*arguments, stdout=its, stderr=its, environment=environment)
    os.close(its)
    text = b"".join(_read(ours))
    started.wait()
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # the command has ended, and its end of the terminal is closed
            return
        if not part:
            return
        yield part


def test_a_terminal_shows_emphasis_and_tables_that_fit(cluster: Path) -> None:
    asked = ("explain", "--from", cluster, "huge")
    plain = mooring(*asked).out
    shown = on_a_terminal(*asked, columns=80)
    assert shown.startswith("\x1b[1;31mdefault/huge is pending")
    assert "\x1b[1mWhy not\x1b[0m\n\x1b[2mNODES   PLUGIN" in shown
    without = ANSI.sub("", shown)
    tables = without.partition("\n\n")[2]
    assert max(map(len, tables.splitlines())) <= 80 < max(map(len, plain.partition("\n\n")[2].splitlines()))
    assert without.replace(" ", "").replace("\n", "") == plain.replace(" ", "").replace("\n", "")
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(*asked, columns=80, **variables)
    assert "\x1b" not in on_a_terminal(*asked, "--color", "never", columns=80)


def test_a_pipe_gets_emphasis_only_if_it_is_asked_for(cluster: Path) -> None:
    asked = ("explain", "--from", cluster, "huge")
    plain = mooring(*asked).out
    assert "\x1b" not in plain
    colored = mooring(*asked, "--color", "always").out
    assert "\x1b[1mWhy not\x1b[0m" in colored and ANSI.sub("", colored) == plain
    assert "\x1b" not in mooring(*asked, "--color=always", "-o", "json").out
    refused = mooring(*asked, "--color", "pink")
    assert refused.code == 2 and "'pink' is not one of 'auto', 'always', 'never'" in refused.err


def test_names_of_others_cannot_colour_a_line(tmp_path: Path) -> None:
    pod = a_pod("huge", cpu="64", image="i", schedulerName="\x1b[31mred")
    out = mooring("explain", "--from", write(tmp_path / "c.json", a_node("n"), pod), "huge", "--color", "always").out
    assert "\x1b[31mred" not in out


# ---- the same numbers everywhere

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "more",
    [(), ("--arrivals", EXAMPLES / "arrivals.yaml")],
    ids=["pods that are pending", "pods that arrive over time"],
)
def test_simulate_and_compare_count_pods_alike(more: tuple[str | Path, ...]) -> None:
    cluster, packed = EXAMPLES / "cluster.yaml", EXAMPLES / "packed.yaml"
    simulated = json.loads(mooring("simulate", cluster, *more, "-o", "json").out)
    compared = json.loads(mooring("compare", "default", packed, "--from", cluster, *more, "-o", "json").out)
    figures, told = compared["runs"][0]["figures"], simulated.get("summary", simulated)
    assert (figures["placed"], figures["pending"]) == (told["placed"], told["pending"])
    assert figures["pods"] == told.get("pods", told.get("arrived")) and figures["placed"] > 10
    assert figures["preempted"] == len(simulated["preempted"])
