"""/statusz and /flagz: a text for people, and versioned documents (KEP-4827, KEP-4828) for clients that name the kind.

Texts, fields and content negotiation are kube-scheduler's.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import yaml

from mooring.api.api_errors import not_acceptable
from mooring.kit.clock import NS_PER_S, Clock, in_seconds
from mooring.kit.shown_text import shown
from mooring.model.release import KUBERNETES_VERSION
from mooring.serve.pages.answers import JSON, PageReply, PageRequest, json_document, plain, refusal

YAML = "application/yaml"
OFFERED = (JSON, YAML, "text/plain")
GROUP = "config.k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
_DEPRECATED = "v1alpha1"
"""Served with a Warning header."""
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)

Kind = Literal["Statusz", "Flagz"]


class DocumentForm(msgspec.Struct, frozen=True):
    """The form of a reply. `version` is that of the document; empty for text."""

    media: str
    version: str = ""


def wanted_form(accept: str, kind: Kind) -> DocumentForm | None:
    """The first form in an Accept header that can be served; None for a 406.

    Parity: plain JSON is not enough, the media type must name group, version and kind.


    | accept                                                   | form           |
    | (nothing), */*, text/*                                   | text           |
    | application/json;v=v1beta1;g=config.k8s.io;as=Statusz    | JSON, v1beta1  |
    | application/json, text/html                              | None           |
    """
    if not accept.strip():
        return DocumentForm("text/plain")
    for pattern, settings in _wishes(accept):
        for media in OFFERED:
            if _matches(pattern, media) and (form := _form(media, settings, kind)):
                return form
    return None


def _form(media: str, settings: Mapping[str, str], kind: Kind) -> DocumentForm | None:
    named = (settings.get("g", ""), settings.get("v", ""), settings.get("as", ""))
    if media == "text/plain":
        return None if any(named) else DocumentForm(media)
    group, version, asked = named
    return DocumentForm(media, version) if (group, asked) == (GROUP, kind) and version in VERSIONS else None


def _matches(pattern: str, media: str) -> bool:
    return pattern in ("*/*", media) or pattern == f"{media.split('/')[0]}/*"


def _wishes(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types with their parameters, those with the highest q first."""
    wishes = []
    for wish in accept.split(","):
        media, *settings = (part.strip() for part in wish.split(";"))
        pairs = (setting.partition("=") for setting in settings)
        wishes.append((media.lower(), {name.strip(): value.strip() for name, _, value in pairs}))
    yield from sorted(wishes, key=lambda wish: -_weight(wish[1].get("q", "1")))


def _weight(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        return 1.0


class Build(msgspec.Struct, frozen=True):
    """What this program is. `language_version` is shown where upstream shows Go's version."""

    component: str = "kube-scheduler"
    binary_version: str = KUBERNETES_VERSION
    emulation_version: str = "1.36"
    language_version: str = ""


class StatusPage:
    """/statusz: start time, uptime, versions, paths."""

    def __init__(self, build: Build, clock: Clock, started_ns: int, paths: tuple[str, ...]) -> None:
        self._build = build
        self._clock = clock
        self._started_ns = started_ns
        self._paths = paths

    def answer(self, question: PageRequest) -> PageReply:
        return _answer(question.accept, "Statusz", self._text, self._document)

    def _uptime_s(self) -> int:
        return max(0, self._clock.now_ns() - self._started_ns) // NS_PER_S

    def _text(self) -> str:
        """The text form, line for line as upstream prints it."""
        up_s, started = self._uptime_s(), datetime.fromtimestamp(self._started_ns // NS_PER_S, UTC)
        lines = {
            "Started": f"{started:%a %b} {started.day:>2} {started:%H:%M:%S} UTC {started.year}",
            "Up": f"{up_s // 3600} hr {up_s // 60 % 60:02} min {up_s % 60:02} sec",
            "Go version": self._build.language_version,
            "Binary version": self._build.binary_version,
            "Emulation version": self._build.emulation_version,
            "Paths": " ".join(self._paths),
        }
        told = "".join(f"{name}: {value}\n" for name, value in lines.items())
        return f"\n{self._build.component} statusz\n{_WARNING}\n\n{told}"

    def _document(self, version: str) -> dict[str, Any]:
        """The Statusz document of this version."""
        return {
            **_heading("Statusz", version, self._build.component),
            "startTime": in_seconds(self._started_ns),
            "uptimeSeconds": self._uptime_s(),
            "goVersion": self._build.language_version,
            "binaryVersion": self._build.binary_version,
            "emulationVersion": self._build.emulation_version,
            "paths": [*self._paths],
        }


class FlagsPage:
    """/flagz. `flags` returns the flags of the process as text, without secrets."""

    def __init__(self, build: Build, flags: Callable[[], Mapping[str, str]]) -> None:
        self._build = build
        self._flags = flags

    def answer(self, question: PageRequest) -> PageReply:
        return _answer(question.accept, "Flagz", self._text, self._document)

    def _text(self) -> str:
        lines = "".join(f"{name}={shown(value)}\n" for name, value in sorted(self._flags().items()))
        return f"\n{self._build.component} flagz\n{_WARNING}\n{lines}"

    def _document(self, version: str) -> dict[str, Any]:
        flags = dict(sorted(self._flags().items()))
        return {**_heading("Flagz", version, self._build.component), "flags": flags}


def _heading(kind: Kind, version: str, component: str) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": component}}


def _answer(accept: str, kind: Kind, text: Callable[[], str], document: Callable[[str], dict[str, Any]]) -> PageReply:
    """The page in the form that the caller accepts, or a 406."""
    form = wanted_form(accept, kind)
    if form is None:
        return refusal(not_acceptable(OFFERED))
    if not form.version:
        return plain(text())
    written = document(form.version)
    headers = [("Warning", _deprecation(kind))] if form.version == _DEPRECATED else []
    if form.media == YAML:
        return PageReply(yaml.safe_dump(written).encode(), content_type=YAML, headers=headers)
    return json_document(written, headers=headers)


def _deprecation(kind: Kind) -> str:
    return f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."'
