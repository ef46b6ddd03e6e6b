"""What tests in a browser share: chromium with an empty profile, and pages that are watched. A plugin of pytest, since only
the folder of all tests has a conftest.py."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright

from programs import CHROMIUM
from shown_cluster import ShownDashboard
from watched_page import FLAGS, Opener, WatchedPage

PATIENCE_MS = 20_000
"""How long a page may take to show something. CI runs other tests beside these."""
WINDOW: ViewportSize = {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For a module, not for the session: playwright's loop must not run while other tests run theirs."""
    chromium = CHROMIUM.required()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens pages of dashboards; nothing that must not happen may have happened on them."""
    opened: list[WatchedPage] = []

    def open_one(dashboard: ShownDashboard, **more: Any) -> WatchedPage:
        context = browser.new_context(**{"viewport": WINDOW, "reduced_motion": "reduce", **more})
        watched = WatchedPage(context.new_page(), dashboard.link)
        opened.append(watched)
        watched.open()
        return watched

    yield open_one
    for watched in opened:
        watched.page.context.close()
    assert [fault for watched in opened for fault in watched.faults] == []
