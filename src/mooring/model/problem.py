"""What is wrong with a manifest, in terms its author understands: where, what was found, what is allowed there."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

NOTHING_THERE = "nothing"
_SHOWN_CHARACTERS = 80
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of one object. `path` is spelt as in the manifest: `spec.containers[0].resources.requests.cpu`."""

    path: str
    found: str
    allowed: str
    where: str = ""
    """The file and the object, as far as they are known: `pods.yaml: Pod default/web`."""

    def __str__(self) -> str:
        fault = f"found {self.found}; allowed: {self.allowed}"
        text = ": ".join(part for part in (self.where, self.path, fault) if part)
        return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)

    def at(self, where: str) -> "Problem":
        return replace(self, where=where)

    def under(self, prefix: str) -> "Problem":
        """The same fault seen from further out: `spec.x` under `spec.template` is `spec.template.spec.x`."""
        return replace(self, path=f"{prefix}.{self.path}" if self.path else prefix)


Problems = Iterator[Problem]


def show(value: object) -> str:
    """A found value, short and on one line; containers by what they are, because they may be of any size."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "..."
        return json.dumps(cut, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 256 bits"
    return str(value) if isinstance(value, int | float) else type(value).__name__


def show_text(text: str | None) -> str:
    """As `show`, for text of which none is as good as missing."""
    return show(text) if text else NOTHING_THERE


def at_key(path: str, key: str) -> str:
    """The path of a map entry: `limits.cpu`, `limits[example.com/gpu]`."""
    cut = key if len(key) <= _SHOWN_CHARACTERS else key[:_SHOWN_CHARACTERS] + "..."
    if not _PLAIN_KEY.fullmatch(cut):
        return f"{path}[{cut}]"
    return f"{path}.{cut}" if path else cut
