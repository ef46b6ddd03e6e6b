"""Waiting for tasks that may all have ended by the time at which they are looked at."""

import asyncio

from mooring.kit.tasks import first_of, settle, sooner


def test_nothing_to_wait_for_is_waited_for() -> None:
    asyncio.run(settle(()))


def test_tasks_that_leave_their_set_before_it_is_looked_at_are_no_error() -> None:
    async def main() -> None:
        tasks: set[asyncio.Task[None]] = set()
        task = asyncio.create_task(asyncio.sleep(0))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        waiting = settle(tasks)  # begins only when the task is done and gone
        await asyncio.sleep(0.01)
        assert not tasks
        await waiting

    asyncio.run(main())


def test_settling_waits_for_all_or_until_the_time_has_passed() -> None:
    async def main() -> None:
        never = asyncio.get_running_loop().create_future()
        soon = asyncio.create_task(asyncio.sleep(0))
        await settle([never, soon], 0.01)
        assert soon.done() and not never.done()
        failing = asyncio.get_running_loop().create_future()
        failing.set_exception(ValueError())
        await settle([failing, soon])
        assert failing.exception() is not None

    asyncio.run(main())


def test_the_first_of_several_is_enough() -> None:
    async def main() -> None:
        never = asyncio.get_running_loop().create_future()
        await first_of(never, asyncio.create_task(asyncio.sleep(0)))
        assert not never.done()

    asyncio.run(main())


def test_work_is_given_up_when_the_end_comes_sooner() -> None:
    async def main() -> None:
        async def answer() -> int:
            return 7

        never = asyncio.get_running_loop().create_future()
        assert await sooner(answer(), asyncio.sleep(60)) == 7
        assert await sooner(never, asyncio.sleep(0)) is None
        assert never.cancelled()

    asyncio.run(main())
