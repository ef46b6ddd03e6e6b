"""Settings that all tests share: where builders are found, and how hypothesis behaves."""

import gc
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent / "examples"))

from forked_workers import ForkedRun
from how_many import IS_SOAK, PROFILE, examples
from run_order import parts_of

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would every process that a test starts
gc.disable()  # until all tests are collected: imports leave next to nothing to collect
THRESHOLDS = (20_000, 20, 50)
"""When the collector runs: with the usual thresholds it takes a tenth of the CPU time of tests."""
gc.set_threshold(*THRESHOLDS)
ALL_EXAMPLES = 100
COSTLY = frozenset(Path(__file__).with_name("costly_tests.txt").read_text().splitlines())
"""Tests that `make check` leaves out; tools/costly_tests.py measures them."""
settings.register_profile(
    "soak", deadline=None, derandomize=True, max_examples=ALL_EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("soak"), max_examples=examples(ALL_EXAMPLES))
settings.register_profile("check", settings.get_profile("ci"))
settings.register_profile("explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate], print_blob=False, database=None
)
settings.load_profile(PROFILE)
"""The same examples every time, so that a red build is red for everyone. `ci` and `check` try fewer of them (how_many.py),
`explore` looks for new ones, and `mutants` (tools/mutate.py) does not make a failure smaller: one is enough."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", type=int, default=1, help="Run tests in so many forks of the process that collects them."
    )


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run tests in forks, if there is more than one and if all tests could be collected."""
    count = session.config.getoption("forks")
    if count == 1 or session.testsfailed or session.config.option.collectonly:
        return None
    ForkedRun(session, parts_of(session.items, COSTLY)).run(count)
    return True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files in which all tests are slow, if slow tests are left out: 50 files with libraries of their own."""
    if config.option.markexpr != "not slow" or not re.fullmatch(r"test_.*\.py", collection_path.name):
        return None
    return bool(re.search(r"^pytestmark = .*pytest\.mark\.slow", collection_path.read_text(), re.MULTILINE)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that the profile has no time for."""
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    """The long form of a test, which only `make soak` runs, or a costly test, which `make check` does not run."""
    is_costly = PROFILE == "check" and item.nodeid.partition("[")[0] in COSTLY
    return is_costly or (not IS_SOAK and item.get_closest_marker("soak") is not None)


def pytest_collection_finish() -> None:
    gc.enable()


def pytest_runtest_teardown() -> None:
    """Take back what a command that ran in this process did to the collector: otherwise its garbage stays to the end."""
    if gc.get_threshold() != THRESHOLDS:
        gc.set_threshold(*THRESHOLDS)
        gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, once for each reason: a skipped test checks nothing, and most can be made to run."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ").partition("\n")[0] for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} {'test' if count == 1 else 'tests'}: {reason}")
