"""Which packages a reader opens to understand one subject.

    python benchmarks/reading_walks.py                           the code of this checkout
    python benchmarks/reading_walks.py --source /tmp/old/src     another one
    python benchmarks/reading_walks.py --names                   the modules as well

A reader of a subject knows how a decision is made: how manifests are read, how the scheduler decides, how a report is
printed. That is what `mooring simulate` does, with a configuration and with pods that do not fit. The walk of a subject is a
command; it opens the modules with functions that the command calls and `mooring simulate` does not. Each command runs in a
process of its own with a profile function. Prints one line of JSON: subject -> packages, with the number of modules in each.
"""

import argparse
import inspect
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
CROWDED, OFFERS = str(EXAMPLES / "crowded.yaml"), str(EXAMPLES / "offers.yaml")
KNOWN = (
    ["simulate", str(EXAMPLES / "cluster.yaml"), "--config", str(EXAMPLES / "packed.yaml")],
    ["simulate", str(EXAMPLES / "cluster.yaml"), "--arrivals", str(EXAMPLES / "arrivals.yaml")],
    ["simulate", CROWDED],
    ["simulate", str(EXAMPLES / "volumes")],
    ["simulate", str(EXAMPLES / "up" / "workloads.yaml")],
)
"""The commands that a reader understands before opening a subject."""
RECORD = ["simulate", CROWDED, "--record", "{folder}/recording"]
WALKS: dict[str, list[list[str]]] = {
    "explain": [["explain", "shop/report-0", "--from", CROWDED]],
    "what-if": [["what-if", "--drain", "a-1", "--from", CROWDED]],
    "plan": [["plan", "--offer", OFFERS, "--from", CROWDED]],
    "record": [RECORD],
    "replay": [RECORD, ["replay", "{folder}/recording"]],
}
"""Subject -> its commands; the last one is the walk."""


def called_modules(source: Path, out: Path, arguments: list[str]) -> None:
    """Run `mooring` in this process, and write down which modules have functions that it calls."""
    prefix = f"{source / 'mooring'}/"
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # modules and class bodies are not
        if event == "call" and is_function and code.co_filename.startswith(prefix):
            found.add(code.co_filename.removeprefix(prefix))

    sys.path.insert(0, str(source))
    from mooring.cli.main import main as mooring

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        mooring(arguments)
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps(sorted(found)))


def modules_of(source: Path, arguments: list[str], folder: str) -> set[str]:
    """The modules that a command needs. Exit code 1 says that pods stay pending, which is expected here."""
    out = Path(folder) / "modules.json"
    command = [sys.executable, __file__, "--source", str(source), "--called", str(out), "--"]
    command += [each.format(folder=folder) for each in arguments]
    ran = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode not in (0, 1):
        sys.exit(f"mooring {' '.join(arguments)}: {ran.stderr}")
    return set(json.loads(out.read_text()))


def walk(source: Path, commands: list[list[str]], known: set[str]) -> list[str]:
    """The modules that a reader opens for a subject."""
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            found = modules_of(source, command, folder)
        return sorted(found - known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that has the package mooring")
    parser.add_argument("--names", action="store_true", help="print the modules of each walk as well")
    parser.add_argument("--called", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    source = asked.source.resolve()
    if asked.called:
        called_modules(source, asked.called, asked.arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        known = set().union(*(modules_of(source, command, folder) for command in KNOWN))
    walks = {name: walk(source, commands, known) for name, commands in WALKS.items()}
    print(json.dumps({name: Counter(path.split("/")[0] for path in found) for name, found in walks.items()}))
    if asked.names:
        for name, found in walks.items():
            print(f"{name}: {' '.join(found)}")


if __name__ == "__main__":
    main()
