"""Every command of the tutorial, and of guides that need a cluster, prints what the page shows, from the top to the end."""

import re
from pathlib import Path

import pytest

from docs_pages import pages_with_servers
from kubectl import needs_kubectl
from page_sessions import saved_files, sessions
from page_shell import ROOT, PageShell, shape

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


@pytest.mark.slow
@needs_kubectl
@pytest.mark.parametrize("page", pages_with_servers(), ids=lambda page: page.stem)
def test_a_reader_who_follows_the_page_sees_what_it_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    with PageShell(tmp_path, text) as shell:
        for session in sessions(text):
            shell.check(session)


def test_every_command_of_the_tutorial_is_run() -> None:
    indented = re.findall(r"(?m)^    (?:\$ )?((?:pip|pipx|make|mooring|kubectl|helm|cat|cd) .*)$", TUTORIAL)
    assert [command for command in indented if command not in {each.command for each in sessions(TUTORIAL)}] == [
        "pip install ."
    ]
    assert len(sessions(TUTORIAL)) == 18 and saved_files(TUTORIAL).keys() == {"quiet.py", "giant.yaml"}


def test_what_differs_from_run_to_run_is_left_out_of_the_comparison() -> None:
    assert (
        shape("web-b2dvh6bvtv-7gwj6   1/1     Running   0          12s") == "web-b2dvh6bvtv-NAME  1/1  Running  0  AGE"
    )
    assert shape("export KUBECONFIG=/tmp/mooring-nirjc0fp/kubeconfig") == "export KUBECONFIG=KUBECONFIG"
    assert shape('I1116 11:17:40.580503    4246 run.py:183] "Starting"') == 'I run.py] "Starting"'
    assert shape("11 of 12 pending pods placed, 5 nodes") == "11 of 12 pending pods placed, 5 nodes"
