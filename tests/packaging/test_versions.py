"""One version: what the program, its pages, its metadata and the files of deploy/ name is that of kit/version.py."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import mooring
from mooring.api.schema import discovery
from mooring.kit.clock import VirtualClock
from mooring.kit.version import VERSION
from mooring.serve.service_metrics import ServiceMetrics

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

from stamp_version import PLACES, ROOT, stamped, versions_in


def test_the_version_is_one_that_packages_images_and_charts_can_all_have() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_the_command_the_module_and_the_metadata_agree() -> None:
    command = [sys.executable, "-m", "mooring.cli.main", "--version"]
    assert subprocess.check_output(command, text=True) == f"mooring, version {VERSION}\n"
    assert mooring.__version__ == VERSION
    assert version("mooring") == VERSION, "the environment has another version installed: run make .venv/.ready"


def test_the_pages_of_both_servers_name_it() -> None:
    document = discovery.document("/version")
    assert document is not None and document["gitVersion"].endswith(f"+mooring-{VERSION}")
    assert f'git_version="{document["gitVersion"]}"' in ServiceMetrics(VirtualClock(0)).metrics().decode()


@pytest.mark.parametrize("name", PLACES)
def test_files_that_have_to_name_it_do(name: str) -> None:
    text = (ROOT / name).read_text()
    for pattern in PLACES[name]:
        assert set(versions_in(text, (pattern,))) == {VERSION}, f"run make version: {pattern}"


def test_no_file_of_deploy_names_an_image_elsewhere() -> None:
    files = [path for path in (ROOT / "deploy").rglob("*") if path.is_file() and path.suffix != ".lock"]
    named = {path.relative_to(ROOT).as_posix() for path in files if re.search(r"mooring:\d", path.read_text())}
    assert named <= set(PLACES)


def test_a_new_version_is_written_everywhere_and_nothing_else_changes() -> None:
    for name, patterns in PLACES.items():
        text = (ROOT / name).read_text()
        changed = stamped(text, patterns, "7.8.9")
        assert set(versions_in(changed, patterns)) == {"7.8.9"}
        assert stamped(changed, patterns, VERSION) == text


def test_the_changelog_has_the_release() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} - \d{{4}}-\d\d-\d\d", headings[1])
