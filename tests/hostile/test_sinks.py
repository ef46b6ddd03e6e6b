"""Text of tenants in every sink: a hostile text in all fields, sent through all commands and forms of output.

The commands come from the command line itself: a new one without a row here fails the test.
"""

import csv
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from forked_commands import run_mooring, start_mooring
from hostile_text import FORGED, HOSTILE, MARK, PLUGIN, write_world
from how_many import some_of
from mooring.cli.main import main
from programs import BASH
from running_cluster import a_process, command

ROOT = Path(__file__).parents[2]
CLI = ROOT / "src" / "mooring" / "cli"
OFFERS = """\
- {name: small, price: 1, node: {status: {allocatable: {cpu: "128", memory: 8Gi, pods: "110"}}}}
"""


@dataclass(frozen=True)
class World:
    """Files with the hostile text."""

    folder: Path
    cluster: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("sinks")
    world = World(folder, write_world(folder))
    world["plugin.py"].write_text(PLUGIN)
    world["offers.yaml"].write_text(OFFERS)
    items = json.loads(world.cluster.read_text())["items"]
    pod = next(item for item in items if item["kind"] == "Pod")
    world["pod.json"].write_text(json.dumps({**pod, "metadata": {"name": "copy", "annotations": {"a": HOSTILE}}}))
    world["day.json"].write_text(json.dumps([{"at": 0, "run": "60s", "pod": pod}]))
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    world["config.json"].write_text(json.dumps({**header, "profiles": [{"schedulerName": HOSTILE}]}))
    world["bad.json"].write_text(json.dumps({**header, "profiles": [{"schedulerName": "x", "plugins": {HOSTILE: 1}}]}))
    scenario = {"name": HOSTILE, "config": None, "objects": items, "pods": ["default/pod", f"default/{HOSTILE}"]}
    world["scenario.json"].write_text(json.dumps(scenario))
    study = {"apiVersion": "mooring.dev/v1", "kind": "Study", "about": HOSTILE, "metrics": ["placed"], "seeds": 1}
    study["clusters"] = [{"name": HOSTILE, "manifests": str(world.cluster)}]
    world["study.json"].write_text(json.dumps(study))
    world["bad-study.json"].write_text(json.dumps({**study, "seeds": [HOSTILE]}))
    contexts = [{"name": name, "context": {}} for name in (HOSTILE, "plain")]
    world["kubeconfig"].write_text(yaml.safe_dump({"contexts": contexts}))
    return world


# ---- all commands

