"""Places copies of pods one after another, each by the core's own decision, until one fits nowhere.

There is no queue, no time and no preemption: a copy is decided, reserved and placed, as cluster-capacity does it. Pods that
are pending in the cluster take no part, except that those with a nominated node keep their room.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle

from mooring.answers.capacity.pod_copies import PodCopies
from mooring.answers.trial.scheduler_view import SchedulerView
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.drivers.single_attempts import gate_of, reserve, write_through
from mooring.framework.contract.status import Rejection
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.decision import DecisionError, NoFit, Placement

Refusal = Rejection | NoFit | DecisionError
"""Why a copy was not placed; a Rejection is that of a PreEnqueue or Reserve plugin."""


class CopyPlacer(SchedulerView):
    """The loaded cluster with what copies need; copies that are placed stay. Raises ConfigError, InputError."""

    def __init__(self, loaded: LoadedCluster, extras: Sequence[KubeObject] = ()) -> None:
        objects = {(type(item), item.key): item for item in (*loaded.objects, *extras)}
        super().__init__(loaded, objects.values(), lambda intent: write_through(self.cluster, intent))

    def gate(self, pod: Pod) -> Rejection | DecisionError | None:
        """Why the pod may not enter the queue."""
        runner = self.runner(pod)
        return gate_of(runner, pod) if runner is not None else None

    def add(self, items: Sequence[KubeObject]) -> None:
        """Claims of a copy that is about to be decided."""
        for item in items:
            self.cluster.put(item)

    def place(self, pod: Pod, within: Mask | None = None) -> Placement | Refusal:
        """Decide and reserve; a pod that fits stays on its node. `within` are the only rows that count."""
        decision = self.gate(pod) or self.decide(pod, within=within)
        runner = self.runner(pod)
        if not isinstance(decision, Placement) or runner is None:
            return decision
        assert decision.context is not None, "a placement comes with its context"
        placed = decision.context.assumed(pod, decision.node)
        rejection = reserve(runner, decision)
        if rejection is not None:
            return rejection
        self.cluster.nodes.place(placed, decision.node)
        return decision


# ---- until one does not fit


@dataclass(slots=True)
class Filling:
    """How many copies went where, and what stopped the next one."""

    pods: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(Node, name of the kind of copy) -> how many."""
    fits: int = 0
    """Their sum."""
    refusal: Refusal | None = None
    """None: the limit was reached."""
    refused: PodCopies | None = None
    """The copies whose turn it was in the end."""
    pod: Pod | None = None
    """The one of them that was not placed."""
    cluster: Cluster | None = None
    """The cluster after filling; it may be a fork that has sums only."""


def turns(mix: Sequence[PodCopies]) -> Iterator[PodCopies]:
    """The kinds of copies in turn, for ever."""
    return cycle([copies for copies in mix for _ in range(copies.in_turn)])


def fill_one_by_one(placer: CopyPlacer, mix: Sequence[PodCopies], most: int) -> Filling:
    """Place copies in turn until the next one does not fit, or until `most` are placed."""
    filling = Filling(cluster=placer.cluster)
    numbers = {copies.name: count(_first_number(copies)) for copies in mix}
    for copies in turns(mix):
        pod, claims = copies.copy(next(numbers[copies.name]))
        placer.add(claims)
        filling.refused, filling.pod = copies, pod
        if filling.fits >= most:
            return filling
        outcome = placer.place(pod)
        if not isinstance(outcome, Placement):
            filling.refusal = outcome
            return filling
        filling.pods[outcome.node, copies.name] += 1
        filling.fits += 1
    raise AssertionError("turns never end")


def _first_number(copies: PodCopies) -> int:
    ordinals = copies.workload.spec.ordinals if copies.workload is not None else None
    return ordinals.start if ordinals is not None else 0
