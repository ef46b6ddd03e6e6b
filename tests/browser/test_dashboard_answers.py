"""Questions in a browser: why a pod is pending, what would place it, what a node rejects, and what changes would do."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mooring.dashboard.interfaces import AskedChanges, DoneChanges
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.framework.config import default
from mooring.inputs.offers.price_list import PriceList
from shown_cluster import TYPES, ShownCluster, ShownDashboard, shown
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
of_five_nodes = pytest.mark.parametrize("dashboard", [5], ids=["5 nodes"], indirect=True)
PRICES = PriceList(dict.fromkeys(TYPES, 0.1), unit="EUR an hour")
"""All nodes have the same price, so that sums are easy to check."""
ANSWER_MS = 60_000
"""How long a question may take: the limit of the server."""


class NotedDoings:
    """Notes what it is asked to do."""

    def __init__(self, done: list[tuple[str, str]]) -> None:
        self._done = done

    async def do(self, changes: AskedChanges) -> DoneChanges:
        self._done.extend((change.change, change.value) for change in changes.changes)
        return DoneChanges(
            [f"{change.change} {change.value}" for change in changes.changes], ["evict shop/x: no budget"]
        )


done: list[tuple[str, str]] = []


@pytest.fixture(scope="module", params=[5, pytest.param(5000, marks=pytest.mark.soak)], ids=["5 nodes", "5,000 nodes"])
def dashboard(request: pytest.FixtureRequest) -> Iterator[ShownDashboard]:
    def parts() -> DashboardParts:
        source = ShownCluster(request.param)
        questions = ChildQuestions(source, lambda: AskedScheduler(default(), prices=PRICES))
        return DashboardParts(source, "0.0.0", questions, NotedDoings(done), prices=PRICES)

    with shown(parts) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def ask_what_if(watched: WatchedPage, *changes: tuple[str, str]) -> None:
    page = watched.page
    watched.go("what-if")
    watched.heading("What if?")
    for title, value in changes:
        page.get_by_role("combobox", name="Change").select_option(label=title)
        page.locator(".add-change .wide :is(input, textarea)").fill(value)
        page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()


@of_five_nodes
def test_money_is_on_the_page_of_the_cluster_of_a_node_and_of_an_answer(
    dashboard: ShownDashboard, open_page: Opener
) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("cluster")
    expect(page.locator(".summary")).to_contain_text(re.compile(r"; 0\.5 EUR an hour, 0\.\d+ EUR of it idle$"))
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("button", name="Price an hour")).to_be_visible()
    assert page.get_by_role("cell", name="0.1 EUR", exact=True).count() == 5
    watched.go("cluster/node/node-1")
    expect(page.get_by_text("The node costs 0.1 EUR an hour.")).to_be_visible()
    ask_what_if(watched, ("Add nodes", "2=node-0"))
    told = page.get_by_text(
        "Nodes cost 0.5 EUR an hour before and 0.7 EUR an hour after: 0.2 EUR more an hour, 146 EUR"
    )
    expect(told).to_be_visible(timeout=ANSWER_MS)


def test_a_pending_pod_has_reasons_and_cures(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("pod/shop/report-3")
    reasons = page.get_by_role("table", name="Rejections by reason")
    expect(reasons).to_contain_text("Insufficient cpu", timeout=ANSWER_MS)
    expect(reasons).to_contain_text("cpu: wants 64, but no node is large enough")
    expect(page.get_by_role("heading", name="What would place it")).to_be_visible()
    assert watched.accessibility_faults() == []


def test_a_placed_pod_has_scores_as_bars(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("pod/shop/cart-0")
    bars = page.locator(".stack")
    expect(bars.first).to_be_visible(timeout=ANSWER_MS)
    assert bars.first.get_attribute("aria-label") is not None
    page.get_by_text("Scores as a table").click()
    expect(page.get_by_role("table", name="Scores by plugin")).to_contain_text("node-")
    assert watched.accessibility_faults() == []


def test_a_node_says_why_pods_are_rejected_there(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("cluster/node/node-3")
    rejections = watched.page.get_by_role("table", name="Rejections on the node")
    expect(rejections).to_contain_text("untolerated taint", timeout=ANSWER_MS)


def test_a_drain_shows_its_difference_in_tables_and_on_the_map(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    ask_what_if(watched, ("Add nodes", "1=node-1"), ("Drain nodes", "node-1"))
    expect(page.get_by_role("heading", name="The difference")).to_be_visible(timeout=ANSWER_MS)
    expect(page.get_by_role("table", name="Before and after")).to_contain_text("cluster")
    for side in ("Before", "After", "Difference"):
        page.get_by_role("button", name=side, exact=True).click()
        expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile(f": {side.lower()}"))
    assert watched.accessibility_faults() == []


@of_five_nodes
def test_what_the_command_would_refuse_is_told_in_its_words(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.expected.append("422")
    ask_what_if(watched, ("Drain nodes", "node-x"))
    trouble = watched.page.get_by_role("alert")
    expect(trouble).to_contain_text("node-x", timeout=ANSWER_MS)
    expect(trouble).to_contain_text("Correct the change that the message names and ask again.")


@of_five_nodes
def test_changes_are_carried_out_only_after_a_confirmation(dashboard: ShownDashboard, open_page: Opener) -> None:
    done.clear()
    watched = open_page(dashboard)
    page = watched.page
    watched.go("what-if")
    page.locator(".add-change input").fill("node-2")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Do it …").click()
    asked = page.get_by_role("dialog", name="Carry out 1 change?")
    expect(asked).to_contain_text("drain node-2")
    expect(asked.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(asked).not_to_be_visible()
    assert done == []
    page.get_by_role("button", name="Do it …").click()
    asked.get_by_role("button", name="Do it").click()
    expect(page.get_by_text("1 done, 1 failed.")).to_be_visible()
    assert done == [("drain", "node-2")]


@of_five_nodes
def test_a_taint_is_for_questions_only(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("what-if")
    page.get_by_role("combobox", name="Change").select_option(label="Taint nodes")
    page.locator(".add-change input").fill("node-1=a=b:NoSchedule")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("button", name="Do it …")).to_be_disabled()
    expect(page.get_by_text("the dashboard only answers what this would do")).to_be_visible()


@of_five_nodes
def test_changes_can_be_ordered_and_removed(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("what-if")
    for value in ("node-1", "node-2"):
        add(page, value)
    page.get_by_role("button", name="Move change 2 up").click()
    lines = page.locator(".changes li")
    expect(lines.first).to_contain_text("node-2")
    page.get_by_role("button", name="Remove change 1").click()
    expect(lines).to_have_count(1)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("enter a value such as")


def add(page: Page, value: str) -> None:
    page.locator(".add-change input").fill(value)
    page.get_by_role("button", name="Add", exact=True).click()
