"""What MkDocs calls while it builds the site: navigation, pages of the root, files that pages link to.

The functions have the names and arguments that MkDocs expects.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from documentation import DOCS, PAGES_OF_THE_ROOT, ROOT, expanded, links_of, site_path, slug, with_site_links

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FROM_THE_ROOT = {site: path for path, site in PAGES_OF_THE_ROOT.items() if site != "index.md"}
"""Pages of the site that are made from pages of the root."""


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Complete the navigation, and give headings the anchors that code hosts give them."""
    folder = Path(config.docs_dir)
    pages = [page.relative_to(folder).as_posix() for page in folder.rglob("*.md")]
    config.nav = expanded(config.nav or [], [*pages, *FROM_THE_ROOT])
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages of the root, and a copy of each file outside of docs/ that a page links to."""
    from mkdocs.structure.files import File

    for site, path in FROM_THE_ROOT.items():
        files.append(File.generated(config, site, content=(ROOT / path).read_text()))
    for path in sorted(_linked(files)):
        files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    return files


def _linked(files: "Files") -> set[str]:
    """Files outside of docs/ that pages link to. What does not exist is left to MkDocs, which reports the link."""
    links = [link.path for file in files.documentation_pages() for link in links_of(_source(file), file.content_string)]
    outside = {path for path in links if not path.startswith(f"{DOCS}/") and path not in PAGES_OF_THE_ROOT}
    return {path for path in outside if (ROOT / path).is_file()}


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:
    """Turn links to files outside of docs/ into links to their copies."""
    return with_site_links(_source(page.file), markdown)


def _source(file: Any) -> str:
    """The path of a page in the repository."""
    path: str = file.src_uri
    return FROM_THE_ROOT.get(path, f"{DOCS}/{path}")
