"""Binds by themselves: how many are under way, and that each ends once, also by a bug or by the end of the process."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from build import a_pod
from mooring.apiclient.throttle import Timing
from mooring.drivers.binder import Binder, BindOutcome
from mooring.drivers.status_writer import StatusWriter
from mooring.framework.contract.intents import Bind
from mooring.model.pod import Pod
from recording_server import Time
from silent_writer import SilentWriter


class Stage(SilentWriter):
    """A binder whose binds hang, fail, or succeed; and statuses that may be under way."""

    def __init__(self) -> None:
        self.begun = 0
        self.hangs = self.is_status_busy = False
        self.fault: Exception | None = None
        self.answers: list[tuple[str, BindOutcome]] = []
        self.answer_fault: Exception | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        timing: Timing = Time().timing()
        self.binder = Binder(self, cast(StatusWriter, self), timing, lambda key: None, self._start, self._answer)

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.begun += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault

    def is_busy(self, pod_id: str) -> bool:
        return self.is_status_busy

    async def settle(self, pod_id: str) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _answer(self, intent: Bind, outcome: BindOutcome) -> None:
        self.answers.append((intent.pod.name, outcome))
        if self.answer_fault is not None:
            raise self.answer_fault

    def queue(self, name: str) -> None:
        self.binder.queue(Bind(a_pod(name, metadata={"uid": name}), "n1"))

    async def rest(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.rest()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@pytest.mark.parametrize("is_status_busy", [False, True])
def test_binds_one_after_the_other_are_all_answered(is_status_busy: bool) -> None:
    async def main() -> None:
        stage = Stage()
        stage.is_status_busy = is_status_busy
        for number in range(200):
            stage.queue(f"p{number}")
            assert stage.binder.under_way == 1
            await stage.rest()
            assert stage.binder.under_way == 0
        assert stage.answers == [(f"p{number}", BindOutcome()) for number in range(200)]

    run(main())


def test_64_binds_are_sent_at_a_time() -> None:
    async def main() -> None:
        stage = Stage()
        stage.hangs = True
        for number in range(100):
            stage.queue(f"p{number}")
        await stage.rest()
        assert (stage.begun, stage.binder.under_way) == (64, 100)
        stage.binder.halt()
        await stage.cancel()

    run(main())


@pytest.mark.parametrize("is_status_busy", [False, True], ids=["while it is sent", "while it waits for the status"])
def test_a_bind_that_is_cancelled_is_not_under_way_and_not_answered(is_status_busy: bool) -> None:
    async def main() -> None:
        stage = Stage()
        stage.hangs, stage.is_status_busy = True, is_status_busy
        stage.queue("a")
        stage.queue("b")
        await stage.rest()
        assert stage.binder.under_way == 2
        await stage.cancel()
        assert (stage.binder.under_way, stage.answers) == (0, [])

    run(main())


@pytest.mark.parametrize("is_status_busy", [False, True])
def test_a_bug_of_a_bind_is_its_outcome(is_status_busy: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.fault, stage.is_status_busy = RuntimeError("boom"), is_status_busy
        stage.queue("p")
        await stage.rest()
        assert stage.answers == [("p", BindOutcome("RuntimeError('boom')"))] and stage.binder.under_way == 0

    run(main())
    assert [(record.levelname, record.getMessage()) for record in caplog.records if record.exc_info] == [
        ("ERROR", "the bind of default/p failed unexpectedly")
    ]


def test_a_bug_in_what_follows_a_bind_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.answer_fault = KeyError("x")
        stage.queue("a")
        stage.queue("b")
        await stage.rest()
        assert [name for name, _ in stage.answers] == ["a", "b"] and stage.binder.under_way == 0

    run(main())
    assert [(record.levelname, record.getMessage()) for record in caplog.records if record.exc_info] == [
        ("ERROR", "the answer to the bind of default/a failed unexpectedly"),
        ("ERROR", "the answer to the bind of default/b failed unexpectedly"),
    ]
