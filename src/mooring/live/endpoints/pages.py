"""Which page answers at which path. What the pages show comes from callables, so that this package knows no scheduler."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.kit.clock import NS_PER_S, Clock
from mooring.live.endpoints.answers import PageReply, PageRequest, json_document, not_found_page, plain
from mooring.live.endpoints.health import Check, HealthPage
from mooring.live.endpoints.verbosity import VerbosityPage, index
from mooring.live.endpoints.zpages import Build, FlagsPage, StatusPage

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
LISTED = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
"""What /statusz points to."""

Handler = Callable[[PageRequest], PageReply]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the pages get what they show. All must answer at once: they run on the event loop."""

    metrics: Callable[[], bytes]
    resource_metrics: Callable[[], bytes]
    """Empty unless this instance leads."""
    sli_metrics: Callable[[], bytes]
    reset_metrics: Callable[[], None]
    configuration: Callable[[], Mapping[str, Any]]
    """The v1 KubeSchedulerConfiguration that is in force."""
    flags: Callable[[], Mapping[str, str]]
    set_verbosity: Callable[[int], None] | None = None
    """None: profiling is off, and with it all of /debug."""


class Pages:
    def __init__(
        self,
        sources: Sources,
        health: Sequence[HealthPage],
        clock: Clock,
        started_ns: int,
        build: Build | None = None,
        more: Mapping[str, Handler] | None = None,
    ) -> None:
        """`more` are pages of our own, by path."""
        self._sources = sources
        self._started_ns = started_ns
        build = build or Build()
        self._handlers: dict[str, Handler] = {
            "/metrics": self._metrics,
            "/metrics/resources": lambda question: _exposition(sources.resource_metrics()),
            "/metrics/slis": lambda question: _exposition(sources.sli_metrics()),
            "/configz": self._configuration,
            "/statusz": StatusPage(build, clock, started_ns, LISTED).answer,
            "/flagz": FlagsPage(build, sources.flags).answer,
        }
        self._handlers |= more or {}
        for page in health:
            self._add_health(page)
        if sources.set_verbosity is not None:
            self._handlers["/debug/flags"] = index
            self._handlers["/debug/flags/v"] = VerbosityPage(sources.set_verbosity).answer

    def _add_health(self, page: HealthPage) -> None:
        self._handlers[f"/{page.name}"] = page.answer
        for check in page.checks:
            self._handlers[f"/{page.name}/{check.name}"] = _of_one(page, check)

    def answer(self, question: PageRequest) -> PageReply:
        return self._handler(question.path)(question)

    def reads_body(self, question: PageRequest) -> bool:
        """Whether there is a page that looks at what was sent; nothing else of it is read."""
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
        return _exposition(self._sources.metrics(), started)

    def _configuration(self, question: PageRequest) -> PageReply:
        return json_document({"componentconfig": self._sources.configuration()})


def _exposition(metrics: bytes, *headers: tuple[str, str]) -> PageReply:
    return PageReply(metrics, content_type=METRICS_TYPE, headers=headers)


def _of_one(page: HealthPage, check: Check) -> Handler:
    return lambda question: page.answer_one(check)
