"""The file of a dump: a v1 List as JSON with one object on each line, compressed if its name ends in .gz."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.kit.bounded_reading import GZIP_SUFFIX
from mooring.kit.private_files import write_private

_BEGIN, _BETWEEN, _END = b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n', b",\n", b"\n]}\n"


def dump_text(items: Iterable[JsonObject]) -> bytes:
    """The list, in which programs like `kubectl` and `jq` find what they expect."""
    return _BEGIN + _BETWEEN.join(map(msgspec.json.encode, items)) + _END


def write_dump(path: Path, text: bytes) -> None:
    """Write the file at once, under another name until it is complete. Only its owner may read it. Raises OSError."""
    # Without a time in the header, two dumps of the same objects are equal.
    write_private(path, gzip.compress(text, mtime=0) if path.name.lower().endswith(GZIP_SUFFIX) else text)
