"""Hostile text in every field that the API server accepts it in, on every page of the dashboard: nothing of it runs, and
nothing of it hides.

The pages come from the table of routes: a new page without a row here fails the test. test_hostile_names.py has texts that
the API server would reject, such as names.
"""

import json
import re
import subprocess
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from forked_commands import run_mooring
from hostile_text import HOSTILE, MARK, PLUGIN, hostile_objects, write_world
from running_cluster import PATIENCE_S, command
from shown_cluster import ShownDashboard
from watched_page import Opener, WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
ROUTER = Path(__file__).parents[2] / "web" / "src" / "router.ts"
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PROFILES = [
    {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Hostile"}]}}},
    {"schedulerName": HOSTILE},
]
ASKING_MS = 60_000
"""How long an answer of another process may take."""

ALL_TEXT = """() => [...document.querySelectorAll('*')].flatMap((one) => [
    ...[...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data),
    ...['title', 'alt', 'placeholder', 'aria-label', 'aria-valuetext'].map((name) => one.getAttribute(name) ?? ''),
]).filter((text) => text.trim())"""
STRANGE = """() => [...document.querySelectorAll('*')].filter((one) =>
    /^(IMG|IFRAME|OBJECT|EMBED|BASE)$/i.test(one.tagName)
    || (one.tagName === 'SCRIPT' && !one.getAttribute('src')?.startsWith('assets/'))
    || [...one.attributes].some((attribute) => attribute.name.startsWith('on'))
    || (one.hasAttribute('href') && one.tagName === 'A' && !one.getAttribute('href').startsWith('#'))
).map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster, a plugin and a configuration with the text, and a recording of all of them."""
    folder = tmp_path_factory.mktemp("hostile")
    write_world(folder).rename(folder / "cluster.json")
    (folder / "plugin.py").write_text(PLUGIN)
    (folder / "config.json").write_text(json.dumps({**HEADER, "profiles": PROFILES}))
    ran = run_mooring("simulate", *_files(folder), folder / "cluster.json", "--record", folder / "recording")
    assert ran.returncode in (0, 1), ran.stderr
    return folder


def _files(folder: Path) -> list[str]:
    return ["--plugin", str(folder / "plugin.py"), "--config", str(folder / "config.json")]


@contextmanager
def a_program(*arguments: str) -> Iterator[ShownDashboard]:
    """The dashboard of a program, which tells the link to the command that it runs."""
    told = "echo $MOORING_DASHBOARD; read end"
    with subprocess.Popen(
        command(*arguments, "--exec", told), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None and program.stdin is not None
        link = program.stdout.readline().strip()
        assert link.startswith("http"), link

        def stop() -> None:
            assert program.stdin is not None
            program.stdin.close()  # the command reads its end
            program.wait(PATIENCE_S)

        try:
            yield ShownDashboard(link, [], stop)
        finally:
            stop()


@pytest.fixture(scope="module")
def live(world: Path) -> Iterator[ShownDashboard]:
    with a_program("up", *_files(world), "--cluster", str(world / "cluster.json")) as dashboard:
        yield dashboard


@pytest.fixture(scope="module")
def recorded(world: Path) -> Iterator[ShownDashboard]:
    plugin = ["--plugin", str(world / "plugin.py")]
    with a_program("replay", str(world / "recording"), "--serve", *plugin) as dashboard:
        yield dashboard


# ---- what each page must show before it is checked


def see_cluster(watched: WatchedPage) -> None:
    page = watched.page
    page.get_by_role("button", name="Table").click()
    page.get_by_role("region", name="Nodes as a table").locator("tbody th a").first.click()
    expect(page.get_by_role("table", name="Pods on the node")).to_be_visible()
    expect(page.get_by_role("table", name="Rejections on the node")).to_be_visible(timeout=ASKING_MS)


def see_queue(watched: WatchedPage) -> None:
    table = watched.page.get_by_role("table", name="Pending pods by reason")
    expect(table.get_by_text(MARK).first).to_be_visible()
    pods = watched.page.get_by_role("table", name="Pods that are pending, oldest first")
    expect(pods.get_by_text(MARK).first).to_be_visible()


def claimer() -> str:
    """A pod whose claim has the text as its name."""
    volumes = {
        item["metadata"]["name"]: item["spec"].get("volumes") for item in hostile_objects() if item["kind"] == "Pod"
    }
    return next(
        str(name) for name, each in volumes.items() if each and MARK in str(each[0].get("persistentVolumeClaim"))
    )


def see_pod(watched: WatchedPage) -> None:
    page = watched.page
    for pod in ("pod", claimer()):
        watched.go(f"pod/default/{pod}")
        expect(page.locator("#pod-title")).to_contain_text(f"default/{pod}")
        expect(page.get_by_role("list", name="Story of the pod")).to_contain_text(MARK)
        expect(page.get_by_role("table", name=re.compile("^Rejections by reason"))).to_be_visible(timeout=ASKING_MS)
        check_untouched(watched)


def see_flow(watched: WatchedPage) -> None:
    profile = watched.page.get_by_role("combobox", name="Profile")
    expect(profile.locator("option").filter(has_text=MARK)).to_have_count(1)


def see_what_if(watched: WatchedPage) -> None:
    page = watched.page
    change = page.locator(".add-change")
    change.get_by_role("combobox").first.select_option("drain")
    change.locator("input").fill("node")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("table", name="Pods that change")).to_contain_text(MARK, timeout=ASKING_MS)
    check_untouched(watched)
    page.get_by_role("button", name="Remove").first.click()
    change.locator("input").fill(HOSTILE)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("alert")).to_contain_text(MARK, timeout=ASKING_MS)


