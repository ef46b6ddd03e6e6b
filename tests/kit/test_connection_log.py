"""Connections that do not speak HTTP: told in one line, not too often, and without a byte of what they sent."""

import logging

from mooring.kit.listener import QUIET_S, connection_log


class FaultLog:
    """A log of which the lines and the clock are at hand."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now_s = 100.0
        self.logger = connection_log(self.lines.append, lambda: self.now_s)

    def fail(self, remote: str = "10.0.0.1") -> None:
        """As aiohttp does it."""
        try:
            raise ValueError("400, message:\n  Invalid header: b'Authorization: Bearer secret'")
        except ValueError as fault:
            self.logger.exception("Error handling request from %s", remote, exc_info=fault)


def test_a_fault_is_one_line_without_what_was_sent() -> None:
    log = FaultLog()
    log.fail()
    assert log.lines == ["rejected a request from 10.0.0.1 that is not valid HTTP (ValueError)"]


def test_others_are_counted_for_a_while() -> None:
    log = FaultLog()
    for _ in range(5):
        log.fail()
    log.now_s += QUIET_S - 0.1
    log.fail()
    assert len(log.lines) == 1
    log.now_s += 0.1
    log.fail("10.0.0.2")
    assert log.lines[1:] == [
        "rejected a request from 10.0.0.2 that is not valid HTTP (ValueError); 5 more were rejected before"
    ]
    log.now_s += QUIET_S
    log.fail()
    assert log.lines[2:] == [log.lines[0]], "those that were told of are not counted again"


def test_a_fault_of_which_nothing_is_known() -> None:
    log = FaultLog()
    log.logger.exception("Unhandled exception")
    assert log.lines == ["rejected a request that is not valid HTTP (unknown fault)"]


def test_what_is_not_worth_a_line_is_none() -> None:
    log = FaultLog()
    log.logger.debug("Ignored premature client disconnection")
    assert log.lines == []
    assert log.logger.parent is None and not logging.getLogger("connections").handlers
