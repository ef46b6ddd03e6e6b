"""Answers about recordings, word for word, of steps and pods that are written by hand."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from mooring.answers.explain.explanation import tipped
from mooring.answers.explain.explanation_form import ScoredNode
from mooring.answers.form.data_table import DataTable
from mooring.answers.recorded.decision_difference import ExplainedDecision, StepDifference, is_otherwise
from mooring.answers.recorded.pod_story import PodFacts, PodStory
from mooring.answers.recorded.replaying import ReplayAnswer, ReplayedRun
from mooring.answers.trial.reasons import Reason
from mooring.drivers.simulated_driver import START_NS
from mooring.scheduler.decision import DecisionError, Diagnosis, NoFit, Placement
from mooring.sim.results import Moment
from mooring.state.replay.differences import ReplayTally

S = 1_000_000_000
AT = START_NS
"""2026-02-01T00:00:00Z."""


def values(table: DataTable) -> list[dict[str, object]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# ---- one decision


def scored(name: str, fit: int, spread: int, image: int = 5) -> ScoredNode:
    return ScoredNode(name, fit + spread + image, {"Fit": fit, "Spread": spread, "Image": image})


SCORES = [scored("a", 40, 100), scored("b", 70, 90), scored("c", 1, 1)]


def a_decision(**changed: Any) -> ExplainedDecision:
    given: dict[str, Any] = {
        "pod": "default/p",
        "recorded_node": "a",
        "node": "b",
        "node_count": 5000,
        "feasible_count": 1234,
        "scores": SCORES,
        "weights": {"Fit": 1, "Spread": 2},
    }
    return ExplainedDecision(**{**given, **changed})


def test_the_scores_of_both_nodes_are_compared() -> None:
    assert a_decision().sentences() == [
        "b is 20 ahead of a (165 to 145): Fit +30, Spread -10",
        "1,234 of 5,000 nodes take the pod now",
    ]


def test_ties_obstacles_and_nodes_without_scores_are_told() -> None:
    tied = a_decision(scores=[scored("a", 40, 100), scored("b", 90, 50)])
    assert tied.sentences()[0] == "a is tied with b now: the same score, 145; the tie went otherwise"
    nominated = "a and b were not scored: a nomination or a single node decides"
    assert a_decision(scores=[]).sentences()[0] == nominated
    assert a_decision(scores=SCORES[:1]).sentences()[0] == nominated
    assert a_decision(scores=SCORES[1:]).sentences()[0] == nominated
    rejected = a_decision(obstacle="Fit: Insufficient cpu", was_extended=True)
    assert rejected.sentences() == [
        "a does not take the pod now: Fit: Insufficient cpu",
        "1,234 of 5,000 nodes take the pod now",
        "Extenders took part; their answers are not in these scores",
    ]
    assert a_decision(recorded_node="").sentences() == ["1,234 of 5,000 nodes take the pod now"]
    assert a_decision(node="").sentences() == []


def test_the_tables_of_a_decision() -> None:
    reason = Reason("Fit", "Insufficient cpu", np.arange(1500), ("n1", "n2"))
    scores, why = a_decision(reasons=[reason]).tables()
    assert (scores.title, scores.columns) == (
        "Scores now (after weights)",
        ("node", "chosen", "total", "Fit*1", "Spread*2", "Image*1"),
    )
    assert scores.rows == [("a", "then", 145, 40, 100, 5), ("b", "now", 165, 70, 90, 5), ("c", "-", 7, 1, 1, 5)]
    assert (why.title, why.columns) == ("Why not now", ("nodes", "plugin", "reason", "such as"))
    assert why.rows == [("1,500", "Fit", "Insufficient cpu", "n1, n2")]
    empty, _ = ExplainedDecision("default/p").tables()
    assert (empty.columns, empty.rows) == (("node", "chosen", "total"), [])


def test_the_content_of_a_decision() -> None:
    assert a_decision(scores=SCORES[:1], message="m", obstacle="o").content() == {
        "pod": "default/p",
        "recordedNode": "a",
        "node": "b",
        "message": "m",
        "nodes": 5000,
        "feasibleNodes": 1234,
        "scores": [{"node": "a", "total": 145, "plugins": {"Fit": 40, "Spread": 100, "Image": 5}}],
        "recordedNodeRejected": "o",
        "reasons": [],
    }
    empty = ExplainedDecision("default/p")
    assert (empty.recorded_node, empty.node, empty.message, empty.obstacle, empty.was_extended) == (
        "",
        "",
        "",
        "",
        False,
    )
    assert (empty.node_count, empty.feasible_count) == (0, 0)


def test_the_largest_difference_comes_first_and_equal_ones_by_name() -> None:
    now, then = ScoredNode("x", 6, {"a": 5, "b": 1, "c": 0}), ScoredNode("y", 14, {"a": 1, "b": 9, "d": 4})
    assert [*map(tuple, tipped(now, then))] == [("b", -8), ("a", 4), ("d", -4), ("c", 0)]


PLACED, NO_FIT = Placement("a", 0, 1), NoFit(Diagnosis(3))


@pytest.mark.parametrize(
    ("decision", "recorded", "is_other"),
    [
        (PLACED, None, False),
        (NO_FIT, None, True),
        (PLACED, ("bind", "default/p", "a"), False),
        (PLACED, ("bind", "default/p", "b"), True),
        (PLACED, ("fail", "default/p", "a"), True),
        (NO_FIT, ("bind", "default/p", "a"), True),
        (NO_FIT, ("fail", "default/p", f"{NO_FIT.message} and more"), False),
        (NO_FIT, ("fail", "default/p", "another reason"), True),
        (DecisionError("it broke"), ("fail", "default/p", "it broke"), False),
        (DecisionError("it broke"), ("fail", "default/p", "it is whole"), True),
    ],
    ids=[
        "a placement may wait",
        "no node, and nothing was recorded",
        "the same node",
        "another node",
        "a node instead of none",
        "none instead of a node",
        "the same reason",
        "another reason",
        "the same error",
        "another error",
    ],
)
def test_whether_a_decision_leads_to_another_outcome(decision: Any, recorded: Any, is_other: bool) -> None:
    assert is_otherwise(decision, recorded) is is_other


# ---- steps


def a_step(number: int = 1234, decision: ExplainedDecision | None = None) -> StepDifference:
    pods, then, now = ["default/p", "default/q"], ["p is bound to a", "q waits"], ["p is bound to b"]
    return StepDifference("run-1", number, AT + 1_500_000, "another node", pods, then, now, decision)


def test_a_step_is_told_with_what_was_and_what_is() -> None:
    assert a_step().sentences() == [
        "The first difference is step 1,234 of run-1, at 2026-02-01T00:00:00.001500Z: another node",
        "  then: p is bound to a",
        "  then: q waits",
        "  now:  p is bound to b",
    ]
    assert a_step(decision=a_decision()).sentences()[4:] == a_decision().sentences()
    assert a_step().content() == {
        "run": "run-1",
        "step": 1234,
        "at": "2026-02-01T00:00:00.001500Z",
        "kind": "another node",
        "pods": ["default/p", "default/q"],
        "recorded": ["p is bound to a", "q waits"],
        "now": ["p is bound to b"],
        "decision": None,
    }
    assert a_step(decision=a_decision()).content()["decision"]["pod"] == "default/p"


# ---- a recording


def a_tally(**changed: Any) -> ReplayTally:
    given: dict[str, Any] = {
        "steps": 12345,
        "decisions": 2000,
        "binds": 1500,
        "failures": 1400,
        "evictions": 1300,
        "differing_steps": 3,
        "differing_decisions": 2,
        "by_kind": Counter({"another node": 1002, "late": 1}),
        "first_ns": AT,
        "last_ns": AT + 90 * S,
    }
    return ReplayTally(**{**given, **changed})


EMPTY = ReplayedRun("run-2", "1.1", ReplayTally())


def an_answer(*runs: ReplayedRun, **changed: Any) -> ReplayAnswer:
    total = changed.pop("total", a_tally())
    return ReplayAnswer(runs or (ReplayedRun("run-1", "1.0", a_tally()), EMPTY), 1.5, total=total, **changed)


def test_the_headline_tells_what_came_out_equal() -> None:
    told = "12,345 steps, 2,000 decisions (1,500 binds, 1,400 failures, 1,300 evictions)"
    assert an_answer().summary() == [
        f"1 run, {told}: 1,998 came out equal, 2 did not",
        "Recorded from 2026-02-01T00:00:00Z to 2026-02-01T00:01:30Z (1m30s), replayed in 1.5s: 60 times real time",
    ]
    equal = an_answer(total=a_tally(differing_steps=0, differing_decisions=0))
    assert equal.summary()[0] == f"1 run, {told}: all came out equal"
    assert equal.is_equal and not an_answer().is_equal
    steps = an_answer(total=a_tally(differing_steps=1, differing_decisions=0))
    assert steps.summary()[0] == f"1 run, {told}: all came out equal, but 1 step asked for something else"
    first = an_answer(first=a_step())
    assert first.summary()[2:] == ["", *a_step().sentences()]


def test_the_times_are_those_of_all_runs_that_were_replayed() -> None:
    later = ReplayedRun("run-3", "1.0", a_tally(first_ns=AT + 100 * S, last_ns=AT + 160 * S))
    answer = an_answer(later, EMPTY, ReplayedRun("run-1", "1.0", a_tally()))
    assert answer.summary()[1] == (
        "Recorded from 2026-02-01T00:00:00Z to 2026-02-01T00:02:40Z (2m30s), replayed in 1.5s: 100 times real time"
    )
    assert (answer.recorded_s, answer.speed, answer.is_replayed) == (150.0, 100.0, True)
    nothing = ReplayAnswer([EMPTY], 0.0)
    assert nothing.summary()[1] == "Nothing was replayed"
    assert (nothing.recorded_s, nothing.speed, nothing.is_replayed, nothing.is_equal) == (0.0, 0.0, False, True)
    assert (EMPTY.span_ns(), EMPTY.times()) == ((None, None), ("", ""))


def test_the_tables_of_a_recording() -> None:
    kinds, runs, steps = an_answer(differences=[a_step()]).tables()
    assert (kinds.title, kinds.columns, kinds.is_detail) == (
        "Differences by kind",
        ("instead of what was recorded", "steps"),
        False,
    )
    assert kinds.rows == [("another node", "1,002"), ("late", "1")]
    assert (runs.title, runs.columns, runs.is_detail) == (
        "Runs",
        ("run", "from", "until", "steps", "decisions", "equal"),
        False,
    )
    assert runs.rows == [
        ("run-1", "2026-02-01T00:00:00Z", "2026-02-01T00:01:30Z", "12,345", "2,000", "1,998"),
        ("run-2", "-", "-", "0", "0", "0"),
    ]
    assert (steps.title, steps.columns, steps.is_detail) == (
        "The first differences",
        ("at", "step", "then", "now"),
        True,
    )
    assert steps.rows == [("2026-02-01T00:00:00Z", 1234, "p is bound to a; q waits", "p is bound to b")]
    assert an_answer(EMPTY).tables()[1].is_detail
    explained = an_answer(first=a_step(decision=a_decision())).tables()
    assert [table.title for table in explained[:2]] == ["Scores now (after weights)", "Why not now"]
    assert len(an_answer(first=a_step()).tables()) == 3


FIGURES = {
    "steps": 12345,
    "decisions": 2000,
    "equalDecisions": 1998,
    "binds": 1500,
    "failures": 1400,
    "evictions": 1300,
    "differingSteps": 3,
}
NONE = dict.fromkeys(FIGURES, 0)


def test_the_content_of_a_recording() -> None:
    answer = an_answer(differences=[a_step()], problems=["a file"], notes=["a note"])
    times = {"from": "2026-02-01T00:00:00Z", "until": "2026-02-01T00:01:30Z"}
    assert answer.content() == {
        "equal": False,
        **FIGURES,
        "runs": [
            {"name": "run-1", "version": "1.0", **times, **FIGURES},
            {"name": "run-2", "version": "1.1", "from": "", "until": "", **NONE},
        ],
        "recordedSeconds": 90.0,
        "tookSeconds": 1.5,
        "speed": 60.0,
        "firstDifference": None,
        "differences": [a_step().content()],
        "differencesByKind": {"another node": 1002, "late": 1},
        "problems": ["a file"],
        "notes": ["a note"],
    }
    assert an_answer(first=a_step()).content()["firstDifference"] == a_step().content()


def test_the_data_tables_of_a_recording() -> None:
    tables = an_answer(differences=[a_step()]).data_tables()
    assert values(tables["runs"]) == [
        {
            "run": "run-1",
            "version": "1.0",
            "from": AT,
            "until": AT + 90 * S,
            "steps": 12345,
            "decisions": 2000,
            "equal_decisions": 1998,
            "binds": 1500,
            "failures": 1400,
            "evictions": 1300,
            "differing_steps": 3,
        },
        {
            "run": "run-2",
            "version": "1.1",
            "from": None,
            "until": None,
            "steps": 0,
            "decisions": 0,
            "equal_decisions": 0,
            "binds": 0,
            "failures": 0,
            "evictions": 0,
            "differing_steps": 0,
        },
    ]
    assert values(tables["differences"]) == [
        {
            "run": "run-1",
            "step": 1234,
            "at": AT + 1_500_000,
            "kind": "another node",
            "pods": "default/p, default/q",
            "recorded": "p is bound to a; q waits",
            "now": "p is bound to b",
        }
    ]
    assert [*tables] == ["runs", "differences"]


# ---- the story of a pod


def a_story(**changed: Any) -> PodStory:
    facts = PodFacts(AT, AT + 2 * S, "a", AT + 60 * S, "default/high")
    moments = [Moment(AT, 0, 0, "came"), Moment(AT + S, 1, 7, "is bound to a")]
    given: dict[str, Any] = {"pod": "default/p", "facts": facts, "moments": moments}
    return PodStory(**{**given, **changed})


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            PodFacts(AT, AT + 2 * S, "a", AT + 60 * S, "default/high"),
            "default/p arrived at 2026-02-01T00:00:00Z; went to a at 2026-02-01T00:00:02Z after 2.0s; "
            "was evicted for default/high; left at 2026-02-01T00:01:00Z",
        ),
        (
            PodFacts(None, AT + 2 * S, "a"),
            "default/p was there before the recording; went to a at 2026-02-01T00:00:02Z",
        ),
        (PodFacts(None, None, "a"), "default/p was there before the recording; was on a"),
        (PodFacts(AT), "default/p arrived at 2026-02-01T00:00:00Z; got no node"),
    ],
    ids=["all of it", "it was there", "it had its node", "it got none"],
)
def test_the_facts_of_a_pod(facts: PodFacts, told: str) -> None:
    assert a_story(facts=facts).summary() == [told]


def test_a_story_tells_where_the_replay_differs() -> None:
    story = a_story(differences=[a_step()])
    assert story.summary()[1:] == [
        "At 2026-02-01T00:00:00.001500Z the replay differs: another node",
        "  then: p is bound to a",
        "  then: q waits",
        "  now:  p is bound to b",
    ]
    assert (story.is_equal, a_story().is_equal) == (False, True)


def test_the_table_and_the_data_of_a_story() -> None:
    (table,) = a_story(left_out=1200).tables()
    assert (table.title, table.columns) == ("Story (without 1,200 earlier moments)", ("at", "attempt", "what"))
    assert table.rows == [
        ("2026-02-01T00:00:00.000000Z", "-", "came"),
        ("2026-02-01T00:00:01.000000Z", 1, "is bound to a"),
    ]
    assert a_story().tables()[0].title == "Story"
    tables = a_story(differences=[a_step()]).data_tables()
    assert [*tables] == ["story", "differences"]
    assert values(tables["story"]) == [
        {"at": AT, "attempt": None, "text": "came"},
        {"at": AT + S, "attempt": 1, "text": "is bound to a"},
    ]
    assert len(tables["differences"].rows) == 1


def test_the_content_of_a_story() -> None:
    assert a_story(problems=["a file"], decided_ns=AT).content() == {
        "pod": "default/p",
        "equal": True,
        "arrived": "2026-02-01T00:00:00.000000Z",
        "bound": "2026-02-01T00:00:02.000000Z",
        "node": "a",
        "left": "2026-02-01T00:01:00.000000Z",
        "evictedFor": "default/high",
        "story": [
            {"at": "2026-02-01T00:00:00.000000Z", "attempt": 0, "text": "came"},
            {"at": "2026-02-01T00:00:01.000000Z", "attempt": 1, "text": "is bound to a"},
        ],
        "decided": "2026-02-01T00:00:00.000000Z",
        "nominated": False,
        "explanation": None,
        "differences": [],
        "problems": ["a file"],
    }
    unknown = a_story(facts=PodFacts(), differences=[a_step()]).content()
    assert (unknown["arrived"], unknown["bound"], unknown["node"], unknown["left"], unknown["evictedFor"]) == ("",) * 5
    assert (unknown["decided"], unknown["differences"]) == ("", [a_step().content()])
