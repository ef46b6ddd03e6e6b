"""A profile has a plugin that fails where the real one would miss what it writes at an earlier point."""

from typing import Any

import numpy as np
import pytest

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, FilterPlugin, Handle, Need, Plugin, PreFilterPlugin, Rows
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.framework.profile.profiles import Profile, Unprepared
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import DecisionError, NoFit, Placement


class Forgetful(PreFilterPlugin, FilterPlugin):
    """Its Filter needs PreFilter. Without it, `before` says what it rejects all the same."""

    name = "Forgetful"
    needs = (Need("filter", "preFilter", "nothing was written"),)
    before: Any = None

    def pre_filter(self, context: SchedulingContext) -> None:
        return None

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        return None

    def filter_before_state(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        if isinstance(self.before, Exception):
            raise self.before
        return None if self.before is None else np.array(self.before, np.int64)[rows]

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable(f"code {code}")


def decided(plugin: Plugin, *points: str, nodes: int = 2) -> Any:
    cluster = Cluster()
    for number in range(nodes):
        cluster.put(a_node(f"n{number}"))
    profile = Profile("p", None, dict.fromkeys(points, (plugin,)))
    return decide(Runner(profile), a_pod(), cluster, DecideOptions())


def a_forgetful(before: Any = None) -> Forgetful:
    plugin = Forgetful(None, Handle())
    plugin.before = before
    return plugin


def test_a_plugin_that_is_prepared_is_asked_itself() -> None:
    plugin = a_forgetful()
    profile = Profile("p", None, {"preFilter": (plugin,), "filter": (plugin,)})
    assert profile.filters == (plugin,)
    assert isinstance(decided(plugin, "preFilter", "filter"), Placement)


def test_one_that_is_not_fails_with_its_own_words_and_keeps_its_name() -> None:
    plugin = a_forgetful()
    profile = Profile("p", None, {"filter": (plugin,)})
    assert isinstance(profile.filters[0], Unprepared)
    assert profile.plugin("Forgetful") is plugin
    assert profile.describe() == {"filter": ["Forgetful"]}
    decision = decided(plugin, "filter")
    assert isinstance(decision, DecisionError)
    assert decision.error == 'running "Forgetful" filter plugin: nothing was written'


@pytest.mark.parametrize("before", [[0, 0], [1, 0]])
def test_a_node_that_is_not_rejected_before_the_state_is_read_is_an_error(before: list[int]) -> None:
    assert isinstance(decided(a_forgetful(before), "filter"), DecisionError)


def test_nodes_that_are_rejected_before_the_state_is_read_are_no_error() -> None:
    decision = decided(a_forgetful([1, 2]), "filter")
    assert isinstance(decision, NoFit)
    assert decision.message == "0/2 nodes are available: 1 code 1, 1 code 2."


def test_what_the_plugin_raises_before_is_named() -> None:
    decision = decided(a_forgetful(PluginError("boom")), "filter")
    assert isinstance(decision, DecisionError)
    assert decision.error == 'running "Forgetful" filter plugin: boom'
