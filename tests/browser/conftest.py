"""What tests in a browser share: chromium from the distribution's packages with an empty profile, and pages that are watched."""

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from shown_cluster import ShownDashboard
    from watched_page import WatchedPage

CHROMIUM = shutil.which("chromium")
WINDOW = {"width": 1440, "height": 900}
Opener = Callable[..., "WatchedPage"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them take seconds."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """For a module, not for the session: playwright's loop must not run while other tests run theirs."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("chromium is missing: run `make browser`")
    from watched_page import FLAGS

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: "Browser") -> Iterator[Opener]:
    """Opens pages of dashboards; nothing that must not happen may have happened on them."""
    from watched_page import WatchedPage

    opened: list[WatchedPage] = []

    def open_one(dashboard: "ShownDashboard", **more: Any) -> WatchedPage:
        context = browser.new_context(**{"viewport": WINDOW, "reduced_motion": "reduce", **more})
        watched = WatchedPage(context.new_page(), dashboard.link)
        opened.append(watched)
        watched.open()
        return watched

    yield open_one
    for watched in opened:
        watched.page.context.close()
    assert [fault for watched in opened for fault in watched.faults] == []
