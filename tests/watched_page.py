"""A page of a browser that notices what must not happen: errors on the console, dialogs, violations of the content security
policy, and requests to other servers."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, expect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAINTS = "performance.getEntriesByType('paint').map((entry) => [entry.name, entry.startTime])"


class WatchedPage:
    """`faults` must be empty in the end; `expected` are parts of messages that a test provokes."""

    def __init__(self, page: Page, link: str) -> None:
        self.page, self.link = page, link
        self.faults: list[str] = []
        self.expected: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        """A violation of the policy is an error on the console as well."""
        is_expected = any(part in message.text for part in self.expected)
        if message.type in ("error", "warning") and not is_expected:
            self.faults.append(f"console: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        there, here = urlsplit(request.url), urlsplit(self.link)
        if there.scheme != "data" and there.netloc != here.netloc:
            self.faults.append(f"request to another server: {request.url}")

    def open(self) -> None:
        """By the printed link; the token leaves the address."""
        self.page.goto(self.link)
        expect(self.page.locator(".state-live")).to_be_visible()
        assert "token" not in self.page.url

    def go(self, page: str) -> None:
        """To a page by its address."""
        self.page.evaluate("(hash) => { location.hash = hash; }", f"#/{page}")

    def heading(self, text: str) -> None:
        expect(self.page.get_by_role("heading", level=1, name=text)).to_be_visible()

    def paints(self) -> dict[str, float]:
        """Milliseconds from the start of the navigation to the first paints."""
        return {name: float(when) for name, when in self.page.evaluate(PAINTS)}

    def accessibility_faults(self) -> list[str]:
        """What axe finds serious or critical."""
        self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
        found: list[dict[str, Any]] = self.page.evaluate(
            "axe.run({resultTypes: ['violations']}).then((all) => all.violations)"
        )
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


Opener = Callable[..., WatchedPage]
"""Opens a dashboard in a new context, which takes more settings of playwright by name."""
