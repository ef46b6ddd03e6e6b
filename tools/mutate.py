"""Which faults would the tests not notice? Puts small faults into modules, one at a time, and runs their tests.

    python tools/mutate.py src/mooring/queue/backoff.py [--sample 50 --seed 1] [--json result.json]

The tests run once to see which of them reach which line, and how long they take. Then each fault (a mutant,
mutations.py) meets the tests that reach its line, the quickest first, until one fails: the mutant is killed.
The files stay as they are: a mutant exists only in the memory of the process that is forked for it.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import aiohttp  # noqa: F401  these are here so that no forked process has to import them
import hypothesis.stateful  # noqa: F401
import msgspec  # noqa: F401
import numpy as np  # noqa: F401
import yaml  # noqa: F401
from mutant_tests import ROOT, Chosen, MutantFinder, Reach, Tracer, run_by_file, run_tests
from mutations import Mutation, mutations_of

SETTINGS = ROOT / "tools" / "mutants.toml"
PACKAGES = ROOT / "src"

MEMORY_BYTES = 3 << 30
"""A mutant that collects without end stops here, and the machine goes on."""
SLACK_S = 20.0
"""Beyond the time of its tests a mutant gets so much, for imports and a busy machine."""
SLOWER = 5
"""How many times longer than usual the tests of a mutant may take before they count as hanging."""


def in_fork(work: Callable[[], Any]) -> Any:
    """What the work returns, done in a process of its own: what it imports and prints is gone with it."""
    with tempfile.NamedTemporaryFile() as answer:
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            try:
                Path(answer.name).write_text(json.dumps(work()))
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit(2)
        return json.loads(Path(answer.name).read_text())


def explore(tests: Sequence[str], paths: Sequence[Path]) -> dict[str, Any]:
    """Run the tests once, without a fault."""
    tracer = Tracer([str(path) for path in paths])
    errors = os.fdopen(os.dup(2), "w")
    status = run_tests(tests, tracer)
    if status != 0:
        errors.write(f"{' '.join(tests)}: the tests fail without a fault (pytest ends with {status}); run them first\n")
        errors.flush()
        os._exit(1)
    tracer.reach.imported = [name for name in sys.modules if name.startswith("mooring.")]
    return vars(tracer.reach)


def preload(module: str, imported: Sequence[str]) -> None:
    """Import what the tests load, except the module and what imports it: those are to meet the mutant."""
    importers = {name: _imports(name) for name in imported}
    affected = {module}
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


class Laboratory:
    """One module and its mutants, of which some run at a time."""

    def __init__(self, path: Path, reach: Reach, jobs: int, folder: Path) -> None:
        self.path = path
        self.module = _module_name(path)
        self.tree = ast.parse(path.read_text())
        self._reach, self._jobs, self._folder = reach, jobs, folder
        self._running: dict[int, Job] = {}

    def run(self, mutations: Sequence[Mutation]) -> Iterator[tuple[Mutation, str, str]]:
        """Each mutant with what became of it (killed, timeout, survived, unreached) and the test that noticed."""
        for i, mutation in enumerate(mutations):
            tests = self._reach.tests_for(str(self.path), mutation.lines)
            if not tests:
                yield mutation, "unreached", ""
                continue
            while len(self._running) >= self._jobs:
                yield self._wait()
            self._start(Job(mutation, self._folder / f"{i}.txt"), tests)
        while self._running:
            yield self._wait()

    def _start(self, job: Job, tests: list[str]) -> None:
        limit_s = SLACK_S + SLOWER * sum(self._reach.seconds[test] for test in tests)
        if (pid := os.fork()) == 0:
            self._be_mutant(job, tests, limit_s)
        self._running[pid] = job

    def _be_mutant(self, job: Job, tests: list[str], limit_s: float) -> NoReturn:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        chosen = Chosen(tests)
        try:
            code = compile(job.mutation.apply(self.tree), str(self.path), "exec", dont_inherit=True)
            sys.meta_path.insert(0, MutantFinder(self.module, str(self.path), code))
            status = run_by_file(tests, chosen)
            job.killer.write_text(chosen.killer or "(the tests cannot be collected)")
        except BaseException:
            status = 3
        os._exit(status)

    def _wait(self) -> tuple[Mutation, str, str]:
        pid, status = os.wait()
        job = self._running.pop(pid)
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code == 0:
            return job.mutation, "survived", ""
        if exit_code == -signal.SIGALRM:
            return job.mutation, "timeout", ""
        return job.mutation, "killed", job.killer.read_text() if job.killer.exists() else "(the process died)"


def examine(path: Path, reach: Reach, excluded: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """The result for one module, as plain data."""
    began = time.monotonic()
    preload(_module_name(path), reach.imported)
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(path, reach, options.jobs, Path(folder))
        mutations = mutations_of(laboratory.tree)
        chosen = _chosen(mutations, excluded, options)
        outcomes = {"killed": 0, "timeout": 0, "survived": 0, "unreached": 0}
        survivors = []
        for mutation, outcome, killer in laboratory.run(chosen):
            outcomes[outcome] += 1
            if outcome in ("survived", "unreached"):
                survivors.append({"name": mutation.name, "line": mutation.line, "outcome": outcome})
            if options.verbose or outcome in ("survived", "unreached"):
                shown = path.relative_to(ROOT)
                print(f"{shown}:{mutation.line}: {outcome}: {mutation.name}  {killer}".rstrip(), flush=True)
    known = {mutation.name for mutation in mutations}
    return {
        "module": laboratory.module,
        "mutants": len(chosen),
        **outcomes,
        "killed_percent": _percent(outcomes["killed"] + outcomes["timeout"], len(chosen)),
        "excluded": len(known & excluded.keys()),
        "excluded_unknown": sorted(excluded.keys() - known),
        "seconds": round(time.monotonic() - began, 1),
        "survivors": sorted(survivors, key=lambda s: (s["line"], s["name"])),
    }


def _chosen(mutations: list[Mutation], excluded: dict[str, str], options: argparse.Namespace) -> list[Mutation]:
    chosen = [m for m in mutations if m.name not in excluded and (options.only or "") in m.name]
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(options.seed).sample(chosen, options.sample), key=lambda m: m.line)
    return chosen


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 100.0


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGES).with_suffix("").parts)


def _inside(path: Path) -> str:
    """How mutants.toml calls a module: its path below src/mooring."""
    return path.relative_to(PACKAGES / "mooring").as_posix()


def tests_of(path: Path, table: dict[str, list[str]]) -> tuple[str, ...]:
    """The tests of a module: as the table says of its file or folder, else the folder that mirrors its own."""
    inside = _inside(path)
    folder = inside.rpartition("/")[0]
    return tuple(table.get(inside) or table.get(folder) or [f"tests/{folder}"])


def examine_all(settings: dict[str, Any], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The result for each module. Modules with the same tests share one run without a fault."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for path in (path.resolve() for path in options.modules):
        tests = tuple(options.tests or tests_of(path, settings.get("tests", {})))
        groups.setdefault(tests, []).append(path)
    for tests, paths in groups.items():
        reach = Reach(**in_fork(lambda tests=tests, paths=paths: explore(tests, paths)))  # type: ignore[misc]
        for path in paths:
            excluded = settings.get("equivalent", {}).get(_inside(path), {})
            yield in_fork(lambda p=path, r=reach, e=excluded: examine(p, r, e, options))  # type: ignore[misc]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Put small faults into modules and see whether their tests notice.")
    parser.add_argument("modules", nargs="+", type=Path, help="files below src/mooring")
    parser.add_argument("--tests", nargs="+", help="test files or folders; default: those of tools/mutants.toml")
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
    results = []
    for result in examine_all(tomllib.loads(SETTINGS.read_text()), options):
        results.append(result)
        line = (
            "{module}: {killed_percent} % of {mutants} mutants killed ({survived} survived, {unreached} not reached, "
        )
        print(f"{line}{{timeout}} hung, {{excluded}} excluded), {{seconds}} s".format(**result), flush=True)
        for name in result["excluded_unknown"]:
            print(f"tools/mutants.toml: {result['module']} has no mutant {name!r}; remove the line", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    mutants = sum(result["mutants"] for result in results)
    percent = _percent(sum(result["killed"] + result["timeout"] for result in results), mutants)
    print(f"all: {percent} % of {mutants} mutants killed")
    return 0 if percent >= options.minimum else 1


if __name__ == "__main__":
    sys.exit(main())
