"""docs/replay.md shows what the commands really print, but for times of the machine and names of runs."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_answers_page import as_pattern

from mooring.cli.main import main
from mooring.cli.options import enable_loaded, registry_with
from mooring.framework import config as configuration
from mooring.sim.reading.arrivals import read_arrivals
from mooring.sim.reading.manifests import read
from recorded_days import record_day

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "replay.md").read_text()

PLUGIN = '''
from mooring.framework.plain import NodeView, PlainPlugin
from mooring.model.pod import Pod


class Quiet(PlainPlugin):
    """Prefers nodes with few pods."""

    name = "Quiet"

    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 - {step} * min(len(node.pods), {most})


PLUGINS = (Quiet,)
'''


def sessions(page: str) -> list[tuple[str, str, str]]:
    """(standard input, command, what it prints) of each indented block that begins with a prompt."""
    blocks = re.findall(
        r"(?m)^    \$ (?:printf '(.*)' \| )?(mooring replay .*)\n((?:    .*\n|\n(?=    (?!\$)))*)", page
    )
    found = [(given, command, re.sub(r"(?m)^    ", "", printed).rstrip("\n")) for given, command, printed in blocks]
    return [session for session in found if "--serve" not in session[1]]


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
@pytest.mark.parametrize(
    ("given", "command", "printed"), sessions(PAGE), ids=[command for _, command, _ in sessions(PAGE)]
)
def test_the_page_shows_what_is_printed(
    given: str, command: str, printed: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    text = given.replace("\\n", "\n")
    ran = CliRunner().invoke(main, shlex.split(command)[1:], input=text, catch_exceptions=False)
    assert re.fullmatch(as_pattern(plain(printed)), plain(ran.stdout.rstrip("\n"))), ran.stdout + ran.stderr


def test_the_page_has_all_sessions() -> None:
    assert len(sessions(PAGE)) == 6
