"""The conformance corpus: its rows, and check.py, the script that compares answers."""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "conformance"


def _check() -> Any:
    """check.py as it is handed to users: a script, not a package."""
    spec = importlib.util.spec_from_file_location("conformance_check", FOLDER / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _check()


def rows(name: str) -> list[dict[str, Any]]:
    """All scenarios of a file, each with what kube-scheduler v1.36.4 answered."""
    return _rows(FOLDER / f"{name}.jsonl.gz")


def rows_of_v137(name: str) -> list[dict[str, Any]]:
    """All scenarios of a file, each with what kube-scheduler v1.37 answered."""
    return _rows(FOLDER / "v1.37" / f"{name}.jsonl.gz")


def _rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as corpus:
        return [json.loads(line) for line in corpus]
