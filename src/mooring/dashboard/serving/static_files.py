"""The built front end: files of the package that are the same for everyone and hold no data.

All files are read once, and a request is looked up among their names, so that no path can lead anywhere else.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from mooring.dashboard.serving.api_requests import ApiReply

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
"""Files with other endings are not served."""
INDEX = "index.html"
HASHED = "assets/"
"""Names in this folder have a hash of their content, so that a browser may keep the files for ever."""
KEEP = ("Cache-Control", "public, max-age=31536000, immutable")
REVALIDATE = ("Cache-Control", "no-cache")

NOT_BUILT = (
    b"The pages of the dashboard are not built. Run `make web` in the repository, then start the program again.\n"
)


@cache
def built_files() -> Mapping[str, bytes]:
    """The files of the package, by path below `web`; empty if the front end is not built."""
    found: dict[str, bytes] = {}
    root = resources.files("mooring.dashboard") / "web"
    if root.is_dir():
        _collect(root, "", found)
    return found if INDEX in found else {}


def _collect(folder: Traversable, prefix: str, found: dict[str, bytes]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            _collect(entry, f"{prefix}{entry.name}/", found)
        elif entry.name.rpartition(".")[2] in TYPES:
            found[prefix + entry.name] = entry.read_bytes()


def static_reply(path: str, files: Mapping[str, bytes]) -> ApiReply | None:
    """The file at a path below /dashboard/; None if there is none. The empty path is the index."""
    name = path or INDEX
    body = files.get(name)
    if body is None:
        return ApiReply(NOT_BUILT, 503, TYPES["txt"], (REVALIDATE,)) if name == INDEX else None
    kept = KEEP if name.startswith(HASHED) else REVALIDATE
    return ApiReply(body, 200, TYPES[name.rpartition(".")[2]], (kept,))
