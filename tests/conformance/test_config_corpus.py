"""Every configuration of the corpus is accepted or refused as kube-scheduler v1.36.4 does, in the same words."""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.plugins.builtin import in_tree
from mooring.sim.conform import config_answer

HERE = Path(__file__).parent


def _check() -> Any:
    """check.py as it is handed to users: a script, not a package."""
    spec = importlib.util.spec_from_file_location("conformance_check", HERE / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _rows() -> list[dict[str, Any]]:
    with gzip.open(HERE / "config.jsonl.gz", "rt") as corpus:
        return [json.loads(line) for line in corpus]


CHECK = _check()
ROWS = _rows()


@pytest.mark.parametrize("row", ROWS, ids=[row["scenario"]["name"] for row in ROWS])
def test_the_reference_is_matched(row: dict[str, Any]) -> None:
    found = config_answer(row["scenario"], in_tree())
    assert CHECK.compare("config", row["expected"], found) == []


@pytest.mark.parametrize("row", ROWS, ids=[row["scenario"]["name"] for row in ROWS])
def test_stage_and_text_are_the_same_too(row: dict[str, Any]) -> None:
    """More than the corpus asks for: it lets another stage and other words pass."""
    found, expected = config_answer(row["scenario"], in_tree()), row["expected"]
    assert (found["stage"], found.get("error", "")) == (expected["stage"], expected.get("error", ""))


def test_the_corpus_is_whole() -> None:
    assert len(ROWS) == 80


def test_no_configuration_is_the_default_one() -> None:
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    none, empty = (config_answer({"name": "x", "config": config}, in_tree()) for config in (None, plain))
    assert none == empty
    assert none["stage"] == "ok"
