"""Scores by extenders: what they are worth, who wins ties, and that failures are never fatal (extender.md §5)."""

from dataclasses import replace
from typing import Any

import pytest

from build import a_node
from extending import URL, Extended, a_pending, a_running, as_json, keep
from mooring.framework.contract.intents import CallFault
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.ties import by_seed

ONE = {"prioritizeVerb": "prioritize", "nodeCacheCapable": True}


def scores(**by_host: int) -> list[dict[str, Any]]:
    return [{"Host": host, "Score": score} for host, score in by_host.items()]


def totals(world: Extended) -> str:
    """The story of the choice: which node, and its total."""
    (told,) = (story for story in world.stories if "goes to" in story)
    return told


def test_without_any_scores_the_lowest_name_wins() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = scores(n1=0, n2=0, n3=0)
    assert world.place(a_pending()) == "n1", "what the other tests compare with"


def test_the_best_score_wins() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = scores(n1=3, n2=7, n3=1)
    assert world.place(a_pending()) == "n2"


def base() -> int:
    """What the plugins alone give to each of the three nodes, which are all the same."""
    world = Extended()
    world.place(a_pending())
    return int(totals(world).rpartition("score ")[2].rstrip(")"))


@pytest.mark.parametrize(("weight", "added"), [(1, 70), (2, 140), (5, 350)])
def test_a_score_counts_ten_times_its_weight(weight: int, added: int) -> None:
    world = Extended({**ONE, "weight": weight})
    world.answers["prioritize"] = scores(n1=1, n2=7, n3=0)
    world.place(a_pending())
    assert totals(world) == f"pod goes to n2, the best of 3 feasible nodes (score {base() + added})"


def test_scores_of_several_extenders_add_up() -> None:
    world = Extended(ONE, {**ONE, "prioritizeVerb": "second", "weight": 3})
    world.answers |= {"prioritize": scores(n1=10, n3=4), "second": scores(n2=1, n3=3)}
    assert world.place(a_pending()) == "n3"
    assert f"score {base() + 4 * 10 + 3 * 30})" in totals(world)


def test_a_host_that_comes_twice_counts_twice() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = [*scores(n1=5, n2=3), *scores(n2=3)]
    assert world.place(a_pending()) == "n2"


def test_keys_may_be_in_any_case_and_others_are_passed_over() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = [{"host": "n3", "SCORE": 5, "why": "x"}, {"Host": "ghost", "Score": 10}]
    assert world.place(a_pending()) == "n3"


def test_nobody_checks_the_range() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = scores(n1=10, n2=1_000, n3=-5)
    assert world.place(a_pending()) == "n2"
    world = Extended(ONE)
    world.answers["prioritize"] = scores(n1=1, n2=(1 << 63) // 10 + 1)
    assert world.place(a_pending()) == "n1", "what does not fit into 64 bits has become negative"


# ---- ties


def test_nodes_that_were_spoken_of_win_ties() -> None:
    world = Extended(ONE)
    world.answers["prioritize"] = scores(n3=0)
    assert world.place(a_pending()) == "n3"


def test_one_that_gives_no_scores_speaks_of_all_nodes() -> None:
    world = Extended(ONE, {"filterVerb": "filter", "nodeCacheCapable": True})
    world.answers |= {"prioritize": scores(n3=0), "filter": {"NodeNames": ["n1", "n2", "n3"]}}
    assert world.place(a_pending()) == "n1"


def test_ties_are_drawn_among_those_that_were_spoken_of() -> None:
    chosen = set()
    world = Extended(ONE, nodes=[a_node(f"n{i}") for i in range(6)])
    world.scheduler.core.options = replace(world.scheduler.core.options, tie_break=by_seed)
    world.answers["prioritize"] = scores(n2=0, n4=0)
    for i in range(12):
        pod = a_pending(f"pod-{i}")
        chosen.add(world.place(pod))
        world.driver.delete("Pod", pod.key)
    assert chosen == {"n2", "n4"}


# ---- failures


FAILURES: dict[str, Any] = {
    "it died after the filter": CallFault(f'Post "{URL}/prioritize": EOF'),
    "an object": {"Error": "no"},
    "a score that is no integer": [{"Host": "n2", "Score": 7.5}],
    "a score that is a text": [{"Host": "n2", "Score": "7"}],
    "a score beyond 64 bits": [{"Host": "n2", "Score": 1 << 63}],
    "a host that is a number": [{"Host": 2, "Score": 7}],
    "an entry that is no object": [7],
    "null": None,
    "an empty list": [],
}


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("case", FAILURES)
def test_no_failure_keeps_the_pod_from_its_node(case: str, ignorable: bool) -> None:
    world = Extended({**ONE, "filterVerb": "filter", "ignorable": ignorable})
    world.answers |= {"filter": {"NodeNames": ["n1", "n2", "n3"]}, "prioritize": FAILURES[case]}
    assert world.place(a_pending()) == "n1"
    assert world.reports == [], "it is no news for operators"
    assert world.asked() == ["filter", "prioritize"]
    told = [story for story in world.stories if "No score given by this extender" in story]
    assert len(told) == (0 if case in ("null", "an empty list") else 1)


def test_the_failure_of_one_does_not_touch_the_others() -> None:
    world = Extended(ONE, {**ONE, "prioritizeVerb": "second"})
    world.answers |= {"prioritize": CallFault("dead"), "second": scores(n3=1)}
    assert world.place(a_pending()) == "n3"


# ---- when they are asked


def test_with_one_feasible_node_nobody_is_asked() -> None:
    world = Extended(ONE, nodes=("n1", a_node("closed", unschedulable=True)))
    assert world.place(a_pending()) == "n1"
    assert world.calls == []


def test_all_are_asked_at_once() -> None:
    world = Extended(ONE, {**ONE, "prioritizeVerb": "second"})
    world.scheduler.handle(ObjectAdded(a_pending()))
    world.scheduler.attempt()
    calls = world.scheduler.take_intents()
    assert [call.verb for call in calls] == ["prioritize", "second"]  # type: ignore[union-attr]
    assert all(as_json(call)["NodeNames"] == ["n1", "n2", "n3"] for call in calls)  # type: ignore[arg-type]


def test_without_score_plugins_nodes_are_worth_nothing_of_their_own() -> None:
    none = {"score": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}}
    world = Extended(ONE, profiles=[{"schedulerName": "default-scheduler", "plugins": none}])
    world.answers["prioritize"] = scores(n2=1)
    assert world.place(a_pending()) == "n2"
    assert "score 10)" in totals(world)


# ---- nodes that came back whole


@pytest.mark.parametrize(
    ("has_cache", "expected"),
    [
        pytest.param(True, "n2", id="named nodes are scored with what runs on them"),
        pytest.param(False, "n1", id="whole ones as if they were empty"),
    ],
)
@pytest.mark.parametrize("what", ["pods", "images"])
def test_nodes_that_came_back_whole_are_scored_bare(has_cache: bool, expected: str, what: str) -> None:
    """n2 is the better one: it has less to do, or has the image; where nobody sees that, the lower name wins."""
    nodes = [a_node("n1"), a_node("n2", images={"x:latest": 900 << 20} if what == "images" else {})]
    world = Extended({"filterVerb": "filter", "nodeCacheCapable": has_cache}, nodes=nodes)
    if what == "pods":
        world.put(a_running("busy", "n1", cpu="2"))
    world.answers["filter"] = keep("n1", "n2")
    assert world.place(a_pending(cpu="1", image="x:latest")) == expected
