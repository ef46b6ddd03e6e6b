"""What the flags of the dashboard do: a link, no link, and refusals."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from mooring.cli.main import main


def ran(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mooring.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_the_link_is_told_to_people_and_to_the_command() -> None:
    done = ran("up", "--nodes", "1", "--exec", "echo $MOORING_DASHBOARD")
    link = done.stdout.strip()
    assert link.startswith("http://127.0.0.1:") and "/dashboard/#token=" in link
    assert done.stderr == f"Dashboard: {link}\n"


@pytest.mark.slow
def test_a_quiet_cluster_does_not_show_its_token_and_there_may_be_no_dashboard() -> None:
    assert ran("up", "-q", "--nodes", "1", "--exec", "true").stderr == ""
    without = ran("up", "--no-dashboard", "--nodes", "1", "--exec", "echo [$MOORING_DASHBOARD]")
    assert (without.stdout, without.stderr) == ("[]\n", "")


def test_a_dashboard_needs_a_port() -> None:
    done = CliRunner().invoke(main, ["run", "--dashboard", "--secure-port", "0"])
    assert done.exit_code == 2
    assert "--dashboard needs a port: --secure-port 0 serves no pages" in done.output
