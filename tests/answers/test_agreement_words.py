"""The answer of `mooring agree`, word for word, of bindings that are written by hand."""

from typing import Any

import pytest

from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.judging import BindingVerdict, JudgedBinding, PluginScores
from mooring.drivers.simulated_driver import START_NS

S = 1_000_000_000
AT = START_NS
"""2026-02-01T00:00:00Z."""
SAME, TIED, LOWER = BindingVerdict.SAME, BindingVerdict.TIED, BindingVerdict.LOWER
REJECTED, UNDECIDED = BindingVerdict.REJECTED, BindingVerdict.UNDECIDED


def binding(name: str, verdict: BindingVerdict, at_s: int = 0, **more: Any) -> JudgedBinding:
    profile = more.pop("profile", "default-scheduler")
    return JudgedBinding(f"default/{name}", "a", profile, AT + at_s * S, verdict, **more)


FIT = (PluginScores("Fit", 40, 70), PluginScores("Spread", 100, 90))
SAME_ONE = binding("same", SAME, node_count=9, feasible_count=5, score=200, best="a", best_score=200)
TIED_ONE = binding("tied", TIED, 1, tied_count=3, node_count=9, feasible_count=5, score=150, best="b", best_score=150)
LOWER_ONE = binding(
    "lower",
    LOWER,
    2,
    node_count=9,
    feasible_count=5,
    score=140,
    best="b",
    best_score=160,
    better_count=2,
    may_be_sampled=True,
    plugin="Fit",
    differences=FIT,
)
WORSE_ONE = binding(
    "worse",
    LOWER,
    3,
    profile="other",
    score=100,
    best="b",
    best_score=160,
    better_count=1,
    feasible_count=4,
    plugin="Fit",
    differences=(PluginScores("Fit", 40, 101),),
)
REJECTED_ONE = binding("rejected", REJECTED, 4, plugin="Taints", message="node(s) had taints", best="c", best_score=7)
LOST_ONE = binding("lost", UNDECIDED, 5, message="no such node")
ALL = [SAME_ONE, TIED_ONE, LOWER_ONE, WORSE_ONE, REJECTED_ONE, LOST_ONE]


# ---- sentences


def test_the_headline_has_the_share_of_each_verdict() -> None:
    answer = Agreement(ALL, {"volcano": 2, "batch": 1}, extender_count=2, contradictions=1)
    assert answer.summary() == [
        "6 bindings: same node for 1 (16.7%), a tied node for 1 (16.7%), a lower score for 2 (33.3%), "
        "a node that a filter rejects for 1 (16.7%), no verdict on 1 (16.7%)",
        "Tied nodes share the highest score with others (the median is 3 of 5 nodes that fit): "
        "which of them kube-scheduler takes depends on the order in which its goroutines find them, so these agree "
        "as well as they can",
        "Of the lower scores, 1 may come from percentageOfNodesToScore (kube-scheduler stops after some "
        "nodes that fit, and may not have seen the better ones), 1 cannot",
        "1 binding of batch: not judged, because no profile has this scheduler name",
        "2 bindings of volcano: not judged, because no profile has this scheduler name",
        "2 extenders of the configuration: not asked, so verdicts lack its say",
        "1 change did not fit to the ones before: events are missing",
    ]
    assert not answer.agrees


def test_bindings_that_agree_need_no_more_words() -> None:
    answer = Agreement([SAME_ONE, SAME_ONE])
    assert answer.summary() == [
        "2 bindings: same node for 2 (100.0%), a tied node for 0 (0.0%), a lower score for 0 (0.0%), "
        "a node that a filter rejects for 0 (0.0%)"
    ]
    assert answer.agrees and Agreement([TIED_ONE]).agrees
    assert Agreement(contradictions=2).summary() == [
        "The recording has no binding of a scheduler that the configuration names",
        "2 changes did not fit to the ones before: events are missing",
    ]


