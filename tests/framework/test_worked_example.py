"""The worked example of docs/architecture.md ("What is kept for a shape, and how it stays true"), step by step."""

from collections.abc import Iterator

import pytest

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.attempt import Narrowing
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from mooring.framework.contract.points import Codes, Handle, Rows
from mooring.framework.profile.profiles import Profile
from mooring.plugins.nodes.taints import NodeUnschedulable
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit


class WorkedExample:
    """The cluster of the example, and which rows its filters are asked about."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, object]] = []
        strategy = ScoringStrategy(type="LeastAllocated", resources=[ResourceSpec(name="cpu")])
        fit = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy), Handle())
        cordons = NodeUnschedulable(None, Handle())
        points = {"preFilter": (fit,), "filter": (cordons, fit), "preScore": (fit,), "score": (fit,)}
        for plugin in (cordons, fit):
            self._watch(patch, type(plugin))
        self.runner = Runner(Profile("p", None, points, {fit.name: 1}))
        self.cluster = Cluster()
        for name, cpu in (("a", "4"), ("b", "2"), ("c", "8"), ("d", "2")):
            self.cluster.nodes.put_node(a_node(name, cpu=cpu, unschedulable=name == "c"))

    def attempt(self, name: str, cpu: str) -> tuple[list[int], list[int]]:
        """First rejections and sums by row; the pod is then placed on the best row."""
        self.asked.clear()
        pod = a_pod(name, cpu=cpu)
        attempt = self.runner.open(pod, self.cluster)
        narrowing = attempt.pre_filter()
        assert isinstance(narrowing, Narrowing)
        first = attempt.filter(narrowing).first.tolist()
        memo = self.runner.kept.memo(self.runner, pod.shape, self.cluster.nodes)
        attempt.best(attempt.filter(narrowing))
        sums = memo.score_sum(attempt.context).tolist()
        best = max((total, -row) for row, total in enumerate(sums) if first[row] == 127)
        self.cluster.nodes.place(pod, self.cluster.nodes.names[-best[1]])
        return first, sums

    def _watch(self, patch: pytest.MonkeyPatch, kind: type) -> None:
        whole, single = kind.filter, kind.filter_row  # type: ignore[attr-defined]

        def watched(plugin: object, context: object, rows: Rows) -> Codes | None:
            self.asked.append((kind.__name__, "all" if isinstance(rows, slice) else rows.tolist()))
            answer: Codes | None = whole(plugin, context, rows)
            return answer

        def watched_row(plugin: object, context: object, row: int) -> int:
            if kind is NodeResourcesFit:  # the other one has no form for one row, so it is asked as about rows
                self.asked.append((kind.__name__, [row]))
            return int(single(plugin, context, row))

        watched.reads, watched.part = whole.reads, whole.part  # type: ignore[attr-defined]
        patch.setattr(kind, "filter", watched)
        patch.setattr(kind, "filter_row", watched_row)


@pytest.fixture
def example() -> Iterator[WorkedExample]:
    with pytest.MonkeyPatch.context() as patch:
        yield WorkedExample(patch)


def test_the_worked_example(example: WorkedExample) -> None:
    assert example.attempt("web-1", "1") == ([127, 127, 0, 127], [75, 50, 87, 50])
    assert sorted(example.asked) == [("NodeResourcesFit", "all"), ("NodeUnschedulable", "all")]

    assert example.attempt("web-2", "1") == ([127, 127, 0, 127], [50, 50, 87, 50])
    assert example.asked == [("NodeResourcesFit", [0])]

    example.attempt("batch-1", "2")
    assert example.asked == [("NodeResourcesFit", "all")]

    example.cluster.nodes.put_node(a_node("c", cpu="8"))
    first, _ = example.attempt("web-3", "1")
    assert first[2] == 127
    assert ("NodeUnschedulable", [2]) in example.asked
