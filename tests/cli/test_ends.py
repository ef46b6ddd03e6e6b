"""A command that ends is no fault: nothing is logged about it. What a plugin raises is."""

import logging
import sys
from collections.abc import Callable

import pytest

from mooring.cli.refusal import refusals
from mooring.framework.contract.status import TRACEBACK_LEVEL


def _end() -> None:
    sys.exit(0)


def _divide() -> None:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(("run", "fault", "logged"), [(_end, SystemExit, 0), (_divide, ZeroDivisionError, 1)])
def test_only_faults_are_logged(
    run: Callable[[], None], fault: type[BaseException], logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(TRACEBACK_LEVEL), pytest.raises(fault), refusals():
        run()
    assert [record.message for record in caplog.records] == ["Plugin raised an exception"] * logged
    assert all(record.levelno < logging.INFO for record in caplog.records)
