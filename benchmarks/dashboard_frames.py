"""Frames of the dashboard's map in a browser: how many a second, and what a frame costs the page in processor time.

    python benchmarks/dashboard_frames.py                          5,000 nodes, 5 s of each movement
    python benchmarks/dashboard_frames.py --nodes 20000 --only hover,scroll --seconds 2

A headless chromium shows the map while pods come and go. Frames are counted with requestAnimationFrame. On a busy machine
frames a second say little: `page_cpu_ms` is the processor time of the page's main thread for each frame (scripts, styles,
layout and paint; time in which it waits for a core does not count). At 60 frames a second a frame has 16.7 ms. All movements
happen while the cluster changes. Prints JSON. It needs chromium: `make programs`.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, pairwise
from pathlib import Path
from time import monotonic
from typing import Any

from playwright.sync_api import CDPSession, Page, ViewportSize, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from mooring.dashboard.serving.api_paths import DashboardParts
from shown_cluster import ShownCluster, shown
from watched_page import FLAGS, WatchedPage

WINDOW: ViewportSize = {"width": 1440, "height": 900}
PATIENCE_MS = 60_000
COUNT_FRAMES = """() => {
  const times = (window.frameTimes = []);
  const count = (now) => { times.push(now); window.frameCount = requestAnimationFrame(count); };
  window.frameCount = requestAnimationFrame(count);
}"""
COUNTED = "() => { cancelAnimationFrame(window.frameCount); return window.frameTimes; }"
_PARTS = {"TaskDuration": "page_cpu_ms", "ScriptDuration": "script_ms", "LayoutDuration": "layout_ms"}
"""Metrics of the page, in seconds of its main thread -> what they are called here, for each frame."""


# ---- movements, each for some seconds


def idle(page: Page, until_s: float) -> None:
    """Live changes alone."""
    page.wait_for_timeout(max(0.0, until_s - monotonic()) * 1000)


def hover(page: Page, until_s: float) -> None:
    """The pointer goes over the cells, row by row."""
    box = page.get_by_role("application").bounding_box()
    assert box is not None, "the map is not shown"
    width, height = box["width"], min(box["height"], WINDOW["height"] - box["y"])
    for step in _steps(until_s):
        page.mouse.move(box["x"] + step * 7 % width, box["y"] + step * 7 // width * 9 % height)


def scroll(page: Page, until_s: float) -> None:
    """The page goes up and down under the pointer."""
    for step in _steps(until_s):
        page.mouse.wheel(0, 40 if step // 20 % 2 == 0 else -40)


def keys(page: Page, until_s: float) -> None:
    """The cursor goes from cell to cell."""
    page.get_by_role("application").focus()
    for step in _steps(until_s):
        page.keyboard.press("ArrowRight" if step % 50 else "ArrowDown")


def colour(page: Page, until_s: float) -> None:
    """All cells get the colours of another resource, again and again."""
    _choose(page, "Colour", until_s)


def group(page: Page, until_s: float) -> None:
    """All cells go to other places."""
    _choose(page, "Group by", until_s)


def resize(page: Page, until_s: float) -> None:
    """The window gets narrower and wider, and the map is laid out again."""
    for step in _steps(until_s):
        page.set_viewport_size({"width": WINDOW["width"] - step % 20 * 20, "height": WINDOW["height"]})
    page.set_viewport_size(WINDOW)


def _steps(until_s: float) -> Iterator[int]:
    step = 0
    while monotonic() < until_s:
        yield step
        step += 1


def _choose(page: Page, label: str, until_s: float) -> None:
    """One option after another, three a second: each is drawn."""
    picked = page.get_by_label(label, exact=False).first
    values: list[str] = picked.evaluate("(select) => [...select.options].map((option) => option.value)")
    for value in cycle(values):
        if monotonic() >= until_s:
            picked.select_option(values[0])
            return
        picked.select_option(value)
        page.wait_for_timeout(300)


MOVEMENTS: dict[str, Callable[[Page, float], None]] = {
    each.__name__: each for each in (idle, hover, scroll, keys, colour, group, resize)
}


# ---- measuring


def measure(page: Page, session: CDPSession, movement: Callable[[Page, float], None], seconds: float) -> dict[str, Any]:
    page.evaluate(COUNT_FRAMES)
    before = _times_s(session)
    movement(page, monotonic() + seconds)
    after = _times_s(session)
    return frame_figures(page.evaluate(COUNTED), {name: after[name] - before[name] for name in _PARTS})


def frame_figures(times_ms: Sequence[float], spent_s: dict[str, float]) -> dict[str, Any]:
    """Figures of the frames at these times; `spent_s` is by metric."""
    frames = len(times_ms) - 1
    if frames < 1:
        raise SystemExit("dashboard_frames: the page drew no frame; is the machine too busy? try --seconds 10")
    apart_ms = sorted(end - begin for begin, end in pairwise(times_ms))
    return {
        "frames": frames,
        "frames_a_second": round(1000 * frames / (times_ms[-1] - times_ms[0]), 1),
        "apart_p50_ms": round(apart_ms[frames // 2], 1),
        "apart_p95_ms": round(apart_ms[min(frames - 1, frames * 95 // 100)], 1),
        **{name: round(1000 * spent_s[metric] / frames, 2) for metric, name in _PARTS.items()},
    }


def _times_s(session: CDPSession) -> dict[str, float]:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in metrics if each["name"] in _PARTS}


@contextmanager
def opened(nodes: int) -> Iterator[tuple[Page, CDPSession]]:
    """The map in a browser, with metrics in processor time."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("dashboard_frames: chromium is missing: run `make programs`")
    expect.set_options(timeout=PATIENCE_MS)
    with shown(lambda: DashboardParts(ShownCluster(nodes), "0.0.0")) as dashboard, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        watched = WatchedPage(browser.new_context(viewport=WINDOW).new_page(), dashboard.link)
        watched.open()
        expect(watched.page.locator(".map canvas").first).to_be_visible()
        session = watched.page.context.new_cdp_session(watched.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        yield watched.page, session
        browser.close()
        if watched.faults or dashboard.faults:
            raise SystemExit(f"dashboard_frames: {[*watched.faults, *dashboard.faults]}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each movement")
    parser.add_argument("--only", default=",".join(MOVEMENTS), help="movements with commas between them")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if unknown := [name for name in names if name not in MOVEMENTS]:
        parser.error(f"no movement {unknown[0]!r}; the movements are {', '.join(MOVEMENTS)}")
    with opened(options.nodes) as (page, session):
        found = {name: measure(page, session, MOVEMENTS[name], options.seconds) for name in names}
    load = os.getloadavg()[0]
    print(json.dumps({"nodes": options.nodes, "machine_load": round(load, 1), "movements": found}, indent=2))


if __name__ == "__main__":
    main()
