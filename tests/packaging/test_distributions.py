"""Wheel and sdist: they hold what they must and nothing else, are equal in every build, and work where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from distributions import PATIENCE_S, ROOT, a_checkout, build, tracked

from mooring.kit.version import VERSION

pytestmark = pytest.mark.slow
EPOCH = "1700000000"
DIST_INFO = f"mooring-{VERSION}.dist-info"
DATA = {
    f"mooring/{name}"
    for name in (
        *("py.typed", "api/schema/data/fields.txt", "inputs/reader.yaml", "inputs/dumps/public_words.toml"),
        *("cli/flagz.txt", "cli/completion.bash", "cli/completion.zsh", "cli/completion.fish"),
    )
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(a_checkout(tmp_path_factory.mktemp("checkout")), EPOCH)


def test_the_wheel_has_the_files_of_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = wheel.namelist()
    described = {
        f"{DIST_INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    assert set(names) - described == {name.removeprefix("src/") for name in tracked("src/mooring")}
    assert set(names) >= DATA


def test_the_sdist_has_the_package_and_the_examples_and_nothing_else(built: dict[str, Path]) -> None:
    with tarfile.open(built[".gz"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    beside = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", ".gitignore", "PKG-INFO"}
    assert names - beside == set(tracked("src/mooring", "examples"))
    assert beside <= names
    assert built[".gz"].stat().st_size < 8 << 20


def test_names_texts_and_requirements_of_the_metadata(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        told = Parser().parsestr(wheel.read(f"{DIST_INFO}/METADATA").decode())
        licence = wheel.read(f"{DIST_INFO}/licenses/LICENSE").decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (told["Name"], told["Version"], told["Requires-Python"]) == ("mooring", VERSION, project["requires-python"])
    assert (told["License-Expression"], told["License-File"]) == ("Apache-2.0", "LICENSE")
    assert licence.split()[:4] == ["Apache", "License", "Version", "2.0,"] and "END OF TERMS AND CONDITIONS" in licence
    assert told["Description-Content-Type"] == "text/markdown"
    assert set(told.get_all("Provides-Extra", ())) == set(project["optional-dependencies"])
    always = [line for line in told.get_all("Requires-Dist", ()) if "extra ==" not in line]
    assert len(always) == len(project["dependencies"])
    versions = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]


def test_twine_has_nothing_against_them(built: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_build_on_another_day_is_equal_byte_for_byte(built: dict[str, Path], tmp_path: Path) -> None:
    checkout = a_checkout(tmp_path)
    for path in checkout.rglob("*"):
        path.chmod(0o775 if path.is_dir() else 0o664)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    again = build(checkout, EPOCH, umask=0o002)
    for suffix, path in built.items():
        assert path.name == again[suffix].name and path.read_bytes() == again[suffix].read_bytes()


# ---- installed, where there is nothing else


UV = (str(Path(sys.executable).with_name("uv")), "--no-config")


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a new environment that has the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run(
        [*UV, "venv", "--python", sys.executable, str(folder)], check=True, capture_output=True, timeout=PATIENCE_S
    )
    for wanted in (["--require-hashes", "-r", str(ROOT / "requirements.lock")], ["--no-deps", str(built[".whl"])]):
        install = [*UV, "pip", "install", "--python", str(folder), *wanted]
        done = subprocess.run(install, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode and re.search("no versions of|Failed to fetch|error sending request", done.stderr):
            pytest.skip("uv finds no index with the packages that Mooring depends on: connect this machine to one")
        assert done.returncode == 0, done.stderr
    return folder / "bin"


def ran(programs: Path, *arguments: str | Path) -> str:
    """What the installed `mooring` prints, in a folder without any of its source."""
    command = [str(programs / "mooring"), *map(str, arguments)]
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs)}
    done = subprocess.run(command, cwd=programs, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_only_what_the_package_needs_is_installed(installed: Path) -> None:
    of_the_environment = ["--python", str(installed / "python")]
    listed = subprocess.check_output([*UV, "pip", "list", "--format=freeze", *of_the_environment], text=True)
    assert not re.search("^(pytest|hatchling|scipy|pandas|opentelemetry-sdk)==", listed, re.MULTILINE)
    assert f"mooring=={VERSION}" in listed
    subprocess.run([*UV, "pip", "check", *of_the_environment], check=True, capture_output=True)


def test_the_installed_command_tells_its_version(installed: Path) -> None:
    assert ran(installed, "--version") == f"mooring, version {VERSION}\n"


def test_the_installed_package_has_the_roles_that_its_errors_name(installed: Path) -> None:
    code = "from mooring.inputs.live_source import READER_ROLE; print(READER_ROLE); print(READER_ROLE.read_text())"
    told = subprocess.check_output([str(installed / "python"), "-c", code], cwd=installed, text=True)
    path, _, text = told.partition("\n")
    assert str(installed.parent) in path
    assert re.findall(r"name: (mooring-\w+)}", text) == ["mooring-reader", "mooring-observer"]


def test_the_installed_command_simulates_an_example(installed: Path) -> None:
    report = ran(installed, "simulate", ROOT / "examples" / "cluster.yaml")
    assert report.startswith("11 of 12 pending pods placed, 5 nodes\n")


def test_the_installed_command_starts_a_cluster(installed: Path) -> None:
    counted = "import os, yaml; print(len(yaml.safe_load(open(os.environ['KUBECONFIG']))['clusters']), 'cluster')"
    report = ran(installed, "up", "-q", "--nodes", "2", "--exec", f'{installed}/python -c "{counted}"')
    assert "1 cluster" in report


def test_the_installed_package_is_typed_and_answers_in_python(installed: Path) -> None:
    asked = "import mooring; print(len(mooring.simulate(r'{}').placed))".format(ROOT / "examples" / "cluster.yaml")
    shown = subprocess.check_output([str(installed / "python"), "-c", asked], cwd=installed, text=True)
    assert shown == "11\n"
