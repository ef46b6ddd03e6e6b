"""The pages by their paths, the health pages, and the page that changes the verbosity of logs.

Paths, texts and status codes are kube-scheduler's: probes, scrapers and scripts depend on them. What the pages show
comes from callables, so that this package knows no scheduler. A request and its reply are values without HTTP, so that
pages can be tested as functions.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec
import yaml

from mooring.api.api_errors import ApiError, not_acceptable
from mooring.kit.clock import NS_PER_S, Clock, in_seconds
from mooring.kit.http_shell import accepted_media
from mooring.kit.logs import Log
from mooring.kit.metrics import METRICS_TYPE
from mooring.kit.metrics_protobuf import CONTENT_TYPE
from mooring.kit.shown_text import json_bytes, quoted, shown
from mooring.model.release import KUBERNETES_VERSION

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class PageRequest(msgspec.Struct, frozen=True):
    """A request, as pages see it. `body` is empty unless the page reads one."""

    method: str = "GET"
    path: str = "/"
    query: tuple[tuple[str, str], ...] = ()
    accept: str = ""
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


class PageReply(msgspec.Struct, frozen=True):
    """The reply of a page. The server adds the headers that all replies have."""

    body: bytes
    status: int = 200
    content_type: str = PLAIN
    headers: Sequence[tuple[str, str]] = ()


def plain(text: str, status: int = 200) -> PageReply:
    return PageReply(text.encode(errors="replace"), status)


def failure(text: str, status: int) -> PageReply:
    """Go's http.Error: the text and a line end."""
    return plain(f"{text}\n", status)


def not_found_page() -> PageReply:
    return failure("404 page not found", 404)


