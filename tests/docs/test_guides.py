"""Commands of the guides print what the pages show; test_tutorial.py runs the guides that need a cluster."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs_pages import DOCS, ROOT, guides, pages_with_servers
from mooring.cli.main import main
from page_sessions import Session, as_pattern, sessions


def guide_sessions() -> Iterator[Session]:
    for page in guides():
        if page not in pages_with_servers():
            yield from sessions(page.read_text())


@pytest.mark.parametrize("session", [*guide_sessions()], ids=lambda session: session.command)
def test_the_guide_shows_what_is_printed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = CliRunner().invoke(main, shlex.split(session.command)[1:], catch_exceptions=False)
    assert re.fullmatch(as_pattern(session.printed), ran.stdout.rstrip("\n")), ran.stdout + ran.stderr


def test_all_guides_are_tried() -> None:
    assert len([*guide_sessions()]) == 17
    assert [page.stem for page in pages_with_servers()] == [
        "tutorial",
        "replace-kube-scheduler",
        "run-beside-kube-scheduler",
    ]


def test_the_reasons_that_the_guide_explains_are_those_of_the_code() -> None:
    table = (DOCS / "guides" / "debug-a-pending-pod.md").read_text().partition("| message |")[2].partition("\n\n")[0]
    messages = [text for row in table.splitlines() for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    texts = "".join(path.read_text() for path in (ROOT / "src" / "mooring").rglob("*.py"))
    parts = [part for message in messages for part in re.split(r"cpu|memory|\.\.\. ", message) if part.strip()]
    assert len(parts) >= 12
    assert [part for part in parts if part.strip() not in texts] == []


def test_paths_that_guides_name_exist() -> None:
    named = {
        path
        for page in [DOCS / "tutorial.md", *guides()]
        for path in re.findall(r"\b(?:examples|deploy)/[\w./-]+\w", page.read_text())
    }
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_every_command_and_option_that_other_tools_map_to_exists() -> None:
    """docs/coming-from.md: its second column has commands of Mooring."""
    page = Path(DOCS / "coming-from.md").read_text()
    commands = (DOCS / "reference" / "commands.md").read_text()
    cells = [row.split(" | ")[-1] for row in page.splitlines() if row.startswith("| ")]
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    for name in (span.split() for span in spans if span.startswith("mooring ")):
        assert f"## {' '.join(name[:2])}\n" in commands, name
    options = {word.partition("=")[0] for span in spans for word in span.split() if word.startswith("--")}
    assert [option for option in sorted(options) if f"`{option}`" not in commands] == []
