"""A recording in a browser: the time line is dragged, played and stepped through, and the other pages show its moment."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from shown_cluster import ShownDashboard, recorded_parts, shown
from watched_page import Opener

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
PODS: list[dict[str, Any]] = [
    {"at": "0s", "every": "1s", "until": "90s", "name": "web", "cpu": "500m", "memory": "1Gi", "run": "40s"},
    {"at": "12s", "name": "giant", "cpu": 64},
    {"at": "60s", "name": "late", "cpu": 1},
]


@pytest.fixture(scope="module", params=[5, pytest.param(5000, marks=pytest.mark.soak)], ids=["5 nodes", "5,000 nodes"])
def dashboard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownDashboard]:
    directory = tmp_path_factory.mktemp("recording")
    with shown(lambda: recorded_parts(directory, request.param, PODS)) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def moment(page: Page) -> Locator:
    return page.locator(".transport [role=status]")


def jump(page: Page, decision: int) -> None:
    line = page.get_by_role("region", name="Time line of the recording")
    line.get_by_label("Decision").fill(str(decision))
    line.get_by_role("button", name="Jump").click()
    expect(moment(page)).to_contain_text(f"decision {decision} of")


def test_steps_and_jumps_show_their_moment(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("replay")
    watched.heading("Replay")
    jump(page, 20)
    summary = page.locator(".summary")
    expect(summary).to_contain_text("19 pods")
    page.get_by_role("button", name="Step on").click()
    expect(moment(page)).to_contain_text("decision 21 of")
    expect(summary).to_contain_text("20 pods")
    page.get_by_role("button", name="Step back").click()
    expect(summary).to_contain_text("19 pods")
    rows = page.get_by_role("table", name="Decisions of the recording")
    expect(rows.locator("[aria-current=true]")).to_have_text("20")
    rows.get_by_role("button", name="25: jump to this decision").click()
    expect(moment(page)).to_contain_text("decision 25 of")
    assert watched.accessibility_faults() == []


def test_the_time_line_is_dragged_by_keys(dashboard: ShownDashboard, open_page: Opener) -> None:
    page = open_page(dashboard).page
    slider = page.get_by_role("slider", name="Moment of the recording")
    slider.focus()
    page.keyboard.press("End")
    expect(moment(page)).to_contain_text("00:02:00")
    page.keyboard.press("Home")
    expect(moment(page)).to_contain_text("00:00:00")
    expect(page.locator(".summary")).to_contain_text("nodes")


def test_playing_moves_and_pausing_stays(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("replay")
    jump(page, 1)
    page.get_by_role("combobox", name="Speed").select_option("10")
    page.get_by_role("button", name="Play").click()
    expect(moment(page)).not_to_contain_text("decision 1 of")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    page.wait_for_timeout(600)
    held = moment(page).inner_text()
    page.wait_for_timeout(600)
    expect(moment(page)).to_have_text(held)


def test_other_pages_show_the_moment_too(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("queue")
    jump(page, 20)
    expect(page.get_by_role("table", name="Pending pods by reason")).to_contain_text("giant")
    jump(page, 0)
    expect(page.get_by_text("No pods are pending.").first).to_be_visible()
    watched.go("flow")
    watched.heading("Flow")
