"""The fence: open until a deadline on a clock that does not stop, and a refusal that ends a task as a cancellation does."""

import asyncio
import time
from math import inf

import pytest

from mooring.kit.clock import elapsed_s
from mooring.kit.tasks import NO_FENCE, Fence, FencedOff


class Now:
    s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_fence_is_shut_until_somebody_opens_it_and_from_its_deadline_on() -> None:
    now = Now()
    fence = Fence(now_s=now)
    assert not fence.is_open
    with pytest.raises(FencedOff, match="the lease has run out: this instance must not write"):
        fence.check()
    fence.open_until(110.0)
    now.s = 109.999
    assert fence.is_open
    fence.check()
    now.s = 110.0
    assert not fence.is_open
    with pytest.raises(FencedOff):
        fence.check()


def test_a_fence_that_is_shut_lets_nothing_pass_whatever_its_deadline_was() -> None:
    fence = Fence(inf)
    fence.check()
    fence.shut()
    assert not fence.is_open
    with pytest.raises(FencedOff):
        fence.check()


def test_a_deadline_that_is_no_number_lets_nothing_pass() -> None:
    with pytest.raises(FencedOff):
        Fence(float("nan")).check()


def test_what_needs_no_lease_always_passes() -> None:
    NO_FENCE.check()
    assert NO_FENCE.is_open


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no CLOCK_BOOTTIME")
def test_the_clock_counts_the_time_in_which_the_machine_is_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= elapsed_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_task_that_is_fenced_off_counts_as_cancelled_and_no_handler_of_failures_sees_it() -> None:
    async def main() -> None:
        async def write() -> str:
            try:
                Fence().check()
            except Exception:
                return "taken for a failure"
            return "sent"

        task = asyncio.create_task(write())
        await asyncio.wait((task,))
        assert task.cancelled()

    asyncio.run(main())
