"""Reports of `--html` with hostile text in a browser: nothing of it runs or hides, and the policy of the page forbids what
the escapes would miss.

The commands come from the command line itself: a new one with --html and without a row here fails the test.
"""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import click
import pytest
import yaml
from playwright.sync_api import Browser

from forked_commands import run_mooring
from hostile_text import HOSTILE, MARK, PLUGIN, hostile_objects, write_world
from mooring.cli.main import main
from watched_page import WatchedPage

pytest_plugins = ["browser_fixtures"]
pytestmark = pytest.mark.slow
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OFFERS = [
    {"name": "small", "price": 1, "node": {"status": {"allocatable": {"cpu": "128", "memory": "8Gi", "pods": "110"}}}}
]
CONFIG = HOSTILE.replace("/", "").replace("\0", "")[-200:] + f"{MARK}.json"
"""A report names the configurations by their files, whose names have limits."""
ARGUMENTS = {
    "agree": ["recording", "--plugin", "plugin.py"],
    "capacity": ["pod.json", "--from", "cluster.json", "--plugin", "plugin.py"],
    "explain": ["--from", "cluster.json"],
    "replay": ["recording", "--pod", "default/huge", "--plugin", "plugin.py"],
    "compare": [CONFIG, "default", "--from", "cluster.json"],
    "plan": ["--offer", "offers.yaml", "--from", "cluster.json"],
    "simulate": ["cluster.json", "--explain", "pod", "--plugin", "plugin.py"],
    "study": ["study.yaml"],
    "what-if": ["--drain", "node", "--from", "cluster.json"],
}
SHOW_NAMES_ONLY = {"agree", "capacity", "replay"}
"""Reports about this cluster that have no text which a tenant wrote: names and reasons of our own plugins."""
STRANGE = """() => [...document.querySelectorAll('*')].filter((one) =>
    /^(IMG|IFRAME|OBJECT|EMBED|BASE|SCRIPT|FORM|LINK)$/i.test(one.tagName)
    || [...one.attributes].some((attribute) => attribute.name.startsWith('on') || /^javascript:/i.test(attribute.value))
    || (one.hasAttribute('href') && !one.getAttribute('href').startsWith('#'))
).map((one) => one.outerHTML)"""
ALL_TEXT = """() => [...document.querySelectorAll('*')].flatMap((one) => [
    ...[...one.childNodes].filter((node) => node.nodeType === 3 && one.tagName !== 'STYLE').map((node) => node.data),
    ...['title', 'alt', 'aria-label'].map((name) => one.getAttribute(name) ?? ''),
]).filter((text) => text.trim())"""
ATTACKS = """async () => {
    const refused = [];
    document.addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
    window.ran = [];
    const script = document.createElement('script');
    script.textContent = 'window.ran.push("script")';
    document.body.append(script);
    document.body.insertAdjacentHTML('beforeend', `
        <button id=attack onclick='window.ran.push("handler")'></button>
        <a id=link href='javascript:window.ran.push("link")'>x</a>
        <img src='data:image/gif;base64,R0lGODlhAQABAAAAACw=' onload='window.ran.push("image")'>
        <iframe src='data:text/html,<script>parent.ran.push("frame")</script>'></iframe>
        <p id=styled style='color: rgb(1, 2, 3)'>x</p>`);
    document.getElementById('attack').click();
    document.getElementById('link').click();
    await new Promise((done) => setTimeout(done, 300));
    const colour = getComputedStyle(document.getElementById('styled')).color;
    return { ran: window.ran, refused: [...new Set(refused)].sort(), colour };
}"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    write_world(folder).rename(folder / "cluster.json")
    (folder / "plugin.py").write_text(PLUGIN)
    study = {"apiVersion": "mooring.dev/v1", "kind": "Study", "about": CONFIG, "seeds": 1}
    study["metrics"] = [{"python": "metric.py:hostile"}]
    (folder / "metric.py").write_text(f"def hostile(run):\n    raise ValueError({CONFIG!r})\n")
    study["clusters"] = [{"name": "c", "manifests": "cluster.json"}]
    (folder / "study.yaml").write_text(yaml.safe_dump(study, allow_unicode=True))
    pod = next(item for item in hostile_objects() if item["kind"] == "Pod")
    (folder / "pod.json").write_text(json.dumps({**pod, "metadata": {"name": "copy", "annotations": {"a": HOSTILE}}}))
    recorded = (folder / "cluster.json", "--record", folder / "recording", "--plugin", folder / "plugin.py")
    assert run_mooring("simulate", *recorded).returncode in (0, 1)
    (folder / "offers.yaml").write_text(yaml.safe_dump(OFFERS))
    (folder / CONFIG).write_text(json.dumps({**HEADER, "profiles": [{"schedulerName": HOSTILE}]}))
    return folder


def commands_with_reports() -> Iterator[str]:
    context = click.Context(main)
    for name in main.list_commands(context):
        found = main.get_command(context, name)
        below = found.commands.items() if isinstance(found, click.Group) else [("", found)]
        for verb, each in below:
            if each is not None and any("--html" in option.opts for option in each.params):
                yield f"{name} {verb}".strip()


def test_every_command_with_reports_is_tried() -> None:
    assert sorted(ARGUMENTS) == sorted(commands_with_reports())


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nothing_of_a_tenant_runs_in_a_report(name: str, world: Path, browser: Browser) -> None:
    report = world / f"{name}.html"
    with chdir(world):
        ran = run_mooring(name, *ARGUMENTS[name], "--html", report)
    assert ran.returncode in (0, 1), ran.stderr
    context = browser.new_context()
    watched = WatchedPage(context.new_page(), report.as_uri())
    page = watched.page
    page.goto(watched.link)
    assert page.evaluate(STRANGE) == []
    texts = page.evaluate(ALL_TEXT)
    assert MARK in str(texts) or name in SHOW_NAMES_ONLY
    for text in texts:
        hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and c != "\n"]
        assert not hidden, f"{hidden}: {text!r}"
    assert watched.faults == []
    watched.expected.append("Content Security Policy")
    found = page.evaluate(ATTACKS)
    assert found["ran"] == []
    assert {"frame-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr"} <= set(found["refused"])
    assert found["colour"] != "rgb(1, 2, 3)"
    assert watched.faults == []
    context.close()
