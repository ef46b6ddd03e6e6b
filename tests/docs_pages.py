"""The pages of the documentation, for tests."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def all_pages() -> list[str]:
    """Every page, by its path in the repository."""
    return [*ROOT_PAGES, *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]


def guides() -> list[Path]:
    return sorted((DOCS / "guides").glob("*.md"))


def pages_with_servers() -> list[Path]:
    """Pages on which a reader starts a server."""
    pages = [DOCS / "tutorial.md", *guides()]
    return [page for page in pages if "\n    $ mooring up" in page.read_text()]
