"""Pods that arrive one by one, never leave, and are given up if they do not fit.

Nothing can wait in such a run, so it needs no queue, no clock and no events: each pod is decided about once, by the decision,
the Reserve plugins and the node table of a scheduler. PostFilter does not run: a pod that does not fit evicts no other.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.drivers.single_attempts import gate_of, reserve, write_through
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.points import SchedulerServices
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import InputError
from mooring.kit.choice import mix
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import DecisionError, Placement
from mooring.scheduler.ties import TieBreak, first_row, lowest_name
from mooring.state.scheduler_assembly import build_runners


class AttemptFailed(InputError):
    """An attempt that ended with an error of a plugin; the text says which pod and why."""


class OneByOne:
    """A cluster that pods come to. `ties` decides among nodes with the same score. With `first_row`, nodes come in an
    order that the seed decides."""

    def __init__(
        self,
        objects: Sequence[KubeObject],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
        ties: TieBreak = lowest_name,
        seed: int = 0,
    ) -> None:
        """`seed` gives attempts other random numbers. Raises ConfigError."""
        self.cluster = cluster = Cluster(gates)
        services = SchedulerServices(cluster, want=partial(write_through, cluster))
        self._runners = build_runners(config, registry, services, gates)
        self._options = DecideOptions(tie_break=ties)
        self._seed = mix(seed)  # so that the attempts of two seeds draw unrelated numbers
        self.attempts = 0
        self.nodes_by_pod: dict[str, str] = {}
        """Pod -> its node, of those that were placed."""
        for item in _shuffled(objects, seed) if ties is first_row else objects:
            cluster.put(item)

    def place(self, pod: Pod) -> str | None:
        """Attempt a pod once; it stays on its node. None: it is given up. Raises AttemptFailed."""
        runner = self.runner(pod)
        if runner is None:
            return None
        gate = gate_of(runner, pod)
        if gate is not None:
            self._check(pod, gate)
            return None
        self.attempts += 1
        decision = decide(runner, pod, self.cluster, self._options, self._seed + self.attempts)
        self._check(pod, decision)
        if not isinstance(decision, Placement) or reserve(runner, decision) is not None:
            return None
        self.cluster.nodes.place(pod, decision.node)
        self.nodes_by_pod[pod.key] = decision.node
        return decision.node

    def _check(self, pod: Pod, decision: object) -> None:
        if isinstance(decision, DecisionError):
            raise AttemptFailed(f"pod {pod.key}: {decision.error}")

    def runner(self, pod: Pod) -> Runner | None:
        """The profile that schedules the pod; None: no profile has the name that it asks for."""
        return self._runners.get(pod.spec.scheduler_name)


def _shuffled(objects: Sequence[KubeObject], seed: int) -> list[KubeObject]:
    """The objects with the nodes first, in an order that follows from the seed."""
    nodes = [item for item in objects if isinstance(item, Node)]
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(nodes)).tolist()
    return [*(nodes[at] for at in order), *(item for item in objects if not isinstance(item, Node))]
