"""Calls as tasks of a driver: answered once, never lost, and silent once the scheduler must not act any more."""

import asyncio
from typing import Any

import pytest

from extending import Extended, a_pending
from mooring.drivers.extender_calls import NO_LOOP, ExtenderCaller
from mooring.framework.contract.intents import Bind, Call, CallFault, CallReply, PatchStatus
from mooring.scheduler.inputs import ObjectAdded

ONE = {"filterVerb": "filter", "nodeCacheCapable": True}


class Rig(Extended):
    """A scheduler with a call under way; `reply` is what the client comes back with, after `delay_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, extender: dict[str, Any], **settings: Any) -> None:
        super().__init__(extender, nodes=("n1",))
        self.reply: CallReply | Exception = b'{"NodeNames": ["n1"]}'
        self.delay_s = 0.0
        self.sent: list[bytes] = []
        self.wakes = 0
        monkeypatch.setattr("mooring.drivers.extender_calls.ExtenderClient.ask", self._ask)
        self.calls_out = ExtenderCaller(self.scheduler, lambda item: item, self._wake, **settings)
        self.scheduler.handle(ObjectAdded(a_pending()))
        self.scheduler.attempt()
        (call,) = self.scheduler.take_intents()
        assert isinstance(call, Call)
        self.call = call

    async def _ask(self, call: Call, body: bytes, traceparent: str) -> CallReply:
        self.sent.append(body)
        await asyncio.sleep(self.delay_s)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def _wake(self) -> None:
        self.wakes += 1


def test_a_reply_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ONE)

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        assert rig.wakes == 0
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert rig.wakes == 1
    (bind,) = rig.scheduler.take_intents()
    assert isinstance(bind, Bind)
    assert rig.sent[0].startswith(b'{"Pod":{"metadata":') and rig.sent[0].endswith(b'"Nodes":null,"NodeNames":["n1"]}')


def test_a_bug_is_a_fault_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ONE)
    rig.reply = RuntimeError("boom")

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert rig.scheduler.core.extender_calls.suspension is None
    patch = next(intent for intent in rig.scheduler.take_intents() if isinstance(intent, PatchStatus))
    assert patch.condition is not None
    assert patch.condition.message == f"Post \"{rig.call.url}\": RuntimeError('boom')"


def test_without_an_event_loop_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ONE)
    rig.calls_out.begin(rig.call)
    assert rig.scheduler.core.extender_calls.suspension is None and rig.wakes == 1
    assert rig.sent == []
    patch = next(intent for intent in rig.scheduler.take_intents() if isinstance(intent, PatchStatus))
    assert patch.condition is not None and (patch.condition.message or "").endswith(NO_LOOP)


def test_once_stopped_no_reply_leads_to_a_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ONE)
    rig.delay_s = 0.02

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        await asyncio.sleep(0)
        rig.calls_out.stop()
        await asyncio.sleep(0.05)
        await rig.calls_out.close()

    asyncio.run(run())
    assert rig.wakes == 0 and rig.scheduler.take_intents() == []


def test_closing_ends_the_calls_that_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ONE)
    rig.delay_s = 0.02

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        await asyncio.sleep(0)
        await rig.calls_out.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert len(rig.sent) == 1 and rig.wakes == 0 and rig.scheduler.take_intents() == []


def test_bugs_are_logged_with_the_url_of_the_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(monkeypatch, ONE)
    rig.reply = RuntimeError("boom")
    monkeypatch.setattr(rig.scheduler, "handle", lambda report: {}[report])

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "a call to http://127.0.0.1:9999/sched/filter failed unexpectedly"),
        ("ERROR", "the reply to http://127.0.0.1:9999/sched/filter could not be processed"),
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_dry_run_has_nobody_bind(is_dry_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, {"bindVerb": "bind"}, is_dry_run=is_dry_run)
    rig.reply = CallFault("asked")

    async def run() -> None:
        rig.calls_out.begin(rig.call)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert rig.sent == (
        [] if is_dry_run else [b'{"PodName":"pod","PodNamespace":"default","PodUID":"uid-pod","Node":"n1"}']
    )
    assert rig.scheduler.core.bindings == {}
