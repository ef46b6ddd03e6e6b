"""Lines that run are counted, and a tracer that was there before goes on."""

import sys
from types import FrameType

from counted_lines import lines_run


def three() -> None:
    for _ in range(3):
        pass


def test_each_line_counts_as_often_as_it_runs() -> None:
    assert lines_run(three) == 4 + 3, (
        "the loop is entered, goes around three times, and ends; its body runs three times"
    )


def test_a_tracer_that_was_there_is_there_again() -> None:
    """Otherwise the figure of `make coverage` has nothing of what a process runs after its first count."""

    def trace(frame: FrameType, event: str, argument: object) -> None: ...

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        lines_run(three)
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
