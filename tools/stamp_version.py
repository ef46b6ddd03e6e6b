"""Writes the version of `src/mooring/kit/version.py` into the files that have to name it: `make version`."""

import re
from pathlib import Path

from mooring.kit.version import VERSION

ROOT = Path(__file__).parent.parent
_IMAGE = r"(?m)^( *(?:- )?image: mooring:)(\S+)$"
_FIRST_LINE = r'(version="v[0-9.]+\+mooring-)([^"]+)'
"""Of the log of `mooring run`."""
PLACES: dict[str, tuple[str, ...]] = {
    "deploy/Dockerfile": (
        r"(?m)^(# +docker build -t mooring:)(\S+)",
        r'(?m)^(LABEL org\.opencontainers\.image\.version=")([^"]+)',
    ),
    "deploy/helm/mooring/Chart.yaml": (r"(?m)^(version: )(\S+)$", r"(?m)^(appVersion: )(\S+)$"),
    "deploy/replacement-static-pod.yaml": (_IMAGE,),
    "deploy/second-scheduler.yaml": (_IMAGE,),
    "docs/guides/replace-kube-scheduler.md": (_FIRST_LINE,),
    "docs/guides/run-beside-kube-scheduler.md": (_FIRST_LINE,),
    "docs/install.md": (r"(docker build -t mooring:)(\S+)", r"(mooring-)(\d+\.\d+\.\d+)(?=-py3|`)"),
}
"""By file: patterns with the text before a version, and the version."""


def versions_in(text: str, patterns: tuple[str, ...]) -> list[str]:
    """Every version that a file names."""
    return [found[2] for pattern in patterns for found in re.finditer(pattern, text)]


def stamped(text: str, patterns: tuple[str, ...], version: str) -> str:
    """The text with this version in each place."""
    for pattern in patterns:
        text = re.sub(pattern, rf"\g<1>{version}", text)
    return text


def main() -> None:
    for name, patterns in PLACES.items():
        path = ROOT / name
        before = path.read_text()
        after = stamped(before, patterns, VERSION)
        if after != before:
            path.write_text(after)
            print(f"{name}: {', '.join(sorted(set(versions_in(before, patterns))))} -> {VERSION}")


if __name__ == "__main__":
    main()
