"""Measure the CPU time of each test, and write tests/costly_tests.txt: the tests that `make check` leaves out.

    .venv/bin/python tools/costly_tests.py    # `make costly`: all tests that are not marked slow, in one process

A test of a list of cases counts as one. Each file keeps one test at least, so that `make check` still runs each room.
"""

import sys
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from os import times
from pathlib import Path
from time import process_time

import pytest

LIST = Path(__file__).parent.parent / "tests" / "costly_tests.txt"
EACH_S = 0.03
ALL_S = 0.1
"""CPU time of one case, and of all cases of a test, from which on it is costly. 920 of 6,750 tests take four
fifths of the CPU time of all that are not slow."""


def cpu_s() -> float:
    """CPU time of this process and of processes that it has waited for. Tests may replace functions of `os` and `time`."""
    return process_time() + sum(times()[2:4])


class Meter:
    """A plugin of pytest that notes the CPU time of each case by the name of its test."""

    def __init__(self) -> None:
        self.taken_s: dict[str, list[float]] = defaultdict(list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began_s = cpu_s()
        try:
            return (yield)
        finally:
            self.taken_s[item.nodeid.partition("[")[0]].append(cpu_s() - began_s)


def costly(taken_s: Mapping[str, Sequence[float]]) -> list[str]:
    """The names of costly tests, without the cheapest test of a file that would have no other one left."""
    over = {name for name, each in taken_s.items() if sum(each) >= ALL_S or sum(each) / len(each) >= EACH_S}
    files: dict[str, list[str]] = defaultdict(list)
    for name in taken_s:
        files[name.partition("::")[0]].append(name)
    for names in files.values():
        if over.issuperset(names):
            over.remove(min(names, key=lambda name: sum(taken_s[name])))
    return sorted(over)


def main() -> None:
    meter = Meter()
    status = pytest.main(["-m", "not slow"], plugins=[meter])
    if status != pytest.ExitCode.OK:
        sys.exit("some tests failed: the list stays as it is")
    LIST.write_text("".join(f"{name}\n" for name in costly(meter.taken_s)))


if __name__ == "__main__":
    main()
