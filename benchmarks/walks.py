"""How many calls three walks through the code take, and how deep they go.

    python benchmarks/walks.py                           the code of this checkout
    python benchmarks/walks.py --source /tmp/old/src     the same walks in another one
    python benchmarks/walks.py --names                   the functions that are called most, to see where they come from

The walks:

- run: one pod in `mooring run`, from the line of the watch to the bind, its confirmation by the watch, and the event;
- post: one POST of a pod to `mooring up --no-scheduler`, with all that the API server and the controllers do about it;
- decide: the decision about one pod alone, as `mooring bench` makes it (5,000 nodes would give the same counts as 100).

Each program runs as a process of its own through its command line, with a profile function that counts calls of
functions below SOURCE/mooring; a coroutine or generator that goes on counts as called again. Comprehensions do not count:
newer versions of Python inline them. The depth is the largest number of such functions on the stack at once. A walk is
made for PODS pods, one after the other, after WARM ones that fill caches; the figure is the mean. What a process does
without pods (timers, heartbeats) is counted over a pause and taken off. Prints one line of JSON.
"""

import argparse
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
WARM, PODS = 20, 100
NODES = 100
PAUSE_S = 3.0
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
NAMES_SHOWN = 60


class Count:
    """Calls and depth of what runs in the main thread, in functions of one source tree."""

    def __init__(self, source: Path, under: str = "") -> None:
        """`under`: count only what a function of this name calls, and the function itself."""
        self._prefix = f"{source / 'mooring'}{os.sep}"
        self._under = under
        self._ours: dict[CodeType, bool] = {}
        self._entered = 0
        self.entries = 0
        self.restart()

    def restart(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.depth = self.deepest = 0
        self.stack: list[str] = []

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not self._is_ours(code):
            return
        step = 1 if event == "call" else -1
        if self._under and code.co_name == self._under:
            self._entered += step
            if event == "call" and self._entered == 1:
                self._enter()
        elif self._under and not self._entered:
            return
        self.depth = max(self.depth + step, 0)
        if event == "call":
            self.calls[code] += 1
            if self.depth > self.deepest:
                self.deepest, self.stack = self.depth, self._stack_of(frame)

    def _stack_of(self, frame: FrameType | None) -> list[str]:
        """The functions on the stack that count, the outermost first."""
        found = []
        while frame is not None:
            if self._is_ours(frame.f_code):
                found.append(frame.f_code.co_qualname)
            frame = frame.f_back
        return found[::-1]

    def _enter(self) -> None:
        self.entries += 1
        if self.entries == WARM + 1:
            self.restart()

    def _is_ours(self, code: CodeType) -> bool:
        found = self._ours.get(code)
        if found is None:
            found = code.co_filename.startswith(self._prefix) and code.co_name not in COMPREHENSIONS
            self._ours[code] = found
        return found

    def report(self) -> dict[str, Any]:
        names: Counter[str] = Counter()
        for code, calls in self.calls.items():
            names[f"{code.co_filename.removeprefix(self._prefix)}:{code.co_qualname}"] += calls
        return {"calls": names.total(), "depth": self.deepest, "stack": self.stack, "names": dict(names)}


def counted(source: Path, out: str, under: str, arguments: list[str]) -> None:
    """Runs `mooring` with a count. Each line on standard input makes it write a report to OUT and start again."""
    sys.path.insert(0, str(source))
    count = Count(source, under)

    def report() -> None:
        made = Path(f"{out}.new")
        made.write_text(json.dumps(count.report()))
        made.rename(out)
        count.restart()

    def listen() -> None:
        for _ in sys.stdin:
            report()

    threading.Thread(target=listen, daemon=True).start()
    from mooring.cli.main import main as mooring

    sys.setprofile(count.profile)
    try:
        mooring(arguments)
    finally:
        sys.setprofile(None)
        report()


class Process:
    """A `mooring` of its own, counted or not."""

    def __init__(self, stack: ExitStack, source: Path, arguments: list[str], under: str = "") -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self._out = Path(folder) / "count.json"
        command = [sys.executable, __file__, "--source", str(source), "--counted", str(self._out), "--under", under]
        command += ["--", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        stack.callback(self._end)

    def count(self) -> dict[str, Any]:
        """What was counted since the last time."""
        self._out.unlink(missing_ok=True)
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def wait(self) -> dict[str, Any]:
        self._process.wait()
        return self._read()

    def _read(self) -> dict[str, Any]:
        while not self._out.exists():
            if self._process.poll() is not None and not self._out.exists():
                sys.exit(f"a counted process ended with {self._process.returncode}")
            time.sleep(0.01)
        found: dict[str, Any] = json.loads(self._out.read_text())
        return found

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()


class Client:
    """As much of an API client as the walks need; none of Mooring's, so that it fits every version of it."""

    def __init__(self, kubeconfig: Path) -> None:
        import yaml

        while not kubeconfig.exists() or not kubeconfig.read_text():
            time.sleep(0.05)
        config = yaml.safe_load(kubeconfig.read_text())
        self._url = config["clusters"][0]["cluster"]["server"]
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_context(config))
        )
        self._token = config["users"][0]["user"].get("token", "")

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        with self._opener.open(urllib.request.Request(self._url + path, data, headers)) as reply:
            return json.load(reply)

    def create(self, name: str) -> None:
        resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
        spec = {"containers": [{"name": "c", "image": "nginx:1", "resources": resources}]}
        self.ask(
            "/api/v1/namespaces/default/pods",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "walk"}}, "spec": spec},
        )

    def wait_for_node(self, name: str) -> None:
        while not self.ask(f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName"):
            time.sleep(0.01)


def _context(config: Any) -> ssl.SSLContext:
    import base64

    authority = config["clusters"][0]["cluster"].get("certificate-authority-data", "")
    return ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)