ASKING = ("--from", "{cluster}")
RUNS: dict[str, list[list[str]]] = {
    "simulate": [
        ["{cluster}", "-o", "wide"],
        ["{cluster}", "--explain", "pod", "--explain", "huge", "--story", "pod", "--plugin", "{plugin.py}", "--debug"],
        ["{cluster}", "--arrivals", "{day.json}", "--results", "{stays.csv}", "-o", "wide"],
        ["{cluster}", "--html", "{simulate.html}", "-o", "json"],
        ["{cluster}", "-o", "yaml"],
        ["{cluster}", "--record", "{recording}"],
        ["{cluster}", "--explain", HOSTILE.replace("\0", "")],
    ],
    "explain": [
        *([name, *ASKING, "-o", form] for name in ("pod", "huge") for form in ("wide", "json", "yaml")),
        ["{claimer}", *ASKING, "-o", "wide"],
        ["pod", *ASKING, "--plugin", "{plugin.py}"],
        ["deployment/deployment", *ASKING],
        [HOSTILE.replace("\0", ""), *ASKING],
    ],
    "what-if": [
        ["--drain", "node", *ASKING, "-o", "wide", "--html", "{what-if.html}"],
        ["--apply", "{pod.json}", *ASKING, "-o", "json"],
        ["--drain", HOSTILE.replace("\0", ""), *ASKING],
    ],
    "plan": [["--offer", "{offers.yaml}", *ASKING, "-o", "wide", "--html", "{plan.html}"]],
    "capacity": [["{pod.json}", *ASKING, "-o", "wide"], ["{pod.json}", *ASKING, "-o", "yaml"]],
    "compare": [
        ["{config.json}", "default", *ASKING, "-o", "wide", "--results", "{runs.csv}", "--html", "{compare.html}"],
        ["{bad.json}", *ASKING],
    ],
    "study": [["{study.json}", "--html", "{study.html}", "--results", "{study.csv}"], ["{bad-study.json}"]],
    "mcp": [[*ASKING], ["--from", "{bad.json}"]],
    "dump": [["-o", "-", *ASKING, "--config", "{config.json}"], ["-o", "-", *ASKING, "--anonymize"]],
    "config check": [["{config.json}"], ["{bad.json}"]],
    "config defaults": [["{config.json}"]],
    "config explain": [["{config.json}"]],
    "replay": [["{recording}", "-o", "wide"], ["{recording}", "--pod", "default/pod"], ["{recording}", "--step"]],
    "agree": [["{recording}", "-o", "wide"], ["{recording}", "--pod", HOSTILE.replace("\0", "")]],
    "bench": [["{scenario.json}"]],
    "conform": [["decide"]],
    "completion": [["bash"], [HOSTILE.replace("\0", "")]],
    "up": [["--cluster", "{cluster}", "--no-dashboard", "-q", "--exec", "{script}"]],
    "run": [["--config", "{bad.json}"], ["--config", "{config.json}", "--kubeconfig", "{cluster}"]],
    "record": [["{recording}", "--kubeconfig", "{cluster}"]],
    "snapshot": [["--server", "http://127.0.0.1:1/" + HOSTILE.replace("\0", "")]],
    **{f"nodes {verb}": [["node", "--kubeconfig", "{cluster}"]] for verb in ("remove", "fail", "recover", "drain")},
    "nodes add": [["1", "--kubeconfig", "{cluster}"]],
}
"""Arguments by command; {name} is a file of the world."""
LIVE = [
    ["nodes", "drain", "node"],
    ["nodes", "fail", "node"],
    ["nodes", "fail", "no-such-node"],
    ["explain", "pod"],
    ["simulate", "-o", "json"],
    ["dump", "-o", "-"],
    ["record", "{observed}", "--for", "1s"],
    ["agree", "{observed}", "-o", "wide"],
]
SCHEDULER = ["run", "--leader-elect=false", "--bind-address", "127.0.0.1", "--dry-run", "-v", "5"]
SCHEDULER += ["--cert-dir", "{certs}", "--plugin", "{plugin.py}"]
SHOWING = {
    "simulate",
    "explain",
    "what-if",
    "compare",
    "dump",
    "config check",
    "config defaults",
    "config explain",
    "up",
    "conform",
}
"""Commands that show the text: otherwise the test would see nothing."""


def all_commands() -> Iterator[str]:
    context = click.Context(main)
    for name in main.list_commands(context):
        found = main.get_command(context, name)
        yield from (f"{name} {below}" for below in found.commands) if isinstance(found, click.Group) else [name]


def test_every_command_is_tried() -> None:
    assert sorted(RUNS) == sorted(all_commands())


def filled(arguments: list[str], world: World) -> list[str]:
    return [re.sub(r"^\{(.+)\}$", lambda found: str(_file(world, found[1])), each) for each in arguments]


def _file(world: World, name: str) -> Path | str:
    if name == "script":
        return shlex.join(command("explain", "pod"))
    if name == "claimer":
        items = json.loads(world.cluster.read_text())["items"]
        claims = {item["metadata"]["name"]: json.dumps(item["spec"]["volumes"]) for item in items if _claims(item)}
        return str(next(pod for pod, volumes in claims.items() if MARK in volumes))
    return world.cluster if name == "cluster" else world[name]


