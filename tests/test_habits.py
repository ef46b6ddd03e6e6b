"""What runs before a commit, on a developer's machine and in CI is the same: make targets, with pinned versions."""

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from programs import MAKE

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_ci_calls_make_test() -> None:
    assert [step["run"] for step in WORKFLOW["jobs"]["test"]["steps"] if "run" in step] == ["make test"]


@pytest.mark.parametrize(("mypy", "tests", "status"), [(0, 0, 0), (1, 0, 2), (0, 2, 2), (1, 2, 2)])
def test_make_test_fails_if_types_or_tests_do_and_tells_of_types_last(
    tmp_path: Path, mypy: int, tests: int, status: int
) -> None:
    """`make test` itself, with programs in the environment that say their name and have a status."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, code in {"ruff": 0, "mypy": mypy, "python": 0, "python3": 0}.items():
        text = f"#!/bin/sh\necho {name} $*\ncase $* in *--forks*) exit {tests};; esac\nexit {code}\n"
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for stamp in (".runs", ".ready"):
        (tmp_path / stamp).touch()
    command = [MAKE.required(), "--no-print-directory", f"VENV={tmp_path}", "test"]
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "python3 tests/programs.py early" in done.stdout.splitlines()
    ran = [line for line in done.stdout.splitlines() if line.startswith(("ruff", "python ", "mypy"))]
    assert [line.split()[0] for line in ran] == ["ruff", "ruff", "python", "python", "mypy"], done.stdout
    assert "pytest --forks 4" in ran[-2] and "src tests" in ran[-1]


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
    """tests/deploy/test_image.py checks that each line of the lock files is a version with hashes."""
    extras = PROJECT["optional-dependencies"]
    named = {_normal(re.split(r"[ <>=;\[]", name)[0]) for name in PROJECT["dependencies"]}
    assert named <= pinned_in("requirements.lock")
    named |= {_normal(re.split(r"[ <>=;\[]", name)[0]) for name in (*extras["dev"], *extras["docs"])}
    assert named <= pinned_in("requirements-dev.lock")


def pinned_in(lock: str) -> set[str]:
    return {_normal(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE)}


def test_pip_checks_the_hash_of_all_that_make_installs() -> None:
    """The project itself is installed from the checkout, without a build environment that pip would fill."""
    for installer in ("PINNED", "QUICKLY"):
        assert re.search(rf"^{installer} +=.* --require-hashes$", MAKEFILE, re.MULTILINE)
    installing = re.findall(r"^\t@\$\((?:PINNED|QUICKLY|INSTALL)\) (.*)$", MAKEFILE, re.MULTILINE)
    assert installing == [
        "-r requirements-uv.lock",
        "-r requirements.lock -r deploy/build.lock || $(PINNED) -r requirements.lock -r deploy/build.lock",
        "--no-deps --no-build-isolation -e .",
        "-r $(LOCK) || $(PINNED) -r $(LOCK)",
    ]
    assert MAKEFILE.count("pip install") == 3, "and `make lock`, which makes the lock files, installs uv"


def test_make_run_installs_what_the_package_needs_and_says_so_first() -> None:
    done = subprocess.run(
        [MAKE.required(), "--no-print-directory", "--dry-run", "VENV=/nowhere/venv", "run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith('echo "Installing what Mooring needs to run into /nowhere/venv')
    assert "requirements-dev.lock" not in done.stdout and "mooring up --exec" in lines[-1]


def test_ci_is_what_a_newcomer_runs() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")][2:] == ["exec make test"]


def test_actions_are_pinned_by_a_commit_with_the_version_beside_it() -> None:
    files = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    used = [each for file in files for each in re.findall(r"uses: (.*)$", file.read_text(), re.MULTILINE)]
    assert len(used) == 12
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each) for each in used), used


OF_LIBRARIES = {"_continue", "_create_unverified_context", "_exit", "_repr_html_", "_replace", "_tmp_path_factory"}
"""Names with an underscore that Python, pytest, IPython and the client of Kubernetes give to others."""
PRIVATE_USES = 58
"""How often tests use a private name of another object or module. Tests see what users see: this number only goes down."""


def private_uses(text: str) -> Iterator[str]:
    """Uses of private names in the text of a module, but for those of `self`, `cls` and `super()`."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or not re.match("_(?!_)", node.attr) or node.attr in OF_LIBRARIES:
            continue
        owner = node.value.func if isinstance(node.value, ast.Call) else node.value
        if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")):
            yield ast.unparse(node)


def test_private_uses_are_found() -> None:
    text = "a._b = self._c.d(e()._f, x.__g__, cls._h, super()._i)\nf.open(q)._replace(y=1)._z()"
    assert sorted(private_uses(text)) == ["a._b", "e()._f", "f.open(q)._replace(y=1)._z"]


def test_tests_use_no_more_private_names_than_they_did() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    found = sum(1 for text in texts if re.search(r"\._[a-zA-Z]", text) for _ in private_uses(text))
    assert found <= PRIVATE_USES, "a test uses a private name of another object: assert what callers can see"
    assert found == PRIVATE_USES, f"there are fewer now: write {found} into PRIVATE_USES"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_users_set_for_make_is_not_set_by_the_makefile() -> None:
    """RUNS was the name of a file of the set-up as well, so that `make bench RUNS=3` left a file named 3."""
    told = {name for line in MAKEFILE.splitlines() for name in re.findall(r"\b([A-Z]+)=", line.partition("## ")[2])}
    assert {"RUNS", "ONLY", "BASE", "MODULE"} <= told
    assert not told & set(re.findall(r"^([A-Z]+)\s*:?=", MAKEFILE, re.MULTILINE))