def walk_run(source: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "config"
        up = ["up", "-q", "--no-scheduler", "--nodes", str(NODES), "--port", "0", "--kubeconfig", str(config)]
        Process(stack, source, up)
        client = Client(config)
        arguments = ["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig", str(config), "-v=0"]
        run = Process(stack, source, arguments)

        def place(name: str) -> None:
            client.create(name)
            client.wait_for_node(name)

        return _walked(run, place)


def walk_post(source: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "config"
        up = ["up", "-q", "--no-scheduler", "--nodes", "0", "--port", "0", "--kubeconfig", str(config)]
        process = Process(stack, source, up)
        return _walked(process, Client(config).create)


def _walked(process: Process, walk: Any) -> dict[str, Any]:
    for i in range(WARM):
        walk(f"warm-{i}")
    time.sleep(PAUSE_S)  # what came with the warm ones is over
    process.count()
    begin = time.monotonic()
    time.sleep(PAUSE_S)
    idle, idle_s = process.count(), time.monotonic() - begin
    begin = time.monotonic()
    for i in range(PODS):
        walk(f"walk-{i}")
    time.sleep(PAUSE_S)  # events and confirmations come later
    found, found_s = process.count(), time.monotonic() - begin
    names = Counter(found["names"])
    names.subtract({name: round(calls * found_s / idle_s) for name, calls in idle["names"].items()})
    return {**found, "calls": round(names.total() / PODS), "names": dict(names)}


def walk_decide(source: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scenario = folder / "basic.json"
        workloads = [
            sys.executable,
            str(ROOT / "tests/conformance/workloads.py"),
            "basic",
            str(NODES),
            "0",
            str(WARM + PODS),
        ]
        scenario.write_text(subprocess.run(workloads, check=True, capture_output=True, text=True).stdout)
        found = Process(stack, source, ["bench", str(scenario)], under="decide").wait()
        return {**found, "calls": round(found["calls"] / PODS)}


WALKS = {"run": walk_run, "post": walk_post, "decide": walk_decide}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that has the package mooring")
    parser.add_argument("--walk", choices=WALKS, action="append", help="only this walk; may be repeated")
    parser.add_argument(
        "--names", action="store_true", help="print the deepest stack and the functions that are called most as well"
    )
    parser.add_argument("--counted", default="", help=argparse.SUPPRESS)
    parser.add_argument("--under", default="", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.counted:
        counted(asked.source.resolve(), asked.counted, asked.under, asked.arguments)
        return
    found = {name: WALKS[name](asked.source.resolve()) for name in asked.walk or WALKS}
    print(json.dumps({name: {"calls": walk["calls"], "depth": walk["depth"]} for name, walk in found.items()}))
    if asked.names:
        for name, walk in found.items():
            print(f"{name}: deepest: {' > '.join(walk['stack'])}")
            for function, calls in Counter(walk["names"]).most_common(NAMES_SHOWN):
                print(f"{name}: {calls / PODS:7.2f}  {function}")


if __name__ == "__main__":
    main()
