"""Tests in forks: each runs once, and its result is shown whatever becomes of the process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CONFTEST = """\
import sys
from pathlib import Path

import pytest

sys.path.insert(0, {tests!r})
from forked_workers import ForkedRun


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    yield 1
    Path("ended").open("a").write("server ended\\n")


def pytest_runtestloop(session):
    ForkedRun(session, [[0, 1, 5], [2, 3, 4]]).run(2)
    return True
"""
FILE = """\
import os, signal, time
from pathlib import Path
import pytest

def test_0(server):
    ends = time.monotonic() + 60
    while not Path("other").exists() and time.monotonic() < ends:  # or else this process might get its tests as well
        time.sleep(0.01)
    print("not to be seen")
def test_1(server): assert server == 2, "as was to be expected"
def test_2():
    Path("other").touch()
    os.kill(os.getpid(), signal.SIGKILL)
@pytest.mark.skip(reason="not today")
def test_3(): pass
def test_4(tmp_path): assert tmp_path.parent.parent.name.startswith("pytest-of-")
def test_5(capfd):
    os.write(1, b"own")
    assert capfd.readouterr().out == "own"
"""


@pytest.mark.slow
def test_every_test_is_reported_once_and_a_process_that_is_killed_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(tests=str(TESTS)))
    (tmp_path / "test_some.py").write_text(FILE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = {name: word for word, name in re.findall(r"^(PASSED|FAILED) test_some.py::(\w+)", ran.stdout, re.MULTILINE)}
    assert told == {
        **dict.fromkeys(("test_0", "test_4", "test_5"), "PASSED"),
        **dict.fromkeys(("test_1", "test_2"), "FAILED"),
    }, ran.stdout + ran.stderr
    assert "2 failed, 3 passed, 1 skipped" in ran.stdout
    assert "the process that ran this test ended with status -9" in ran.stdout
    assert "as was to be expected" in ran.stdout
    assert (tmp_path / "ended").read_text() == "server ended\n"
    first_failure = subprocess.run([*command, "-x"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "stopping after 1 failures" in first_failure.stdout
