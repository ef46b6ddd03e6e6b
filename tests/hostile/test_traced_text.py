"""Hostile text in traces: a collector receives it as data, and one text that is no proper Unicode loses no other span."""

import json

import pytest

from build import a_node, a_pod
from hostile_text import HOSTILE, MARK
from mooring.cli.recording_options import start_tracing
from mooring.framework import config
from mooring.framework.config.types import PluginEntry
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.kit.clock import SteadyClock
from mooring.kit.shown_text import is_shown
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.serve.tracing import Tracing, tracing_settings
from mooring.state.scheduler_assembly import all_plugins, build_scheduler
from otlp_receiver import ReceivedSpan, a_receiver

TEXT = f"{HOSTILE}\ud800"
RECEIVED = f"{HOSTILE}?"
"""A collector gets whole characters."""


class Hostile(PlainPlugin):
    """Fails one pod with the text."""

    name = "Hostile"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        if pod.name == "failing":
            raise ValueError(TEXT)
        return None


def traced(monkeypatch: pytest.MonkeyPatch, reports: list[str], **variables: str) -> Tracing:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return start_tracing(tracing_settings(None, variables), 0, reports.append)


def schedule(tracing: Tracing) -> None:
    """An attempt that succeeds, and one that fails; all names are hostile."""
    clock = SteadyClock()
    observer, _ = tracing.observe(Observer(), clock)
    chosen = config.default()
    (profile,) = chosen.profiles
    profile.scheduler_name = TEXT
    profile.plugins.multi_point.enabled.append(PluginEntry(name="Hostile"))
    registry = all_plugins()
    registry.register(Hostile)
    scheduler = build_scheduler(chosen, clock, registry, listeners=SchedulerListeners(observer=observer))
    scheduler.handle(ObjectAdded(a_node(TEXT)))
    for name in (TEXT, "failing"):
        scheduler.handle(ObjectAdded(a_pod(name, namespace=TEXT, metadata={"uid": name}, schedulerName=TEXT)))
        scheduler.attempt()
        scheduler.take_intents()


def roots(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return sorted((span for span in spans if not span.parent_id), key=lambda span: span.began_ns)


def test_a_collector_receives_hostile_text_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    with a_receiver() as receiver:
        tracing = traced(monkeypatch, reports, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        schedule(tracing)
        tracing.close()
    (failed,) = (root for root in roots(receiver.spans) if root.error is not None)
    assert (failed.attributes["k8s.namespace.name"], failed.attributes["scheduler.profile"]) == (RECEIVED, RECEIVED)
    assert failed.error is not None and RECEIVED in failed.error
    assert not [span.name for span in receiver.spans if MARK in span.name]
    assert reports == []


def test_every_text_of_a_span_may_be_hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    with a_receiver() as receiver:
        tracing = traced(monkeypatch, reports, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        tracer = tracing.tracer  # type: ignore[attr-defined]
        root = tracer.begin(tracer.sample() or 1, TEXT, 1, {"a": TEXT})
        below = root.child(TEXT, 2, {"a": TEXT, "n": 1})
        below.set({"b": TEXT})
        below.note(TEXT, 3, {"c": TEXT})
        below.end(4, TEXT)
        root.end(5)
        tracing.close()
    found = {bool(span.parent_id): (span.name, span.error, span.attributes) for span in receiver.spans}
    assert found == {
        False: (RECEIVED, None, {"a": RECEIVED}),
        True: (RECEIVED, RECEIVED, {"a": RECEIVED, "n": 1, "b": RECEIVED}),
    }
    assert reports == []


def test_the_exporter_for_consoles_writes_what_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tracing = traced(monkeypatch, [], OTEL_TRACES_EXPORTER="console")
    schedule(tracing)
    tracing.close()
    written = capsys.readouterr().out
    assert all(is_shown(line) for line in written.split("\n"))
    first, _ = json.JSONDecoder().raw_decode(written)
    assert MARK in written and first["context"]
