"""Few rows are answered for in plain numbers, many in arrays: the answers are the same."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alone import build
from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from mooring.framework.profile.profiles import Profile
from mooring.plugins.resources.node_resources_balanced import NodeResourcesBalancedAllocation
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit

WEIGHED = ScoringStrategy(
    type="LeastAllocated", resources=[ResourceSpec(name="cpu", weight=3), ResourceSpec(name="memory", weight=1)]
)
PLUGINS = {
    "fit": build(NodeResourcesFit),
    "fit, with weights": build(NodeResourcesFit, NodeResourcesFitArgs(scoring_strategy=WEIGHED)),
    "fit, most allocated": build(
        NodeResourcesFit, NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated"))
    ),
    "balanced": build(NodeResourcesBalancedAllocation),
}

amounts = st.integers(0, 5000)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A few nodes, some without cpu or memory or room for a pod, with pods that may be more than fit."""
    count = draw(st.integers(2, 9))
    rooms = [(draw(amounts), draw(amounts), draw(st.integers(0, 3))) for _ in range(count)]
    cluster = a_cluster(
        *(
            a_node(f"n{i}", cpu=f"{cpu}m", memory=f"{memory}Mi", pods=pods)
            for i, (cpu, memory, pods) in enumerate(rooms)
        )
    )
    for i in range(draw(st.integers(0, 6))):
        pod = a_pod(f"p{i}", cpu=f"{draw(amounts)}m", memory=f"{draw(amounts)}Mi")
        cluster.nodes.place(pod, f"n{draw(st.integers(0, count - 1))}")
    return cluster


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
@given(clusters(), amounts, amounts)
def test_few_rows_are_answered_as_among_many(plugin: Any, cluster: Cluster, cpu: int, memory: int) -> None:
    pod = a_pod("new", cpu=f"{cpu}m", memory=f"{memory}Mi")
    context = Runner(Profile("test", None, {})).open(pod, cluster).context
    height = cluster.nodes.height
    for ask in (plugin.score, getattr(plugin, "filter", plugin.score)):
        together = ask(context, slice(0, height))
        expected = [0] * height if together is None else together.tolist()
        assert ask != plugin.score or all(0 <= score <= MAX_SCORE for score in expected), "these are not checked again"
        for rows in (*([row] for row in range(height)), [*range(height - 1)], [height - 1, 0]):
            answer = ask(context, np.array(rows, np.intp))
            told = [0] * len(rows) if answer is None else answer.tolist()
            assert told == [expected[row] for row in rows]
