"""Which runs a comparison has, and what the digest of a run depends on."""

from dataclasses import replace
from typing import Any

import pytest

from mooring.answers.experiments.run_plan import RunPlan, UnusablePlan, plan_runs
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError

DEFAULT = configuration.default()
STRATEGY = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type"


def names(*configs: str, **vary: Any) -> list[str]:
    return [plan.name for plan in plan_runs([(name, DEFAULT) for name in configs], vary)]


def test_every_configuration_with_every_combination_of_values() -> None:
    assert names("a", "b") == ["a", "b"]
    assert names("a", "b", seed=[1, 2], load=[0.5, 1]) == [
        "a seed=1 load=0.5",
        "a seed=1 load=1",
        "a seed=2 load=0.5",
        "a seed=2 load=1",
        "b seed=1 load=0.5",
        "b seed=1 load=1",
        "b seed=2 load=0.5",
        "b seed=2 load=1",
    ]


def test_a_name_that_is_there_twice_gets_a_number() -> None:
    assert names("a", "a", "a (2)", "a") == ["a", "a (2)", "a (2) (2)", "a (3)"]


def test_fields_of_the_configuration_change() -> None:
    plans = plan_runs([("a", DEFAULT)], {STRATEGY: ["LeastAllocated", "MostAllocated"], "seed": [7]})
    assert [plan.name for plan in plans] == ["a type=LeastAllocated seed=7", "a type=MostAllocated seed=7"]
    types = [plan.config.profiles[0].args_of("NodeResourcesFit").scoring_strategy.type for plan in plans]
    assert types == ["LeastAllocated", "MostAllocated"]
    assert plans[0].config == DEFAULT and plans[0].seed == 7 and plans[0].load == 1.0
    assert plans[1].vary == ((STRATEGY, "MostAllocated"), ("seed", 7))


def test_a_digest_changes_with_what_a_result_depends_on_and_with_nothing_else() -> None:
    plan = RunPlan("a", "a", DEFAULT)
    other = plan_runs([("a", DEFAULT)], {"percentageOfNodesToScore": [10, 20]})
    changed = [replace(plan, seed=1), replace(plan, seed=0), replace(plan, load=2.0), *other]
    digests = {plan.digest("x"), plan.digest("y"), *(each.digest("x") for each in changed)}
    assert len(digests) == 7
    assert replace(plan, name="b", config_name="b", config=configuration.default()).digest("x") == plan.digest("x")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one run": ({}, "nothing to compare: name a second configuration, or vary something (--vary seed=1,2,3)"),
    "no values": ({"seed": []}, "seed: no values; write some: seed=1,2"),
    "a seed that is a text": ({"seed": ["x"]}, "seed: 'x' is no seed: write whole numbers from 0"),
    "a seed that is true": ({"seed": [True]}, "seed: True is no seed: write whole numbers from 0"),
    "a seed below 0": ({"seed": [-1]}, "seed: -1 is no seed: write whole numbers from 0"),
    "a load of 0": ({"load": [0]}, "load: 0 is no load: write numbers above 0, up to 1000"),
    "a load that is no number": ({"load": [float("nan")]}, "load: nan is no load: write numbers above 0, up to 1000"),
    "too many": (
        {"seed": list(range(1000)), "load": list(range(1, 1001))},
        "1000000 runs are more than 100000: vary less",
    ),
    "an unknown path": (
        {"percentageOfNodeToScore": [1, 2]},
        "percentageOfNodeToScore: unknown field 'percentageOfNodeToScore'; did you mean percentageOfNodesToScore?",
    ),
}


@pytest.mark.parametrize(("vary", "expected"), WRONG.values(), ids=WRONG.keys())
def test_plans_that_cannot_be(vary: dict[str, Any], expected: str) -> None:
    with pytest.raises(UnusablePlan) as caught:
        plan_runs([("a", DEFAULT)], vary)
    assert str(caught.value) == expected


def test_a_load_needs_arrivals() -> None:
    with pytest.raises(UnusablePlan, match=r"^load: scales arrivals, and there are none: give arrivals or a plan to"):
        plan_runs([("a", DEFAULT)], {"load": [1, 2]}, has_arrivals=False)


def test_a_value_that_the_configuration_cannot_have_is_refused_as_in_a_file() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_runs([("a", DEFAULT)], {"percentageOfNodesToScore": [50, 101]})
    assert caught.value.source == "a percentageOfNodesToScore=101"
    assert caught.value.problems == [
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]
