"""Runs the command line in process, and writes manifests for it."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.model.meta import KubeObject


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        return self.err.splitlines()


def mooring(*arguments: str | Path, stdin: bytes = b"") -> Ran:
    """What a command printed. An exception that a user would see as a traceback fails the test."""
    with patch("mooring.cli.terminal.LINES_S", math.inf):  # on a busy machine, an import of SciPy may take 10 s
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def as_manifest(item: KubeObject) -> dict[str, Any]:
    """An object as it stands in a manifest; `item` is of a core kind."""
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


def write(path: Path, *items: KubeObject | dict[str, Any]) -> Path:
    """Write a manifest with these objects."""
    written = [as_manifest(item) if isinstance(item, KubeObject) else item for item in items]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": written}))
    return path


def write_config(path: Path, **fields: Any) -> Path:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(json.dumps({**header, **fields}))
    return path


def enabling(name: str, args: Any = None, point: str = "multiPoint") -> dict[str, Any]:
    """The fields of a configuration that enables a plugin at a point."""
    profile: dict[str, Any] = {"plugins": {point: {"enabled": [{"name": name}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": name, "args": args}]
    return {"profiles": [profile]}
