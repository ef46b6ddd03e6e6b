"""The real scheduler in a simulation: what fits on the present nodes, and whether everything fits on those that are planned.

Pods that are pending place nobody else in danger here: they preempt no pod, because a plan is to find room for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.trials import OfferedNodes
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of, why_pending, without_preemption
from mooring.answers.trial.changing_nodes import copy_daemons, sync_daemons
from mooring.answers.trial.counterfactual import with_spec
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod
from mooring.rules.workload_pods import is_daemon, node_of

NEVER = "Never"


def patient(loaded: LoadedCluster) -> LoadedCluster:
    """The cluster with pending pods that preempt nobody."""
    objects = [
        with_spec(item, preemption_policy=NEVER) if isinstance(item, Pod) and not item.spec.node_name else item
        for item in loaded.objects
    ]
    return replace(loaded, objects=objects)


def pending_in(cluster: ChangingCluster) -> list[Pod]:
    """The pods without a node, in the order of their creation."""
    scheduler = cluster.simulated.scheduler
    found = [pod for pod in cluster.pods() if not pod.spec.node_name and not pod.is_terminating]
    return [pod for pod in found if scheduler.placed(pod.id) is None or scheduler.waiting.get(pod.id) is not None]


def can_be_scheduled(cluster: ChangingCluster, pod: Pod) -> bool:
    """Whether a node could help the pod: it is not gated, does not wait for a Permit plugin, and has a scheduler."""
    entry = cluster.simulated.scheduler.queued(pod.key)
    is_gated = entry is not None and entry.is_gated
    is_waiting = cluster.simulated.scheduler.waiting.get(pod.id) is not None
    return cluster.simulated.runner(pod) is not None and not is_gated and not is_waiting


def with_daemons(cluster: ChangingCluster, offers: Sequence[NodeOffer]) -> list[OfferedNodes]:
    """The offers with the DaemonSet pods that run on each of their nodes. Leaves a node of each in the cluster."""
    names = [f"sample-of-offer-{number}" for number in range(len(offers))]
    for name, offer in zip(names, offers, strict=True):
        for item in offer.node(name):
            cluster.driver.create(item)
    sync_daemons(cluster, names)
    for name, offer in zip(names, offers, strict=True):
        if offer.like:
            copy_daemons(cluster, offer.like, [name])
    daemons: dict[str, list[Pod]] = {name: [] for name in names}
    for pod in cluster.pods():
        node = node_of(msgspec.to_builtins(pod)) if not pod.spec.node_name and is_daemon(pod) else None
        if node in daemons:
            # without the affinity to its node: it is placed there without being decided about
            daemons[node].append(with_spec(pod, affinity=None))
    return [OfferedNodes(offer, daemons[name]) for name, offer in zip(names, offers, strict=True)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of new nodes under the scheduler."""

    pending: dict[str, str]
    """The pods that it leaves pending, by key, and why: not that they preempt nobody, which is the plan's own condition."""
    pods_on: dict[str, int]
    """How many of the pods go to each new node."""
    loaded: LoadedCluster
    """The cluster with the new nodes, and all that it could place."""

    def left(self, pods: Sequence[Pod]) -> list[Pod]:
        return [pod for pod in pods if pod.key in self.pending]


def judge(loaded: LoadedCluster, steps: Sequence[Sequence[tuple[OfferedNodes, Sequence[str]]]]) -> Verdict:
    """Add nodes with these names step by step, and let the scheduler place what is pending after each. DaemonSet pods are on
    them from the start."""
    cluster = ChangingCluster(loaded)
    daemons: dict[str, int] = {}
    for step in steps:
        for offered, names in step:
            for name in names:
                items, pods = offered.items(name)
                for item in (*items, *pods):
                    cluster.driver.create(item)
                daemons[name] = len(pods)
        cluster.settle()
    pending = {pod.key: without_preemption(why_pending(cluster, pod.key)) for pod in pending_in(cluster)}
    pods_on = {name: len(cluster.pods_on(name)) - own for name, own in daemons.items()}
    return Verdict(pending, pods_on, objects_of(cluster))
