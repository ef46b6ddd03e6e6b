"""One plugin by itself: what it says about each node of a small cluster, for one pod."""

from typing import Any

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.attempt import PodRejected, ScoreCard
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.points import Handle, Plugin
from mooring.framework.contract.status import SKIP, SKIPS, Rejection, Skip
from mooring.framework.kept.asking import AttemptError
from mooring.framework.profile.profiles import Profile
from mooring.model.pod import Pod
from mooring.scheduler.decision import rejections_by_node


def build(kind: type[Plugin], args: Any = None, **gates: bool) -> Any:
    """The plugin with these arguments and feature gates; None stands for its defaults."""
    return kind(args, Handle(feature_gates=gates))


def verdicts(plugin: Plugin, pod: Pod, cluster: Cluster) -> dict[str, Rejection]:
    """The nodes that the plugin rejects, with why. A pod that it refuses whatever the node is under `*`.

    Nodes that its PreFilter rules out by naming others are under their name, with the text that users see.
    """
    attempt = Runner(_profile(plugin, ("preFilter", "pre_filter"), ("filter", "filter"))).open(pod, cluster)
    narrowing = attempt.pre_filter()
    if isinstance(narrowing, PodRejected):
        return {"*": narrowing.rejection}
    found = rejections_by_node(attempt, attempt.filter(narrowing))
    others = narrowing.rejection_of_others()
    if others is not None and narrowing.names is not None:
        found |= {node.name: others for node in _alive(cluster) if node.name not in narrowing.names}
    return found


def skips_filter(plugin: Any, pod: Pod, cluster: Cluster) -> bool:
    """Whether the plugin leaves the pod alone, so that its filter is not even asked."""
    return plugin.pre_filter(Runner(_profile(plugin)).open(pod, cluster).context) in SKIPS


def scores(plugin: Plugin, pod: Pod, cluster: Cluster, *names: str) -> dict[str, int] | Skip:
    """What the plugin gives each node, normalised; SKIP if it does not score the pod. `names`: the feasible nodes."""
    attempt = Runner(_profile(plugin, ("preScore", "pre_score"), ("score", "score"))).open(pod, cluster)
    feasible = [node.name for node in _alive(cluster) if not names or node.name in names]
    rows = np.array([cluster.nodes.row_book[name] for name in feasible], np.intp)
    card = attempt.score(rows, explain=True)
    assert isinstance(card, ScoreCard)
    if plugin.name not in card.by_plugin:
        return SKIP
    return dict(zip(feasible, card.by_plugin[plugin.name].tolist(), strict=True))


def fault(plugin: Plugin, pod: Pod, cluster: Cluster) -> str:
    """The error in which the plugin ends, at whatever point."""
    try:
        verdicts(plugin, pod, cluster)
        scores(plugin, pod, cluster)
    except AttemptError as error:
        return str(error)
    return ""


def _alive(cluster: Cluster) -> list[Any]:
    return [node for node in cluster.nodes.nodes if node is not None]


def _profile(plugin: Plugin, *points: tuple[str, str]) -> Profile:
    """The plugin at these points, as far as it has the method for them."""
    listed: dict[str, tuple[Plugin, ...]] = {point: (plugin,) for point, method in points if hasattr(plugin, method)}
    return Profile("alone", None, listed, {plugin.name: 1})
