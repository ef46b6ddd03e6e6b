"""A copy of the source tree with an example of CONTRIBUTING.md added to it, and programs that run in it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from programs import GIT

ROOT = Path(__file__).parent.parent


def example_diffs(path: str) -> list[str]:
    """The diffs of CONTRIBUTING.md that concern a file."""
    diffs = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    return [diff for diff in diffs if f"+++ b/{path}\n" in diff]


class AddedTree:
    """`src/mooring`, copied; what is added stays in the copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "mooring", folder / "src" / "mooring", ignore=ignored)

    def apply(self, path: str, number: int = 0) -> None:
        """Add the first example that concerns this file, or a later one."""
        diff = example_diffs(path)[number]
        command = [GIT.required(), "apply", "--recount", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=self.folder, input=diff, text=True, check=True, env=self._environment())

    def mooring(self, *arguments: str) -> str:
        """What `mooring` prints in this tree. It must succeed."""
        return self.python("-m", "mooring.cli.main", *arguments)

    def python(self, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True, env=self._environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check(self, path: str) -> None:
        """The added file passes the linter as well; types are checked by the caller where it matters."""
        ruff = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), path]
        done = subprocess.run(ruff, cwd=self.folder, text=True, capture_output=True)
        assert done.returncode == 0, done.stdout

    def _environment(self) -> dict[str, str]:
        # git must not find a repository around the folder: it would apply nothing outside of its index
        return os.environ | {"PYTHONPATH": str(self.folder / "src"), "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
