"""kubectl as tests use it: with a home of its own, and a plain word where there is none."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import KUBECTL, needs

needs_kubectl = needs(KUBECTL)

PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    out: str
    error: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl against one cluster."""

    kubeconfig: Path
    home: Path

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it printed; it must succeed."""
        ran = self.run(*arguments, stdin=stdin)
        assert ran.status == 0, f"kubectl {' '.join(arguments)}: {ran.error}"
        return ran.out

    def run(self, *arguments: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def command(self, *arguments: str) -> list[str]:
        return [KUBECTL.required(), *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}