@pytest.mark.parametrize(
    ("only", "told"),
    [
        (SAME_ONE, "default/same was bound to a at 2026-02-01T00:00:00Z: Mooring chooses the same of 5 nodes that fit"),
        (
            TIED_ONE,
            "default/tied was bound to a at 2026-02-01T00:00:01Z: one of 3 tied nodes, with the highest score, 150",
        ),
        (
            LOWER_ONE,
            "default/lower was bound to a at 2026-02-01T00:00:02Z, with a score of 140; b has 160, and 2 nodes of 5 "
            "that fit are better",
        ),
        (
            REJECTED_ONE,
            "default/rejected was bound to a at 2026-02-01T00:00:04Z, which Taints rejects: node(s) had taints",
        ),
        (
            binding("r", REJECTED, message="it is full"),
            "default/r was bound to a at 2026-02-01T00:00:00Z, which Mooring rejects: it is full",
        ),
        (LOST_ONE, "default/lost was bound to a at 2026-02-01T00:00:05Z; there is no verdict: no such node"),
    ],
    ids=["same", "tied", "lower", "rejected by a plugin", "rejected by nobody else", "no verdict"],
)
def test_one_binding_is_told_in_a_sentence(only: JudgedBinding, told: str) -> None:
    assert Agreement([only], extender_count=1).summary() == [
        told,
        "1 extender of the configuration: not asked, so verdicts lack its say",
    ]


# ---- tables


def test_the_tables_of_many_bindings() -> None:
    profiles, plugins, rejected, lower, ties, none, bindings = Agreement(ALL).tables()
    verdicts = ("same", "tied", "lower", "rejected", "undecided")
    assert (profiles.title, profiles.columns) == ("By profile", ("profile", "bindings", *verdicts))
    assert profiles.rows == [("default-scheduler", 5, 1, 1, 1, 1, 1), ("other", 1, 0, 0, 1, 0, 0)]
    assert (plugins.title, plugins.columns) == (
        "What makes the difference",
        ("plugin", "bindings", "largest", "mean"),
    )
    assert plugins.rows == [("Fit", 2, 61, "45.5")]
    assert (rejected.title, rejected.columns) == (
        "Rejected by a filter",
        ("pod", "node", "plugin", "reason", "best", "at"),
    )
    assert rejected.rows == [("default/rejected", "a", "Taints", "node(s) had taints", "c", "2026-02-01T00:00:04Z")]
    assert (lower.title, lower.columns) == (
        "Lower scores",
        ("pod", "node", "score", "best", "its score", "behind", "plugin", "by", "better nodes", "may be sampled"),
    )
    assert lower.rows == [
        ("default/worse", "a", 100, "b", 160, 60, "Fit", 61, 1, "no"),
        ("default/lower", "a", 140, "b", 160, 20, "Fit", 30, 2, "yes"),
    ]
    assert (none.title, none.columns, none.rows) == (
        "No verdict",
        ("pod", "node", "reason"),
        [("default/lost", "a", "no such node")],
    )
    assert (bindings.title, bindings.columns) == (
        "Bindings",
        ("at", "pod", "node", "verdict", "tied", "feasible", "score", "best"),
    )
    assert bindings.rows[1] == ("2026-02-01T00:00:01Z", "default/tied", "a", "tied", 3, 5, 150, "b")
    assert bindings.rows[5] == ("2026-02-01T00:00:05Z", "default/lost", "a", "undecided", 1, 0, 0, "-")
    assert [table.is_detail for table in Agreement(ALL).tables()] == [False] * 6 + [True]
    assert (ties.columns, ties.rows) == (("pod", "node", "expected", "tied", "at"), [])


def test_a_rejection_without_a_plugin_and_without_another_node_has_dashes() -> None:
    table = Agreement([binding("r", REJECTED, message="m"), SAME_ONE]).tables()[2]
    assert table.rows == [("default/r", "a", "-", "m", "-", "2026-02-01T00:00:00Z")]


def test_the_plugins_with_most_bindings_come_first() -> None:
    more = [binding(f"x{i}", LOWER, plugin=name, best_score=1) for i, name in enumerate(("B", "C", "A", "C"))]
    assert [row[0] for row in Agreement(more).tables()[1].rows] == ["C", "A", "B"]
    assert Agreement(more).tables()[1].rows[0] == ("C", 2, 0, "0.0"), "without scores there is no difference"


