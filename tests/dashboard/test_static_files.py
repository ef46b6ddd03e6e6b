"""The built front end is served to everyone, and nothing else is."""

from typing import Any

import pytest

from dashboard_stage import StagedClient, StagedSource, with_dashboard
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import NOT_BUILT, static_reply


def asked(path: str, method: str = "GET") -> tuple[int, Any, Any]:
    """What a client without a token gets."""

    async def test(client: StagedClient) -> tuple[int, Any, Any]:
        return await client.ask(method, path, {})

    return with_dashboard(DashboardParts(StagedSource(), "1.2.3"), test)


def test_the_index_is_open_and_checked_again_each_time() -> None:
    status, body, headers = asked("/dashboard/")
    assert (status, body) == (200, b"<!doctype html><title>Mooring</title>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-cache"
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]


def test_a_hashed_file_is_kept_for_ever() -> None:
    status, body, headers = asked("/dashboard/assets/index-4f2a.js")
    assert (status, body) == (200, b"export {}")
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/", "/dashboard"])
def test_short_paths_lead_to_the_dashboard(path: str) -> None:
    status, _, headers = asked(path)
    assert (status, headers["Location"]) == (307, "/dashboard/")


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/assets/../../../../etc/passwd",
        "/dashboard/..%2f..%2fetc%2fpasswd",
        "/dashboard/%2e%2e/%2e%2e/interfaces.py",
        "/dashboard/assets/..\\..\\index.html",
        "/dashboard//etc/passwd",
        "/dashboard/assets/",
        "/dashboard/index.html%00.js",
        "/etc/passwd",
    ],
)
def test_no_path_leads_elsewhere(path: str) -> None:
    status, body, _ = asked(path)
    assert status == 404
    assert body == {"message": "there is no such path in the dashboard"}


def test_files_cannot_be_written() -> None:
    assert asked("/dashboard/", "PUT")[0] == 405


def test_a_package_without_the_front_end_says_how_to_build_it() -> None:
    reply = static_reply("", {})
    assert reply is not None
    assert (reply.status, reply.body) == (503, NOT_BUILT)
    assert b"make web" in NOT_BUILT
