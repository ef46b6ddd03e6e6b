"""docs/answers.md shows what the commands really print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from page_sessions import Session, as_pattern, sessions

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "answers.md").read_text()


@pytest.mark.parametrize("session", sessions(PAGE), ids=lambda session: session.command)
def test_the_page_shows_what_is_printed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = CliRunner().invoke(main, shlex.split(session.command)[1:], catch_exceptions=False)
    assert re.fullmatch(as_pattern(session.printed), ran.stdout.rstrip("\n")), ran.stdout + ran.stderr


def test_the_page_has_all_sessions() -> None:
    assert len(sessions(PAGE)) == 12


def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    cluster = names["cluster"]
    assert repr(cluster) == "<mooring cluster: 7 nodes, 13 pods, 2 of them pending>"
    assert eval('cluster.explain("shop/report-0").cures[0].change', names) == "uncordon node c-2"
