"""A loaded cluster as its scheduler sees it: the node table and the profiles, for decisions about single pods.

Pods that are pending take no part, except that those with a nominated node keep their room. Extenders are not called.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from mooring.api.validation.problem import Problem
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import ClusterError
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.contract.intents import Intent
from mooring.framework.contract.points import SchedulerServices
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError
from mooring.state.assembly import build_runners

_PLAIN, _EXPLAINED = DecideOptions(), DecideOptions(explain=True, record=True)


class SchedulerView:
    """Raises ConfigError, and InputError for objects that contradict each other.

    `want` is called with what plugins want done, such as a write.
    """

    def __init__(
        self,
        loaded: LoadedCluster,
        objects: Iterable[KubeObject] | None = None,
        want: Callable[[Intent], None] = lambda intent: None,
    ) -> None:
        """`objects` are taken instead of those of the loaded cluster."""
        self.cluster = Cluster(with_defaults(loaded.gates))
        offline = msgspec.structs.replace(loaded.config, extenders=[])
        services = SchedulerServices(self.cluster, want=want)
        self._runners = build_runners(offline, loaded.registry, services, loaded.gates)
        self.decisions = 0
        """How many decisions were made: what a search is bounded by."""
        for item in sorted(loaded.objects if objects is None else objects, key=lambda item: not isinstance(item, Node)):
            self._put(item)

    def _put(self, item: KubeObject) -> None:
        try:
            self.cluster.put(item)
        except ClusterError as fault:
            raise InputError([Problem("", str(fault), where=f"{type(item).__name__} {item.key}")]) from fault
        if isinstance(item, Pod) and not item.is_finished and self.cluster.groups is not None:
            self.cluster.groups.add(item)
        is_pending = isinstance(item, Pod) and not item.spec.node_name and not item.is_finished
        if isinstance(item, Pod) and is_pending and item.status.nominated_node_name:
            self.cluster.nominated.promise(item, item.status.nominated_node_name)

    def runner(self, pod: Pod) -> Runner | None:
        """The profile of the pod; None if no profile has its scheduler name."""
        return self._runners.get(pod.spec.scheduler_name)

    def decide(
        self, pod: Pod, *, explain: bool = False, cluster: Cluster | None = None, within: Mask | None = None
    ) -> Decision:
        """Where the pod goes now, or why nowhere; `cluster` is a fork to decide on instead, `within` the only rows that
        count."""
        runner = self.runner(pod)
        if runner is None:
            return DecisionError(f'no profile has the scheduler name "{pod.spec.scheduler_name}"')
        self.decisions += 1
        pod = self.cluster.as_counted(pod)
        options = _EXPLAINED if explain else _PLAIN
        if within is not None:
            options = replace(options, within=within)
        return decide(runner, pod, cluster or self.cluster, options, self.decisions)
