"""Which faults would the tests not notice? Puts small faults into modules, one at a time, and runs their tests.

    python tools/mutate.py src/mooring/queue/backoff.py [--sample 50 --seed 1] [--json result.json]

The tests run once to see which of them reach which line, and how long they take. Then each fault (a mutant,
mutations.py) meets the tests that reach its line, the quickest first, until one fails: the mutant is killed.
The files stay as they are: a mutant exists only in the memory of the process that is forked for it, as a rule from a
session that has collected its tests. What takes effect when a module is imported gets a session of its own.

Tests that are marked slow are left out, unless `--slow` is given: of a folder with long property tests, the run without a
fault would take minutes. Standard error tells how far it is.

`mutants.toml` says which tests belong to a module, and which mutants no test can kill because they change nothing.
"""

import argparse
import ast
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

import aiohttp  # noqa: F401  these are here so that no forked process has to import them
import hypothesis.stateful  # noqa: F401
import msgspec  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import yaml  # noqa: F401
from mutant_tests import (
    ROOT,
    Chosen,
    Loop,
    MutantFinder,
    Reach,
    Tracer,
    patch_functions,
    run_by_file,
    run_items,
    run_tests,
)
from mutations import Mutation, mutations_of

SETTINGS = ROOT / "tools" / "mutants.toml"
PACKAGES = ROOT / "src"

ALIVE = ("survived", "unreached")
CRASHED, DOES_NOT_FIT = 70, 71
"""Exit codes beside those of pytest: the mutant did not even get to its tests; it needs a session of its own."""
MEMORY_BYTES = 3 << 30
"""A mutant that collects without end stops here, and the machine goes on."""
SLACK_S = 20.0
"""Beyond the time of its tests a mutant gets so much, for imports and a busy machine."""
TELL_EVERY_S = 10.0
"""How often it is told how many mutants are done."""
SLOWER = 5
"""How many times longer than usual the tests of a mutant may take before they count as hanging."""


_STANDARD_ERROR = os.dup(2)
"""Sessions of pytest print nowhere (mutant_tests.run_tests); progress still does."""


def tell(text: str) -> None:
    os.write(_STANDARD_ERROR, f"{text}\n".encode())


def in_fork(work: Callable[[], Any]) -> Any:
    """What the work returns, done in a process of its own: what it imports and prints is gone with it."""
    with tempfile.NamedTemporaryFile() as answer:
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            try:
                Path(answer.name).write_text(json.dumps(work()))
            except BaseException as fault:
                Path(answer.name).write_text(str(fault) if isinstance(fault, SystemExit) else repr(fault))
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit(Path(answer.name).read_text() or "the process died")
        return json.loads(Path(answer.name).read_text())


def in_session(tests: Sequence[str], plans: Sequence["Plan"], options: argparse.Namespace) -> dict[str, Any]:
    """Collect the tests once; see what they reach; run the mutants that need no new import. All as plain data."""
    answer: dict[str, Any] = {}

    def work(session: pytest.Session) -> None:
        tell(f"{' '.join(tests)}: running {len(session.items)} tests once, without a fault")
        answer["reach"] = in_fork(lambda: explore(session, [plan.path for plan in plans]))
        reach = Reach(**answer["reach"])
        with tempfile.TemporaryDirectory() as folder:
            for plan in plans:
                line = SessionLine(plan, reach, options.jobs, Path(folder), session)
                line.control()
                answer[_inside(plan.path)] = {m.name: list(found) for m, *found in line.run(plan.chosen)}

    loop = Loop(work)
    status = run_tests([*tests, *([] if options.slow else ["-m", "not slow"])], loop)
    if len(answer) <= len(plans):
        why = loop.fault or f"the tests cannot be run (pytest ends with {status})"
        raise SystemExit(f"{' '.join(tests)}: {why}")
    return answer


def explore(session: pytest.Session, paths: Sequence[Path]) -> dict[str, Any]:
    """Run the tests once, without a fault."""
    tracer = Tracer([str(path) for path in paths])
    session.config.pluginmanager.register(tracer)
    if not run_items(session, session.items):
        raise SystemExit("the tests fail without a fault; make them pass first")
    tracer.reach.imported = [name for name in sys.modules if name.startswith("mooring.")]
    return vars(tracer.reach)


def preload(module: str, imported: Sequence[str]) -> None:
    """Import what the tests load, except the module and what imports it: those are to meet the mutant."""
    importers = {name: _imports(name) for name in imported}
    affected = {
        module,
        *(name for name in imported if name.startswith(f"{module}.")),
    }  # they import their package first
    while more := {name for name, used in importers.items() if name not in affected and used & affected}:
        affected |= more
    for name in imported:
        if name not in affected:
            importlib.import_module(name)