def test_one_binding_has_the_scores_of_both_nodes() -> None:
    (table,) = Agreement([LOWER_ONE]).tables()
    assert (table.title, table.columns) == ("Scores (after weights)", ("plugin", "bound node", "best node"))
    assert table.rows == [*map(tuple, FIT)]


def test_the_bindings_of_one_pod() -> None:
    answer = Agreement(ALL, {"volcano": 2}, ["observer"], 1, 2, ["a file"])
    for name in ("lower", "default/lower", "pod/lower"):
        chosen = answer.about(name)
        assert chosen.bindings == [LOWER_ONE]
        assert (chosen.other_schedulers, chosen.sources, chosen.extender_count) == ({}, ["observer"], 1)
        assert (chosen.contradictions, chosen.problems) == (2, ["a file"])
    assert answer.about("other/lower").bindings == []
    assert answer.similar_to("pod/default/rejecte").startswith("; did you mean default/rejected or ")


# ---- data


def values(answer: Agreement, table: str) -> list[dict[str, object]]:
    found = answer.data_tables()[table]
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_the_data_tables() -> None:
    answer = Agreement(ALL)
    assert [*answer.data_tables()] == ["bindings", "profiles", "plugins"]
    assert values(answer, "bindings")[2] == {
        "pod": "default/lower",
        "node": "a",
        "profile": "default-scheduler",
        "at": AT + 2 * S,
        "verdict": "lower",
        "tied_nodes": 1,
        "nodes": 9,
        "feasible_nodes": 5,
        "score": 140,
        "best_node": "b",
        "best_score": 160,
        "behind": 20,
        "better_nodes": 2,
        "may_be_sampled": True,
        "plugin": "Fit",
        "message": None,
        "expected_node": None,
    }
    assert values(answer, "bindings")[5]["message"] == "no such node"
    assert values(answer, "profiles")[0] == {
        "profile": "default-scheduler",
        "bindings": 5,
        "same": 1,
        "tied": 1,
        "lower": 1,
        "rejected": 1,
        "undecided": 1,
    }
    assert values(answer, "plugins") == [{"plugin": "Fit", "bindings": 2, "largest": 61, "mean": 45.5, "sum": 91}]


def test_the_content() -> None:
    answer = Agreement(ALL, {"volcano": 2}, ["observer"], 1, 2, ["a file"])
    one = {"same": 1, "tied": 1, "lower": 1, "rejected": 1, "undecided": 1}
    other = {"same": 0, "tied": 0, "lower": 1, "rejected": 0, "undecided": 0}
    assert answer.content() == {
        "sources": ["observer"],
        "observed": True,
        "bindings": 6,
        "verdicts": {**one, "lower": 2},
        "mayBeSampled": 1,
        "profiles": [
            {"profile": "default-scheduler", "bindings": 5, "verdicts": one},
            {"profile": "other", "bindings": 1, "verdicts": other},
        ],
        "plugins": [{"plugin": "Fit", "bindings": 2, "largest": 61, "sum": 91}],
        "different": [each.content() for each in (REJECTED_ONE, WORSE_ONE, LOWER_ONE, LOST_ONE)],
        "otherSchedulers": {"volcano": 2},
        "extenders": 1,
        "contradictions": 2,
        "problems": ["a file"],
    }
    assert Agreement(ALL, sources=["mooring"]).content()["observed"] is False


def test_the_content_of_a_binding() -> None:
    assert LOWER_ONE.content() == {
        "pod": "default/lower",
        "node": "a",
        "profile": "default-scheduler",
        "at": "2026-02-01T00:00:02.000000Z",
        "verdict": "lower",
        "tiedNodes": 1,
        "nodes": 9,
        "feasibleNodes": 5,
        "score": 140,
        "bestNode": "b",
        "bestScore": 160,
        "betterNodes": 2,
        "mayBeSampled": True,
        "plugin": "Fit",
        "message": "",
        "plugins": [
            {"plugin": "Fit", "score": 40, "bestScore": 70},
            {"plugin": "Spread", "score": 100, "bestScore": 90},
        ],
    }
    bare = binding("p", SAME)
    assert (bare.content()["bestNode"], bare.content()["plugin"], bare.content()["plugins"]) == ("", "", [])
    assert (bare.content()["mayBeSampled"], bare.plugin_behind, bare.behind) == (False, 0, 0)
