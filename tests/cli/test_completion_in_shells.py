"""Completion in the shells themselves: the script that `mooring completion --install` writes, and the Tab key."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from how_many import IS_SOAK
from programs import BASH, FISH, ZSH, Program
from typing_into_shells import a_shell

pytestmark = pytest.mark.slow
Complete = Callable[[str], str]

KUBECONFIG = """\
apiVersion: v1
kind: Config
contexts:
- {name: "arn:aws:eks:eu-central-1:012:cluster/blue", context: {cluster: a, user: a}}
- {name: production, context: {cluster: a, user: a}}
"""

LINES = {
    "a command": ("mooring expl", "mooring explain"),
    "a command below a command": ("mooring nodes reco", "mooring nodes recover"),
    "a flag": ("mooring explain --conte", "mooring explain --context"),
    "a file after a flag": ("mooring simulate --config pack", "mooring simulate --config packed.yaml"),
    "a file after an equals sign": ("mooring simulate --config=pack", "mooring simulate --config=packed.yaml"),
    "a file as an argument": ("mooring simulate clus", "mooring simulate cluster.yaml"),
    "a file of a change": ("mooring what-if --apply clus", "mooring what-if --apply cluster.yaml"),
    "a directory": ("mooring replay reco", "mooring replay recording"),
    "a choice": ("mooring explain -o js", "mooring explain -o json"),
    "a choice after an equals sign": ("mooring explain --output=js", "mooring explain --output=json"),
    "a context": ("mooring explain --context prod", "mooring explain --context production"),
    "a context with colons": (
        "mooring explain --context arn:aws:eks:eu",
        "mooring explain --context arn:aws:eks:eu-central-1:012:cluster/blue",
    ),
    "a context with colons after an equals sign": (
        "mooring explain --context=arn:aws:eks:eu",
        "mooring explain --context=arn:aws:eks:eu-central-1:012:cluster/blue",
    ),
    "a context of another file": (
        "mooring explain --kubeconfig other.yaml --context st",
        "mooring explain --kubeconfig other.yaml --context staging",
    ),
    "nothing that there is": ("mooring explain --context nowhere", "mooring explain --context nowhere"),
}


def lines_of(shell: int) -> dict[str, tuple[str, str]]:
    """A fifth of the lines, another one for each of the three shells. With `make soak` all of them for each."""
    return LINES if IS_SOAK else dict([*LINES.items()][shell::5])


OF_ZSH, OF_FISH = lines_of(1), lines_of(2)
OF_BASH = lines_of(0) | {name: lines for name, lines in LINES.items() if re.search("[:=]", lines[0])}
"""bash divides words at colons and equals signs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shells")
    for name in ("packed.yaml", "cluster.yaml"):
        (folder / name).write_text("")
    (folder / "recording").mkdir()
    (folder / "kubeconfig").write_text(KUBECONFIG)
    (folder / "other.yaml").write_text(KUBECONFIG.replace("production", "staging"))
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    programs = Path(sys.executable).parent
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    path = f"{programs}:/usr/local/bin:/usr/bin:/bin"
    return {**kept, "PATH": path, "HOME": str(folder), "TERM": "dumb", "KUBECONFIG": str(folder / "kubeconfig")}


def installed(shell: Program, environment: dict[str, str]) -> list[str]:
    """What `--install` told: where the script is, and what is left to do. Skips where the shell is missing."""
    shell.required()
    told = subprocess.check_output(["mooring", "completion", "--install", shell.name], env=environment, text=True)
    return told.splitlines()


@pytest.fixture(scope="module")
def bash(folder: Path, environment: dict[str, str]) -> Iterator[Complete]:
    line = installed(BASH, environment)[1].rpartition(": ")[2]
    asked = [BASH.required(), "-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"]
    version = tuple(map(int, subprocess.check_output(asked, env=environment, text=True).split()))
    if version < (4, 4):
        pytest.skip(f"bash is too old: {version[0]}.{version[1]}, and the script needs 4.4")
    with a_shell(
        [BASH.required(), "--norc", "--noprofile", "-i"], folder, environment, f"PS1='$ '; {line}"
    ) as terminal:
        yield terminal.completed


@pytest.fixture(scope="module")
def zsh(folder: Path, environment: dict[str, str]) -> Iterator[Complete]:
    line = installed(ZSH, environment)[1].rpartition(": ")[2]
    set_up = f"PS1='$ '; {line}; autoload -Uz compinit; compinit -u -D; bindkey -e"
    with a_shell([ZSH.required(), "-f", "-i"], folder, environment, set_up) as terminal:
        yield terminal.completed


@pytest.fixture(scope="module")
def fish(folder: Path, environment: dict[str, str]) -> Complete:
    installed(FISH, environment)

    def complete(line: str) -> str:
        """fish itself says what would come after the Tab key: the new word, with its help behind a tab."""
        command = [FISH.required(), "-c", "complete --do-complete $argv", line]
        told = subprocess.check_output(command, cwd=folder, env=environment, text=True).splitlines()
        return f"{line.rpartition(' ')[0]} {told[0].partition(chr(9))[0]}" if len(told) == 1 else line

    return complete


@pytest.mark.parametrize(("line", "completed"), OF_BASH.values(), ids=OF_BASH)
def test_bash_completes(bash: Complete, line: str, completed: str) -> None:
    assert bash(line).rstrip("/") == completed


@pytest.mark.parametrize(("line", "completed"), OF_ZSH.values(), ids=OF_ZSH)
def test_zsh_completes(zsh: Complete, line: str, completed: str) -> None:
    assert zsh(line).rstrip("/") == completed


@pytest.mark.parametrize(("line", "completed"), OF_FISH.values(), ids=OF_FISH)
def test_fish_completes(fish: Complete, line: str, completed: str) -> None:
    assert fish(line).rstrip("/") == completed
