"""What runs before a commit, on a developer's machine and in CI is the same: make targets, with pinned versions."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
LOCK = (ROOT / "requirements-dev.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_ci_calls_what_make_test_consists_of() -> None:
    parts = re.search(r"^test: ([\w -]+?)  ##", MAKEFILE, re.MULTILINE)
    assert parts is not None
    steps = WORKFLOW["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [f"make {target}" for target in parts[1].split()]


def test_ci_runs_on_the_versions_that_the_package_supports() -> None:
    versions = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_hooks_call_make_targets_in_the_environment_of_the_checkout() -> None:
    assert [repository["repo"] for repository in HOOKS["repos"]] == ["local"]
    for hook in HOOKS["repos"][0]["hooks"]:
        *command, target = hook["entry"].split()
        assert command == ["make", "--no-print-directory"] and hook["language"] == "system"
        assert re.search(rf"^{target}: ", MAKEFILE, re.MULTILINE), f"the Makefile has no target {target}"


def test_everything_that_the_package_and_its_development_name_is_pinned() -> None:
    pins = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", pin) for pin in pins), "names and versions, no addresses"
    pinned = {_normal(pin.partition("==")[0]) for pin in pins}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["dev"], *extras["docs"]]
    assert {_normal(re.split(r"[ <>=;\[]", name)[0]) for name in wanted} <= pinned


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
