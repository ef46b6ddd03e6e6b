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
    """All scenarios of a file, each with what kube-scheduler answered."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as corpus:
        return [json.loads(line) for line in corpus]
