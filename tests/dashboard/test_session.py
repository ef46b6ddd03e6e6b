"""What a dashboard says about itself."""

import asyncio

import pytest

from build import a_node, a_pod
from dashboard_stage import StagedClient, StagedSource, with_dashboard
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.slices import OneAtATime, Sliced, TooBusy, in_slices


def test_a_dashboard_says_what_it_shows_and_can_do() -> None:
    found = with_dashboard(DashboardParts(StagedSource(), "1.2.3"), lambda client: client.get("session"))
    assert found == {
        "program": "up",
        "version": "1.2.3",
        "readOnly": True,
        "canAsk": False,
        "canDo": False,
        "profiles": ["default-scheduler"],
        "replay": False,
        "isLeader": True,
        "now": "2026-02-01T00:00:00.000Z",
    }


def test_searches_take_turns_and_too_many_are_refused() -> None:
    parts = DashboardParts(StagedSource(a_node("n"), *(a_pod(f"p{i}") for i in range(3000))), "1")

    async def test(client: StagedClient) -> list[int]:
        asked = [client.ask("GET", "/dashboard/api/pods?limit=1") for _ in range(60)]
        return [status for status, _, _ in await asyncio.gather(*asked)]

    found = with_dashboard(parts, test)
    assert set(found) <= {200, 429}
    assert found.count(200) >= OneAtATime.MAX_WAITING


@pytest.fixture
def slow_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the processor goes on by a millisecond with each look: two looks are a slice."""
    now = [0.0]

    def look() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr("mooring.dashboard.slices.thread_time", look)


@pytest.mark.usefixtures("slow_processor")
def test_only_one_piece_of_work_is_under_way() -> None:
    under_way = [0]

    def work(number: int) -> Sliced[int]:
        under_way[0] += 1
        for _ in range(4):
            assert under_way[0] == 1
            yield
        under_way[0] -= 1
        return number

    async def run() -> None:
        turns = OneAtATime()
        waiting = [asyncio.create_task(turns.run(work(i))) for i in range(OneAtATime.MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await turns.run(work(99))
        assert await asyncio.gather(*waiting) == [*range(OneAtATime.MAX_WAITING)]
        assert await turns.run(work(100)) == 100

    asyncio.run(run())


@pytest.mark.usefixtures("slow_processor")
def test_others_have_their_turn_between_slices() -> None:
    turns = [0]

    async def other() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    def work() -> Sliced[str]:
        for _ in range(20):
            yield
        return "done"

    async def run() -> None:
        task = asyncio.create_task(other())
        assert await in_slices(work()) == "done"
        task.cancel()

    asyncio.run(run())
    assert turns[0] >= 9
