"""What a process sets when it starts. Limits of the system are set in a process of its own."""

import os
import subprocess
import sys

import pytest

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


LOADED = """
import os, sys
import mooring
import mooring.cli.main
print("OPENBLAS_NUM_THREADS" in os.environ)
import click
mooring.cli.main.main.get_command(click.Context(mooring.cli.main.main), "run")
print(os.environ["OPENBLAS_NUM_THREADS"], "numpy" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({}, "False 1 True", id="one thread"),
        pytest.param({"OPENBLAS_NUM_THREADS": "4"}, "True 4 True", id="as many as the environment says"),
    ],
)
def test_a_command_limits_the_threads_of_blas_and_an_import_does_not(given: dict[str, str], said: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, env={**environment, **given})
    assert " ".join(run.stdout.split()) == said


COLLECTED = """
import gc
from mooring.kit.process import expect_lists, relax_collector, without_collector

def frozen():
    return gc.get_freeze_count()

before = gc.get_threshold()
with without_collector():
    print(gc.isenabled())
    made = [[] for _ in range(5_000)]
print(gc.isenabled(), gc.get_count()[0] < 5_000, frozen() > 5_000, gc.get_threshold() == before)
expect_lists()
listing, listed, kept = gc.get_threshold(), [[] for _ in range(5_000)], frozen()
relax_collector()
print(listing[0] > gc.get_threshold()[0] > before[0], frozen() >= kept + 5_000)
gc.disable()
with without_collector():
    pass
print(gc.isenabled())
"""


def test_what_imports_and_first_lists_make_is_never_collected() -> None:
    """In a process of its own, because objects stay exempted until it ends."""
    told = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True).stdout
    assert told.split() == ["False", "True", "True", "True", "True", "True", "True", "False"]
