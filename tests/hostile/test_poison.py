"""Every poison against `mooring run` and against `mooring up`: others are served, and nothing stays behind.

How long others wait is measured by `python tests/hostile/poison.py`, on a machine that does nothing else.
"""

import pytest
from poison import a_live_target, an_embedded_target, try_poison
from poisons import POISONS

from how_many import some_of

pytestmark = pytest.mark.slow

NODES = 50


def test_no_poison_stops_a_scheduler_on_an_api_server() -> None:
    with a_live_target(NODES) as target:
        poisons = some_of([poison for poison in POISONS if not poison.only_up], fewest=12)
        outcomes = [try_poison(target, poison, is_timed=False) for poison in poisons]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}


def test_no_poison_stops_an_embedded_cluster() -> None:
    """`mooring up` runs the same scheduler: other poisons than above, and those that only it gets."""
    others = [poison for poison in reversed(POISONS) if not poison.only_up]
    embedded = [*some_of(others), *(poison for poison in POISONS if poison.only_up)]
    with an_embedded_target(NODES) as target:
        outcomes = [try_poison(target, poison, is_timed=False) for poison in embedded]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}
