"""What a dashboard says about itself."""

from dashboard_stage import StagedSource, with_dashboard
from mooring.dashboard.serving.api_paths import DashboardParts


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
