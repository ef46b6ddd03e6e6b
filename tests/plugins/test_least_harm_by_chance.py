"""The least harmful candidate in a few dozen worlds that were drawn once, against the plain loop: quick enough for each run.

`test_least_harm.py` has many more worlds, for runs with slow tests.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from test_least_harm import APPS, HOST, NODES, PRIORITIES, ZONE, Form, World, a_plugin, a_random_pod, compare
from test_preemption import a_budget, labelled

RULES = ("", "", f"anti {HOST}", f"anti {ZONE}", f"near {ZONE}", f"spread {ZONE}", f"spread {HOST}", "zone", "port")
WORLDS = 12
"""Of each kind."""


def a_form(chance: Random, *rules: str) -> Form:
    app = chance.choice((*APPS, None))
    return Form(chance.randint(0, 2), chance.choice((0, 0, 1)), app, chance.choice(rules), chance.choice(APPS))


def a_node_step(chance: Random, name: str) -> tuple[str, Any]:
    return "node", (name, chance.randint(2, 4), chance.randint(0, 2), chance.randint(3, 5), chance.random() < 0.1)


def a_placed(chance: Random, name: str, *rules: str) -> tuple[str, Any]:
    second = chance.choice((None, None, 0, 1, 2))
    return "place", (name, chance.choice(PRIORITIES), a_form(chance, *rules), second, False)


def a_promise(chance: Random, *rules: str) -> tuple[str, Any]:
    pod, priority = chance.choice(("x", "y", "pre0", "pre1")), chance.choice((0, 5, 10, 20))
    return "promise", (pod, chance.choice(NODES), priority, a_form(chance, *rules))


def drawn(chance: Random, *rules: str) -> World:
    """Six nodes with three or four pods each."""
    world = World()
    for name in NODES:
        world.change(a_node_step(chance, name))
        for _ in range(chance.randint(3, 4)):
            world.change(a_placed(chance, name, *rules))
    return world


def a_step(chance: Random, *rules: str) -> tuple[str, Any]:
    """A change of a node or two, such as come between attempts."""
    name = chance.choice(NODES)
    steps: tuple[Callable[[], tuple[str, Any]], ...] = (
        lambda: a_placed(chance, name, *rules),
        lambda: ("displace", chance.randint(0, 30)),
        lambda: ("start", chance.randint(0, 30)),
        lambda: a_promise(chance, *rules),
        lambda: ("withdraw", chance.choice(("x", "y", "pre0", "pre1"))),
        lambda: a_node_step(chance, name),
    )
    return chance.choice(steps)()


def compare_on_the_way(chance: Random, world: World, steps: int, *rules: str) -> None:
    """Two preemptors of one form and one of another ask after each step."""
    form, priority = a_form(chance, *rules), chance.choice((1, 5, 11))
    pods = [a_random_pod(f"pre{i}", form, priority) for i in range(2)]
    pods.append(a_random_pod("pre2", a_form(chance, *rules), chance.choice((1, 5, 11))))
    kept = a_plugin()
    for step in [("nothing", None), ("nothing", None), *(a_step(chance, *rules) for _ in range(steps))]:
        world.change(step)
        for pod in pods:
            compare(world, pod, kept)


@pytest.mark.parametrize("number", range(WORLDS))
def test_where_sums_decide(number: int) -> None:
    chance = Random(number)
    compare_on_the_way(chance, drawn(chance, ""), 8, "", "zone")


@pytest.mark.parametrize("number", range(WORLDS))
def test_where_pods_have_rules_about_others(number: int) -> None:
    chance = Random(number)
    compare_on_the_way(chance, drawn(chance, "", "", *RULES), 3, *RULES)


@pytest.mark.parametrize("number", range(WORLDS))
def test_where_budgets_protect_pods(number: int) -> None:
    chance = Random(number)
    world = drawn(chance, "")
    for app in chance.sample(APPS, 2):
        world.cluster.put(a_budget(f"of-{app}", labelled(app), chance.randint(0, 2)))
    compare_on_the_way(chance, world, 2, "")
