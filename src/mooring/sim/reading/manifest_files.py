"""Which files are meant, and their bytes: single files, folders, standard input, with a bound on all together."""

import codecs
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mooring.model.validation.problem import Problem

MAX_BYTES = 1 << 30
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
STDIN_NAME = "standard input"
_NO_MANIFEST = f"the folder has no manifest; manifests are {', '.join(f'*{suffix}' for suffix in SUFFIXES)}"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    name: str
    text: bytes
    """UTF-8 as far as the file is text at all."""


def gather(
    paths: Sequence[str], stdin: BinaryIO | None, max_bytes: int = MAX_BYTES
) -> tuple[list[ManifestFile], list[Problem]]:
    """The files behind the paths in their order, those of a folder sorted; what cannot be read is a problem."""
    files: list[ManifestFile] = []
    problems: list[Problem] = []
    left = max_bytes
    for path in paths:
        for found in _expand(path):
            raw = found if isinstance(found, Problem) else _read(found, stdin, left, max_bytes)
            if isinstance(raw, Problem):
                problems.append(raw)
            else:
                left -= len(raw)
                files.append(ManifestFile(_shown(str(found)), _to_utf8(raw)))
    return files, problems


def _expand(path: str) -> list[str | Problem]:
    if path == STDIN or not os.path.isdir(path):
        return [path]
    below = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(SUFFIXES)
    )
    return [*below] or [Problem("", _NO_MANIFEST, file=_shown(path))]


def _read(path: str, stdin: BinaryIO | None, left: int, max_bytes: int) -> bytes | Problem:
    try:
        if path == STDIN:
            raw = stdin.read(left + 1) if stdin is not None else b""
        else:
            with Path(path).open("rb") as file:
                raw = file.read(left + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Problem("", f"cannot be read: {reason}", file=_shown(path))
    if len(raw) > left:
        return Problem("", f"all input together has more than {max_bytes} bytes; give fewer files", file=_shown(path))
    return raw


def _to_utf8(raw: bytes) -> bytes:
    """Without a byte order mark; what PowerShell writes is UTF-16."""
    if raw.startswith(_UTF16):
        return raw.decode("utf-16", errors="replace").encode()
    return raw.removeprefix(codecs.BOM_UTF8)


def _shown(path: str) -> str:
    """A file name that can be printed, whatever bytes it is made of."""
    return STDIN_NAME if path == STDIN else path.encode("utf-8", "backslashreplace").decode()
