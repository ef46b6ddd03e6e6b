"""The built front end belongs to its sources, is small, and holds nothing that the content security policy refuses."""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import NODE, WEB_PACKAGES, needs

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "web"
BUILT = ROOT / "src/mooring/dashboard/web"
READ_BY_THE_BUILD = ("build.mjs", "index.html", "package-lock.json", "package.json", "src", "tsconfig.json")
"""The same list as in web/build.mjs."""
REBUILD = "run `make web` and commit src/mooring/dashboard/web"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sources() -> Iterator[Path]:
    for name in READ_BY_THE_BUILD:
        path = SOURCE / name
        yield from (path,) if path.is_file() else (file for file in path.rglob("*") if file.is_file())


def digest_of_sources() -> str:
    """What web/build.mjs writes: the digest of lines with digest and path of each file, sorted by path."""
    paths = {file.relative_to(SOURCE).as_posix(): file for file in sources()}
    return hashlib.sha256("".join(f"{sha256(paths[name])}  {name}\n" for name in sorted(paths)).encode()).hexdigest()


def recorded() -> dict[str, object]:
    found: dict[str, object] = json.loads((BUILT / "built.json").read_text())
    return found


def built_files(folder: Path) -> dict[str, Path]:
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    return {name: files[name] for name in sorted(files)}


def test_the_built_files_are_of_these_sources() -> None:
    assert recorded()["sources"] == digest_of_sources(), REBUILD


def test_the_built_files_are_as_the_build_wrote_them() -> None:
    files = {name: sha256(path) for name, path in built_files(BUILT).items() if name != "built.json"}
    assert files == recorded()["built"], REBUILD


@pytest.mark.slow
@needs(NODE, WEB_PACKAGES)
def test_a_new_build_has_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([NODE.required(), "build.mjs", "--out", str(tmp_path)], cwd=SOURCE, check=True)
    built = {name: path.read_bytes() for name, path in built_files(BUILT).items()}
    assert {name: path.read_bytes() for name, path in built_files(tmp_path).items()} == built, REBUILD


def test_the_front_end_stays_small() -> None:
    assert sum(path.stat().st_size for path in built_files(BUILT).values()) < 200_000


def test_the_page_has_no_script_or_style_of_its_own_and_names_no_other_server() -> None:
    page = (BUILT / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links
    assert all(link.startswith("assets/") or link == "data:," for link in links)


def test_no_code_runs_text_or_writes_markup() -> None:
    """In our sources; React's names for it as well. Names and labels from the API are hostile input."""
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySet|srcdoc"
    )
    faults = [
        f"{file.name}: {found[0]}"
        for file in (SOURCE / "src").rglob("*.ts*")
        if (found := banned.search(file.read_text()))
    ]
    assert faults == []


def test_the_pinned_versions_name_no_registry() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert lock["packages"]
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
