"""The stream: what a client gets, how many there may be, and clients that do not read."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from build import a_node, a_pod
from dashboard_stage import TOKEN, StagedClient, StagedSource, with_dashboard
from mooring.dashboard.interfaces import DecisionLine, DecisionsPage, Refused, SeekTarget, TimeLineState
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.sampler import MAX_STREAMS, ORDER, Sampler, Streams, event_bytes

STREAM = "/dashboard/api/stream"


def parts(*items: Any) -> DashboardParts:
    return DashboardParts(StagedSource(*items), "1.2.3")


async def events(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in reply.content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


def opened(client: StagedClient) -> Any:
    return client.session.get(f"{client.url}{STREAM}", headers={"Authorization": f"Bearer {TOKEN}"})


async def first_of_each(reply: aiohttp.ClientResponse, names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with asyncio.timeout(10):
        async for name, data in events(reply):
            found.setdefault(name, data)
            if names <= found.keys():
                break
    return found


def test_a_client_gets_everything_at_once_nodes_before_their_use() -> None:
    async def test(client: StagedClient) -> dict[str, Any]:
        async with opened(client) as reply:
            assert reply.headers["Content-Type"] == "text/event-stream"
            assert reply.headers["Cache-Control"] == "no-store"
            return await first_of_each(reply, {"nodes", "use", "queue", "pending", "flow"})

    found = with_dashboard(parts(a_node("n", cpu="4"), a_pod("p", cpu="9")), test)
    assert list(found).index("nodes") < list(found).index("use")
    assert found["nodes"]["names"] == ["n"]
    assert found["nodes"]["version"] == found["use"]["version"] == 1
    assert found["queue"]["active"] == 1
    assert found["pending"]["total"] == 1
    assert found["flow"]["bound"] == 0


def test_a_stream_shows_changes_and_the_history_has_them() -> None:
    source = StagedSource(a_node("n", cpu="4"))

    async def test(client: StagedClient) -> None:
        async with opened(client) as reply, asyncio.timeout(20):
            await first_of_each(reply, {"nodes", "use", "queue"})
            source.add(a_pod("p", cpu="1"))
            source.driver.settle()
            used = ""
            async for name, data in events(reply):
                used = data["use"]["cpu"] if name == "use" else used
                if used == "Mg==":  # 50 half percents
                    break
        history = await client.get("history")
        assert sum(each["bound"] for each in history["flow"]) == 1
        assert len(history["queue"]) == len(history["flow"]) >= 2

    with_dashboard(DashboardParts(source, "1"), test)


def test_there_is_a_limit_for_streams_and_a_place_becomes_free() -> None:
    async def test(client: StagedClient) -> None:
        replies = [await opened(client) for _ in range(MAX_STREAMS)]
        status, body, headers = await client.ask("GET", STREAM)
        assert (status, headers["Retry-After"]) == (503, "10")
        assert body == {"message": "8 streams are open, and no more are allowed"}
        replies[0].close()
        async with asyncio.timeout(10):
            while status == 503:
                await asyncio.sleep(0.05)
                async with opened(client) as reply:
                    status = reply.status
        assert status == 200

    with_dashboard(parts(a_node("n")), test)


def test_streams_end_when_the_program_does() -> None:
    async def test(client: StagedClient) -> None:
        async with opened(client) as reply, asyncio.timeout(5):
            await first_of_each(reply, {"nodes"})
            await client.handler.close()
            await reply.read()  # it has an end, and no error

    with_dashboard(parts(a_node("n")), test)


def test_a_client_that_does_not_read_is_cut_off_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets' buffers fill up after a megabyte or two; from then on nothing more is kept for this client."""
    monkeypatch.setattr("mooring.dashboard.serving.dashboard_handler.SLOW_S", 0.3)
    nodes = [a_node(f"node-with-a-rather-long-name-{i}") for i in range(300)]

    async def test(client: StagedClient) -> None:
        handler = client.handler
        port = int(client.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(
            f"GET {STREAM} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        async with asyncio.timeout(20):
            while len(handler.streams) < 1:
                await asyncio.sleep(0.01)
            async with opened(client) as reply:
                await first_of_each(reply, {"nodes"})
                filler = b'"' + b"x" * 1_000_000 + b'"'
                while len(handler.streams) == 2:
                    handler.streams.publish("pending", filler)
                    await asyncio.wait_for(reply.content.readany(), 5)
                assert len(handler.streams) == 1
        writer.close()

    with_dashboard(parts(*nodes), test)


# ---- without HTTP


def test_of_each_kind_a_client_has_the_newest_in_a_fixed_order() -> None:
    async def run() -> None:
        streams = Streams()
        slow = streams.join()
        for name in reversed(ORDER):
            for number in range(100):
                streams.publish(name, str(number).encode())
        expected = b"".join(event_bytes(name, b"99") for name in ORDER)
        assert slow.take() == expected
        assert slow.take() == b""
        late = streams.join()
        assert late.take() == expected

    asyncio.run(run())


def test_nothing_is_kept_while_nobody_looks() -> None:
    async def run() -> None:
        streams = Streams()
        streams.publish("nodes", b"1")
        client = streams.join()
        assert client.take() == b""
        streams.publish("nodes", b"2")
        streams.leave(client)
        assert (dict(streams.newest), streams.is_watched.is_set()) == ({}, False)

    asyncio.run(run())


def test_a_closed_dashboard_takes_no_clients() -> None:
    async def run() -> None:
        streams = Streams()
        streams.close()
        with pytest.raises(Refused):
            streams.join()

    asyncio.run(run())


def test_the_map_is_made_again_only_when_nodes_changed() -> None:
    source = StagedSource(a_node("n", cpu="4"))

    async def run() -> None:
        streams = Streams()
        client = streams.join()
        sampler = Sampler(source, streams, _no_report)
        await sampler.read_slowly()
        assert b'"version":1' in client.take()
        source.add(a_pod("p", cpu="1"))
        source.driver.settle()
        await sampler.read_slowly()
        sampler.read_quickly()
        assert b"event: nodes" not in (sent := client.take())
        assert b"event: use" in sent
        source.add(a_node("m"))
        await sampler.read_slowly()
        assert b'"names":["n","m"]' in (sent := client.take())
        assert b'"version":2' in sent

    asyncio.run(run())


def test_real_use_of_nodes_is_sent_beside_requests_and_again_after_each_reading() -> None:
    """Half percents by hand: 1 of 4 cpus is 50, 1 of 8 Gi is 25; the source does not know m."""
    source = StagedSource(a_node("n", cpu="4", memory="8Gi"), a_node("m", cpu="4", memory="8Gi"))
    readings = [{"n": (1000, 1 << 30)}]

    async def run() -> None:
        streams = Streams()
        client = streams.join()
        sampler = Sampler(source, streams, _no_report, in_use=lambda: readings[-1])
        await sampler.read_slowly()
        sent = client.take()
        assert b'"resources":["cpu","memory","pods","cpu in use","memory in use"]' in sent
        columns = {
            name: base64.b64encode(bytes(column)) for name, column in (("cpu", (50, 255)), ("memory", (25, 255)))
        }
        for name, column in columns.items():
            assert b'"%s in use":"%s"' % (name.encode(), column) in sent
        sampler.wake()
        sampler.read_quickly()
        client.take()
        readings.append({"n": (4000, 0)})
        sampler.wake()
        sampler.read_quickly()
        assert b'"cpu in use":"%s"' % base64.b64encode(bytes((200, 255))) in client.take()

    asyncio.run(run())


def test_what_is_idle_by_real_use_is_sent_with_the_part_that_pods_cannot_get() -> None:
    """By hand: n has 4 cpu, 3 requested and 1 in use; 3 of 4 are idle, and pods of 1 cpu get 1 of these 3. 8 Gi are there, 6
    requested and 2 in use: 6 of 8 are idle, and pods get 2 of these 6."""
    pods = [a_pod(f"p{i}", cpu="1", memory="2Gi", nodeName="n") for i in range(3)]
    source = StagedSource(a_node("n", cpu="4", memory="8Gi"), a_node("m", cpu="4", memory="8Gi"), *pods)
    readings: list[dict[str, tuple[int, int]]] = [{}]

    async def run() -> None:
        streams = Streams()
        client = streams.join()
        sampler = Sampler(source, streams, _no_report, in_use=lambda: readings[-1])
        await sampler.read_slowly()
        assert b'"idle":{}' in client.take(), "nothing is read yet"
        readings.append({"n": (1000, 2 << 30), "gone": (1, 1)})
        await sampler.read_slowly()
        sampler.wake()
        sampler.read_quickly()
        sent = json.loads(client.take().split(b"event: use\ndata: ")[1].split(b"\n")[0])
        assert sent["idle"] == {
            "cpu": {"idle": 0.75, "outOfReach": pytest.approx(2 / 3)},
            "memory": {"idle": 0.75, "outOfReach": pytest.approx(4 / 6)},
        }

    asyncio.run(run())


def test_counts_are_sampled_also_while_nobody_looks_and_nothing_else_is() -> None:
    source = StagedSource(a_node("n"))

    async def run() -> None:
        streams = Streams()
        sampler = Sampler(source, streams, _no_report)
        for _ in range(700):
            sampler.read_quickly()
        assert len(sampler.history.page().queue) == 600
        assert dict(streams.newest) == {}

    asyncio.run(run())


def test_a_reading_that_fails_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.dashboard.serving.sampler.FAULT_S", 0.01)
    source, faults = StagedSource(a_node("n")), list[str]()
    source.now_ns = _fail  # type: ignore[method-assign]

    async def run() -> None:
        sampler = Sampler(source, Streams(), lambda text, fault: faults.append(f"{text}: {fault}"))
        sampling = asyncio.create_task(sampler.run())
        async with asyncio.timeout(5):
            while len(faults) < 2:
                await asyncio.sleep(0.01)
        sampling.cancel()

    asyncio.run(run())
    assert faults[0] == "the dashboard could not read the scheduler: no clock"


def _fail() -> int:
    raise RuntimeError("no clock")


def _no_report(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


# ---- recordings


class StagedTimeLine:
    """A recording of ten decisions."""

    version = 0
    position = 0

    def state(self) -> TimeLineState:
        return TimeLineState("a", "z", "n", 10, self.position, [0] * 200, False)

    async def seek(self, target: SeekTarget) -> TimeLineState:
        self.position = target.decision or 0
        self.version += 1
        return self.state()

    def decisions(self, after: int, limit: int) -> DecisionsPage:
        return DecisionsPage([DecisionLine(after + i, "", "", "", "", "", 1) for i in range(1, limit + 1)], 10)


def test_a_move_in_a_recording_is_sent_at_once_and_nothing_is_sent_between_moves() -> None:
    source, timeline = StagedSource(a_node("n")), StagedTimeLine()

    async def test(client: StagedClient) -> None:
        async with opened(client) as reply, asyncio.timeout(20):
            first = await first_of_each(reply, {"replay", "queue", "use"})
            assert first["replay"]["position"] == 0
            status, body, _ = await client.ask("POST", "/dashboard/api/replay/seek", json={"decision": 7})
            assert (status, body["position"]) == (200, 7)
            found = await first_of_each(reply, {"replay", "queue"})
            assert found["replay"]["position"] == 7
        assert (await client.get("session"))["replay"] is True
        assert (await client.get("replay"))["position"] == 7
        page = await client.get("replay/decisions?after=3&limit=2")
        assert ([each["number"] for each in page["decisions"]], page["total"]) == ([4, 5], 10)
        for body in ({}, {"decision": 1, "step": 1}):
            status, _, _ = await client.ask("POST", "/dashboard/api/replay/seek", json=body)
            assert status == 422

    with_dashboard(DashboardParts(source, "1", timeline=timeline), test)
