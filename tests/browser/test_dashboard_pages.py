"""Each page of the dashboard in a browser, at 5 and at 5,000 nodes, while the cluster changes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from how_many import some_of
from mooring.dashboard.serving.api_paths import DashboardParts
from shown_cluster import ShownCluster, ShownDashboard, shown
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
DRAWN = "document.querySelector('.map canvas').dataset.drawn"


@pytest.fixture(scope="module", params=some_of([5000, 5]), ids="{:,} nodes".format)
def dashboard(request: pytest.FixtureRequest) -> Iterator[ShownDashboard]:
    def parts() -> DashboardParts:
        source = ShownCluster(request.param)
        return DashboardParts(source, "0.0.0")

    with shown(parts) as dashboard:
        yield dashboard
        assert dashboard.faults == []


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> int:
    count: int = request.node.callspec.params["dashboard"]
    return count


def check_accessibility(watched: WatchedPage) -> None:
    assert watched.accessibility_faults() == []


def text_of(page: Page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def wait_for_change(page: Page, selector: str) -> None:
    """Until the text of an element is another one: the stream is alive, and the page shows it."""
    expect(page.locator(selector).first).not_to_have_text(text_of(page, selector), timeout=15_000)


def test_the_cluster_is_a_map_that_follows_changes(
    dashboard: ShownDashboard, nodes: int, open_page: Opener, record_property: Callable[[str, Any], None]
) -> None:
    watched = open_page(dashboard)
    page = watched.page
    for name, when_ms in watched.paints().items():
        record_property(f"{name} at {nodes} nodes, ms", when_ms)
        print(f"{name} at {nodes:,} nodes: {when_ms:.0f} ms")
    watched.heading("Cluster")
    expect(page.locator(".summary")).to_contain_text(f"{nodes:,} nodes")
    wait_for_change(page, ".summary")
    check_accessibility(watched)


def test_the_first_page_says_which_pods_are_pending_and_why(dashboard: ShownDashboard, open_page: Opener) -> None:
    page = open_page(dashboard).page
    expect(page.get_by_text("pending pods; the oldest,")).to_be_visible()
    reasons = page.get_by_role("table", name="Pending pods by reason")
    for text in ("Insufficient cpu", "shop/report-", "30"):
        expect(reasons).to_contain_text(text)
    above, map_box = reasons.bounding_box(), page.get_by_role("application").bounding_box()
    assert above is not None and map_box is not None and above["y"] < map_box["y"]


def test_nodes_are_sorted_by_use_and_counted_by_tenths(
    dashboard: ShownDashboard, nodes: int, open_page: Opener
) -> None:
    watched = open_page(dashboard)
    page = watched.page
    bins = page.locator(".histogram li")
    expect(bins).to_have_count(10)
    counts = [int(text.replace(",", "") or 0) for text in page.locator(".histogram .count").all_inner_texts()]
    assert sum(counts) == nodes
    page.get_by_role("combobox", name="Sort by").select_option("fullest first")
    page.get_by_role("combobox", name="Group by").select_option("")
    page.get_by_role("application").focus()
    shares = []
    for key in ("Home", "End"):
        page.keyboard.press(key)
        line = text_of(page, ".map [aria-live]")
        shares.append(int(line.partition("cpu ")[2].partition(" %")[0]))
    assert shares[0] > shares[1] + 20 or nodes == 5, "uses of 5 nodes are close together, and change while one looks"
    check_accessibility(watched)


def test_only_cells_that_changed_are_drawn_again(dashboard: ShownDashboard, nodes: int, open_page: Opener) -> None:
    page = open_page(dashboard).page
    expect(page.locator(".map canvas").first).to_be_visible()
    wait_for_change(page, ".summary")
    wait_for_change(page, ".summary")
    drawn = int(page.evaluate(DRAWN))
    assert drawn <= min(nodes, 500)


def test_the_map_is_also_a_table(dashboard: ShownDashboard, nodes: int, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    page.get_by_role("button", name="Table").click()
    rows = page.get_by_role("region", name="Nodes as a table").locator("tbody tr")
    expect(rows).to_have_count(min(nodes, 100))
    expect(rows.first).to_contain_text("node-")
    expect(page.get_by_text(f"of {max(1, nodes // 100)}, {nodes:,} nodes")).to_be_visible()
    page.get_by_role("button", name="Number of pods").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Number of pods ▼")
    check_accessibility(watched)


def test_a_node_opens_from_the_map_by_keys(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    surface = page.get_by_role("application")
    surface.focus()
    for key in ("Home", "ArrowRight", "ArrowDown", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
    expect(page.locator(".map [aria-live]")).to_contain_text("node-0: cpu")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Node node-0")).to_be_focused()
    assert page.url.endswith("#/cluster/node/node-0")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("table", name="Room on the node")).to_contain_text("memory")
    expect(panel).to_contain_text("topology.kubernetes.io/zone=eu-1a")
    check_accessibility(watched)
    page.keyboard.press("Escape")
    expect(panel).not_to_be_visible()


def test_a_click_opens_the_node_under_the_pointer(dashboard: ShownDashboard, open_page: Opener) -> None:
    page = open_page(dashboard).page
    surface = page.get_by_role("application")
    expect(surface).to_be_visible()
    surface.hover(position={"x": 5, "y": 25})
    expect(page.locator(".hint")).to_contain_text("node-0: cpu")
    surface.click(position={"x": 5, "y": 25})
    expect(page.get_by_role("heading", name="Node node-0")).to_be_visible()


def test_nodes_are_grouped_coloured_and_found(dashboard: ShownDashboard, nodes: int, open_page: Opener) -> None:
    page = open_page(dashboard).page
    page.get_by_role("combobox", name="Group by").select_option("node.kubernetes.io/instance-type")
    page.get_by_role("combobox", name="Colour").select_option("memory")
    expect(page.locator(".summary")).to_contain_text("memory requested")
    page.get_by_label("Find").fill("node-3")
    found = sum("node-3" in f"node-{at}" for at in range(nodes))
    expect(page.get_by_text(f"{found:,} node{'' if found == 1 else 's'} found")).to_be_visible()
    page.get_by_label("Find").press("Enter")
    expect(page.get_by_role("heading", name="Node node-3")).to_be_visible()


def test_the_queue_has_reasons_and_what_pods_wait_for(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("queue")
    watched.heading("Queue")
    reasons = page.get_by_role("table", name="Pending pods by reason")
    for text in ("Insufficient cpu", "shop/report-", "30"):
        expect(reasons).to_contain_text(text)
    pods = page.get_by_role("table", name="Pods that are pending, oldest first")
    expect(pods).to_contain_text("Node/Add")
    expect(page.locator(".plot canvas")).to_be_visible()
    page.get_by_label("Namespace").fill("edge")
    expect(pods.locator("tbody tr")).to_have_count(6)
    check_accessibility(watched)


def test_a_pending_pod_has_its_story(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("queue")
    page.get_by_label("Name", exact=True).fill("report-3")
    page.get_by_role("link", name="shop/report-3", exact=True).first.click()
    watched.heading("Pod shop/report-3")
    expect(page.locator(".story")).to_contain_text("unschedulable")
    expect(page.locator(".note").first).to_contain_text("Insufficient cpu")
    page.get_by_role("button", name="Copy link").click()
    check_accessibility(watched)


def test_the_flow_has_rates_and_latencies(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("flow")
    watched.heading("Flow")
    expect(page.locator(".plot canvas")).to_have_count(4)
    wait_for_change(page, "main > section > p:last-child")
    page.get_by_role("combobox", name="Profile").select_option("default-scheduler")
    check_accessibility(watched)


@pytest.mark.parametrize("dashboard", [5], ids=["5 nodes"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_have_enough_contrast(dashboard: ShownDashboard, open_page: Opener, scheme: str) -> None:
    watched = open_page(dashboard, color_scheme=scheme)
    assert watched.page.evaluate("document.documentElement.dataset.theme") == scheme
    watched.go("queue")
    watched.heading("Queue")
    check_accessibility(watched)
    other = "light" if scheme == "dark" else "dark"
    watched.page.get_by_label("Theme").select_option(other)
    assert watched.page.evaluate("document.documentElement.dataset.theme") == other
