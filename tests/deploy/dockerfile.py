"""deploy/Dockerfile, read: its instructions by stage, and a scratch folder in which the steps of a stage are carried out."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from deploying import DEPLOY

ROOT = DEPLOY.parent
PATIENCE_S = 900


@dataclass(frozen=True, slots=True)
class Instruction:
    """`words` are the parts of the text, for instructions that are no commands of a shell."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def instructions() -> list[Instruction]:
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n *", "", "\n".join(lines))
    return [Instruction(*line.split(" ", 1)) for line in joined.splitlines() if line]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, FROM first."""
    found: list[list[Instruction]] = []
    for each in instructions():
        if each.name == "FROM":
            found.append([])
        if found:
            found[-1].append(each)
    return found


def environment_of(stage: list[Instruction]) -> dict[str, str]:
    """What ENV sets."""
    pairs = (word.partition("=") for each in stage if each.name == "ENV" for word in each.words)
    return {name: value for name, _, value in pairs}


class ScratchStage:
    """A stage without a container: `/opt`, `/src` and `/dist` are folders below another one, and `python` is this Python."""

    def __init__(self, folder: Path, packages: Set[str] | None = None) -> None:
        """With `packages`, these are all that the lock file of the image has left."""
        self.folder = folder
        self._packages = packages
        self._workdir = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        (programs / "python").symlink_to(Path(os.path.realpath(sys.executable)))
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
        self._environment = {**kept, "PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder)}

    def carry_out(self, stage: list[Instruction]) -> None:
        self._environment |= environment_of(stage)
        for each in stage:
            match each.name:
                case "WORKDIR":
                    self._workdir = Path(self._moved(each.text))
                    self._workdir.mkdir()
                case "COPY":
                    self._copy(each.words)
                case "RUN":
                    self._run(each.text)

    def _moved(self, text: str) -> str:
        return re.sub(r"(?<![\w./])/(opt|src|dist)\b", rf"{self.folder}/\1", text)

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        into = self._workdir / target
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, into)
            if source.endswith("image.lock") and self._packages is not None:
                _keep(into / Path(source).name, self._packages)

    def _run(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-ec", self._moved(command)],
            cwd=self._workdir,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def _keep(lock: Path, packages: Set[str]) -> None:
    """Leave only these packages in a lock file. An entry begins with a name, and its hashes are indented."""
    entries = re.split(r"(?m)^(?=[\w#])", lock.read_text())
    lock.write_text("".join(each for each in entries if each.partition("==")[0] in packages))
