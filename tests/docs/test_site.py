"""`make docs`: the site builds strictly, loads nothing from elsewhere, and a fault of the documentation ends the build."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs_pages import ROOT
from programs import CHROMIUM, needs

LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "embed": "src",
}
"""Elements that load what they name. A link loads by its `rel`; `a` does not."""
LOADING_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` builds it, from the mkdocs.yml of a folder. With --quiet, a strict build would notice nothing."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


class Loads(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.classes.update(values.get("class", "").split())
        if tag in LOADING and LOADING[tag] in values:
            self.found.append(values[LOADING[tag]])
        if tag == "link" and LOADING_LINKS & set(values.get("rel", "").split()):
            self.found.append(values.get("href", ""))
        self.found += re.findall(r"url\(\s*['\"]?([^'\")]+)", values.get("style", ""))


def loads_of(page: str) -> Loads:
    loads = Loads()
    loads.feed(page)
    return loads


def is_remote(address: str) -> bool:
    return re.match(r"([a-z][a-z0-9+.-]*:)?//", address, re.IGNORECASE) is not None


def style_addresses(text: str) -> list[str]:
    return re.findall(r"(?:url\(\s*|@import\s+)['\"]?([^'\")\s;]+)", text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder


def pages(site: Path) -> Iterator[tuple[Path, Loads]]:
    for path in site.rglob("*.html"):
        yield path, loads_of(path.read_text())


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    checked = 0
    for path, loads in pages(site):
        assert [address for address in loads.found if is_remote(address)] == [], path
        assert "mermaid" not in loads.classes, f"{path}: the theme would load the library of diagrams from elsewhere"
        assert [each for each in loads.found if not each.startswith("data:") and not exists(site, path, each)] == [], (
            path
        )
        checked += 1
    assert checked > 40
    for path in site.rglob("*.css"):
        assert [address for address in style_addresses(path.read_text()) if is_remote(address)] == [], path


def exists(site: Path, page: Path, address: str) -> bool:
    """Pages below the root name their files relatively; 404.html names them from the root."""
    base = site if address.startswith("/") else page.parent
    return (base / address.lstrip("/").partition("?")[0].partition("#")[0]).is_file()


@pytest.mark.slow
def test_the_site_has_search_the_pages_of_the_root_and_the_files_that_pages_link_to(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = {")
    assert "assets/iframe-worker.js" in (site / "index.html").read_text()
    for path in ("contributing.html", "changelog.html", "schemas/plan.v1.json", "repository/deploy/Dockerfile"):
        assert (site / path).is_file(), path
    assert 'href="reference/commands.html"' in (site / "index.html").read_text()


@pytest.mark.slow
@needs(CHROMIUM)
@pytest.mark.parametrize("page", ["index.html", "reference/commands.html"])
def test_search_works_from_the_file_system(site: Path, page: str, tmp_path: Path) -> None:
    """Without a server and without a network: browsers start no worker from a file (docs/assets/iframe-worker.js)."""
    ran = subprocess.run(
        [
            *(CHROMIUM.required(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=30000", "--dump-dom"),
            f"{(site / page).as_uri()}?q=stranded",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = re.search(r'md-search-result__meta">\s*(\d+) matching documents', ran.stdout)
    assert found is not None and int(found[1]) > 1, ran.stdout[-2000:] + ran.stderr
    assert 'run.html?h=stranded#self-check"' in ran.stdout


def test_make_docs_builds_strictly() -> None:
    assert re.search(r"^docs:.*\n\t.*mkdocs build --strict$", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_a_fault_of_the_documentation_ends_the_build(tmp_path: Path) -> None:
    for name in ("docs", "tools", "deploy", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs" / "stray.md").write_text("# Stray\n\n[a](nothing.md) [b](run.md#nothing) [c](../nothing.yaml)\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode == 1
    for told in (
        'pages exist in the docs directory, but are not included in the "nav" configuration:\n  - stray.md',
        "contains a link 'nothing.md', but the target is not found",
        "contains a link 'run.md#nothing', but the doc 'run.md' does not contain an anchor '#nothing'",
        "contains a link 'repository/nothing.yaml', but the target is not found",
    ):
        assert told in built.stderr, built.stderr
    assert built.stderr.count("WARNING") == 4, built.stderr


def test_what_a_page_loads_is_found() -> None:
    page = """<link rel="preconnect" href="https://a"><link rel="canonical" href="https://b"><a href="https://c"></a>
    <script src="//d"></script><img src="data:x"><p style="background: url('http://e')" class="x mermaid">"""
    loads = loads_of(page)
    assert [address for address in loads.found if is_remote(address)] == ["https://a", "//d", "http://e"]
    assert "mermaid" in loads.classes
    styles = "@import 'https://a'; b { c: url(http://d) } e { f: url(data:g) }"
    assert [address for address in style_addresses(styles) if is_remote(address)] == ["https://a", "http://d"]
