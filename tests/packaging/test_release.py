"""The files of a release: equal in every build, complete, and what other programs expect of them."""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributions import ROOT, tracked

from mooring.kit.version import VERSION
from programs import HELM, SHELLCHECK, needs

sys.path.insert(0, str(ROOT / "tools"))

import release

EPOCH = 1_700_000_000
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n- new\n\n## 9.8.7 - 2026-11-16\n\n### Added\n- old\n\n## 9.8.6 - 2026-01-01\n"
)


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return release.files_of((ROOT / "CHANGELOG.md").read_text(), EPOCH, "https://example.com/mooring")


def names_in(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getnames()


def test_two_builds_are_equal_byte_for_byte(made: dict[str, bytes]) -> None:
    again = release.files_of((ROOT / "CHANGELOG.md").read_text(), EPOCH, "https://example.com/mooring")
    assert again == made


def test_the_image_context_has_what_the_dockerfile_copies(made: dict[str, bytes]) -> None:
    names = names_in(made[f"mooring-{VERSION}-image-context.tar.gz"])
    copied = re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", (ROOT / "deploy" / "Dockerfile").read_text())
    wanted = {name for line in copied for name in tracked(*line.split())}
    assert {*names} >= wanted | {"deploy/Dockerfile"}
    assert not [name for name in names if name.startswith("tests/")]


def test_the_chart_is_what_helm_packs(made: dict[str, bytes], tmp_path: Path) -> None:
    helm = HELM.required()
    ours = made[f"mooring-{VERSION}.tgz"]
    packed = tmp_path / "ours.tgz"
    packed.write_bytes(ours)
    subprocess.run(
        [helm, "package", str(ROOT / release.CHART), "-d", str(tmp_path)], check=True, capture_output=True, cwd=tmp_path
    )
    theirs = (tmp_path / f"mooring-{VERSION}.tgz").read_bytes()
    assert sorted(names_in(ours)) == sorted(names_in(theirs))
    shown = subprocess.run([helm, "show", "chart", str(packed)], check=True, capture_output=True, text=True).stdout
    assert yaml.safe_load(shown)["version"] == VERSION
    subprocess.run([helm, "template", str(packed)], check=True, capture_output=True)


def test_the_bill_of_materials_has_every_locked_package(made: dict[str, bytes]) -> None:
    bill = json.loads(made[f"mooring-{VERSION}.cdx.json"])
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = {line.split(" ")[0] for line in lines if re.match(r"[a-z]", line)}
    assert {f"{each['name']}=={each['version']}" for each in bill["components"]} == pinned
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = {each["bom-ref"] for each in bill["components"]}
    root, *others = bill["dependencies"]
    assert len(root["dependsOn"]) == 10 and {*root["dependsOn"]} <= references
    assert {each["ref"] for each in others} == references
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_krew_finds_the_script_and_its_digest(made: dict[str, bytes], tmp_path: Path) -> None:
    manifest = yaml.safe_load(made["mooring.krew.yaml"])
    archive = made[f"kubectl-mooring-{VERSION}.tar.gz"]
    platforms: list[Any] = manifest["spec"]["platforms"]
    assert {each["sha256"] for each in platforms} == {hashlib.sha256(archive).hexdigest()}
    assert {each["uri"] for each in platforms} == {
        f"https://example.com/mooring/releases/download/v{VERSION}/kubectl-mooring-{VERSION}.tar.gz"
    }
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(tmp_path, filter="data")
    script = tmp_path / platforms[0]["bin"]
    tools = tmp_path / "bin"
    tools.mkdir()
    ran = subprocess.run(["/bin/sh", str(script)], env={"PATH": str(tools)}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        "kubectl mooring needs Python 3.11 and one of: pip install mooring, uv, pipx\n",
    )
    for name, printed in (
        ("pipx", f"pipx run mooring=={VERSION} explain"),
        ("uvx", f"uvx mooring@{VERSION} explain"),
        ("mooring", "mooring explain"),
    ):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tools / name).chmod(0o755)
        ran = subprocess.run([str(script), "explain"], env={"PATH": str(tools)}, capture_output=True, text=True)
        assert ran.stdout == f"{printed}\n"


def test_krew_needs_the_owner_of_the_repository() -> None:
    assert release.repository_url("", "acme") == "https://github.com/acme/mooring"
    assert release.repository_url("https://git.example.com/acme/mooring", "") == "https://git.example.com/acme/mooring"
    assert release.repository_url("", "") == ""
    assert "mooring.krew.yaml" not in release.files_of((ROOT / "CHANGELOG.md").read_text(), EPOCH, "")
    with pytest.raises(release.ReleaseFault, match=r"^OWNER=a/b: must be the name of an account, such as acme$"):
        release.repository_url("", "a/b")
    with pytest.raises(release.ReleaseFault, match=r"^REPOSITORY=acme/mooring: must be a URL such as https://github"):
        release.repository_url("acme/mooring", "")


