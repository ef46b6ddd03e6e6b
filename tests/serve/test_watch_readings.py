"""Metrics of watches, as a reflector's record feeds them."""

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import WATCHED, ReflectorOptions, Reflectors
from mooring.apiclient.reflectors.watch_ends import WatchEnd
from mooring.apiclient.throttle import Timing
from mooring.kit.clock import VirtualClock
from mooring.serve.service_metrics import ServiceMetrics, read_watches


def silence(old: object, new: object) -> None:
    """Nobody listens here."""


def test_the_page_shows_how_watches_ended_and_how_long_there_was_none() -> None:
    now_s = [0.0]
    timing = Timing(lambda: now_s[0])
    source = ApiClient(ConnectionSettings("http://127.0.0.1:1"), "test/1")
    reflectors = Reflectors(source, silence, WATCHED[:2], ReflectorOptions(timing))
    metrics = ServiceMetrics(VirtualClock())
    read_watches(reflectors.members, metrics.registry)
    nodes, pods = (member.record for member in reflectors.members)
    now_s[0] = 2.5
    nodes.answered()
    pods.answered()
    pods.ended(WatchEnd.AFTER_EVENTS)
    now_s[0] = 3.0
    pods.answered()
    pods.ended(WatchEnd.AFTER_EVENTS)
    pods.ended(WatchEnd.EXPIRED)
    now_s[0] = 4.0
    assert shown(metrics) == [
        'mooring_watch_gap_seconds_total{resource="nodes"} 2.5',
        'mooring_watch_gap_seconds_total{resource="pods"} 4',
        'mooring_watches_ended_total{resource="pods",reason="after_events"} 2',
        'mooring_watches_ended_total{resource="pods",reason="expired"} 1',
    ]
    metrics.reset()
    now_s[0] = 5.0
    assert shown(metrics) == ['mooring_watch_gap_seconds_total{resource="pods"} 1']


def shown(metrics: ServiceMetrics) -> list[str]:
    return [line for line in metrics.metrics().decode().splitlines() if line.startswith("mooring_watch")]
