"""Running the tests of a module in this process: to see which lines they reach, and on a mutant of it."""

import gc
import importlib.abc
import importlib.machinery
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""mutate.py imports hypothesis once for all sessions, so that pytest cannot rewrite it."""
_OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:faulthandler",
    "--rootdir",
    str(ROOT),
    "-W",
    _IMPORTED,
)


@dataclass
class Reach:
    """What tests do when nothing is wrong."""

    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """By test and file: the lines of the file that the test runs; none if only the module of the test imports it."""
    seconds: dict[str, float] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)
    """The modules of the program that the tests load."""

    def tests_for(self, path: str, lines: Collection[int]) -> list[str]:
        """The tests that run one of the lines, the quickest first. Without lines, those that run or import the file."""
        wanted = set(lines)
        runs = ((test, files.get(path)) for test, files in self.lines.items())
        tests = [test for test, run in runs if run is not None and (not wanted or not wanted.isdisjoint(run))]
        return sorted(tests, key=lambda test: (self.seconds[test], test))


class Tracer:
    """A pytest plugin that notes which lines of some files each test runs."""

    def __init__(self, paths: Collection[str]) -> None:
        self.reach = Reach()
        self._lines: dict[str, set[int]] = {path: set() for path in paths}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for lines in self._lines.values():
            lines.clear()
        began = time.perf_counter()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        threading.settrace(None)
        imported = _imported_by(getattr(item, "module", None))
        self.reach.lines[item.nodeid] = {
            path: sorted(lines) for path, lines in self._lines.items() if lines or path in imported
        }
        self.reach.seconds[item.nodeid] = time.perf_counter() - began

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        return self._line if frame.f_code.co_filename in self._lines else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        self._lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


@cache
def _imported_by(module: ModuleType | None) -> frozenset[str]:
    """The files that a module imports, or imports functions and classes of."""
    values = list(vars(module).values()) if module is not None else []
    named = (sys.modules.get(str(getattr(value, "__module__", ""))) for value in values)
    modules = (value if isinstance(value, ModuleType) else origin for value, origin in zip(values, named, strict=True))
    return frozenset(str(getattr(found, "__file__", "")) for found in modules if found is not None)


class Chosen:
    """A pytest plugin that runs some tests in a given order, and remembers the first that fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: i for i, test in enumerate(tests)}
        self.killer = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._order), key=lambda i: self._order[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.killer:
            self.killer = report.nodeid


class Loop:
    """A pytest plugin that, once the tests are collected, hands the session to a function instead of running it."""

    def __init__(self, work: Callable[[pytest.Session], None]) -> None:
        self._work = work
        self.fault = ""
        """Why the function gave up, if it did."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            self._work(session)
        except SystemExit as fault:
            self.fault = str(fault)
        return True


def run_items(session: pytest.Session, items: Sequence[pytest.Item]) -> bool:
    """Run collected tests until one fails. Whether all passed."""
    for item, following in zip(items, (*items[1:], None), strict=False):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


def patch_functions(path: str, mutant: CodeType) -> bool:
    """Give the functions that a file has defined the code that they have in the mutant. False: it does not fit.

    Hot: whoever imported such a function has the mutant's, and nothing is imported anew. A mutant of queue/backoff.py
    takes 0.12 s of CPU in a fork of a session that has collected its tests, and 0.32 s with imports of its own.
    """
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes_in(mutant)}
    live = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path]
    for function in live:
        code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is None or code.co_freevars != function.__code__.co_freevars:
            return False
        function.__code__ = code
    return bool(live)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes_in(part)


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds one module, and gives it the code of a mutant."""

    def __init__(self, module: str, path: str, code: CodeType) -> None:
        self._module, self._path, self._code = module, path, code

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        loader = _MutantLoader(name, self._path)
        loader.code = self._code
        folder, _, file = self._path.rpartition("/")
        spec = importlib.machinery.ModuleSpec(name, loader, origin=self._path, is_package=file == "__init__.py")
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
        return spec


class _MutantLoader(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


def run_tests(tests: Sequence[str], plugin: object) -> int:
    """pytest in this process, which prints nothing from here on. Returns pytest's exit code."""
    os.environ["MOORING_TESTS"] = "mutants"
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    return int(pytest.main([*_OPTIONS, *tests], plugins=[plugin]))


def run_by_file(tests: Sequence[str], plugin: Chosen) -> int:
    """Run tests until one fails, file by file in the order given: most mutants need only the first file."""
    files = dict.fromkeys(test.split("::")[0] for test in tests)
    return next((status for file in files if (status := run_tests([file], plugin))), 0)
