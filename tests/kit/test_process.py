"""The limit of open files is raised to what the system allows, in a process of its own."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="this system has no limits of open files")

SCRIPT = """
import resource
from mooring.kit.process import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard", "said"), [(100, 300, "300 300 300"), (300, 300, "300 300 300")])
def test_the_soft_limit_becomes_the_hard_one(soft: int, hard: int, said: str) -> None:
    script = SCRIPT.format(soft=soft, hard=hard)
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == said
