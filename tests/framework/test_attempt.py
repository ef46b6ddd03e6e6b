"""How the plugins of a profile are run on a pod, with plugins made for the purpose: order, merging, and what goes wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.attempt import PodRejected, ScoreCard
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import (
    FilterPlugin,
    NodeNames,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    reads,
)
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, Code, PluginError, Rejection, curable, final
from mooring.framework.profile.profiles import Profile
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement

NODES = ("n0", "n1", "n2")


def only(*names: str) -> NodeNames:
    return NodeNames(frozenset(names))


def names_of(context: SchedulingContext, rows: Rows) -> list[str]:
    return [context.nodes.names[row] for row in np.arange(context.nodes.height)[rows] if context.nodes.alive[row]]


def column(context: SchedulingContext, rows: Rows, by_node: Mapping[str, int]) -> Any:
    """What is said about each row; 0 where nothing is said."""
    return np.array(
        [by_node.get(context.nodes.names[row], 0) for row in np.arange(context.nodes.height)[rows]], np.int64
    )


class Fake(Plugin):
    """A plugin whose answers are given when it is made: a value, or an exception to raise. It notes what it is asked."""

    def __init__(self, name: str, answer: Any = None) -> None:
        self.__dict__["name"] = name
        self.answer = answer
        self.asked: list[list[str]] = []

    def say(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def note(self, context: SchedulingContext, rows: Rows) -> None:
        self.asked.append(names_of(context, rows))


class FakePreFilter(Fake, PreFilterPlugin):
    def pre_filter(self, context: SchedulingContext) -> Any:
        self.asked.append([])
        return self.say()


class FixedPreFilter(Fake, PreFilterPlugin):
    """Its answer belongs to the shape."""

    @reads(Reads.SHAPE)
    def pre_filter(self, context: SchedulingContext) -> Any:
        self.asked.append([])
        return self.say()


class FakeFilter(Fake, FilterPlugin):
    """Answers with codes by node name, or with whatever else it was given."""

    def filter(self, context: SchedulingContext, rows: Rows) -> Any:
        self.note(context, rows)
        said = self.say()
        return column(context, rows, said) if isinstance(said, dict) else said

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable(f"{self.name} said {code}")


class KeptFilter(FakeFilter):
    """The same, but its answers are kept from one attempt to the next."""

    @reads(Reads.ROW)
    def filter(self, context: SchedulingContext, rows: Rows) -> Any:
        return super().filter(context, rows)


class FakePreScore(Fake, PreScorePlugin):
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Any:
        self.note(context, rows)
        return self.say()


class FakeScore(Fake, ScorePlugin):
    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        self.note(context, rows)
        said = self.say()
        return column(context, rows, said) if isinstance(said, dict) else said


class KeptScore(FakeScore):
    @reads(Reads.ROW)
    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        return super().score(context, rows)


class NormalizedScore(FakeScore):
    """Turns scores around, and notes what it was given to normalise; or does what it was told to."""

    def __init__(self, name: str, answer: Any = None, normalized: Any = None) -> None:
        super().__init__(name, answer)
        self.normalized = normalized
        self.given: list[tuple[list[int], list[str]]] = []

    def normalize(self, context: SchedulingContext, scores: Any, rows: Rows) -> Any:
        self.given.append((scores.tolist(), names_of(context, rows)))
        if isinstance(self.normalized, Exception):
            raise self.normalized
        return 100 - scores if self.normalized is None else np.array(self.normalized, np.int64)


class KeptNormalizedScore(NormalizedScore):
    @reads(Reads.NODE)
    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        return super().score(context, rows)


def a_profile(*plugins: Fake, weights: Mapping[str, int] | None = None, percentage: int | None = None) -> Profile:
    """A profile that runs each plugin at all points that it extends."""
    kinds = {
        "preFilter": PreFilterPlugin,
        "filter": FilterPlugin,
        "preScore": PreScorePlugin,
        "score": ScorePlugin,
    }
    points: dict[str, tuple[Plugin, ...]] = {
        point: tuple(p for p in plugins if isinstance(p, kind)) for point, kind in kinds.items()
    }
    return Profile("mine", percentage, points, {p.name: 1 for p in plugins} | dict(weights or {}))


def three_nodes() -> Cluster:
    return a_cluster(*(a_node(name) for name in NODES))


def run(*plugins: Fake, cluster: Cluster | None = None, **more: Any) -> Decision:
    return decide(Runner(a_profile(*plugins, **more)), a_pod(), cluster or three_nodes(), DecideOptions(explain=True))


def refused(decision: Decision) -> tuple[str, set[str]]:
    """The message and the plugins of a pod that fits nowhere."""
    assert isinstance(decision, NoFit)
    return decision.message, set(decision.diagnosis.plugins)


def feasible(decision: Decision) -> list[str]:
    assert isinstance(decision, Placement)
    assert decision.details is not None
    return decision.details.feasible


def error(decision: Decision) -> str:
    assert isinstance(decision, DecisionError)
    return decision.error


# ---- PreFilter


NARROWED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nobody restricts": ({"A": None, "B": None}, ["n0", "n1", "n2"]),
    "one restricts": ({"A": only("n2", "n0"), "B": None}, ["n0", "n2"]),
    "both restrict": ({"A": only("n0", "n1"), "B": only("n1", "n2")}, ["n1"]),
    "names that no node has are left out": ({"A": only("n1", "ghost")}, ["n1"]),
    "a plugin that skips restricts nothing": ({"A": SKIP, "B": only("n1")}, ["n1"]),
}


@pytest.mark.parametrize(("said", "left"), NARROWED.values(), ids=NARROWED.keys())
@pytest.mark.parametrize("kind", [FakePreFilter, FixedPreFilter])
def test_the_nodes_that_pre_filters_name_are_intersected(
    kind: type[Fake], said: dict[str, Any], left: list[str]
) -> None:
    assert feasible(run(*(kind(name, answer) for name, answer in said.items()), FakeScore("S"))) == left


@pytest.mark.parametrize(("said", "asked"), [(SKIP, 3), (SKIP_SHAPE, 1)], ids=["SKIP", "SKIP_SHAPE"])
def test_a_plugin_that_skips_a_shape_is_asked_once_about_it(said: Any, asked: int) -> None:
    """A filter or score that rejects every node, or raises, shows if it is asked all the same."""

    class Skipping(FakePreFilter, FakeFilter): ...

    class SkippingScore(FakePreScore, FakeScore): ...

    before, after = Skipping("A", said), SkippingScore("B", said)
    runner, cluster, pod = Runner(a_profile(before, after)), three_nodes(), a_pod()
    for _ in range(3):
        assert isinstance(decide(runner, pod, cluster, DecideOptions()), Placement)
    assert (len(before.asked), len(after.asked)) == (asked, asked)
    assert isinstance(decide(runner, a_pod(cpu="1"), cluster, DecideOptions()), Placement)
    assert len(before.asked) == asked + 1, "another shape is asked about anew"


def test_a_plugin_that_is_asked_if_concerned_skips_all_other_pods() -> None:
    """Its answers reject every node, so it shows if it is asked about a pod without extended resources."""

    class ForDevices(FakePreFilter, FakeFilter):
        is_asked_if_concerned = True
        concerned_by = PodPart.REQUESTS

        @classmethod
        def concerns(cls, pod: Pod) -> bool:
            return pod.shape.has_extended_requests

    plugin = ForDevices("A", final("no devices"))
    runner, cluster = Runner(a_profile(plugin, FakeScore("S"))), three_nodes()
    for cpu in ("1", "2", "2"):
        attempt = runner.open(a_pod(cpu=cpu), cluster)
        assert not isinstance(attempt.pre_filter(), PodRejected)
        assert attempt.left_out == frozenset({"A"}) and not attempt.active_filters()
        assert isinstance(decide(runner, a_pod(cpu=cpu), cluster, DecideOptions()), Placement)
    assert not plugin.asked
    assert isinstance(decide(runner, a_pod(requests={"example.com/gpu": 1}), cluster, DecideOptions()), NoFit)


REFUSED: dict[str, tuple[dict[str, Any], str, set[str]]] = {
    "two that have no node in common": (
        {"A": only("n0"), "B": only("n1")},
        "node(s) didn't satisfy plugin(s) [A B] simultaneously",
        {"A", "B"},
    ),
    "their names are sorted": (
        {"B": only("n0"), "A": only("n1")},
        "node(s) didn't satisfy plugin(s) [A B] simultaneously",
        {"A", "B"},
    ),
    "three, of which two agree": (
        {"A": only("n0", "n1"), "B": only("n0"), "C": only("n2")},
        "node(s) didn't satisfy plugin(s) [A B C] simultaneously",
        {"A", "B", "C"},
    ),
    "one that names no node": ({"A": only()}, "node(s) didn't satisfy plugin A", {"A"}),
    "a final refusal": ({"A": final("no")}, "no", {"A"}),
    "a refusal with two reasons": ({"A": final("this", "that")}, "this, that", {"A"}),
    "the last of two that could be cured": ({"A": curable("first"), "B": curable("second")}, "second", {"B"}),
    "a final one after one that could be cured": ({"A": curable("first"), "B": final("second")}, "second", {"B"}),
    "one that could be cured, with other plugins content": ({"A": curable("no"), "B": only("n0")}, "no", {"A"}),
    "no node in common outweighs one that could be cured": (
        {"A": curable("no"), "B": only("n0"), "C": only("n1")},
        "node(s) didn't satisfy plugin(s) [B C] simultaneously",
        {"B", "C"},
    ),
}


@pytest.mark.parametrize(("said", "reason", "plugins"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("kind", [FakePreFilter, FixedPreFilter])
def test_a_pod_that_pre_filters_refuse(kind: type[Fake], said: dict[str, Any], reason: str, plugins: set[str]) -> None:
    """Also the second time, when answers that belong to the shape are remembered."""
    runner, cluster = Runner(a_profile(*(kind(name, answer) for name, answer in said.items()))), three_nodes()
    for _ in range(2):
        decision = decide(runner, a_pod(), cluster, DecideOptions())
        assert refused(decision) == (f"0/3 nodes are available: {reason}.", plugins)


def test_a_final_refusal_ends_the_asking_and_a_curable_one_does_not() -> None:
    a, b, c = (FakePreFilter(name, answer) for name, answer in (("A", curable("x")), ("B", final("y")), ("C", None)))
    run(a, b, c)
    assert [len(plugin.asked) for plugin in (a, b, c)] == [1, 1, 0]


def test_no_filter_is_asked_about_a_pod_that_was_refused() -> None:
    judge = FakeFilter("F")
    run(FakePreFilter("A", curable("x")), judge)
    assert judge.asked == []


def test_no_what_if_asks_filters_of_an_attempt_that_pre_filter_ended() -> None:
    """They have no state to answer with. A curable refusal does not end PreFilter, so that preemption can ask them."""
    asked = {}
    for name, refusal in (("final", final("x")), ("curable", curable("x"))):
        attempt = Runner(a_profile(FakePreFilter("A", refusal), FakeFilter("F"))).open(a_pod(), three_nodes())
        assert isinstance(attempt.pre_filter(), PodRejected)
        asked[name] = attempt
    assert [plugin.name for _, plugin in asked["curable"].active_filters()] == ["F"]
    with pytest.raises(RuntimeError, match="PreFilter did not run to its end"):
        asked["final"].active_filters()


def test_the_verdict_of_a_refusal_keeps_its_code_and_names_its_plugin() -> None:
    decision = run(FakePreFilter("A", curable("x")))
    assert isinstance(decision, NoFit)
    assert decision.diagnosis.absent == Rejection(("x",), Code.Unschedulable, "A")


def test_nodes_that_were_ruled_out_are_counted_with_the_plugins_that_named_others() -> None:
    decision = run(FakePreFilter("B", only("n1", "n2")), FakePreFilter("A", only("n1")), FakeFilter("F", {"n1": 7}))
    text = "0/3 nodes are available: 1 F said 7, 2 node(s) didn't satisfy plugin(s) [A B]."
    assert refused(decision) == (text, {"A", "B", "F"})


def test_only_named_nodes_are_asked_about() -> None:
    judge = FakeFilter("F", {})
    run(FakePreFilter("A", only("n0", "n2")), judge)
    assert judge.asked == [["n0", "n2"]]


class Both(FakePreFilter, FakeFilter):
    """PreFilter gives the answer, and the filter rejects everything."""

    def filter(self, context: SchedulingContext, rows: Rows) -> Any:
        self.note(context, rows)
        return column(context, rows, dict.fromkeys(NODES, 1))


def test_a_plugin_that_skips_is_not_asked_to_filter() -> None:
    plugin = Both("B", SKIP)
    assert feasible(run(plugin, FakeScore("S"))) == list(NODES)
    assert plugin.asked == [[]]
    assert refused(run(Both("B", None)))[0] == "0/3 nodes are available: 3 B said 1."


def test_a_skip_holds_for_one_attempt() -> None:
    plugin = Both("B", SKIP)
    runner, cluster = Runner(a_profile(plugin)), three_nodes()
    assert isinstance(decide(runner, a_pod(), cluster, DecideOptions()), Placement)
    plugin.answer = None
    assert isinstance(decide(runner, a_pod(), cluster, DecideOptions()), NoFit)


# ---- Filter


def test_the_first_filter_that_rejects_a_node_is_the_one_that_is_named() -> None:
    decision = run(FakeFilter("A", {"n0": 1}), FakeFilter("B", {"n0": 2, "n1": 3}), FakeFilter("C", {"n1": 4, "n2": 5}))
    assert refused(decision) == ("0/3 nodes are available: 1 A said 1, 1 B said 3, 1 C said 5.", {"A", "B", "C"})
    assert isinstance(decision, NoFit)
    assert decision.details is not None
    assert decision.details.rejected == {
        "n0": Rejection(("A said 1",), Code.Unschedulable, "A"),
        "n1": Rejection(("B said 3",), Code.Unschedulable, "B"),
        "n2": Rejection(("C said 5",), Code.Unschedulable, "C"),
    }


def test_a_node_is_asked_about_only_if_all_filters_before_let_it_pass() -> None:
    a, b, c = FakeFilter("A", {"n0": 1}), FakeFilter("B", {"n1": 1}), FakeFilter("C", {})
    run(a, b, c)
    assert (a.asked, b.asked, c.asked) == ([["n0", "n1", "n2"]], [["n1", "n2"]], [["n2"]])


def test_a_filter_is_not_asked_when_no_node_is_left() -> None:
    last = FakeFilter("B")
    run(FakeFilter("A", dict.fromkeys(NODES, 1)), last)
    assert last.asked == []


def test_a_filter_that_says_nothing_lets_all_pass() -> None:
    assert feasible(run(FakeFilter("A", None), KeptFilter("B", None), FakeScore("S"))) == list(NODES)


def test_a_kept_filter_is_asked_again_only_about_nodes_that_were_touched() -> None:
    cluster = a_cluster(*(a_node(f"n{i}") for i in range(8)))
    kept = KeptFilter("K", {"n1": 1})
    runner = Runner(a_profile(kept))
    pods = [a_pod() for _ in range(3)]  # answers are kept as long as a pod has the shape
    for pod in pods[:2]:
        decide(runner, pod, cluster, DecideOptions())
    cluster.nodes.place(a_pod("other"), "n3")
    decide(runner, pods[2], cluster, DecideOptions())
    assert kept.asked == [[f"n{i}" for i in range(8)], ["n3"]]


class OwnArray(FakeScore):
    """Answers about all nodes with an array that it keeps, and about single ones with something else."""

    scores = np.arange(5, 13, dtype=np.int16)

    @reads(Reads.ROW)
    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        return self.scores if isinstance(rows, slice) else self.scores[rows] + 20


def test_what_is_kept_of_scores_is_not_written_to_the_array_that_a_plugin_keeps() -> None:
    cluster = a_cluster(*(a_node(f"n{i}") for i in range(8)))
    runner, pod = Runner(a_profile(OwnArray("S"))), a_pod()
    decide(runner, pod, cluster, DecideOptions())
    cluster.nodes.place(a_pod("other"), "n1")
    decision = decide(runner, pod, cluster, DecideOptions())
    assert isinstance(decision, Placement)
    assert (decision.node, decision.score) == ("n1", 26)
    assert OwnArray.scores.tolist() == [5, 6, 7, 8, 9, 10, 11, 12]


class Unconcerned(FakeFilter):
    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return pod.name != "pod"


def test_a_filter_that_a_pod_does_not_concern_is_not_asked() -> None:
    plugin = Unconcerned("U", dict.fromkeys(NODES, 1))
    assert isinstance(run(plugin), Placement)
    assert plugin.asked == []


FILTERS = st.lists(
    st.tuples(st.booleans(), st.dictionaries(st.sampled_from(NODES), st.integers(1, 3))), min_size=1, max_size=5
)


@given(FILTERS, st.lists(st.sampled_from(NODES), min_size=1, max_size=3))
def test_kept_and_asked_filters_interleave(drawn: list[tuple[bool, dict[str, int]]], touched: list[str]) -> None:
    """Whoever is kept, the verdicts are those of one filter after the other; also when only some rows are asked again."""
    plugins = [(KeptFilter if kept else FakeFilter)(f"F{i}", codes) for i, (kept, codes) in enumerate(drawn)]
    runner, cluster = Runner(a_profile(*plugins, FakeScore("S"))), three_nodes()
    for attempt in range(3):
        decision = decide(runner, a_pod(), cluster, DecideOptions(explain=True))
        assert isinstance(decision, NoFit | Placement)
        assert decision.details is not None
        left, expected = list(NODES), {}
        for i, (kept, codes) in enumerate(drawn):
            if not kept and left:
                assert plugins[i].asked[attempt] == left
            for name in [name for name in left if name in codes]:
                expected[name] = Rejection((f"F{i} said {codes[name]}",), Code.Unschedulable, f"F{i}")
            left = [name for name in left if name not in codes]
        assert decision.details.rejected == expected
        assert decision.details.feasible == left
        for name in touched:
            cluster.nodes.place(a_pod(f"{name}-{attempt}-{len(cluster.nodes.pods())}"), name)


# ---- the node that a pod was promised


def promised(name: str, *plugins: Fake, cluster: Cluster | None = None) -> Decision:
    pod = a_pod(status={"nominatedNodeName": name})
    return decide(Runner(a_profile(*plugins)), pod, cluster or three_nodes(), DecideOptions(explain=True))


@pytest.mark.parametrize("kind", [FakeFilter, KeptFilter])
def test_filters_are_asked_about_a_promised_node_alone(kind: type[Fake]) -> None:
    plugin = kind("F", {"n0": 3})
    assert feasible(promised("n1", plugin)) == ["n1"]
    assert plugin.asked == [["n1"]]


def test_a_promised_node_that_a_filter_rejects_is_asked_about_with_all_others() -> None:
    plugin = KeptFilter("F", {"n1": 3})
    assert feasible(promised("n1", plugin, FakeScore("S"))) == ["n0", "n2"]
    assert plugin.asked == [["n1"], ["n0", "n1", "n2"]]


@pytest.mark.parametrize(("codes", "expected"), [({}, ["n1"]), ({"n1": 3}, ["n0", "n2"])], ids=["passes", "rejected"])
def test_a_promised_node_that_pre_filter_ruled_out_is_asked_about(codes: dict[str, int], expected: list[str]) -> None:
    """Parity: upstream asks the filters alone about a nominated node, and takes it if it passes."""
    plugin = KeptFilter("F", codes)
    assert feasible(promised("n1", FakePreFilter("P", only("n0", "n2")), plugin, FakeScore("S"))) == expected
    assert plugin.asked[0] == ["n1"]


def test_a_filter_that_fails_on_the_promised_node_is_asked_about_all_nodes() -> None:
    """Parity: upstream logs the failure on the nominated node and goes on; here the filter fails once more."""

    class Moody(FakeFilter):
        def filter(self, context: SchedulingContext, rows: Rows) -> Any:
            if len(names_of(context, rows)) == 1:
                raise ValueError("not alone")
            return super().filter(context, rows)

    assert feasible(promised("n1", Moody("F", {"n0": 1}), FakeScore("S"))) == ["n1", "n2"]
    assert error(promised("n1", FakeFilter("F", PluginError("never")))) == 'running "F" filter plugin: never'


# ---- Score


def test_totals_are_scores_times_weights() -> None:
    a, b, c = (
        KeptScore("A", {"n0": 10, "n1": 20}),
        FakeScore("B", {"n1": 1, "n2": 100}),
        NormalizedScore("C", {"n0": 99}),
    )
    decision = run(a, b, c, weights={"A": 3, "B": 5, "C": 2})
    assert isinstance(decision, Placement)
    assert decision.details is not None
    assert decision.details.scores == {
        "n0": {"A": 30, "B": 0, "C": 2},
        "n1": {"A": 60, "B": 5, "C": 200},
        "n2": {"A": 0, "B": 500, "C": 200},
    }
    assert decision.details.totals == {"n0": 32, "n1": 265, "n2": 700}
    assert (decision.node, decision.score, decision.feasible_count) == ("n2", 700, 3)


@pytest.mark.parametrize("explain", [False, True])
def test_the_choice_does_not_depend_on_whether_it_is_explained(explain: bool) -> None:
    plugins = [KeptScore("A", {"n0": 50}), FakeScore("B", {"n1": 40}), NormalizedScore("C", {"n0": 20})]
    decision = decide(Runner(a_profile(*plugins)), a_pod(), three_nodes(), DecideOptions(explain=explain))
    assert isinstance(decision, Placement)
    assert (decision.node, decision.score) == ("n1", 140)


@pytest.mark.parametrize("kind", [NormalizedScore, KeptNormalizedScore])
def test_scores_are_normalised_once_for_all_nodes_that_passed(kind: type[NormalizedScore]) -> None:
    plugin = kind("N", {"n0": 1, "n1": 2, "n2": 3})
    run(FakeFilter("F", {"n1": 1}), plugin)
    assert plugin.given == [([1, 3], ["n0", "n2"])]


@pytest.mark.parametrize("kind", [NormalizedScore, KeptNormalizedScore])
def test_where_all_nodes_score_the_same_one_is_normalised_for_all(kind: type[NormalizedScore]) -> None:
    plugin = kind("N", None)
    decision = run(plugin)
    assert plugin.given == [([0], list(NODES))]
    assert isinstance(decision, Placement)
    assert decision.details is not None
    assert decision.details.totals == dict.fromkeys(NODES, 100)


class SkippedScore(FakePreScore, FakeScore):
    """PreScore gives the answer, and the score is too high."""

    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        return column(context, rows, {"n2": 1})


def test_a_plugin_that_skips_pre_score_gives_no_scores() -> None:
    decision = run(SkippedScore("A", SKIP), FakeScore("B", {"n1": 1}))
    assert isinstance(decision, Placement)
    assert decision.details is not None
    assert decision.details.scores["n2"] == {"B": 0}
    assert decision.node == "n1"
    decision = run(SkippedScore("A", None), FakeScore("B", {}))
    assert isinstance(decision, Placement)
    assert decision.node == "n2"


def test_pre_score_is_told_which_nodes_passed() -> None:
    plugin = FakePreScore("P")
    run(FakeFilter("F", {"n0": 1}), plugin, FakeScore("S"))
    assert plugin.asked == [["n1", "n2"]]


def test_a_single_node_is_taken_without_scores() -> None:
    before, plugin = FakePreScore("P", ValueError("asked")), FakeScore("S", ValueError("asked"))
    decision = run(FakeFilter("F", {"n0": 1, "n2": 1}), before, plugin)
    assert isinstance(decision, Placement)
    assert decision.details is not None
    assert (decision.node, decision.details.scores, decision.details.totals) == ("n1", {}, {})


def test_without_score_plugins_every_node_scores_one() -> None:
    runner, cluster = Runner(a_profile(FakeFilter("F"))), three_nodes()
    attempt = runner.open(a_pod(), cluster)
    card = attempt.score(slice(0, 3))
    assert isinstance(card, ScoreCard)
    assert card.totals.tolist() == [1, 1, 1]


def test_without_score_plugins_the_first_node_found_is_taken_and_the_next_search_starts_after_it() -> None:
    runner, cluster, options = Runner(a_profile(FakeFilter("F", {"n1": 1}))), three_nodes(), DecideOptions()
    found = [decide(runner, a_pod(f"p{i}"), cluster, options) for i in range(4)]
    assert [placement.node for placement in found if isinstance(placement, Placement)] == ["n0", "n2", "n0", "n2"]


# ---- what goes wrong


class Oblivious(FakeFilter):
    """Rejects, and then does not know why."""

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        raise PluginError("boom")


class Unsure(FakeFilter):
    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        raise PluginError("boom")


class UnsureScore(FakeScore):
    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        raise PluginError("boom")


BOOM = PluginError("boom")
INVALID = (
    'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)
SCORING = 'running Score plugins: plugin "Bad" failed with: '
NORMALIZING = 'running Normalize on Score plugins: plugin "Bad" failed with: '
FILTERING = 'running "Bad" filter plugin: '
FAULTS: dict[str, tuple[Fake, str]] = {
    "PreFilter raises": (FakePreFilter("Bad", BOOM), 'running PreFilter plugin "Bad": boom'),
    "PreFilter raises, fixed for the shape": (FixedPreFilter("Bad", BOOM), 'running PreFilter plugin "Bad": boom'),
    "PreFilter says something else": (FakePreFilter("Bad", 7), 'running PreFilter plugin "Bad": unexpected answer 7'),
    "PreFilter says pending": (
        FakePreFilter("Bad", Rejection(("later",), Code.Pending)),
        'running PreFilter plugin "Bad": later',
    ),
    "Filter raises": (FakeFilter("Bad", BOOM), f"{FILTERING}boom"),
    "Filter raises, kept": (KeptFilter("Bad", BOOM), f"{FILTERING}boom"),
    "Filter gives too few codes": (FakeFilter("Bad", np.array([0, 1])), f"{FILTERING}2 codes for 3 nodes"),
    "Filter gives too many codes, kept": (KeptFilter("Bad", np.zeros(4, np.int64)), f"{FILTERING}4 codes for 3 nodes"),
    "Filter gives a list": (
        FakeFilter("Bad", [0, 1, 0]),
        f"{FILTERING}codes must be an array of signed integers, not list",
    ),
    "Filter cannot tell what its code means": (Oblivious("Bad", {"n0": 1}), f"{FILTERING}boom"),
    "Filter cannot tell whom it concerns": (Unsure("Bad"), f"{FILTERING}boom"),
    "Score cannot tell whom it concerns": (UnsureScore("Bad"), f"{SCORING}boom"),
    "PreScore raises": (FakePreScore("Bad", BOOM), 'running PreScore plugin "Bad": boom'),
    "Score raises": (FakeScore("Bad", BOOM), f"{SCORING}boom"),
    "Score raises, kept": (KeptScore("Bad", BOOM), f"{SCORING}boom"),
    "Score gives too few": (FakeScore("Bad", np.array([0, 1])), f"{SCORING}2 scores for 3 nodes"),
    "Score gives too few, kept": (KeptScore("Bad", np.array([0, 1])), f"{SCORING}2 scores for 3 nodes"),
    "Score gives fractions": (
        FakeScore("Bad", np.array([0.5, 1.0, 2.0])),
        f"{SCORING}scores must be an array of signed integers, not an array of float64",
    ),
    "Score is too high": (FakeScore("Bad", {"n1": 101}), INVALID.format(101)),
    "Score is too low": (FakeScore("Bad", {"n2": -1}), INVALID.format(-1)),
    "Score is too high, kept": (KeptScore("Bad", {"n1": 101}), INVALID.format(101)),
    "Score is too low, kept": (KeptScore("Bad", {"n0": -(1 << 40)}), INVALID.format(-(1 << 40))),
    "Normalize raises": (NormalizedScore("Bad", {"n0": 1}, BOOM), f"{NORMALIZING}boom"),
    "Normalize raises, kept": (KeptNormalizedScore("Bad", {"n0": 1}, BOOM), f"{NORMALIZING}boom"),
    "Normalize leaves a score too high": (NormalizedScore("Bad", {"n0": 1}, [0, 500, 0]), INVALID.format(500)),
    "Normalize leaves a score too low": (KeptNormalizedScore("Bad", {"n0": -1}, [0, -3, 0]), INVALID.format(-3)),
    "Normalize loses a node": (NormalizedScore("Bad", {"n0": 1}, [0, 1]), f"{NORMALIZING}2 scores for 3 nodes"),
    "Normalize of a single 0 gives two": (NormalizedScore("Bad", None, [0, 1]), f"{NORMALIZING}2 scores for 1 nodes"),
}


@pytest.mark.parametrize(("bad", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_a_plugin_that_fails_ends_the_attempt_and_is_named(bad: Fake, text: str) -> None:
    """Every time: what was kept before it failed must not stand for its answer."""
    good = [KeptFilter("A", {}), KeptScore("B", {}), bad, KeptFilter("C", {}), KeptScore("D", {})]
    runner, cluster = Runner(a_profile(*good)), three_nodes()
    assert [error(decide(runner, a_pod(), cluster, DecideOptions(explain=True))) for _ in range(3)] == [text] * 3


@pytest.mark.parametrize("kind", [FakeFilter, KeptFilter])
def test_an_attempt_after_a_failure_sees_everything(kind: type[FakeFilter]) -> None:
    flaky, late = kind("A", BOOM), KeptFilter("Z", {"n0": 1})
    runner, cluster = Runner(a_profile(flaky, late, KeptScore("S", {"n2": 50}))), three_nodes()
    assert isinstance(decide(runner, a_pod(), cluster, DecideOptions()), DecisionError)
    flaky.answer = {"n1": 1}
    decision = decide(runner, a_pod(), cluster, DecideOptions(explain=True))
    assert feasible(decision) == ["n2"]


def test_a_failure_between_two_attempts_does_not_hide_what_was_touched() -> None:
    """n1 is touched; the attempt that would have learnt it fails half-way; the next one must still learn it."""
    cluster = a_cluster(*(a_node(f"n{i}") for i in range(8)))
    flaky, late = KeptScore("A", {}), KeptScore("Z", {})
    runner = Runner(a_profile(flaky, late))
    assert isinstance(decide(runner, a_pod(), cluster, DecideOptions()), Placement)
    cluster.nodes.place(a_pod("other"), "n1")
    flaky.answer, late.answer = BOOM, {"n1": 100}
    assert isinstance(decide(runner, a_pod(), cluster, DecideOptions()), DecisionError)
    flaky.answer = {}
    decision = decide(runner, a_pod(), cluster, DecideOptions())
    assert isinstance(decision, Placement)
    assert decision.node == "n1"


class RowFilter(KeptFilter):
    """Answers about one row differently from what it is asked about all of them."""

    row_answer: Any = 0

    def filter_row(self, context: SchedulingContext, row: int) -> int:
        if isinstance(self.row_answer, Exception):
            raise self.row_answer
        answer: int = self.row_answer
        return answer


class RowScore(KeptScore):
    row_answer: Any = 0

    def score_row(self, context: SchedulingContext, row: int) -> int:
        if isinstance(self.row_answer, Exception):
            raise self.row_answer
        answer: int = self.row_answer
        return answer


@pytest.mark.parametrize(
    ("bad", "answer", "text"),
    [
        (RowFilter("Bad", {}), BOOM, f"{FILTERING}boom"),
        (RowFilter("Bad", {}), 0.5, f"{FILTERING}a code must be an int, not float"),
        (RowScore("Bad", {}), BOOM, f"{SCORING}boom"),
        (RowScore("Bad", {}), np.int64(3), f"{SCORING}a score must be an int, not int64"),
        (RowScore("Bad", {}), 101, INVALID.format(101)),
        (RowScore("Bad", {}), -1, INVALID.format(-1)),
    ],
    ids=["filter raises", "filter gives a fraction", "score raises", "score gives no int", "too high", "too low"],
)
def test_a_plugin_that_fails_about_one_row_ends_the_attempt_and_is_named(bad: Any, answer: Any, text: str) -> None:
    cluster = a_cluster(*(a_node(f"n{i}") for i in range(8)))
    runner, pod = Runner(a_profile(KeptFilter("A", {}), bad, KeptScore("B", {}))), a_pod()
    assert isinstance(decide(runner, pod, cluster, DecideOptions()), Placement)
    cluster.nodes.place(a_pod("other"), "n1")
    bad.row_answer = answer
    assert error(decide(runner, pod, cluster, DecideOptions())) == text
    decision = decide(runner, pod, cluster, DecideOptions())
    assert isinstance(decision, Placement), "the next attempt asks about all rows"
    assert decision.node == "n0"
    cluster.nodes.place(a_pod("another"), "n1")
    bad.row_answer = 7
    decision = decide(runner, pod, cluster, DecideOptions(explain=True))
    if isinstance(bad, RowFilter):
        assert "n1" not in feasible(decision)
    else:
        assert isinstance(decision, Placement)
        assert decision.node == "n1"


def test_a_failing_plugin_does_not_stop_other_pods() -> None:
    runner, cluster = Runner(a_profile(Both("B", PluginError("boom")))), three_nodes()
    assert error(decide(runner, a_pod(), cluster, DecideOptions())) == 'running PreFilter plugin "B": boom'
    healthy = Runner(a_profile(FakeScore("S")))
    assert isinstance(decide(healthy, a_pod(), cluster, DecideOptions()), Placement)


# ---- profiles that cannot be run


class Careless(FakePreFilter, KeptFilter):
    """Its filter claims to depend on rows alone, but what goes before it may say anything."""


def test_an_answer_can_be_kept_only_if_the_point_before_it_always_says_the_same() -> None:
    text = "^filter of plugin C reads ROW, so its pre_filter must read only SHAPE$"
    with pytest.raises(ValueError, match=text):
        Runner(a_profile(Careless("C")))


def test_there_is_an_end_to_the_number_of_filters() -> None:
    plugins: Sequence[Fake] = [FakeFilter(f"F{i}") for i in range(127)]
    with pytest.raises(ValueError, match="^a profile can have at most 126 filter plugins, 127 are enabled$"):
        Runner(a_profile(*plugins))
    Runner(a_profile(*plugins[:126]))
