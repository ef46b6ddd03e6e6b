"""Every configuration of the corpus is accepted or refused as kube-scheduler v1.36.4 does, in the same words."""

from pathlib import Path
from typing import Any

import pytest

from corpus import CHECK, rows
from mooring.plugins.builtin import in_tree
from mooring.sim.conform import config_answer

HERE = Path(__file__).parent


ROWS = rows("config")


def answered(scenario: dict[str, Any]) -> dict[str, Any]:
    return config_answer(scenario["name"], scenario["config"], in_tree())


@pytest.mark.parametrize("row", ROWS, ids=[row["scenario"]["name"] for row in ROWS])
def test_the_reference_is_matched(row: dict[str, Any]) -> None:
    found = answered(row["scenario"])
    assert CHECK.compare("config", row["expected"], found) == []


@pytest.mark.parametrize("row", ROWS, ids=[row["scenario"]["name"] for row in ROWS])
def test_stage_and_text_are_the_same_too(row: dict[str, Any]) -> None:
    """More than the corpus asks for: it lets another stage and other words pass."""
    found, expected = answered(row["scenario"]), row["expected"]
    assert (found["stage"], found.get("error", "")) == (expected["stage"], expected.get("error", ""))


def test_the_corpus_is_whole() -> None:
    assert len(ROWS) == 80


def test_no_configuration_is_the_default_one() -> None:
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    none, empty = (answered({"name": "x", "config": config}) for config in (None, plain))
    assert none == empty
    assert none["stage"] == "ok"