def _imports(module: str) -> set[str]:
    """The modules that one names in its import statements, wherever they are in it."""
    base = PACKAGES.joinpath(*module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    used = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            used |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return used


@dataclass
class Job:
    """A mutant at work."""

    mutation: Mutation
    killer: Path
    """The file for the name of the test that fails."""


@dataclass(frozen=True)
class Plan:
    """One module and the mutants of it that are wanted."""

    path: Path
    tree: ast.Module
    chosen: list[Mutation]
    excluded: int
    excluded_unknown: list[str]


class Line:
    """The mutants of one module, of which some run at a time, each in a process of its own."""

    def __init__(self, plan: Plan, reach: Reach, jobs: int, folder: Path) -> None:
        self.path, self._plan, self._reach, self._jobs, self._folder = plan.path, plan, reach, jobs, folder
        self._running: dict[int, Job] = {}
        self._told_s = 0.0

    def run(self, mutations: Sequence[Mutation]) -> Iterator[tuple[Mutation, str, str]]:
        """Each mutant with what became of it (killed, timeout, survived, unreached) and the test that noticed."""
        taken = [mutation for mutation in mutations if self.takes(mutation)]
        for i, mutation in enumerate(taken):
            self._tell(i, len(taken))
            tests = self._reach.tests_for(str(self.path), mutation.lines)
            if not tests:
                yield mutation, "unreached", ""
                continue
            while len(self._running) >= self._jobs:
                yield from self._wait()
            self._start(Job(mutation, self._folder / f"{self.path.stem}{i}.txt"), tests)
        while self._running:
            yield from self._wait()

    def _tell(self, done: int, of: int) -> None:
        if time.monotonic() - self._told_s >= TELL_EVERY_S:
            self._told_s = time.monotonic()
            tell(f"{_inside(self.path)}: mutant {done + 1} of {of}")

    def takes(self, mutation: Mutation) -> bool:
        return True

    def test(self, code: CodeType, tests: list[str]) -> tuple[int, str]:
        """In the process of the mutant: pytest's exit code, and the test that failed."""
        preload(_module_name(self.path), self._reach.imported)
        sys.meta_path.insert(0, MutantFinder(_module_name(self.path), str(self.path), code))
        chosen = Chosen(tests)
        return run_by_file(tests, chosen), chosen.killer or "(the tests cannot be collected)"

    def _start(self, job: Job, tests: list[str]) -> None:
        limit_s = SLACK_S + SLOWER * sum(self._reach.seconds[test] for test in tests)
        if (pid := os.fork()) == 0:
            self._be_mutant(job, tests, limit_s)
        self._running[pid] = job

    def _be_mutant(self, job: Job, tests: list[str], limit_s: float) -> NoReturn:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        status = CRASHED
        try:
            code = compile(job.mutation.apply(self._plan.tree), str(self.path), "exec", dont_inherit=True)
            status, killer = self.test(code, tests)
            job.killer.write_text(killer)
        finally:
            os._exit(status)

    def _wait(self) -> Iterator[tuple[Mutation, str, str]]:
        pid, status = os.wait()
        job = self._running.pop(pid)
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code == 0:
            yield job.mutation, "survived", ""
        elif exit_code == -signal.SIGALRM:
            yield job.mutation, "timeout", ""
        elif exit_code == CRASHED:
            raise SystemExit(f"the mutant {job.mutation.name!r} of {self.path.name} cannot be made")
        elif exit_code != DOES_NOT_FIT:
            yield job.mutation, "killed", job.killer.read_text() if job.killer.exists() else "(the process died)"


class SessionLine(Line):
    """The mutants whose functions can be patched in a session that has its tests already."""

    def __init__(self, plan: Plan, reach: Reach, jobs: int, folder: Path, session: pytest.Session) -> None:
        super().__init__(plan, reach, jobs, folder)
        self._session = session
        self._items = {item.nodeid: item for item in session.items}

    def control(self) -> None:
        """Or else a test that fails in another order, or in a patched session, would kill every mutant."""
        code = compile(self._plan.tree, str(self.path), "exec", dont_inherit=True)
        tests = self._reach.tests_for(str(self.path), ())
        status, failed = in_fork(lambda: self.test(code, tests)) if tests else (0, "")
        if status not in (0, DOES_NOT_FIT):
            raise SystemExit(f"{failed} fails on {self.path.name} without a fault, in the order of the mutants")

    def takes(self, mutation: Mutation) -> bool:
        return bool(mutation.lines)

    def test(self, code: CodeType, tests: list[str]) -> tuple[int, str]:
        if not patch_functions(str(self.path), code):
            return DOES_NOT_FIT, ""
        chosen = Chosen(tests)
        self._session.config.pluginmanager.register(chosen)
        passed = run_items(self._session, [self._items[test] for test in tests])
        return int(not passed), chosen.killer


def plan_for(path: Path, settings: dict[str, Any], options: argparse.Namespace) -> Plan:
    tree = ast.parse(path.read_text())
    mutations = mutations_of(tree)
    excluded = settings.get("equivalent", {}).get(_inside(path), {})
    known = {mutation.name for mutation in mutations}
    chosen = _chosen(mutations, excluded, options)
    return Plan(path, tree, chosen, len(known & excluded.keys()), sorted(excluded.keys() - known))


def finish(plan: Plan, reach: Reach, found: dict[str, list[str]], options: argparse.Namespace) -> dict[str, list[str]]:
    """Run the mutants that the session left, and tell of all of them."""
    with tempfile.TemporaryDirectory() as folder:
        line = Line(plan, reach, options.jobs, Path(folder))
        rest = [mutation for mutation in plan.chosen if mutation.name not in found]
        found |= {mutation.name: list(outcome) for mutation, *outcome in line.run(rest)}
    for mutation in plan.chosen:
        outcome, killer = found[mutation.name]
        if options.verbose or outcome in ALIVE:
            shown = plan.path.relative_to(ROOT)
            print(f"{shown}:{mutation.line}: {outcome}: {mutation.name}  {killer}".rstrip())
    return found


def result_of(plan: Plan, found: dict[str, list[str]]) -> dict[str, Any]:
    """The result for one module, as plain data."""
    outcomes = Counter(outcome for outcome, _ in found.values())
    return {
        "module": _module_name(plan.path),
        "mutants": len(plan.chosen),
        **{outcome: outcomes[outcome] for outcome in ("killed", "timeout", *ALIVE)},
        "killed_percent": _percent(outcomes["killed"] + outcomes["timeout"], len(plan.chosen)),
        "excluded": plan.excluded,
        "excluded_unknown": plan.excluded_unknown,
        "survivors": [
            {"name": m.name, "line": m.line, "outcome": found[m.name][0]}
            for m in plan.chosen
            if found[m.name][0] in ALIVE
        ],
    }


def _chosen(mutations: list[Mutation], excluded: dict[str, str], options: argparse.Namespace) -> list[Mutation]:
    chosen = [m for m in mutations if m.name not in excluded and (options.only or "") in m.name]
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(options.seed).sample(chosen, options.sample), key=lambda m: m.line)
    return chosen


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 100.0


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGES).with_suffix("").parts).removesuffix(".__init__")


