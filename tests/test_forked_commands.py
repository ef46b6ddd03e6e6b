"""A forked command is a program of its own: arguments, streams, environment, exit status and memory."""

import os
import signal
from pathlib import Path

import pytest

from forked_commands import run_mooring, start_mooring
from mooring.kit.version import VERSION


def test_it_prints_and_ends_as_the_program_does() -> None:
    ran = run_mooring("--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"mooring, version {VERSION}\n", "")
    assert 20 << 20 < ran.peak_bytes < 200 << 20


def test_it_has_its_own_environment_and_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later, given = tmp_path / "later", tmp_path / "given"
    for path in (later, given):
        path.write_text("[")
    run_mooring("--version")
    monkeypatch.setenv("KUBECONFIG", str(later))
    for environment, path in (({**os.environ, "KUBECONFIG": str(given)}, given), (os.environ, later)):
        ran = run_mooring("dump", "-o", "-", environment=environment)
        assert ran.returncode == 2 and ran.stderr.startswith(str(path)), ran.stderr


def test_it_reads_standard_input() -> None:
    node = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "from-stdin"}}'
    ran = run_mooring("simulate", "-", "-o", "json", stdin=node)
    assert ran.returncode == 0 and '"from-stdin"' in ran.stdout, ran.stderr


def test_a_fork_that_is_killed_has_the_signal_as_its_status() -> None:
    ran = run_mooring("up", "-q", "--nodes", "1", "--port", "0", "--exec", "kill -9 $PPID")
    assert ran.returncode == -9
    assert run_mooring("--version").returncode == 0


def test_a_command_that_runs_gets_signals_and_is_waited_for(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as told, (tmp_path / "log").open("wb") as log:
        home = ("--kubeconfig", tmp_path / "kubeconfig")
        started = start_mooring("up", "-q", "--nodes", "1", "--port", "0", *home, stdout=writing, stderr=log)
        os.close(writing)
        assert told.readline().startswith("export KUBECONFIG=")
        assert started.poll() is None and os.getpgid(started.pid) != os.getpgid(0)
        with pytest.raises(TimeoutError):
            started.wait(0)
        started.send_signal(signal.SIGTERM)
        assert (started.wait(), started.poll(), told.read()) == (0, 0, "")
        started.kill()  # it has ended: no other process gets the signal
