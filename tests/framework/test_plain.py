"""Plain plugins: what they see of a node, and how their answers become columns."""

from typing import Any

import numpy as np
import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.plain import NodeView, PlainPlugin, lift
from mooring.framework.contract.points import FilterPlugin, Handle, ScorePlugin
from mooring.framework.contract.status import Code, Rejection, final
from mooring.framework.profile.registry import Registry
from mooring.model.pod import Pod

HANDLE = Handle()
ALL = slice(0, 3)


def a_row_of_nodes() -> Cluster:
    """Three nodes with none, one and two pods."""
    nodes = [a_node(name, cpu="4") for name in ("none", "one", "two")]
    pods = [a_pod(f"p-{i}", cpu="1", nodeName=name) for i, name in enumerate(("one", "two", "two"))]
    return a_cluster(*nodes, *pods)


def a_context(cluster: Cluster | None = None) -> SchedulingContext:
    return SchedulingContext(a_pod("new"), cluster or a_row_of_nodes(), 0, FreshValues())


def build(plain: type[PlainPlugin], args: Any = None) -> Any:
    return lift(plain)(args, HANDLE)


# ---- The view of a node


def test_a_view_shows_the_node_and_what_is_on_it() -> None:
    node = a_node(
        "n", cpu="4", memory="8Gi", pods=7, labels={"zone": "a"}, taints=["k=v:NoSchedule"], allocatable={"x.io/gpu": 2}
    )
    pods = (a_pod("a", cpu="1500m", memory="1Gi", nodeName="n"), a_pod("b", requests={"x.io/gpu": 1}, nodeName="n"))
    view = NodeView(a_cluster(node, *pods).nodes, 0)
    assert view.node is node
    assert (view.name, view.labels, view.annotations, view.allowed_pods) == ("n", {"zone": "a"}, {}, 7)
    assert [taint.key for taint in view.taints] == ["k"]
    assert [pod.name for pod in view.pods] == ["a", "b"]
    amounts = {name: (view.allocatable(name), view.requested(name), view.free(name)) for name in ("cpu", "x.io/gpu")}
    assert amounts == {"cpu": (4000, 1500, 2500), "x.io/gpu": (2, 1, 1)}
    assert view.free("memory") == 7 << 30


def test_a_resource_that_nobody_has_is_none() -> None:
    view = NodeView(a_cluster(a_node("n")).nodes, 0)
    assert (view.allocatable("x.io/none"), view.requested("x.io/none"), view.free("x.io/none")) == (0, 0, 0)


# ---- Filter


class AtMostOnePod(PlainPlugin):
    """Curable when full, final on the node named one."""

    name = "AtMostOnePod"

    def filter(self, pod: Pod, node: NodeView) -> str | Rejection | None:
        if node.name == "one":
            return final("node(s) were called one")
        return f"node(s) had {len(node.pods)} pods" if len(node.pods) > 1 else None


def test_reasons_become_codes_and_codes_are_told_as_reasons() -> None:
    plugin, context = build(AtMostOnePod), a_context()
    codes = plugin.filter(context, ALL)
    assert (codes.tolist(), codes.dtype) == ([0, 1, 2], np.int64)
    assert plugin.rejection(context, 1) == final("node(s) were called one")
    assert plugin.rejection(context, 2) == Rejection(("node(s) had 2 pods",), Code.Unschedulable)


def test_the_same_reason_has_the_same_code() -> None:
    plugin, context = build(AtMostOnePod), a_context()
    assert plugin.filter(context, np.array([2, 2, 0])).tolist() == [1, 1, 0]
    assert plugin.filter(context, np.array([2])).tolist() == [1]


def test_only_the_rows_asked_for_are_looked_at() -> None:
    seen = []

    class Curious(PlainPlugin):
        name = "Curious"

        def filter(self, pod: Pod, node: NodeView) -> None:
            seen.append(node.name)

    assert build(Curious).filter(a_context(), np.array([2, 0])).tolist() == [0, 0]
    assert seen == ["two", "none"]


@pytest.mark.parametrize("answer", [True, False, 7, ["no"]], ids=repr)
def test_a_filter_that_answers_with_something_else_fails(answer: Any) -> None:
    class Odd(PlainPlugin):
        name = "Odd"

        def filter(self, pod: Pod, node: NodeView) -> Any:
            return answer

    with pytest.raises(TypeError) as caught:
        build(Odd).filter(a_context(), ALL)
    assert str(caught.value) == f"filter must return a reason or nothing, not {answer!r}"


# ---- Score


class FewerPods(PlainPlugin):
    name = "FewerPods"

    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 - 10 * len(node.pods)


class FewerPodsScaled(PlainPlugin):
    name = "FewerPodsScaled"

    def score(self, pod: Pod, node: NodeView) -> int:
        return -len(node.pods)

    def normalize(self, scores: list[int]) -> list[int]:
        worst = -min(scores)
        return [100 + 100 * score // worst for score in scores]


def test_scores_become_a_column() -> None:
    scores = build(FewerPods).score(a_context(), np.array([2, 0]))
    assert (scores.tolist(), scores.dtype) == ([80, 100], np.int64)


def test_scores_are_normalized_together() -> None:
    plugin, context = build(FewerPodsScaled), a_context()
    assert type(plugin).normalizes()
    assert plugin.normalize(context, plugin.score(context, ALL), ALL).tolist() == [100, 50, 0]
    assert not lift(FewerPods).normalizes()  # type: ignore[attr-defined]


def test_a_score_must_be_a_whole_number() -> None:
    class Half(PlainPlugin):
        name = "Half"

        def score(self, pod: Pod, node: NodeView) -> Any:
            return 0.5

    with pytest.raises(TypeError, match=r"^score must return a whole number, not 0\.5$"):
        build(Half).score(a_context(), ALL)


def test_normalize_must_keep_the_number_of_scores() -> None:
    class Lossy(FewerPodsScaled):
        name = "Lossy"

        def normalize(self, scores: list[int]) -> list[int]:
            return scores[1:]

    with pytest.raises(ValueError, match=r"^normalize returned 2 scores for 3 nodes$"):
        build(Lossy).normalize(a_context(), np.zeros(3, np.int64), ALL)


# ---- The class


@pytest.mark.parametrize(
    ("plain", "points"),
    [(AtMostOnePod, {FilterPlugin}), (FewerPods, {ScorePlugin}), (FewerPodsScaled, {ScorePlugin})],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_plugin_extends_the_points_for_which_it_has_a_method(plain: type[PlainPlugin], points: set[Any]) -> None:
    lifted = lift(plain)
    assert {point for point in (FilterPlugin, ScorePlugin) if issubclass(lifted, point)} == points
    assert (lifted.name, lifted.__name__, lifted.__doc__) == (plain.name, plain.__name__, plain.__doc__)


def test_a_plugin_without_filter_and_score_is_refused() -> None:
    class Empty(PlainPlugin):
        name = "Empty"

    with pytest.raises(
        ValueError, match=r"^plain plugin Empty defines neither filter nor score, and nothing for pod groups$"
    ):
        Registry([Empty])


def test_arguments_arrive_as_they_are_written() -> None:
    class Picky(PlainPlugin):
        name = "Picky"

        def filter(self, pod: Pod, node: NodeView) -> str | None:
            return None if node.name in self.args["nodes"] else "node(s) were not picked"

    assert build(Picky, {"nodes": ["one"]}).filter(a_context(), ALL).tolist() == [1, 0, 1]
