"""Pictures of each page at 5,000 nodes for the documentation: `make screenshots`.

pytest collects this file only when it is named."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.framework.config import default
from mooring.kit.version import VERSION
from shown_cluster import ShownCluster, ShownDashboard, recorded_parts, shown
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
IMAGES = Path(__file__).parents[2] / "docs/images"
ANSWER_MS = 60_000
DAY: list[dict[str, Any]] = [
    {"at": "0s", "every": "10ms", "until": "40s", "name": "web", "cpu": "2", "memory": "6Gi", "run": "70s"},
    {"at": "20s", "every": "5ms", "until": "35s", "name": "batch", "cpu": "3", "memory": "4Gi", "run": "40s"},
    {"at": "60s", "every": "20ms", "until": "110s", "name": "night", "cpu": "1", "memory": "2Gi"},
]
SETTLED_MS = 8_000
"""Plots begin with the server: some seconds give them a line to show."""


@pytest.fixture(scope="module")
def dashboard() -> Iterator[ShownDashboard]:
    def parts() -> DashboardParts:
        source = ShownCluster(5000)
        return DashboardParts(source, VERSION, ChildQuestions(source, lambda: AskedScheduler(default())))

    with shown(parts) as dashboard:
        yield dashboard


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[ShownDashboard]:
    with shown(lambda: recorded_parts(tmp_path, 5000, DAY)) as recording:
        yield recording


def picture(watched: WatchedPage, name: str, *, whole: bool = False) -> None:
    """Of the window, or of the whole page."""
    IMAGES.mkdir(exist_ok=True)
    watched.page.screenshot(path=IMAGES / f"dashboard-{name}.png", full_page=whole)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cluster(dashboard: ShownDashboard, open_page: Opener, scheme: str) -> None:
    watched = open_page(dashboard, color_scheme=scheme)
    watched.go("cluster/node/node-13")
    expect(watched.page.get_by_role("table", name="Rejections on the node")).to_be_visible(timeout=ANSWER_MS)
    picture(watched, "cluster" if scheme == "light" else "cluster-dark")


def test_queue(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("queue")
    watched.page.wait_for_timeout(SETTLED_MS)
    picture(watched, "queue")


def test_pending_pod(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("pod/ml/train-3")
    expect(watched.page.get_by_role("table", name="Rejections by reason")).to_be_visible(timeout=ANSWER_MS)
    picture(watched, "pod", whole=True)


def test_placed_pod(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("pod/shop/cart-0")
    expect(watched.page.locator(".stack").first).to_be_visible(timeout=ANSWER_MS)
    picture(watched, "scores")


def test_flow(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("flow")
    watched.page.wait_for_timeout(SETTLED_MS)
    picture(watched, "flow")


def test_what_if(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard, viewport={"width": 1440, "height": 1400})
    page = watched.page
    watched.go("what-if")
    page.locator(".add-change input").fill("topology.kubernetes.io/zone=eu-1b")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("heading", name="On the map")).to_be_visible(timeout=ANSWER_MS)
    expect(page.get_by_role("table", name="Pods that change")).to_be_visible()
    picture(watched, "what-if")


def test_replay(recording: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(recording)
    page = watched.page
    watched.go("replay")
    line = page.get_by_role("region", name="Time line of the recording")
    line.get_by_label("Decision").fill("6000")
    line.get_by_role("button", name="Jump").click()
    expect(line.get_by_role("status")).to_contain_text("decision 6,000 of", timeout=ANSWER_MS)
    expect(page.locator(".link[aria-current=true]")).to_have_text("6,000")
    picture(watched, "replay")