def see_replay(watched: WatchedPage) -> None:
    """A live cluster says that it has no time line. Decisions have names and fixed words only."""
    if watched.page.get_by_role("region", name="Time line of the recording").is_visible():
        expect(watched.page.get_by_role("table", name="Decisions of the recording")).to_contain_text("default/pod")
    else:
        expect(watched.page.get_by_text("there is no time line")).to_be_visible()


SEEN: dict[str, tuple[str, Callable[[WatchedPage], None]]] = {
    "cluster": ("Cluster", see_cluster),
    "queue": ("Queue", see_queue),
    "pod": ("Pod", see_pod),
    "flow": ("Flow", see_flow),
    "what-if": ("What-if", see_what_if),
    "replay": ("Replay", see_replay),
}
"""By page: the title, and what brings the text onto it."""


def test_every_page_of_the_routes_is_visited() -> None:
    table = re.search(r"const PAGES: readonly Page\[\] = (\[.*\]);", ROUTER.read_text())
    assert table is not None
    assert json.loads(table[1]) == [*SEEN]


ONLY_LIVE = ("cluster", "queue", "pod", "flow", "what-if")
"""The same code shows these pages for a live cluster and for a recording. `make soak` visits them with both."""
VISITS = [
    pytest.param(page, program, marks=[pytest.mark.soak] if (program, page in ONLY_LIVE) == ("recorded", True) else [])
    for program in ("live", "recorded")
    for page in SEEN
]


@pytest.mark.parametrize(("page", "program"), VISITS)
def test_no_text_runs_or_hides(page: str, program: str, request: pytest.FixtureRequest, open_page: Opener) -> None:
    watched = open_page(request.getfixturevalue(program))
    watched.expected.append("422")  # the question that has the text in it
    title, see = SEEN[page]
    watched.go(page)
    watched.heading(title.replace("-if", " if?"))
    see(watched)
    assert watched.page.title() == f"{title} – Mooring"
    check_untouched(watched)


def check_untouched(watched: WatchedPage) -> None:
    """All of the text is open, all of it is seen, and there are no elements of tenants."""
    page = watched.page
    open_all(page)
    assert page.evaluate(STRANGE) == []
    for text in page.evaluate(ALL_TEXT):
        hidden = [f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
        assert not hidden, f"{hidden}: {text!r}"
        assert not set(text) & set("\u3164\ufe0f\xa0"), f"{text!r}"


def open_all(page: Page) -> None:
    """Show what is cut and folded."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate("document.querySelectorAll('button.more[aria-expanded=false]').forEach((one) => one.click())")
