"""The image: pinned, small, for a user without rights and a root that cannot be written; its build has equal results.

There is no container engine here. The rules are read from the file, and the steps of the build stage are carried out in a
folder; docs/install.md says what that leaves open.
"""

import fnmatch
import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from dockerfile import ROOT, ScratchStage, environment_of, instructions, stages

from deploying import DEPLOY, flags_of
from how_many import IS_SOAK
from mooring.kit.version import VERSION

LOCKS = ("build.lock", "image.lock")
FEW = {"click", "markdown-it-py", "mdurl", "msgspec", "numpy", "pygments", "pyyaml", "rich"}
"""What `mooring --version` imports."""
PIN = re.compile(r"^([\w.-]+)==(\S+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return {name: version for name, version, _ in PIN.findall((DEPLOY / lock).read_text())}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- what the file says


def test_both_stages_begin_with_one_image_that_tag_and_digest_pin() -> None:
    build, final = stages()
    assert (build[0].text, final[0].text) == ("${PYTHON} AS build", "${PYTHON}")
    (image,) = (each.text for each in instructions() if each.name == "ARG")
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", image)


def test_what_is_installed_has_a_hash_or_was_built_before() -> None:
    commands = [command for each in stages()[0] if each.name == "RUN" for command in each.text.split("&&")]
    installing = [command for command in commands if re.search(r"pip\b.* install\b", command)]
    assert len(installing) == 3
    assert all("--require-hashes" in command or "--no-index" in command for command in installing)
    building = [command for command in commands if " wheel " in command]
    assert all("--no-deps --no-build-isolation" in command for command in building) and building


def test_the_final_stage_only_takes_over_what_was_built() -> None:
    final = stages()[1]
    assert {each.name for each in final} == {"FROM", "LABEL", "COPY", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert [each.text for each in final if each.name == "COPY"] == ["--from=build /opt/mooring /opt/mooring"]
    assert environment_of(final)["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_user_is_a_number_that_is_not_root_and_that_the_manifests_ask_for() -> None:
    (user,) = (each.text for each in stages()[1] if each.name == "USER")
    assert user == "65532:65532"
    for name in ("second-scheduler.yaml", "helm/mooring/templates/deployment.yaml"):
        assert "runAsNonRoot: true, runAsUser: 65532" in (DEPLOY / name).read_text()


def test_the_program_is_started_without_a_shell() -> None:
    told = {each.name: json.loads(each.text) for each in stages()[1] if each.name in ("ENTRYPOINT", "CMD")}
    assert told["ENTRYPOINT"] == ["mooring"]
    assert flags_of({"args": told["CMD"]})["config"] is None


def test_labels_say_what_the_image_is() -> None:
    labels = dict(word.partition("=")[::2] for each in stages()[1] if each.name == "LABEL" for word in each.words)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "org.opencontainers.image."
    assert labels == {
        f"{prefix}version": VERSION,
        f"{prefix}title": project["name"],
        f"{prefix}description": project["description"],
        f"{prefix}licenses": project["license"],
    }


def test_the_context_has_what_is_copied_and_nothing_else() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    copied = {name for each in stages()[0] if each.name == "COPY" for name in each.words[:-1]}
    assert rules[0] == "*" and {rule[1:] for rule in rules if rule[0] == "!"} == copied
    assert all((ROOT / name).exists() for name in copied)
    assert any(fnmatch.fnmatch("a/__pycache__", rule) for rule in rules[1:])


# ---- the lock files


@pytest.mark.parametrize(
    "lock", [*LOCKS, "../requirements.lock", "../requirements-dev.lock", "../requirements-uv.lock"]
)
def test_every_line_of_a_lock_file_is_a_version_with_hashes(lock: str) -> None:
    text = (DEPLOY / lock).read_text()
    assert re.sub(r"^#.*\n", "", PIN.sub("", text), flags=re.MULTILINE) == ""
    assert "://" not in text


def test_the_image_has_what_the_package_and_its_traces_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["tracing"]]
    assert {_normal(re.split(r"[ <>=;\[]", name)[0]) for name in wanted} <= set(map(_normal, pins("image.lock")))
    assert "hatchling" in pins("build.lock")


def test_the_versions_are_those_that_the_tests_run_with() -> None:
    tested = pins("../requirements-dev.lock").items()
    for lock in (*LOCKS, "../requirements.lock"):
        assert pins(lock).items() <= tested, lock


# ---- the steps of the build stage


def tree_of(folder: Path) -> dict[str, str]:
    """A digest of every file, and the target of every link."""
    return {
        path.relative_to(folder).as_posix(): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if not path.is_dir()
    }


@pytest.mark.slow
def test_the_steps_give_the_same_files_twice_and_the_program_writes_none_of_them(tmp_path: Path) -> None:
    """Twice in one folder: programs of an environment name the folder they are in. Only `make soak` repeats the steps, and
    installs and compiles all packages: others carry out each step with those that the image needs to tell its version."""
    trees: list[dict[str, str]] = []
    for _ in range(2 if IS_SOAK else 1):
        if trees:
            (tmp_path / "root").rename(tmp_path / "first")
        ScratchStage(tmp_path / "root", None if IS_SOAK else FEW).carry_out(stages()[0])
        trees.append(tree_of(tmp_path / "root" / "opt" / "mooring"))
    assert trees[0] == trees[-1]
    assert sum(name.endswith(".pyc") for name in trees[0]) > (1000 if IS_SOAK else 600)
    assert not any("/pip/" in name or "/hatchling/" in name for name in trees[0])
    mooring = tmp_path / "root" / "opt" / "mooring" / "bin" / "mooring"
    every = [["--version"], ["simulate", str(ROOT / "examples" / "cluster.yaml")], ["run", "--help"]]
    for arguments in every if IS_SOAK else every[:1]:
        subprocess.run([mooring, *arguments], env=environment_of(stages()[1]), check=True, capture_output=True)
    assert tree_of(tmp_path / "root" / "opt" / "mooring") == trees[-1]
