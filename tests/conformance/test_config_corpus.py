"""Every configuration of both corpora is accepted or refused as kube-scheduler does, in the same words."""

from typing import Any

import pytest

from corpus import rows, rows_of_v137
from mooring.plugins import in_tree
from mooring.sim.conform import config_answer

ROWS = [*rows("config"), *rows_of_v137("config")]
"""No text of v1.36.4 is another one in v1.37."""


def answered(scenario: dict[str, Any]) -> dict[str, Any]:
    return config_answer(scenario["name"], scenario["config"], in_tree())


@pytest.mark.parametrize("row", ROWS, ids=[row["scenario"]["name"] for row in ROWS])
def test_stage_and_text_are_the_same_too(row: dict[str, Any]) -> None:
    """More than the corpus asks for: it lets another stage and other words pass."""
    found, expected = answered(row["scenario"]), row["expected"]
    assert (found["stage"], found.get("error", "")) == (expected["stage"], expected.get("error", ""))


def test_the_corpus_is_whole() -> None:
    assert len(ROWS) == 140


def test_no_configuration_is_the_default_one() -> None:
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    none, empty = (answered({"name": "x", "config": config}) for config in (None, plain))
    assert none == empty
    assert none["stage"] == "ok"