def _claims(item: dict[str, Any]) -> bool:
    return item["kind"] == "Pod" and str(item["metadata"]["name"]).startswith("claimer")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def recorded(world: World) -> None:
    run_mooring("simulate", world.cluster, "--record", world["recording"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_no_text_of_a_tenant_reaches_a_terminal_as_it_is(name: str, world: World, recorded: None) -> None:
    seen = ""
    for arguments in some_of(RUNS[name], fewest=3):
        stdin = (
            world["scenario.json"].read_bytes()
            if name == "conform"
            else b"next\ndecision\nqueue\nexplain pod\nnode node\n"
        )
        ran = run_mooring(*name.split(), *filled(arguments, world), stdin=stdin)
        for text in (ran.stdout, ran.stderr):
            check_shown(text)
            assert "Traceback (most" not in text or "--debug" in arguments, text
            seen += text
        check_form(arguments, ran.stdout, ran.returncode)
    assert MARK in seen or name not in SHOWING


@pytest.mark.slow
def test_no_text_of_a_tenant_in_a_live_cluster_reaches_a_terminal_as_it_is(world: World, tmp_path: Path) -> None:
    with a_process("--cluster", str(world.cluster), "--no-dashboard") as cluster:

        def run(*arguments: str) -> int:
            ran = run_mooring(*filled([*arguments], world), environment=cluster.environment)
            check_shown(ran.stdout)
            check_shown(ran.stderr)
            check_form([*arguments], ran.stdout, ran.returncode)
            return ran.returncode

        for arguments in LIVE:
            run(*arguments)
        port, log = _free_port(), tmp_path / "log"
        with log.open("wb") as stream:
            words = [*filled(SCHEDULER, world), "--kubeconfig", cluster.kubeconfig, "--secure-port", port]
            scheduler = start_mooring(*words, stdout=stream, stderr=stream)
            try:
                while run("snapshot", "--server", f"https://127.0.0.1:{port}") != 0:
                    assert scheduler.poll() is None, log.read_text()
                    time.sleep(0.2)
                scheduler.terminate()
                scheduler.wait()
            finally:
                scheduler.kill()
        assert MARK in log.read_text()
        check_shown(log.read_text())
        check_shown(cluster.log.read_text())


def check_shown(text: str) -> None:
    for line in text.split("\n"):
        hidden = [f"U+{ord(c):04X}" for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
        if line.startswith("\t"):
            hidden = [each for each in hidden if each != "U+0009"]  # klog indents the lines of a value
        assert not hidden, f"{hidden}: {line!r}"
        assert not line.startswith(FORGED), f"a forged line: {line!r}"


def check_form(arguments: list[str], out: str, code: int) -> None:
    """JSON and YAML are complete, and keep the text."""
    if code > 1 or "-o" not in arguments:
        return
    form = arguments[arguments.index("-o") + 1]
    if form in ("json", "-"):
        json.loads(out)
    elif form == "yaml":
        yaml.safe_load(out)


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "{cluster}", "--explain", "pod", "--plugin", "{plugin.py}"],
        ["what-if", "--drain", "node", *ASKING],
        ["plan", "--offer", "{offers.yaml}", *ASKING],
        ["compare", "{config.json}", "default", *ASKING],
    ],
    ids=lambda arguments: arguments[0],
)
def test_reports_have_text_and_no_elements_of_tenants(arguments: list[str], world: World) -> None:
    path = world[f"{arguments[0]}-page.html"]
    ran = run_mooring(*filled(arguments, world), "--html", path)
    assert ran.returncode in (0, 1), ran.stderr
    page = path.read_text()
    elements = Elements()
    elements.feed(page)
    assert not elements.names & {"img", "script", "iframe"}
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert all(value.startswith("#") for name, value in elements.attributes if name in ("href", "src"))
    check_shown(page)


@pytest.mark.slow
def test_tables_of_spreadsheets_have_no_formulas(world: World) -> None:
    run_mooring(*filled(["simulate", *RUNS["simulate"][2]], world))
    run_mooring(*filled(["compare", *RUNS["compare"][0]], world))
    for name in ("stays.csv", "runs.csv"):
        with world[name].open(newline="") as file:
            rows = [*csv.reader(file)]
        assert len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])}
        assert not [cell for row in rows for cell in row if re.match(r"[=+\-@\t\r]", cell) and not _is_number(cell)]


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", cell) is not None


def test_shells_are_offered_no_hostile_context(world: World) -> None:
    line = f"mooring explain --kubeconfig {world['kubeconfig']} --context "
    for shell in ("bash", "zsh", "fish"):
        asked = {**os.environ, "_MOORING_COMPLETE": f"{shell}_complete", "COMP_LINE": line}
        ran = subprocess.run([Path(sys.executable).with_name("mooring")], env=asked, capture_output=True, check=False)
        assert ran.stdout == b"plain\tplain\t\n", ran.stderr


def test_only_one_module_writes_for_commands() -> None:
    """A new way to write would leave out what makes text safe."""
    writes = re.compile(r"click\.s?echo\b|\bprint\(|std(out|err)\.(buffer\.)?write|logging\.StreamHandler|\.print\(")
    found = {path.relative_to(CLI).as_posix() for path in CLI.rglob("*.py") if writes.search(path.read_text())}
    assert found == {"terminal.py"}


