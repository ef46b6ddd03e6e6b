"""What tests of packages share: a clean copy of the repository's files, and builds in it."""

import shutil
import subprocess
import sys
from pathlib import Path

from programs import GIT

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 600


def tracked(*under: str) -> list[str]:
    """The files of the commit and those that are about to be added, and no other file of the checkout."""
    command = [GIT.required(), "ls-files", "--cached", "--others", "--exclude-standard", "--", *under]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(name for name in listed if (ROOT / name).is_file())


def a_checkout(folder: Path) -> Path:
    """A copy of all that the build may read."""
    names = tracked("src", "examples", "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", ".gitignore", "deploy")
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return folder


def build(checkout: Path, epoch: str, umask: int = 0o022) -> dict[str, Path]:
    """Wheel and sdist of a checkout, by their suffix: built as `make dist` builds them."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(checkout / "dist")]
    done = subprocess.run(
        command,
        cwd=checkout,
        env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": epoch},
        umask=umask,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.suffix: path for path in (checkout / "dist").iterdir()}
