"""The dashboard by keyboard alone, without a token, and while its server goes away and comes back."""

from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard_stage import TOKEN
from mooring.dashboard.serving.api_paths import DashboardParts
from shown_cluster import ShownCluster, ShownDashboard, shown
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const name = one.getAttribute('aria-label') ?? one.textContent.trim().slice(0, 40);
  return [name, style.outlineStyle !== 'none' && style.outlineWidth];
}"""
STREAMS = 8
"""The contract: how many streams a dashboard has."""


def small() -> DashboardParts:
    return DashboardParts(ShownCluster(5), "0.0.0")


@pytest.fixture(scope="module")
def dashboard() -> Iterator[ShownDashboard]:
    with shown(small) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def test_tab_reaches_everything_and_the_focus_is_visible(dashboard: ShownDashboard, open_page: Opener) -> None:
    page = open_page(dashboard).page
    expect(page.get_by_role("application")).to_be_visible()
    walked = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(FOCUSED)
        walked.append(name)
        assert outline not in (False, "0px"), name
        if name.startswith("Map of 5 nodes"):
            break
    pages = ["Cluster", "Queue", "Pod", "Flow", "What-if"]
    assert walked[:6] == ["Skip to content", *pages]
    assert walked[-1].startswith("Map of 5 nodes")


def test_the_skip_link_leads_to_the_content(dashboard: ShownDashboard, open_page: Opener) -> None:
    page = open_page(dashboard).page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_keys_open_pages_and_the_list_of_keys(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    for key, heading in (("2", "Queue"), ("4", "Flow"), ("3", "Pod"), ("1", "Cluster")):
        page.keyboard.press(key)
        watched.heading(heading)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Arrows")
    page.keyboard.press("2")
    watched.heading("Cluster")
    page.keyboard.press("Escape")
    expect(keys).not_to_be_visible()
    page.get_by_label("Find").press_sequentially("2?")
    watched.heading("Cluster")


def opened_without_token(browser: Browser, dashboard: ShownDashboard) -> WatchedPage:
    watched = WatchedPage(browser.new_context().new_page(), dashboard.link)
    watched.expected.append("401")
    watched.page.goto(dashboard.link.partition("#")[0])
    return watched


def enter_token(page: Page, token: str) -> None:
    page.get_by_role("dialog").get_by_label("Token").fill(token)
    page.get_by_role("button", name="Use this token").click()


def test_a_page_without_a_token_asks_for_one(dashboard: ShownDashboard, browser: Browser) -> None:
    watched = opened_without_token(browser, dashboard)
    page = watched.page
    expect(page.get_by_role("dialog", name="The server wants a token")).to_be_visible()
    enter_token(page, "another-token")
    expect(page.locator(".state")).to_have_text("token needed")
    expect(page.get_by_role("dialog")).to_be_visible()
    enter_token(page, TOKEN)
    expect(page.locator(".state")).to_have_text("live")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    assert watched.faults == []
    page.context.close()


def test_a_lost_connection_is_told_and_found_again(open_page: Opener) -> None:
    with ExitStack() as first:
        dashboard = first.enter_context(shown(small))
        watched = open_page(dashboard)
        watched.expected.extend(("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"))
        page = watched.page
        expect(page.locator(".summary")).to_contain_text("5 nodes")
        dashboard.stop_server()
        trouble = page.get_by_role("alert")
        expect(trouble).to_contain_text("The server of the dashboard does not answer. Check that mooring still runs")
        expect(trouble).to_contain_text("Next attempt in")
        expect(page.locator(".summary")).to_contain_text("5 nodes")
    with shown(small, urlsplit(dashboard.link).port or 0):
        page.get_by_role("button", name="Reconnect now").click()
        expect(page.locator(".state")).to_have_text("live")
        expect(trouble).not_to_be_visible()


def a_stream(link: str) -> HTTPConnection:
    connection = HTTPConnection(urlsplit(link).netloc)
    connection.request("GET", "/dashboard/api/stream", headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 200
    return connection


def test_a_page_that_finds_all_streams_taken_says_so_and_polls(browser: Browser) -> None:
    with shown(small) as dashboard:
        taken = [a_stream(dashboard.link) for _ in range(STREAMS)]
        watched = WatchedPage(browser.new_context().new_page(), dashboard.link)
        watched.expected.append("503")
        watched.page.goto(dashboard.link)
        expect(watched.page.locator(".state")).to_have_text("every 10 s")
        expect(watched.page.locator(".trouble")).to_contain_text("8 streams are open")
        for connection in taken:
            connection.close()
        watched.page.context.close()
        assert (watched.faults, dashboard.faults) == ([], [])
