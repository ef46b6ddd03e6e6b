"""Metrics of watches, as a reflector's record feeds them."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest

from mooring.api.api_errors import bad_request
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import TURN, WATCHED, ReflectorOptions, Reflectors
from mooring.apiclient.reflectors.watch_streams import WatchEnd
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


def test_v137_20_5_the_page_shows_what_reflectors_take_in() -> None:
    asyncio.run(asyncio.wait_for(_take_nodes_in(), 10))


async def _take_nodes_in() -> None:
    now_s = [0.0]

    def listen(old: object, new: object) -> None:
        now_s[0] += 0.002
        seen.append(shown(metrics, "informer_queued")[-1].split()[-1])

    seen: list[str] = []
    version = "98765432101234567890"
    source = Scripted([a_bookmark("5"), *(an_added_node(f"n{i}", "6") for i in range(TURN + 1)), a_bookmark(version)])
    reflectors = Reflectors(source, listen, WATCHED[:1], ReflectorOptions(Timing(lambda: now_s[0])))
    metrics = ServiceMetrics(VirtualClock())
    read_watches(reflectors.members, metrics.registry)
    task = asyncio.ensure_future(reflectors.members[0].run())
    await source.is_read.wait()
    task.cancel()
    labels = 'name="kube-scheduler",group="",version="v1",resource="nodes"'
    assert (seen[0], seen[-1]) == ("67", "3")  # lines are counted by turns of 64
    assert shown(metrics, "informer_queued") == [f"informer_queued_items{{{labels}}} 0"]
    assert shown(metrics, "informer_store") == [f"informer_store_resource_version{{{labels}}} {version[-15:]}"]
    assert f"informer_processing_latency_seconds_count{{{labels}}} 67" in shown(metrics, "informer_processing")
    (total,) = shown(metrics, "informer_processing_latency_seconds_sum")
    assert float(total.split()[-1]) == pytest.approx(0.13, rel=1e-6)


class Scripted:
    """A server that has no nodes, sends one batch of lines, and then nothing."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self.is_read = asyncio.Event()

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        return [b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}']

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        if "sendInitialEvents" in (params or {}):
            raise bad_request("no streaming lists")
        yield []
        yield self._lines
        self.is_read.set()
        await asyncio.sleep(3600)


def a_bookmark(version: str) -> bytes:
    return b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%s"}}}' % version.encode()


def an_added_node(name: str, version: str) -> bytes:
    metadata = {"name": name, "uid": name, "resourceVersion": version}
    return msgspec.json.encode({"type": "ADDED", "object": {"metadata": metadata}})


def shown(metrics: ServiceMetrics, prefix: str = "mooring_watch") -> list[str]:
    return [line for line in metrics.metrics().decode().splitlines() if line.startswith(prefix)]
