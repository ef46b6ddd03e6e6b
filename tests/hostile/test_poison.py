"""Every poison against `mooring run` and against `mooring up`: others are served, and nothing stays behind.

How long others wait is measured by `python tests/hostile/poison.py`, on a machine that does nothing else.
"""

import pytest
from poison import a_live_target, an_embedded_target, try_poison
from poisons import POISONS

pytestmark = pytest.mark.slow

NODES = 50


def test_no_poison_stops_a_scheduler_on_an_api_server() -> None:
    with a_live_target(NODES) as target:
        outcomes = [try_poison(target, poison, is_timed=False) for poison in POISONS if not poison.only_up]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}


def test_no_poison_stops_an_embedded_cluster() -> None:
    with an_embedded_target(NODES) as target:
        outcomes = [try_poison(target, poison, is_timed=False) for poison in POISONS]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}
