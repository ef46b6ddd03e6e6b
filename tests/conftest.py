"""Settings that all tests share: where builders are found, and how hypothesis behaves."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent / "examples"))

from how_many import CHECK, OF_100

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(CHECK, settings.get_profile("ci"), max_examples=OF_100)
settings.register_profile("explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate], print_blob=False, database=None
)
settings.load_profile(os.environ.get("MOORING_HYPOTHESIS", "ci"))
"""The same examples every time, so that a red build is red for everyone; `check` tries fewer of them (how_many.py), `explore`
looks for new ones, and `mutants` (tools/mutate.py) does not make a failure smaller: one is enough."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, once for each reason: a skipped test checks nothing, and most can be made to run."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ").partition("\n")[0] for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} {'test' if count == 1 else 'tests'}: {reason}")
