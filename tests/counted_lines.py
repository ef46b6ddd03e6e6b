"""Work as the number of lines of Python that run: it is the same on every machine, however busy."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(act: Callable[[], Any]) -> int:
    """How many lines of Python run; a loop counts each time around, wherever it is written."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()  # with `make coverage` that of coverage, which would count nothing that runs afterwards
    gc.disable()  # what it finds to clean up comes from other tests, and would be counted here
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
