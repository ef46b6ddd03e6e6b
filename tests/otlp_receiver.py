"""A collector in this process: it takes spans over HTTP, as OTLP has them in protobuf, or refuses them.

with a_receiver() as receiver:
    ... OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url ...
    spans = receiver.wait(lambda spans: len(spans) > 10)
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it arrived, with what was said about its sender."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    error: str | None
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str
    began_ns: int
    ended_ns: int


@dataclass
class Receiver:
    url: str = ""
    code: int = 200
    """What it answers with."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers."""
    spans: list[ReceivedSpan] = field(default_factory=list)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.requests.append((path, headers))
        if self.code == 200:
            self.spans += received(ExportTraceServiceRequest.FromString(body))

    def wait(self, is_enough: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_enough(self.spans):
            assert time.monotonic() < deadline_s, f"only {sorted(span.name for span in self.spans)}"
            time.sleep(0.02)
        return list(self.spans)


def received(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.kind,
            span.status.message if span.status.code == 2 else None,
            _values(span.attributes),
            _values(group.resource.attributes),
            spans.scope.name,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
        )
        for group in request.resource_spans
        for spans in group.scope_spans
        for span in spans.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(receiver.code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
