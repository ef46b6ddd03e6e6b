"""`mooring replay --serve` and `mooring simulate --serve` print a link to a dashboard with a time line."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from command import mooring, write

from build import a_node, a_pod
from recorded_moments import record_a_minute

ASK = """
import json, os, sys
from urllib.request import Request, urlopen
base, _, token = os.environ["MOORING_DASHBOARD"].partition("#token=")
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    return json.load(urlopen(Request(f"{base}api/{path}", data, headers)))
found = [ask("session"), ask("replay"), ask("replay/seek", {"decision": 5}), ask("pods?state=bound"),
         ask("pods/default/p-4"), ask("pods/default/p-4/explanation")]
json.dump(found, open(sys.argv[1], "w"))
"""


def asked(path: Path, *arguments: str | Path) -> Any:
    script, out = path / "ask.py", path / "out.json"
    script.write_text(ASK)
    ran = mooring("replay", *arguments, "--serve", "--exec", f"{sys.executable} {script} {out}")
    assert (ran.code, ran.out) == (0, ""), ran.err
    return json.loads(out.read_text())


def test_a_recording_is_served_with_its_time_line(tmp_path: Path) -> None:
    record_a_minute(tmp_path / "recording")
    session, first, sought, bound, pod, explained = asked(tmp_path, tmp_path / "recording", "--until", "30s")
    assert (session["program"], session["replay"], session["canAsk"], session["canDo"]) == ("replay", True, True, False)
    assert (first["start"], first["now"]) == ("2026-02-01T00:00:00.000Z", "2026-02-01T00:00:30.000Z")
    assert 5 < first["position"] < first["decisions"] == sum(first["density"])
    assert (sought["position"], sought["seeking"]) == (5, False)
    assert [each["name"] for each in bound["pods"]] == [f"p-{i}" for i in range(5)]
    assert (pod["node"], explained["node"]) == ("n1", "n1")


def test_without_a_run_that_can_be_replayed_there_is_only_the_cluster(tmp_path: Path) -> None:
    run = record_a_minute(tmp_path / "recording")
    for segment in run.segments:
        text = segment.path.read_bytes()
        segment.path.write_bytes(text.replace(b'"settings":', b'"plugins":["Mine"],"settings":', 1))
    ran = mooring("replay", tmp_path / "recording", "--serve", "--exec", "true")
    assert ran.code == 0
    assert "warning: no dashboard: " in ran.err
    assert "its plugin Mine is not installed" in ran.err


@pytest.mark.slow
def test_a_simulation_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.json", a_node("n1", cpu="4"), *(a_pod(f"p{i}", cpu="1") for i in range(6)))
    command = [sys.executable, "-m", "mooring.cli.main", "simulate", str(cluster), "--serve", "--dashboard-port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    link = next(found for line in process.stderr if (found := re.search(r"Dashboard: (\S+)#token=(\S+)", line)))
    request = Request(f"{link[1]}api/replay", headers={"Authorization": f"Bearer {link[2]}"})
    state = json.load(urlopen(request))
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, state["decisions"], state["position"]) == (0, 6, 6)
    assert printed.startswith("4 of 6 pending pods placed")


def test_a_simulation_is_either_kept_or_looked_at(tmp_path: Path) -> None:
    ran = mooring("simulate", write(tmp_path / "c.json", a_node("n1")), "--serve", "--record", tmp_path / "kept")
    assert ran.code == 2
    assert "--serve cannot be used with --record" in ran.err
