"""docs/replay.md shows what the commands really print, but for times of the machine and names of runs."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.cli.options import enable_loaded, registry_with
from mooring.framework import config as configuration
from mooring.inputs.arrivals import read_arrivals
from mooring.inputs.manifests import read
from page_sessions import Session, as_pattern, sessions
from recorded_days import record_day

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "replay.md").read_text()

PLUGIN = '''
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.model.pod import Pod


class Quiet(PlainPlugin):
    """Prefers nodes with few pods."""

    name = "Quiet"

    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 - {step} * min(len(node.pods), {most})


PLUGINS = (Quiet,)
'''


SESSIONS = [
    session for session in sessions(PAGE) if "mooring replay " in session.command and "--serve" not in session.command
]


def plain(text: str) -> str:
    """Without what differs from machine to machine."""
    text = re.sub(r"replayed in \S+: [\d,]+ times real time", "replayed in no time", text)
    return re.sub(r"\b\d{8}T\d{6}Z-[0-9a-f]{4}\b", "RUN", text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the recordings of the page, made as `mooring simulate --record` makes them."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "examples").symlink_to(ROOT / "examples")
    objects = [manifest.object for manifest in read([str(ROOT / "examples" / "cluster.yaml")]).objects]
    arrivals = read_arrivals(str(ROOT / "examples" / "arrivals.yaml"), objects)
    record_day(folder / "recording", objects, arrivals, seed=None)
    plugin = folder / "quiet.py"
    plugin.write_text(PLUGIN.format(step=10, most=10))
    registry, config = registry_with((str(plugin),)), configuration.default()
    enable_loaded(config, registry)
    record_day(folder / "with-plugin", objects, arrivals, config, registry, seed=None)
    plugin.write_text(PLUGIN.format(step=20, most=5))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.command)
def test_the_page_shows_what_is_printed(session: Session, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    arguments = shlex.split(session.command)[1:]
    ran = CliRunner().invoke(main, arguments, input=session.given, catch_exceptions=False)
    assert re.fullmatch(as_pattern(plain(session.printed)), plain(ran.stdout.rstrip("\n"))), ran.stdout + ran.stderr


def test_the_page_has_all_sessions() -> None:
    assert len(SESSIONS) == 6