def json_document(document: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> PageReply:
    return PageReply(json_bytes(document) + b"\n", status, JSON, headers)


def refusal(error: ApiError) -> PageReply:
    """A Status object, as API servers refuse."""
    return json_document(error.status(), error.code)


# ---- /statusz and /flagz: a text for people, and versioned documents (KEP-4827, KEP-4828) for clients that name the
# kind.
#
# Texts, fields and content negotiation are kube-scheduler's.


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
    by_weight = sorted(accepted_media(accept), key=lambda wish: -_weight(wish[1].get("q", "1")))
    for pattern, settings in by_weight:
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


def _weight(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        return 1.0


class Build(msgspec.Struct, frozen=True):
    """Name and versions of this program. `language_version` is shown where upstream shows Go's version."""

    component: str = "kube-scheduler"
    binary_version: str = KUBERNETES_VERSION
    emulation_version: str = "1.37"
    language_version: str = ""


class DocumentPage:
    """A page in two forms: a text for people, whose lines `text` returns, and a document with these `fields`."""

    def __init__(
        self, kind: Kind, component: str, text: Callable[[], str], fields: Callable[[], dict[str, Any]]
    ) -> None:
        self._kind = kind
        self._component = component
        self._text = text
        self._fields = fields

    def answer(self, question: PageRequest) -> PageReply:
        """The page in the form that the caller accepts, or a 406."""
        kind, component = self._kind, self._component
        form = wanted_form(question.accept, kind)
        if form is None:
            return refusal(not_acceptable(OFFERED))
        if not form.version:
            return plain(f"\n{component} {kind.lower()}\n{_WARNING}\n{self._text()}")
        heading = {"kind": kind, "apiVersion": f"{GROUP}/{form.version}", "metadata": {"name": component}}
        written = {**heading, **self._fields()}
        deprecation = f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."'
        headers = [("Warning", deprecation)] if form.version == _DEPRECATED else []
        if form.media == YAML:
            return PageReply(yaml.safe_dump(written).encode(), content_type=YAML, headers=headers)
        return json_document(written, headers=headers)


def status_page(build: Build, clock: Clock, started_ns: int, paths: tuple[str, ...]) -> DocumentPage:
    """/statusz: start time, uptime, versions, paths."""

    def uptime_s() -> int:
        return max(0, clock.now_ns() - started_ns) // NS_PER_S

    def text() -> str:
        """Line for line as upstream prints it."""
        up_s, started = uptime_s(), datetime.fromtimestamp(started_ns // NS_PER_S, UTC)
        lines = {
            "Started": f"{started:%a %b} {started.day:>2} {started:%H:%M:%S} UTC {started.year}",
            "Up": f"{up_s // 3600} hr {up_s // 60 % 60:02} min {up_s % 60:02} sec",
            "Go version": build.language_version,
            "Binary version": build.binary_version,
            "Emulation version": build.emulation_version,
            "Paths": " ".join(paths),
        }
        return "\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())

    def fields() -> dict[str, Any]:
        return {
            "startTime": in_seconds(started_ns),
            "uptimeSeconds": uptime_s(),
            "goVersion": build.language_version,
            "binaryVersion": build.binary_version,
            "emulationVersion": build.emulation_version,
            "paths": [*paths],
        }

    return DocumentPage("Statusz", build.component, text, fields)


def flags_page(build: Build, flags: Callable[[], Mapping[str, str]]) -> DocumentPage:
    """/flagz. `flags` returns the flags of the process as text, without secrets."""

    def text() -> str:
        return "".join(f"{name}={shown(value)}\n" for name, value in sorted(flags().items()))

    return DocumentPage("Flagz", build.component, text, lambda: {"flags": dict(sorted(flags().items()))})


# ---- /healthz, /livez and /readyz


Observe = Callable[[str, str, bool], None]
"""Called for every check that runs: its name, the page (`readyz`), whether it passed; for kubernetes_healthcheck."""


class Check(msgspec.Struct, frozen=True):
    """One line of a health page."""

    name: str
    problem: Callable[[], str]
    """Returns what is wrong; empty if nothing is."""


PING = Check("ping", lambda: "")


class Health(msgspec.Struct, frozen=True):
    """The questions that the checks of a scheduler ask."""

    is_elected: bool
    """Whether the scheduler takes part in leader election."""
    is_stopping: Callable[[], bool]
    is_synced: Callable[[], bool]
    """Whether every reflector has listed, and the scheduler has all that was listed."""
    unwatched: Callable[[], list[str]] = list
    """The kinds that the API server does not show, with reasons that anyone may read. The scheduler works without them."""


def health_pages(health: Health, log: Log, observe: Observe = lambda name, page, passed: None) -> "list[HealthPage]":
    """The three pages of a scheduler, with upstream's checks in upstream's order."""
    # Parity: the elector is never attached to this check in 1.36, so it always passes.
    election = [Check("leaderElection", lambda: "")] if health.is_elected else []
    ready = [
        Check("shutdown", lambda: "process is shutting down" if health.is_stopping() else ""),
        Check("sched-handler-sync", lambda: "" if health.is_synced() else "handlers are not fully synchronized"),
    ]
    return [
        HealthPage("healthz", election or [PING], log, observe),
        HealthPage("livez", [PING], log, observe),
        HealthPage("readyz", [*election, *ready], log, observe, health.unwatched),
    ]


class HealthPage(msgspec.Struct, frozen=True):
    """Runs named checks, all at once or one by one. The log has the reason of a failure; callers do not get it, because the
    page is open to everyone."""

    name: str
    checks: Sequence[Check]
    log: Log
    observe: Observe = msgspec.field(default=lambda name, page, passed: None)
    notes: Callable[[], list[str]] = list
    """Lines that `?verbose` shows besides the checks; no check fails because of them."""

    def answer(self, question: PageRequest) -> PageReply:
        """All checks, without those in `?exclude=`; `?verbose` lists them. Text and status are those of upstream."""
        excluded = dict.fromkeys(question.values("exclude"))
        lines, problems = self._run(excluded)
        unknown = sorted(set(excluded) - {check.name for check in self.checks})
        if unknown:
            names = ",".join(map(quoted, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if problems:
            failed = ",".join(problems)
            reasons = "".join(f"[-]{name} failed: {problem}\n" for name, problem in problems.items())
            self.log.v(2, f"{failed} check failed: {self.name}", reasons=reasons)
            return failure("\n".join([*lines, f"{self.name} check failed"]), 500)
        if not any(name == "verbose" for name, _ in question.query):
            return plain("ok")
        notes = [f"note: {note}" for note in self.notes()]
        return plain("".join(f"{line}\n" for line in [*lines, *notes, f"{self.name} check passed"]))

    def _run(self, excluded: dict[str, None]) -> tuple[list[str], dict[str, str]]:
        """A line for each check, and the problem of each failed check by its name."""
        lines, problems = [], {}
        for check in self.checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            problem = check.problem()
            self.observe(check.name, self.name, not problem)
            if problem:
                problems[check.name] = problem
            lines.append(f"[-]{check.name} failed: reason withheld" if problem else f"[+]{check.name} ok")
        return lines, problems

    def answer_one(self, check: Check, question: PageRequest) -> PageReply:
        problem = check.problem()
        return failure(f"internal server error: {problem}", 500) if problem else plain("ok")


# ---- all pages

LISTED = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
"""The paths that /statusz lists."""
GATED = {"/flagz": "ComponentFlagz", "/statusz": "ComponentStatusz"}
"""Pages that there are only with a feature gate, which is on by default."""

Handler = Callable[[PageRequest], PageReply]


class Sources(msgspec.Struct, frozen=True):
    """The callables that return what pages show. All must return at once: they run on the event loop of the scheduler."""

    metrics: Callable[[], bytes]
    resource_metrics: Callable[[], bytes]
    """Empty unless this instance leads."""
    sli_metrics: Callable[[], bytes]
    reset_metrics: Callable[[], None]
    configuration: Callable[[], Mapping[str, Any]]
    """The v1 KubeSchedulerConfiguration in effect, with all defaults."""
    flags: Callable[[], Mapping[str, str]]
    set_verbosity: Callable[[int], None] | None = None
    """None: profiling is off, and with it all of /debug."""
    protobuf_metrics: Callable[[], bytes] | None = None
    """The metrics in protobuf; None: there is only text."""


class Pages:
    """The pages of one process by path. An unknown path is a 404, as in Go's ServeMux."""

    def __init__(
        self,
        sources: Sources,
        health: Sequence[HealthPage],
        clock: Clock,
        started_ns: int,
        build: Build | None = None,
        more: Mapping[str, Handler] | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        """`more` are pages that upstream does not have, by path. Feature gates that are not named have their defaults."""
        self._sources = sources
        self._started_ns = started_ns
        build = build or Build()
        hidden = {path for path, gate in GATED.items() if not (gates or {}).get(gate, True)}
        listed = tuple(path for path in LISTED if path not in hidden)
        self._handlers: dict[str, Handler] = {
            "/metrics": self._metrics,
            "/metrics/resources": lambda question: _exposition(sources.resource_metrics()),
            "/metrics/slis": lambda question: _exposition(sources.sli_metrics()),
            "/configz": lambda question: json_document({"componentconfig": sources.configuration()}),
            "/statusz": status_page(build, clock, started_ns, listed).answer,
            "/flagz": flags_page(build, sources.flags).answer,
        }
        for path in hidden:
            del self._handlers[path]
        self._handlers.update(more or {})
        for page in health:
            self._handlers[f"/{page.name}"] = page.answer
            for check in page.checks:
                self._handlers[f"/{page.name}/{check.name}"] = partial(page.answer_one, check)
        if sources.set_verbosity is not None:
            self._handlers["/debug/flags"] = index
            self._handlers["/debug/flags/v"] = verbosity_page(sources.set_verbosity)

    def answer(self, question: PageRequest) -> PageReply:
        return self._handler(question.path)(question)

    def reads_body(self, question: PageRequest) -> bool:
        """Whether the page looks at the body. The server reads no other bodies."""
        return question.method == "PUT" and question.path == "/debug/flags/v" and question.path in self._handlers

    def _handler(self, path: str) -> Handler:
        if path in self._handlers:
            return self._handlers[path]
        if path.startswith("/debug/flags/") and "/debug/flags" in self._handlers:
            return index
        return lambda question: not_found_page()

    def _metrics(self, question: PageRequest) -> PageReply:
        if question.method == "DELETE":
            self._sources.reset_metrics()
            return plain("metrics reset\n")
        started = ("Process-Start-Time-Unix", str(self._started_ns // NS_PER_S))
        in_protobuf = self._sources.protobuf_metrics
        if in_protobuf is not None and wants_protobuf(question.accept):
            return PageReply(in_protobuf(), content_type=f"{CONTENT_TYPE}; escaping=underscores", headers=(started,))
        return _exposition(self._sources.metrics(), started)


def wants_protobuf(accept: str) -> bool:
    """Whether a scraper prefers protobuf to text, as Prometheus does when it looks for native histograms.

    Parity: the first form in the order of weights that can be served; text if there is none. The two forms of protobuf
    as text are not served.
    """
    for media, settings in sorted(accepted_media(accept), key=lambda wish: -_weight(wish[1].get("q", "1"))):
        named = settings.get("proto"), settings.get("encoding")
        if media == "application/vnd.google.protobuf" and named == ("io.prometheus.client.MetricFamily", "delimited"):
            return True
        if media == "text/plain" and settings.get("version", "0.0.4") == "0.0.4":
            return False
    return False


def _exposition(metrics: bytes, *headers: tuple[str, str]) -> PageReply:
    return PageReply(metrics, content_type=METRICS_TYPE, headers=headers)


# ---- /debug/flags/v


INDEX = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_MOST = 2**31 - 1
"""klog keeps the verbosity in an int32."""


def verbosity_page(set_verbosity: Callable[[int], None]) -> Handler:
    """Changes the verbosity of the logs while the process runs. Texts are those of klog and of Go's strconv.ParseUint."""

    def answer(question: PageRequest) -> PageReply:
        if question.method != "PUT":
            return _line("unsupported http method", 406)
        written = question.body.decode(errors="replace")
        if not (written.isascii() and written.isdigit()):
            return _line(f"strconv.ParseUint: parsing {quoted(written)}: invalid syntax", 400)
        if len(written) > len(str(_MOST)) or int(written) > _MOST:
            return _line(f"strconv.ParseUint: parsing {quoted(written)}: value out of range", 400)
        set_verbosity(int(written))
        return _line(f"successfully set klog.logging.verbosity to {written}", 200)

    return answer


def index(question: PageRequest) -> PageReply:
    return PageReply(INDEX.encode(), content_type="text/html; charset=utf-8")


def _line(text: str, status: int) -> PageReply:
    return PageReply(f"{text}\n".encode(), status, "text/plain")