def test_every_help_has_examples() -> None:
    for name in (*main.list_commands(click.Context(main)), *all_commands()):
        found: click.Command | None = main
        for word in name.split():
            assert isinstance(found, click.Group)
            found = found.get_command(click.Context(found), word)
        assert found is not None and "Examples:\n  " in (found.epilog or ""), f"mooring {name} --help has no examples"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("simulat", "No such command 'simulat'. Did you mean 'simulate'?"),
        ("nodes ad", "No such command 'ad'. Did you mean 'add'?"),
        ("config chekc", "No such command 'chekc'. Did you mean 'check'?"),
        ("what-if --drian x", "No such option '--drian'. Did you mean '--drain'?"),
        ("zzzzzz", "No such command 'zzzzzz'."),
    ],
)
def test_a_misspelt_command_or_option_names_the_nearest(line: str, error: str) -> None:
    ran = CliRunner().invoke(main, line.split())
    assert (ran.exit_code, ran.stderr.splitlines()[-1]) == (2, f"Error: {error}")


# ---- output that cannot be written

WRITTEN = [["simulate", "{cluster}"], ["simulate", "{cluster}", "-o", "json"], ["dump", "-o", "-", *ASKING]]
WRITTEN += [["--help"], ["--version"], ["config", "defaults"], ["explain", "--help"], ["completion", "bash"]]


def written_to(output: int, arguments: list[str], world: World) -> tuple[int, list[str]]:
    """The exit status with this standard output, and the errors."""
    with tempfile.TemporaryFile("w+") as stderr:
        status = start_mooring(*filled(arguments, world), stdout=output, stderr=stderr).wait()
        stderr.seek(0)
        return status, errors_in(stderr.read())


def errors_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("note:", "warning:"))]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", some_of(WRITTEN, fewest=3), ids=shlex.join)
def test_a_full_disk_is_one_line(arguments: list[str], world: World) -> None:
    with open("/dev/full", "wb") as full:
        code, said = written_to(full.fileno(), arguments, world)
    assert (code, said) == (2, ["standard output: cannot be written: No space left on device"])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", some_of(WRITTEN), ids=shlex.join)
def test_a_closed_output_is_one_line(arguments: list[str], world: World) -> None:
    line = f"{shlex.join(command(*filled(arguments, world)))} >&-"
    ran = subprocess.run([BASH.required(), "-c", line], capture_output=True, text=True, check=False)
    assert (ran.returncode, errors_in(ran.stderr)) == (2, ["standard output: cannot be written: Bad file descriptor"])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", some_of(WRITTEN, fewest=3), ids=shlex.join)
def test_a_reader_that_is_gone_is_no_error(arguments: list[str], world: World) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = written_to(writing, arguments, world)
    os.close(writing)
    assert found == (141, [])


@pytest.mark.parametrize("flags", [(), ("--force",)], ids=["plain", "with --force"])
def test_a_dump_takes_the_place_of_no_device(flags: tuple[str, ...], world: World, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # never a device of the system: a fault would replace it
    ran = CliRunner().invoke(main, ["dump", "-o", str(tmp_path / "pipe"), *filled([*ASKING], world), *flags])
    assert (ran.exit_code, (tmp_path / "pipe").is_fifo()) == (2, True)
    assert ran.stderr == f"{tmp_path}/pipe: is a device, pipe or socket; name a file, or - for standard output\n"


def test_errors_that_cannot_be_written_leave_the_answer(world: World) -> None:
    plain = run_mooring("dump", "-o", "-", *filled([*ASKING], world))
    for redirection in ("2>&-", "2>/dev/full"):
        line = f"{shlex.join(command('dump', '-o', '-', *filled([*ASKING], world)))} {redirection}"
        ran = subprocess.run([BASH.required(), "-c", line], stdout=subprocess.PIPE, check=False)
        assert (ran.returncode, len(ran.stdout)) == (0, len(plain.stdout.encode()))


def test_a_bug_of_the_program_shows_no_text_as_it_is() -> None:
    code = f"""
from mooring.cli import main as program

def fail(*given):
    raise RuntimeError({HOSTILE!r})

program.Commands.list_commands = fail
program.main(["simulate"])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ran.returncode == 1
    check_shown(ran.stderr.decode())
    assert ran.stderr.decode().splitlines()[-1].startswith(f"RuntimeError: ={MARK}\\x1b]0;")
