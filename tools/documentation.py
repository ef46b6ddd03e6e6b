"""The pages of the documentation: their headings, links and place in the navigation. It reads Markdown, and needs no MkDocs.

The site (tools/mkdocs_hooks.py) and the fast tests share these rules, so that a link that works on a code host works on the
site as well.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = "docs"
PAGES_OF_THE_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the root that the site has under another name. index.md is not made from the README: it stands for it."""
COPIES = "repository"
"""The folder of the site that has the files of the repository that pages link to."""

_FENCE = re.compile(r"^(```|~~~)")
_HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
_LINK = re.compile(r"(?<!\\)(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page: the page and line that it stands on, and its target as it is written."""

    page: str
    line: int
    target: str

    @property
    def path(self) -> str:
        """The file that is meant, from the root of the repository."""
        written = self.target.partition("#")[0]
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.page), written)) if written else self.page

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as code hosts make it: lower case, without punctuation, each space a separator."""
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", separator)


def anchors(text: str) -> set[str]:
    """All anchors of a page. Repeated headings get a number."""
    found: set[str] = set()
    for line in prose_lines(text).values():
        heading = _HEADING.match(line)
        if heading is not None:
            found.add(_unused(slug(_without_markup(heading[2])), found))
    return found


def _unused(name: str, taken: set[str]) -> str:
    """Python-Markdown counts with underscores, code hosts with hyphens: no page may link to a repeated heading."""
    number = 1
    unused = name
    while unused in taken:
        unused, number = f"{name}_{number}", number + 1
    return unused


def _without_markup(heading: str) -> str:
    text = _LINK.sub(lambda found: found[1].strip("![]"), heading)
    return re.sub(r"`|\*\*|(?<!\w)[*_]|[*_](?!\w)", "", text)


def prose_lines(text: str) -> dict[int, str]:
    """The lines of a page by number, without code blocks."""
    lines: dict[int, str] = {}
    in_fence = is_after_blank = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            in_fence = not in_fence
        elif not in_fence and not (line.startswith("    ") and is_after_blank):
            lines[number] = line
            is_after_blank = not line.strip()
    return lines


def links_of(page: str, text: str) -> Iterator[Link]:
    """The links of a page to files and anchors of the repository; addresses of other sites are left out."""
    for number, line in prose_lines(text).items():
        for found in _LINK.finditer(_CODE.sub("", line)):
            if not _REMOTE.match(found[2]):
                yield Link(page, number, found[2])


def with_site_links(page: str, text: str) -> str:
    """The text of a page for the site: links to files outside of docs/ become links to their copies.

    `page` is its path in the repository.
    """
    here = posixpath.dirname(site_path(page)) or "."

    def moved(found: re.Match[str]) -> str:
        link = Link(page, 0, found[2])
        is_within = page.startswith(f"{DOCS}/") and link.path.startswith(f"{DOCS}/")
        if is_within or found[2].startswith("#") or _REMOTE.match(found[2]):
            return found[0]
        anchor = f"#{link.anchor}" if link.anchor else ""
        return f"{found[1]}({posixpath.relpath(site_path(link.path), here)}{anchor})"

    return _LINK.sub(moved, text)


def site_path(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in PAGES_OF_THE_ROOT:
        return PAGES_OF_THE_ROOT[path]
    return path.removeprefix(f"{DOCS}/") if path.startswith(f"{DOCS}/") else f"{COPIES}/{path}"


# ---- the navigation

Nav = Sequence[Any]
"""The `nav` of mkdocs.yml: paths, and mappings from a title to a path or to a list of the same."""


def expanded(nav: Nav, pages: Sequence[str]) -> list[Any]:
    """The navigation with its patterns (`adr/0*.md`) as the pages that they stand for."""
    entries: list[Any] = []
    for entry in nav:
        if isinstance(entry, Mapping):
            entries += _expanded_titles(entry, pages)
        elif "*" in entry:
            entries += sorted(page for page in pages if fnmatch(page, entry))
        else:
            entries.append(entry)
    return entries


def _expanded_titles(entry: Mapping[str, Any], pages: Sequence[str]) -> Iterator[dict[str, Any]]:
    for title, value in entry.items():
        if not isinstance(value, str):
            yield {title: expanded(value, pages)}
        else:
            yield {title: value}


def pages_of(nav: Nav) -> Iterator[str]:
    """The pages that a navigation without patterns names, in its order."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else pages_of(value)
