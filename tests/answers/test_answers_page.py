"""docs/answers.md shows what the commands really print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "answers.md").read_text()


def sessions(page: str) -> list[tuple[str, str]]:
    """(command, what it prints) of each indented block that begins with a prompt; `...` stands for lines left out."""
    blocks = re.findall(r"(?m)^    \$ (mooring .*)\n((?:    .*\n|\n(?=    (?!\$)))*)", page)
    return [(command, re.sub(r"(?m)^    ", "", printed).rstrip("\n")) for command, printed in blocks]


def as_pattern(printed: str) -> str:
    return re.escape(printed).replace(re.escape("\n...\n"), r"\n(?:.*\n)*").replace(re.escape("\n..."), r"\n[\s\S]*")


@pytest.mark.parametrize(("command", "printed"), sessions(PAGE), ids=[command for command, _ in sessions(PAGE)])
def test_the_page_shows_what_is_printed(command: str, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert re.fullmatch(as_pattern(printed), ran.stdout.rstrip("\n")), ran.stdout + ran.stderr


def test_sessions_are_found() -> None:
    page = "Text\n\n    $ mooring a b\n    one\n\n    two\n\nText\n\n    $ mooring c\n    x\n    ...\n"
    assert sessions(page) == [("mooring a b", "one\n\ntwo"), ("mooring c", "x\n...")]
    assert re.fullmatch(as_pattern("x\n..."), "x\ny\nz") and not re.fullmatch(as_pattern("x\n..."), "w\ny")


def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    cluster = names["cluster"]
    assert repr(cluster) == "<mooring cluster: 7 nodes, 13 pods, 2 of them pending>"
    assert eval('cluster.explain("shop/report-0").cures[0].change', names) == "uncordon node c-2"
