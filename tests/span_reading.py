"""Spans that the SDK recorded in this process, and trees of them as text.

spans = RecordedSpans()
build_scheduler(..., observer=spans.around(Observer(), clock))
assert spans.trees() == ["Scheduling", "  PreFilter", ...]
"""

from collections.abc import Iterator

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mooring.kit.clock import NS_PER_S, Clock
from mooring.scheduler.observer import Observer
from mooring.scheduler.traces import SchedulerTraces
from mooring.serve.open_telemetry import SampledTracer

MS = NS_PER_S // 1000
NO_PLUGINS_NS = 1 << 62
"""A threshold that no plugin reaches, however busy the machine is."""


class RecordedSpans:
    """Everything that a tracer recorded, in the order in which it ended."""

    def __init__(self, ratio: float = 1.0) -> None:
        self.tracer = SampledTracer(ratio, Resource({}))
        self._exporter = InMemorySpanExporter()
        self.tracer.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def around(self, observer: Observer, clock: Clock, threshold_ns: int = MS) -> SchedulerTraces:
        return SchedulerTraces(observer, self.tracer, clock, threshold_ns)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def clear(self) -> None:
        self._exporter.clear()

    def roots(self) -> list[ReadableSpan]:
        return [span for span in self.all if span.parent is None]

    def named(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self.all if span.name == name)
        return span

    def root_of(self, pod: str) -> ReadableSpan:
        (root,) = (root for root in self.roots() if (root.attributes or {})["k8s.pod.name"] == pod)
        return root

    def below(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """The children of a span, those that began first in front."""
        found = [span for span in self.all if span.parent is not None and id_of(span.parent) == id_of(parent.context)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def names_below(self, parent: ReadableSpan) -> list[str]:
        return [span.name for span in self.below(parent)]

    def trees(self) -> list[str]:
        """The names of all spans of finished traces, each indented below its parent."""
        return [line for root in self.roots() for line in self._tree(root, "")]

    def _tree(self, span: ReadableSpan, indent: str) -> Iterator[str]:
        yield indent + span.name
        for child in self.below(span):
            yield from self._tree(child, indent + "  ")

    def orphans(self) -> list[str]:
        """Spans whose parent was not recorded."""
        known = {id_of(span.context) for span in self.all}
        return [span.name for span in self.all if span.parent is not None and id_of(span.parent) not in known]


def id_of(context: object) -> tuple[int, int]:
    """The ids of a span's context."""
    return getattr(context, "trace_id", 0), getattr(context, "span_id", 0)


def took_s(span: ReadableSpan) -> float:
    assert span.start_time is not None and span.end_time is not None
    return (span.end_time - span.start_time) / NS_PER_S


def about(span: ReadableSpan, *names: str) -> tuple[object, ...]:
    """Attributes of a span; None for those that it does not have."""
    return tuple((span.attributes or {}).get(name) for name in names)
