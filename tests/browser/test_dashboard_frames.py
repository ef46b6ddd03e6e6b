"""benchmarks/dashboard_frames.py: the map is moved in a browser, and each movement gets its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from programs import CHROMIUM, needs

PROGRAM = Path(__file__).parents[2] / "benchmarks/dashboard_frames.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
@needs(CHROMIUM)
def test_each_movement_draws_frames_that_cost_the_page_something() -> None:
    done = run("--nodes", "40", "--seconds", "0.7")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["movements"]
    assert [*found] == ["idle", "hover", "scroll", "keys", "colour", "group", "resize"]
    for figures in found.values():
        assert figures["frames"] > 0 and figures["page_cpu_ms"] >= figures["script_ms"] > 0
        assert 0 < figures["apart_p50_ms"] <= figures["apart_p95_ms"]


@pytest.mark.slow
def test_an_unknown_movement_is_refused_in_one_line() -> None:
    done = run("--only", "idle,fly")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "error: no movement 'fly'; the movements are idle, hover, scroll, keys, colour, group, resize"
    )
