"""`mooring simulate --arrivals` as users see it."""

import json
import re
from pathlib import Path

import pytest
from command import mooring, write

from build import a_node, a_pod
from mooring.cli import report
from mooring.sim.results import show_seconds

ARRIVALS = """\
- {at: 0s, run: 10s, name: first, cpu: 2}
- {at: 4s, run: 10s, name: second, cpu: 1}
- {at: 30s, run: 10s, name: urgent, cpu: 2, priority: 9}
- {at: 20s, run: 1h, name: victim, cpu: 1}
"""

TEXT = """\
4 pods arrived: 3 placed on 1 node, 3 finished, 1 preempted
40.0s simulated in 0.0 s, with 6 attempts
Requested on average: cpu 75.0%, memory 0.0%; each character of the curves is 667ms.
What limits: Insufficient cpu (2 failed attempts, up to 1 node).

Time from arrival to binding
PRIORITY   PLACED   P50   P90    P99    MAX    PREEMPTED
9          1        2ms   2ms    2ms    2ms    0
0          2        1ms   4.8s   5.9s   6.0s   1

Utilisation
RESOURCE       OVER TIME                                                       MEAN    HIGHEST
cpu            ███████████████▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄███████████████|   75.0%   100.0%
memory                                                                     |   0.0%    0.0%
waiting pods   ▁    ▁█████████▁             ▁              ▁▁              |   0.2     1.0

Fullest nodes on average
NODE   PLACED   CPU     MEMORY
n      4        75.0%   0.0%
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", a_node("n", cpu="2"))


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    (tmp_path / "arrivals.yaml").write_text(ARRIVALS)
    return tmp_path / "arrivals.yaml"


def without_the_time_it_took(text: str) -> str:
    return re.sub(r"simulated in [0-9.]+ s", "simulated in 0.0 s", text)


def test_the_text_tells_waits_utilisation_and_fates(cluster: Path, arrivals: Path) -> None:
    ran = mooring("simulate", cluster, "--arrivals", arrivals)
    assert (ran.code, ran.err) == (0, "")
    assert without_the_time_it_took(ran.out) == TEXT


def test_a_terminal_without_blocks_gets_plain_characters(
    cluster: Path, arrivals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "can_show", lambda text: False)
    out = mooring("simulate", cluster, "--arrivals", arrivals).out
    assert f"cpu            {'@' * 15}{'=' * 30}{'@' * 15}|   75.0%   100.0%\n" in out


def test_wide_adds_spans_and_nodes(cluster: Path, arrivals: Path) -> None:
    lines = mooring("simulate", cluster, "--arrivals", arrivals, "-o", "wide").out.splitlines()
    begin = lines.index("Spans")
    assert lines[begin + 1].split() == ["FROM", "CPU", "MEMORY", "WAITING", "PODS"]
    assert lines[begin + 2].split()[0] == "00:00:00.000"
    assert lines[begin + 62] == "", "sixty spans"
    assert lines[begin + 63 : begin + 66] == ["Pods placed by node", "NODE   PLACED", "n      4"]
    limits = lines.index("What limits")
    assert lines[limits + 1 : limits + 3] == [
        "REASON             PLUGIN             ATTEMPTS   NODES",
        "Insufficient cpu   NodeResourcesFit   2          1",
    ]


def test_json_has_all_of_it(cluster: Path, arrivals: Path) -> None:
    ran = mooring("simulate", cluster, "--arrivals", arrivals, "-o", "json", "--story", "victim-0")
    answer = json.loads(ran.out)
    assert answer["simulatedSeconds"] == pytest.approx(40.002)
    assert answer["tookSeconds"] >= 0
    counts = ("planned", "arrived", "placed", "finished", "pending", "attempts", "rescued")
    assert [answer[key] for key in counts] == [4, 4, 3, 3, 0, 6, 0]
    high, low = answer["waits"]
    assert high == {
        "priority": 9,
        "placed": 1,
        **dict.fromkeys(("p50", "p90", "p99", "max"), 0.002),
        "pending": 0,
        "preempted": 0,
    }
    assert (low["p50"], low["max"], low["preempted"]) == (0.001, 6.002, 1)
    assert answer["meanUtilisation"]["cpu"] == pytest.approx(0.75, abs=1e-3)
    assert len(answer["spans"]) == 60 and list(answer["spans"][0]) == ["from", "utilisation", "pending"]
    assert answer["nodes"] == [{"name": "n", "placed": 4}]
    assert answer["placements"]["default/second-0"] == "n"
    assert answer["preempted"] == [
        {"namespace": "default", "name": "victim-0", "node": "n", "for": "default/urgent-0"}
    ]  # fmt: skip
    assert answer["notes"] == []
    assert answer["story"][-1] == {"at": 30.001, "text": "is preempted by default/urgent-0 and leaves n"}


def test_a_story_comes_first(cluster: Path, arrivals: Path) -> None:
    out = mooring("simulate", cluster, "--arrivals", arrivals, "--story", "second-0").out
    assert out.startswith("The story of default/second-0\n00:00:04.000 added to the active queue\n")
    assert "\n\n4 pods arrived: " in out and "\n\nTime from arrival to binding\n" in out


def test_time_can_be_limited(cluster: Path, arrivals: Path) -> None:
    ran = mooring("simulate", cluster, "--arrivals", arrivals, "--until", "5s")
    assert ran.err == "note: 2 pods would have arrived later\n"
    assert ran.out.splitlines()[0].startswith("2 pods arrived: 1 placed on 1 node, 1 pending")


@pytest.mark.parametrize(("until", "code"), [("3s", 0), ("5s", 1), ("60s", 1)], ids=["done", "pending", "preempted"])
def test_exit_code_of_a_day(cluster: Path, arrivals: Path, until: str, code: int) -> None:
    assert mooring("simulate", cluster, "--arrivals", arrivals, "--until", until, "--exit-code").code == code


def test_a_day_without_pods_is_no_fault(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("at,cpu\n")
    ran = mooring("simulate", cluster, "--arrivals", tmp_path / "none.csv")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "0 pods arrived: none placed"


def test_problems_of_arrivals_are_told_one_a_line(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("- {at: soon}\n- {count: 0}\n")
    ran = mooring("simulate", cluster, "--arrivals", path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints == [
        f'{path}:1: arrivals[0].at: Invalid value: "soon": '
        "must be seconds, or a duration such as 90s, 15m, 1h30m; up to ten years",
        f"{path}:2: arrivals[1].count: Invalid value: 0: must be a whole number from 1",
    ]


def test_unknown_fields_of_arriving_pods_are_refused_unless_they_are_let_pass(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("arrivals:\n- at: 0\n  pod:\n    spec:\n      nodeSelectr: {a: b}\n")
    complaint = f"{path}:5: arrivals[0].pod.spec.nodeSelectr: unknown field; did you mean nodeSelector?\n"
    ran = mooring("simulate", cluster, "--arrivals", path)
    assert (ran.code, ran.err) == (2, complaint)
    ran = mooring("simulate", cluster, "--arrivals", path, "--validate=warn")
    assert (ran.code, ran.err) == (0, f"warning: {complaint}")
    assert mooring("simulate", cluster, "--arrivals", path, "--validate=ignore").err == ""


def test_arrivals_that_cannot_be_read_are_refused(cluster: Path) -> None:
    ran = mooring("simulate", cluster, "--arrivals", "/nowhere")
    assert (ran.code, ran.err) == (
        2, "/nowhere: cannot be read: No such file or directory\n"
    )  # fmt: skip


@pytest.mark.parametrize("until", ["soon", "-1s", "", "1e300"])
def test_a_limit_that_is_none_is_refused(cluster: Path, until: str) -> None:
    ran = mooring("simulate", cluster, "--until", until)
    assert ran.code == 2
    assert (
        ran.err
        == f"--until: Invalid value: {json.dumps(until)}: must be seconds, or a duration such as 90s, 15m, 24h\n"
    )


def test_explain_is_for_one_moment_only(cluster: Path, arrivals: Path) -> None:
    ran = mooring("simulate", cluster, "--arrivals", arrivals, "--explain", "first-0")
    assert (ran.code, ran.err) == (
        2, "--explain cannot be used with --arrivals; --story POD shows what happened to a pod\n"
    )  # fmt: skip


def test_pending_pods_of_the_input_are_part_of_the_day(tmp_path: Path, arrivals: Path) -> None:
    cluster = write(tmp_path / "c.json", a_node("n", cpu="2"), a_pod("giant", cpu="9", image="i"))
    assert "5 pods arrived: 3 placed" in mooring("simulate", cluster, "--arrivals", arrivals).out


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.0, "0ms"), (0.0164, "16ms"), (3.21, "3.2s"), (240.03, "4m00s"), (90_000, "25h00m")],
)
def test_durations_are_shown_as_people_say_them(seconds: float | None, shown: str) -> None:
    assert show_seconds(seconds) == shown
