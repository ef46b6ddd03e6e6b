"""`pytest --forks 4`: tests are collected once, and run in forks of the process that collected them.

Collection takes 8 s of CPU time, and a process that is started anew would do it again; a fork has the result. The first
process runs no test: it hands out files, and shows what its workers report.
"""

import gc
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest

from forked_commands import save_coverage

# ---- in a worker


class Sender:
    """A plugin of pytest that sends reports to the first process. That a set-up or a teardown passed is not sent."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._connection.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def given_items(session: pytest.Session, connection: Connection) -> Iterator[pytest.Item]:
    """Ask for part after part until there is none."""
    while True:
        connection.send(None)
        part = connection.recv()
        if part is None:
            return
        yield from (session.items[place] for place in part)


def work(session: pytest.Session, connection: Connection) -> None:
    """Run the tests that the first process gives. A test ends when the next one is known, which may share its fixtures."""
    config = session.config
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Sender(config, connection))
    capturing: Any = config.pluginmanager.getplugin("capturemanager")
    capturing.stop_global_capturing()  # its files are shared by all forks
    capturing.start_global_capturing()
    capturing.suspend_global_capture()
    items = given_items(session, connection)
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


# ---- in the first process


@dataclass(eq=False)
class Worker:
    """A process that runs tests."""

    pid: int
    connection: Connection
    is_for_slow: bool
    given: deque[int] = field(default_factory=deque)
    """The tests that it has and that it has not reported on, as places among all."""


class ForkedRun:
    """A run of all tests of a session. Every second worker takes parts from the end of the list."""

    def __init__(self, session: pytest.Session, parts: Iterable[list[int]]) -> None:
        self._session = session
        self._left = deque(parts)
        self._workers: list[Worker] = []

    def run(self, count: int) -> None:
        """Show all reports until the last worker has ended."""
        # Later, each worker would make a folder for temporary files of its own.
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        save_coverage()
        gc.freeze()  # or else each fork, and pytest at its end, walks all tests again to find no garbage
        try:
            for number in range(count):
                self._start(is_for_slow=number % 2 == 0)
            while self._workers:
                ready = wait([worker.connection for worker in self._workers])
                for worker in [each for each in self._workers if each.connection in ready]:
                    self._hear(worker)
        finally:
            for worker in self._workers:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)

    def _start(self, is_for_slow: bool) -> None:
        ours, its = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries for arrays have threads, and expect forks
            pid = os.fork()
        if pid == 0:
            self._become_worker(ours, its)
        its.close()
        self._workers.append(Worker(pid, ours, is_for_slow))

    def _become_worker(self, ours: Connection, its: Connection) -> None:
        """Work to the end. The streams of the first process are not flushed here."""
        status = 1
        try:
            for connection in (ours, *(worker.connection for worker in self._workers)):
                connection.close()
            work(self._session, its)
            status = 0
        except (KeyboardInterrupt, BrokenPipeError, EOFError):
            status = 2  # the first process ends as well, and tells why
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
        finally:
            os._exit(status)

    def _hear(self, worker: Worker) -> None:
        """Take one message of a worker: a report, or that it wants another part."""
        session = self._session
        try:
            told = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._bury(worker)
            return
        if told is None:
            self._give(worker)
            return
        report = session.config.hook.pytest_report_from_serializable(config=session.config, data=told)
        if worker.given and session.items[worker.given[0]].nodeid == report.nodeid:
            worker.given.popleft()
        self._show(report)

    def _show(self, report: pytest.TestReport) -> None:
        self._session.config.hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _give(self, worker: Worker) -> None:
        part = None
        if self._left:
            part = self._left.popleft() if worker.is_for_slow else self._left.pop()
            worker.given.extend(part)
        worker.connection.send(part)

    def _bury(self, worker: Worker) -> None:
        """A worker has ended. If it was not at its end, the test that it ran has failed, and another one takes its place."""
        self._workers.remove(worker)
        worker.connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.given:
            assert status == 0, f"a worker ended with status {status} after its last test"
            return
        item = self._session.items[worker.given.popleft()]
        text = f"the process that ran this test ended with status {status}"
        self._show(pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
        if worker.given:
            self._left.appendleft(list(worker.given))
        self._start(worker.is_for_slow)
