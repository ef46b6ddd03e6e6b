"""Pod groups in a browser: a member of a pending gang is explained with its group."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from build import a_node
from dashboard_stage import StagedSource
from gangs import GROUP_GATES, a_group, a_member
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.framework.config import default
from shown_cluster import ShownDashboard, shown
from watched_page import Opener

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
ANSWER_MS = 60_000
"""How long a question may take: the limit of the server."""


@pytest.fixture(scope="module")
def dashboard() -> Iterator[ShownDashboard]:
    def parts() -> DashboardParts:
        members = [a_member(f"p{i}") for i in range(4)]
        source = StagedSource(a_node("n1", cpu="3"), a_group("gang", 4), *members, gates=GROUP_GATES)
        while source.driver.attempt_once() is not None:
            pass
        questions = ChildQuestions(source, lambda: AskedScheduler(default(feature_gates=GROUP_GATES), GROUP_GATES))
        return DashboardParts(source, "0.0.0", questions)

    with shown(parts) as dashboard:
        yield dashboard
        assert dashboard.faults == []


def test_a_member_of_a_pending_gang_has_the_reasons_and_cures_of_the_group(
    dashboard: ShownDashboard, open_page: Opener
) -> None:
    watched = open_page(dashboard)
    page = watched.page
    watched.go("pod/default/p0")
    reasons = page.get_by_role("table", name="Rejections by reason")
    expect(reasons).to_contain_text("Insufficient cpu", timeout=ANSWER_MS)
    expect(page.get_by_text("It is scheduled with its group")).to_contain_text("there is room for 3 of 4 pods")
    expect(page.get_by_role("heading", name="What would place its group")).to_be_visible()
    cures = page.get_by_role("table", name="Changes that would place the group")
    expect(cures).to_contain_text("create the PodGroup again with minCount 3 instead of 4")
    assert watched.accessibility_faults() == []


def test_the_queue_has_one_line_for_the_group(dashboard: ShownDashboard, open_page: Opener) -> None:
    watched = open_page(dashboard)
    watched.go("queue")
    lines = watched.page.get_by_role("table", name="Pending pods by reason").get_by_role("row")
    expect(lines).to_have_count(2)  # with the head
    expect(lines.last).to_contain_text("PodGroup default/gang: Insufficient cpu")