def test_notes_are_a_section_of_the_changelog() -> None:
    assert release.section_of(CHANGELOG, "9.8.7") == "### Added\n- old\n"
    assert release.section_of(CHANGELOG, "Unreleased") == "- new\n"
    assert release.section_of(CHANGELOG, "9.8") is None


def test_a_release_without_a_section_or_with_another_version_is_refused() -> None:
    with pytest.raises(
        release.ReleaseFault, match=r"version\.py has .*, not 99\.0\.0: change it and run `make version`"
    ):
        release.check_version("99.0.0", CHANGELOG)
    with pytest.raises(release.ReleaseFault, match=r"^CHANGELOG\.md has no section `## "):
        release.check_version(VERSION, CHANGELOG)
    release.check_version(VERSION, (ROOT / "CHANGELOG.md").read_text())


def test_changes_that_the_notes_leave_out_are_told() -> None:
    released = f"## {VERSION} - 2026-01-01\n\n- a\n"
    assert release.left_out(f"# Changelog\n\n## Unreleased\n\n- b\n\n{released}") == (
        f"CHANGELOG.md has changes under Unreleased, which the notes of {VERSION} leave out"
    )
    assert release.left_out(f"# Changelog\n\n## Unreleased\n\n{released}") == ""
    assert release.left_out("# Changelog\n\n## Unreleased\n\n- b\n") == ""  # which are the notes


def test_checksums_are_read_by_sha256sum(made: dict[str, bytes], tmp_path: Path) -> None:
    for name in ("RELEASE_NOTES.md", "mooring.krew.yaml"):
        (tmp_path / name).write_bytes(made[name])
    (tmp_path / "SHA256SUMS").write_bytes(release.checksums(tmp_path))
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "RELEASE_NOTES.md: OK\nmooring.krew.yaml: OK\n"


# ---- the workflow, as far as a file can be checked


def workflow(name: str) -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


def test_the_workflow_gives_each_job_what_it_needs_and_no_more() -> None:
    written = workflow("release.yml")
    jobs = written["jobs"]
    assert written["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions", {}) for name, job in jobs.items()} == {
        "build": {},
        "attest": {"id-token": "write", "attestations": "write", "contents": "read"},
        "pypi": {"id-token": "write"},
        "image": {"contents": "read", "packages": "write", "id-token": "write"},
        "github": {"contents": "write"},
    }
    assert {need for job in jobs.values() for need in job.get("needs", [])} <= {*jobs}
    assert jobs["pypi"]["environment"] == "pypi"
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text, "trusted publishing and keyless signatures need none"


def test_a_job_that_publishes_takes_the_files_that_the_build_has_checked() -> None:
    jobs = workflow("release.yml")["jobs"]
    for name in ("attest", "pypi", "image", "github"):
        used = [step.get("uses", "") for step in jobs[name]["steps"]]
        assert any(each.startswith("actions/download-artifact@") for each in used)
        assert not any(each.startswith("actions/checkout@") for each in used)


def scripts() -> dict[str, str]:
    """The shell scripts of workflows and of the action by file, job and step, as a runner starts them: expressions are put in
    before."""
    jobs = {
        (name, job): found["steps"]
        for name in ("ci.yml", "release.yml")
        for job, found in workflow(name)["jobs"].items()
    }
    jobs["action.yml", "check"] = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    return {
        f"{name}:{job}:{place}": "set -eo pipefail\n" + re.sub(r"\$\{\{.*?\}\}", "expression", step["run"])
        for (name, job), steps in jobs.items()
        for place, step in enumerate(steps)
        if "run" in step
    }


@needs(SHELLCHECK)
def test_shellcheck_finds_nothing_in_the_scripts_of_workflows_and_of_the_action() -> None:
    found = {name: shellchecked(text) for name, text in scripts().items()}
    assert len(found) >= 8 and not any(found.values()), found
    assert "SC2086" in shellchecked("set -eo pipefail\nrm $GITHUB_PATH\n"), "it finds what is wrong"


def shellchecked(script: str) -> str:
    command = [SHELLCHECK.required(), "--shell=bash", "--severity=info", "--exclude=SC2153", "--format=gcc", "-"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=False).stdout
