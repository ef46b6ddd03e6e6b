"""Small rules of devices that larger tests pass by: what effort is spent on, and which capacities a request may ask for."""

import pytest

from mooring.plugins.devices.effort import BYTES_A_STEP, COST_A_STEP, CelFault, Effort, TookTooLong


def test_a_selector_is_compiled_once_and_costs_each_time_it_is_evaluated() -> None:
    effort = Effort()
    effort.learn("device", 40)
    assert effort.steps == 40 // COST_A_STEP + 6 // BYTES_A_STEP == 16
    effort.learn("device", 40)
    assert effort.steps == 26 and effort.compiled == {"device"}
    effort.learn("other", 0)
    assert effort.steps == 31


def test_the_step_beyond_the_limit_is_too_many() -> None:
    effort = Effort(max_steps=10)
    effort.spend(10)
    with pytest.raises(TookTooLong):
        effort.spend(1)
    unlimited = Effort()
    unlimited.spend(10**9)


def test_a_fault_costs_nothing_unless_it_says_so() -> None:
    assert CelFault("no such key").cost == 0 and CelFault("no such key", 7).cost == 7
