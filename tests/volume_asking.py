"""Asks a volume plugin about a pod as an attempt does: PreFilter, then Filter on all nodes."""

import numpy as np

from build import FreshValues
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import FilterPlugin, PreFilterPlugin
from mooring.framework.contract.status import SKIPS, Rejection
from mooring.model.pod import Pod


def a_context(cluster: Cluster, pod: Pod) -> SchedulingContext:
    return SchedulingContext(pod, cluster, 0, FreshValues())


def verdicts(
    plugin: FilterPlugin, cluster: Cluster, pod: Pod, context: SchedulingContext | None = None
) -> dict[str, Rejection | None]:
    """By node, and under the empty name what PreFilter said against the pod; all pass where the plugin skips."""
    context = context or a_context(cluster, pod)
    assert isinstance(plugin, PreFilterPlugin)
    answer = plugin.pre_filter(context)
    if isinstance(answer, Rejection):
        return {"": answer}
    names = cluster.nodes.names
    codes = None if answer in SKIPS else plugin.filter(context, slice(0, cluster.nodes.height))
    found = np.zeros(len(names), np.int64) if codes is None else codes
    return {
        name: plugin.rejection(context, int(code)) if code else None for name, code in zip(names, found, strict=True)
    }


def reasons(plugin: FilterPlugin, cluster: Cluster, pod: Pod) -> dict[str, list[str]]:
    """By node, only those that are rejected."""
    found = verdicts(plugin, cluster, pod)
    return {name: list(rejection.reasons) for name, rejection in found.items() if rejection is not None}
