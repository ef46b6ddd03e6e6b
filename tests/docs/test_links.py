"""Every link of the documentation leads somewhere, every page is in the navigation, and all of it without MkDocs."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

from documentation import (
    Link,
    anchors,
    expanded,
    links_of,
    pages_of,
    prose_lines,
    site_path,
    slug,
    with_site_links,
)

from docs_pages import DOCS, ROOT, all_pages

NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
TEXTS = {page: (ROOT / page).read_text() for page in all_pages()}


def dead_links(page: str, text: str) -> Iterator[str]:
    for link in links_of(page, text):
        where = f"{page}:{link.line}: {link.target}"
        if not (ROOT / link.path).is_file():
            yield f"{where}: no such file"
        elif link.anchor and link.anchor not in anchors((ROOT / link.path).read_text()):
            yield f"{where}: no such heading"


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    assert [*dead_links(page, TEXTS[page])] == []


def test_links_are_found() -> None:
    assert sum(len([*links_of(page, text)]) for page, text in TEXTS.items()) > 200


def test_dead_links_are_found() -> None:
    code = "    [code](none.md)\n\n`[code](none.md)`"
    text = f"# A\n\n[a](run.md) [b](run.md#nothing) [c](none.md#x)\n\n{code} [d](#a) [e](#b)\n"
    assert [*dead_links("docs/glossary.md", text)] == [
        "docs/glossary.md:3: run.md#nothing: no such heading",
        "docs/glossary.md:3: none.md#x: no such file",
        "docs/glossary.md:7: #a: no such heading",
        "docs/glossary.md:7: #b: no such heading",
    ]


def test_anchors_are_those_of_code_hosts() -> None:
    headings = "# What's `--from`?\n\n## A *b* [c](d.md)\n\n## 1. A_b, c\n\n## Same\n\n## Same\n\n"
    assert anchors(f"{headings}```\n# not one\n```\n\n    # nor this\n") == {
        "whats---from",
        "a-b-c",
        "1-a_b-c",
        "same",
        "same_1",
    }
    assert slug("In Python") == "in-python"


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    shown = [*pages_of(expanded(NAV, [*pages, "contributing.md", "changelog.md"]))]
    assert sorted(shown) == sorted([*pages, "contributing.md", "changelog.md"])


def test_a_pattern_of_the_navigation_stands_for_many_pages() -> None:
    nav = ["a.md", {"B": [{"C": "adr/0*.md"}, "adr/0*.md"]}, "none.md"]
    assert expanded(nav, ["a.md", "adr/02.md", "adr/01.md", "adr/index.md"]) == [
        "a.md",
        {"B": [{"C": "adr/0*.md"}, "adr/01.md", "adr/02.md"]},
        "none.md",
    ], "what is wrong stays, so that it is noticed"


def test_links_of_the_site_lead_to_copies() -> None:
    text = "[a](../deploy/Dockerfile) [b](run.md#x) [c](../CONTRIBUTING.md#d) ![e](plots/x.svg) [f](#g) [h](https://example.com)"
    assert with_site_links("docs/guides/z.md", text.replace("../", "../../")) == (
        "[a](../repository/deploy/Dockerfile) [b](run.md#x) [c](../contributing.md#d) ![e](plots/x.svg) [f](#g) "
        "[h](https://example.com)"
    )
    assert with_site_links("CONTRIBUTING.md", "[a](docs/run.md#x) [b](CHANGELOG.md) [c](LICENSE)") == (
        "[a](run.md#x) [b](changelog.md) [c](repository/LICENSE)"
    )
    assert [site_path(path) for path in ("docs/adr/index.md", "README.md", "Makefile")] == [
        "adr/index.md",
        "index.md",
        "repository/Makefile",
    ]
    assert Link("docs/guides/a.md", 1, "../run.md#b").path == "docs/run.md"


@pytest.mark.parametrize("page", TEXTS)
def test_lists_and_tables_have_an_empty_line_before_them(page: str) -> None:
    """Code hosts show a list without one as a list, the site does not."""
    lines = prose_lines(TEXTS[page])
    assert [number for number in lines if begins_a_block(lines, number)] == []


def begins_a_block(lines: dict[int, str], number: int) -> bool:
    """Whether a list or a table begins on this line, directly below a line of text."""
    before = lines.get(number - 1, "")
    return bool(re.match(r"(- |\d+\. |\|)", lines[number]) and re.match(r"(?!\d+\. )[^\s|#-]", before))


def test_a_list_without_an_empty_line_is_found() -> None:
    lines = prose_lines("Text:\n- a\n- b\n\n1. c\n2. d\n   e\n3. f\n")
    assert [number for number in lines if begins_a_block(lines, number)] == [2]