def _inside(path: Path) -> str:
    """How mutants.toml calls a module: its path below src/mooring."""
    return path.relative_to(PACKAGES / "mooring").as_posix()


def tests_of(path: Path, table: dict[str, list[str]]) -> tuple[str, ...]:
    """The tests of a module: as the table says of its file or folder, else the folder that mirrors its own, or the nearest
    above it: tests of rooms are in the folder of their package."""
    inside = _inside(path)
    folder = inside.rpartition("/")[0]
    named = table.get(inside) or table.get(folder)
    while not named and not (ROOT / "tests" / folder).is_dir():
        folder = folder.rpartition("/")[0]
    return tuple(named or [f"tests/{folder}"])


def examine_all(settings: dict[str, Any], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The result for each module. Modules with the same tests share one run without a fault."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for path in (path.resolve() for path in options.modules):
        tests = tuple(options.tests or tests_of(path, settings.get("tests", {})))
        groups.setdefault(tests, []).append(path)
    for tests, paths in groups.items():
        plans = [plan_for(path, settings, options) for path in paths]
        if not any(plan.chosen for plan in plans):  # such as __init__.py: there is nothing to run tests for
            yield from (result_of(plan, {}) for plan in plans)
            continue
        answer = in_fork(partial(in_session, tests, plans, options))
        reach = Reach(**answer["reach"])
        for plan in plans:
            found = in_fork(partial(finish, plan, reach, answer[_inside(plan.path)], options))
            yield result_of(plan, found)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Put small faults into modules and see whether their tests notice.")
    parser.add_argument("modules", nargs="+", type=Path, help="files below src/mooring")
    parser.add_argument("--tests", nargs="+", help="test files or folders; default: those of tools/mutants.toml")
    parser.add_argument("--slow", action="store_true", help="run tests that are marked slow as well")
    parser.add_argument("--only", help="only mutants whose name contains this text")
    parser.add_argument("--sample", type=int, help="take so many mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--minimum", type=float, default=0.0, help="exit with 1 if fewer percent are killed")
    parser.add_argument("--verbose", action="store_true", help="list the killed mutants as well, each with its test")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    os.chdir(ROOT)
    began = time.monotonic()
    results = []
    for result in examine_all(tomllib.loads(SETTINGS.read_text()), options):
        results.append(result)
        line = (
            "{module}: {killed_percent} % of {mutants} mutants killed ({survived} survived, {unreached} not reached, "
        )
        print(f"{line}{{timeout}} hung, {{excluded}} excluded)".format(**result), flush=True)
        for name in result["excluded_unknown"]:
            print(f"tools/mutants.toml: {result['module']} has no mutant {name!r}; remove the line", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    mutants = sum(result["mutants"] for result in results)
    percent = _percent(sum(result["killed"] + result["timeout"] for result in results), mutants)
    print(f"all: {percent} % of {mutants} mutants killed, in {time.monotonic() - began:.0f} s")
    return 0 if percent >= options.minimum else 1


if __name__ == "__main__":
    sys.exit(main())
