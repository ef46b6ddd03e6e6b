"""Names, labels and messages of the API are hostile input: the dashboard shows them as text, and nothing of them runs."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from build import a_node, a_pod
from dashboard_stage import StagedSource
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.framework.config import default
from shown_cluster import ShownDashboard, shown
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>document.title='owned'</script>",
    "javascript:alert(1)",
    "right\u202eto\u202cleft\u0000\u200b",
    "e" + "\u0301" * 300,
    "long" * 60,
    "{{7*7}}${alert(1)}<!--",
    "../../api/do?x=1#y%2e",
)
MARKUP = (
    "[...document.querySelectorAll('img, iframe, object, script:not([src^=assets]), [onerror]')]"
    ".map((one) => one.outerHTML)"
)


def hostile_parts() -> DashboardParts:
    """Every text that an object has is one of them."""
    source = StagedSource()
    for at, text in enumerate(HOSTILE):
        labels = {"topology.kubernetes.io/zone": text, text: text}
        source.add(a_node(text, labels=labels, taints=[f"{text}={text}:NoSchedule"] if at == 0 else ()))
        source.add(a_pod(text, namespace=text, cpu="100", labels={text: text}, nodeSelector={"<b>": text}))
        source.add(a_pod(f"{text}-gated", namespace=text, schedulingGates=[{"name": text}]))
        source.add(a_pod(f"{text}-placed", namespace=text, cpu="1", nodeName=text, labels={text: text}))
    source.driver.settle()
    return DashboardParts(source, "0.0.0")


@pytest.fixture(scope="module")
def dashboard() -> Iterator[ShownDashboard]:
    with shown(hostile_parts) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def check_untouched(watched: WatchedPage, title: str) -> None:
    assert watched.page.title() == f"{title} – Mooring"
    assert watched.page.evaluate(MARKUP) == []
    assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_map_and_its_table_show_them_as_text(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    expect(page.locator(".summary")).to_contain_text(f"{len(HOSTILE)} nodes")
    surface = page.get_by_role("application")
    surface.focus()
    for _ in HOSTILE:
        page.keyboard.press("ArrowRight")
    check_untouched(watched, "Cluster")
    page.get_by_role("button", name="Table").click()
    table = page.get_by_role("region", name="Nodes as a table")
    for text in ("<img src=x onerror=alert(1)>", "right‹U+202E›to‹U+202C›left‹U+0000›‹U+200B›", "‹+298 marks›"):
        expect(table).to_contain_text(text)
    check_untouched(watched, "Cluster")


def test_a_cut_name_is_shown_whole_on_request(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    page.get_by_role("button", name="Table").click()
    row = page.get_by_role("row").filter(has_text="longlong").first
    name = row.locator("th .text")
    expect(name.locator("bdi")).to_have_text(HOSTILE[5][:22] + "…" + HOSTILE[5][-17:])
    name.get_by_role("button").click()
    expect(name.locator("bdi")).to_have_text(HOSTILE[5])
    check_untouched(watched, "Cluster")


def test_the_panel_of_a_node_shows_them_as_text(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    page.get_by_role("button", name="Table").click()
    for at in range(len(HOSTILE)):
        see_panel(watched, at)


def see_panel(watched: WatchedPage, at: int) -> None:
    page = watched.page
    page.get_by_role("region", name="Nodes as a table").locator("tbody th a").nth(at).click()
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="Room")).to_be_visible()
    expect(panel.get_by_role("table", name="Pods on the node").locator("tbody tr")).to_have_count(1)
    check_untouched(watched, "Cluster")
    panel.get_by_role("button", name="Close the panel of the node").click()
    expect(panel).to_have_count(0)


def test_the_queue_and_a_pod_show_them_as_text(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("queue")
    rows = page.get_by_role("table", name="Pods that are pending, oldest first").locator("tbody tr")
    expect(rows).to_have_count(2 * len(HOSTILE))
    check_untouched(watched, "Queue")
    links = [link.get_attribute("href") for link in rows.locator("th a").all()]
    for link in links:
        assert link is not None and link.startswith("#/pod/")
        watched.go(link.removeprefix("#/"))
        expect(page.locator(".facts")).to_be_visible()
        check_untouched(watched, "Pod")


def asked_parts() -> DashboardParts:
    """The same objects, with answers from processes that read them."""
    source = hostile_parts().source
    return DashboardParts(source, "0.0.0", ChildQuestions(source, lambda: AskedScheduler(default())))


@pytest.fixture
def asked() -> Iterator[ShownDashboard]:
    with shown(asked_parts) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def test_answers_show_them_as_text(asked: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(asked)
    watched.expected.append("422")  # the name reads as a selector
    page = watched.page
    watched.go("queue")
    page.locator("tbody th a").filter(has_text="<img").first.click()
    cures = page.get_by_role("table", name="Changes that would place the pod")
    expect(cures).to_contain_text("remove the scheduling gate <img", timeout=60_000)
    check_untouched(watched, "Pod")
    watched.go("what-if")
    page.locator(".add-change input").fill(HOSTILE[0])
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("alert")).to_contain_text("onerror", timeout=60_000)
    check_untouched(watched, "What-if")
