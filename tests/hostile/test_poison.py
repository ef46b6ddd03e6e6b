"""Every poison against `mooring run` and against `mooring up`: others are served, and nothing stays behind.

How long others wait is measured by `python tests/hostile/poison.py`, on a machine that does nothing else.
"""

import pytest
from poison import a_live_target, an_embedded_target, try_poison
from poisons import POISONS

from how_many import IS_SOAK, some_of

pytestmark = pytest.mark.slow

NODES = 50
# The 256 pods of a shared claim take as much CPU time as eleven other poisons.
FOR_ALL = [poison for poison in POISONS if not poison.only_up and (IS_SOAK or poison.name != "shared-claim")]


def test_no_poison_stops_a_scheduler_on_an_api_server() -> None:
    with a_live_target(NODES) as target:
        outcomes = [try_poison(target, poison, is_timed=False) for poison in some_of(FOR_ALL, fewest=5)]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}


def test_no_poison_stops_an_embedded_cluster() -> None:
    """`mooring up` runs the same scheduler: other poisons than above, and those that only it gets."""
    embedded = [*some_of(FOR_ALL[::-1]), *(poison for poison in POISONS if poison.only_up)]
    with an_embedded_target(NODES) as target:
        outcomes = [try_poison(target, poison, is_timed=False) for poison in embedded]
    assert {outcome.poison: outcome.faults for outcome in outcomes if outcome.faults} == {}
