"""Problem: a fault of a manifest, with file, line, object and field, the value that is there, and what must be there.

Rules yield Problems. Their text has the form of the API server's field errors. Their words are for people who write
manifests and name the entry that is wrong; a rule for which kube-apiserver has other words or another path says those too.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mooring.api import api_errors as errors
from mooring.kit.shown_text import shown

NOTHING_THERE = "nothing"
"""As `found`: the field is missing. As the start of `allowed`: the field must be empty."""
AGAIN = " a second time"
"""The end of `found` for a value that must be unique and is not."""
TOO_MANY = " items"
"""The end of `found` for the number of items of a list that has too many."""
CHOICES = re.compile(r"[A-Z]\w*(?:, [A-Z]\w*)+")
"""The form of `allowed` for an enumeration: names of which one must be chosen."""
_SHOWN_CHARACTERS = 80
"""Longer values are cut in messages: a line of a terminal, with room for the path."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of one object. `path` is spelt as in the manifest: `spec.containers[0].resources.requests.cpu`."""

    path: str
    found: str
    """The value as `show` writes it. If `allowed` is empty, a clause that says what is wrong and what to do."""
    allowed: str = ""
    """The text that follows `must be` in the message, or a clause with a `must` of its own."""
    where: str = ""
    """The object, as far as it is known: `Pod default/web`."""
    file: str = ""
    line: int = 0
    """Counts from 1; 0 if it is not known."""
    told: str | errors.Cause = field(default="", compare=False, repr=False)
    """The report of kube-apiserver, or only its words instead of `allowed`; empty: the usual form with `allowed`."""

    def __str__(self) -> str:
        """`file:line: object: path: fault`. Characters that control a terminal are escaped: a manifest may have any."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return shown(": ".join(part for part in (place, self.where, self.path, self._fault()) if part))

    def at(self, where: str, file: str = "") -> "Problem":
        return replace(self, where=where, file=file or self.file)

    def on(self, line: int) -> "Problem":
        return replace(self, line=line)

    def under(self, prefix: str) -> "Problem":
        """This fault, of an object inside another: `spec.x` under `spec.template` is `spec.template.spec.x`."""
        return replace(self, path=f"{prefix}.{self.path}" if self.path else prefix)

    def cause(self) -> errors.Cause:
        """The fault as kube-apiserver reports it: in its words where the rule knows them, otherwise in the form that it has
        for what was found."""
        if isinstance(self.told, errors.Cause):
            return self.told
        if not self.allowed and self.found.startswith("Invalid value: "):  # the server's words already
            return errors.Cause("FieldValueInvalid", self.found, self.path)
        if self.found == NOTHING_THERE:
            because = "because" in self.allowed
            return (
                invalid_at(self.path, '""', self.told or self.allowed) if because else errors.field_required(self.path)
            )
        if self.found.endswith(AGAIN):
            return errors.field_duplicate(self.path, _value(self.found.removesuffix(AGAIN)))
        if self.found.endswith(TOO_MANY):
            return errors.field_too_many(self.path, self.found.removesuffix(TOO_MANY), self.allowed)
        if not self.told and CHOICES.fullmatch(self.allowed):
            supported = ", ".join(f'"{choice}"' for choice in self.allowed.split(", "))
            message = f"Unsupported value: {self.found}: supported values: {supported}"
            return errors.Cause("FieldValueNotSupported", message, self.path)
        return invalid_at(self.path, self.found, self.told or self.allowed)

    def _fault(self) -> str:
        """The fault in the form of the API server's field errors."""
        if not self.allowed:
            return self.found
        if self.found == NOTHING_THERE:
            return f"Required value: {self.allowed}"
        if self.found.endswith(AGAIN):
            return f"Duplicate value: {self.found.removesuffix(AGAIN)}"
        if CHOICES.fullmatch(self.allowed):
            return f"Unsupported value: {self.found}: supported values: {self.allowed}"
        return f"Invalid value: {self.found}: {self._rule()}"

    def _rule(self) -> str:
        if " must " in f" {self.allowed}":
            return self.allowed
        if self.allowed.startswith(NOTHING_THERE):
            return f"must be empty{self.allowed.removeprefix(NOTHING_THERE)}"
        return f"must be {self.allowed}"


Problems = Iterator[Problem]


def invalid_at(path: str, found: str, why: str) -> errors.Cause:
    """The report of kube-apiserver about a value that `show` has written."""
    return errors.Cause("FieldValueInvalid", f"Invalid value: {found}: {why}", path)


def _value(found: str) -> object:
    """The value again, out of the text that shows it."""
    try:
        return json.loads(found)
    except ValueError:
        return found


def show(value: object) -> str:
    """A value for a message, short and on one line. Objects and lists may be of any size, so only their type is shown."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return json.dumps(_cut(value), ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 256 bits"
    return str(value) if isinstance(value, int | float) else type(value).__name__


def show_text(text: str | None) -> str:
    """As `show`, for a text: an empty one counts as missing."""
    return show(text) if text else NOTHING_THERE


def at_key(path: str, key: str) -> str:
    """The path of a map entry: `limits.cpu`, `limits[example.com/gpu]`."""
    cut = _cut(key)
    if not _PLAIN_KEY.fullmatch(cut):
        return f"{path}[{cut}]"
    return f"{path}.{cut}" if path else cut


def in_brackets(path: str, key: str) -> str:
    """The path of a map entry as kube-apiserver has it: `limits[cpu]`."""
    return f"{path}[{_cut(key)}]"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
