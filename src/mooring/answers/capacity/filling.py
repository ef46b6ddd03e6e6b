"""Reads copies of pods and places them one after another, each by the core's own decision, until one fits nowhere.

There is no queue and no time: a copy is decided, reserved and placed, as cluster-capacity does it. Pods that are pending in
the cluster take no part, except that those with a nominated node keep their room. `preempting.py` makes room for a copy that
fits nowhere, if the caller asks for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle

import msgspec
import numpy as np

from mooring.answers.trial.counterfactual import SchedulerView
from mooring.api.validate import validate
from mooring.api.validation.problem import Problem
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Ints, Mask
from mooring.drivers.single_attempts import gate_of, reserve, write_through
from mooring.framework.attempts.runner import Runner
from mooring.framework.attempts.slots import count_slots
from mooring.framework.contract.points import ResourceDemand
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.inputs.admission import Admission, ClaimSources, claims_for
from mooring.inputs.created_objects import Manifest, expand
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, Source, Written, read_objects
from mooring.inputs.manifests import Manifests, ReadOptions
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.model.workloads import Ordinals, Workload
from mooring.plugins import in_tree_plugins
from mooring.rules.workload_pods import DAEMON_SET
from mooring.scheduler.decision import DecisionError, NoFit, Placement

# ---- Capacity counts copies of one pod. The pod is given, or comes from the template of a workload.


Warn = Callable[[Problem], None]


@dataclass(frozen=True, slots=True)
class PodCopies:
    """One kind of pod to place, and how many of it come in a turn."""

    name: str
    """`Pod default/web`, or the workload that it is of: `Deployment default/web`."""
    pod: Pod = field(repr=False)
    """The first copy."""
    admission: Admission = field(repr=False)
    claim_sources: ClaimSources = field(repr=False)
    in_turn: int = 1
    extras: Sequence[KubeObject] = field(default=(), repr=False)
    """Other objects of the same file: claims, classes, the ReplicaSet of a Deployment."""
    workload: Workload | None = field(default=None, repr=False)
    """The StatefulSet whose claim templates give each copy claims of its own."""

    def copy(self, number: int) -> tuple[Pod, list[KubeObject]]:
        """Another pod, and the claims that controllers would create for it."""
        if self.workload is not None:
            return self._ordinal(number, self.workload)
        other = self.pod.with_name(f"{self.pod.name}-{number}", f"{self.name}, copy {number}")
        if not _has_own_claims(other):
            return other, []
        other.status = PodStatus(phase="Pending")  # claims_for writes the names of the claims into it
        return other, self._admitted(claims_for(other, self.claim_sources))

    def _ordinal(self, number: int, workload: Workload) -> tuple[Pod, list[KubeObject]]:
        """The pod of a StatefulSet with this number, and its claims."""
        made = expand(_of_one_pod(workload, number))
        (pod,) = (item for item in made if isinstance(item, Pod))
        self.admission.admit(pod)
        named = pod.with_name(pod.name, f"{self.name}, copy {number}")
        claims = [item for item in made if not isinstance(item, Pod)]
        return named, self._admitted([*claims, *claims_for(named, self.claim_sources)])

    def _admitted(self, claims: list[KubeObject]) -> list[KubeObject]:
        for claim in claims:
            self.admission.admit(claim)
        return claims


def _has_own_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(volume.ephemeral for volume in pod.spec.volumes or ())


# ---- reading


def pod_copies(
    loaded: LoadedCluster,
    source: Source | Written,
    in_turn: int = 1,
    validation: Validation = Validation.STRICT,
    warn: Warn | None = None,
) -> list[PodCopies]:
    """Each pod and workload of a file or dictionary, admitted as the cluster would admit it. Raises InputError."""
    manifests = read_objects(source, ReadOptions(loaded.objects, validation, loaded.gates))
    if manifests.problems:
        raise InputError(manifests.problems)
    if warn is not None:
        for warning in manifests.warnings:
            warn(warning)
    return _CopyReader(loaded, manifests, in_turn).read(str(source) if not isinstance(source, dict) else "")


class _CopyReader:
    """Turns what was read into copies, and collects problems."""

    def __init__(self, loaded: LoadedCluster, manifests: Manifests, in_turn: int) -> None:
        objects = [*loaded.objects, *(manifest.object for manifest in manifests.objects)]
        self._admission = Admission.of(objects, loaded.gates)
        self._claim_sources = ClaimSources.of(objects, loaded.gates)
        self._extras = [each.object for each in manifests.objects if not isinstance(each.object, Pod)]
        self._manifests = manifests
        self._in_turn = in_turn
        self._problems: list[Problem] = []

    def read(self, file: str) -> list[PodCopies]:
        pods = [each for each in self._manifests.objects if isinstance(each.object, Pod) and not each.made_from]
        found = [self._copies(each.where, _loose(each.object)) for each in pods if isinstance(each.object, Pod)]
        for each in self._manifests.workloads:
            if isinstance(each.object, Workload):
                found += self._of_workload(each, each.object)
        if not found and not self._problems:
            self._problems.append(
                Problem("", "no pod to count: write a Pod, or a workload with a pod template", file=file)
            )
        if self._problems:
            raise InputError(self._problems)
        return found

    def _of_workload(self, manifest: Manifest, workload: Workload) -> list[PodCopies]:
        """A pod of the workload, whatever number of pods it has."""
        if workload.kind == DAEMON_SET:
            text = "the pods of a DaemonSet have their nodes already; write a Pod or another workload"
            self._problems.append(Problem("kind", text, where=manifest.where, file=manifest.file))
            return []
        made = expand(_of_one_pod(workload, workload.spec.ordinals.start if workload.spec.ordinals else 0))
        (pod,) = (item for item in made if isinstance(item, Pod))
        problems = [*self._admission.admit(pod), *validate(pod)]
        self._problems += [each.under("spec.template").at(manifest.where, manifest.file) for each in problems]
        owns_claims = workload.kind == "StatefulSet" and workload.spec.volume_claim_templates
        return [self._copies(manifest.where, pod, workload if owns_claims else None)]

    def _copies(self, name: str, pod: Pod, workload: Workload | None = None) -> PodCopies:
        return PodCopies(name, pod, self._admission, self._claim_sources, self._in_turn, self._extras, workload)


def _loose(pod: Pod) -> Pod:
    """The pod as it was created: a pod that runs in a cluster serves as a template as well."""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    return Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Pending"))


def _of_one_pod(workload: Workload, ordinal: int) -> Workload:
    """The workload with one pod, also if it is suspended, finished, or scaled to 0."""
    spec = msgspec.structs.replace(
        workload.spec, replicas=1, parallelism=1, completions=None, suspend=None, ordinals=Ordinals(start=ordinal)
    )
    status = type(workload.status)()
    changed: Workload = msgspec.structs.replace(workload, spec=spec, status=status)
    return changed


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
        return self.keep(pod, decision) if isinstance(decision, Placement) else decision

    def keep(self, pod: Pod, placement: Placement) -> Placement | Rejection:
        """Reserve what was decided, and leave the pod on its node."""
        runner = self.runner(pod)
        assert runner is not None and placement.context is not None, (
            "a profile decided, and a placement has its context"
        )
        placed = placement.context.assumed(pod, placement.node)
        rejection = reserve(runner, placement)
        if rejection is not None:
            return rejection
        self.cluster.nodes.place(placed, placement.node)
        return placement


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


MakeRoom = Callable[[PodCopies, Pod, NoFit], Placement | Refusal | None]
"""Places a copy that fits nowhere, if others can leave for it. None: the count is to end here, whether it fits or not."""


def fill_one_by_one(
    placer: CopyPlacer,
    mix: Sequence[PodCopies],
    most: int,
    make_room: MakeRoom | None = None,
    begun: Filling | None = None,
) -> Filling:
    """Place copies in turn until the next one does not fit, or until `most` are placed. `make_room` gets those that fit
    nowhere. `begun` has the copies of a single kind that are placed already."""
    filling = begun or Filling(cluster=placer.cluster)
    numbers = {copies.name: count(_first_number(copies) + filling.fits) for copies in mix}
    for copies in turns(mix):
        pod, claims = copies.copy(next(numbers[copies.name]))
        placer.add(claims)
        filling.refused, filling.pod = copies, pod
        if filling.fits >= most:
            return filling
        outcome = placer.place(pod)
        if make_room is not None and isinstance(outcome, NoFit):
            room = make_room(copies, pod, outcome)
            if room is None:
                return filling
            outcome = room
        if not isinstance(outcome, Placement):
            filling.refusal = outcome
            return filling
        filling.pods[outcome.node, copies.name] += 1
        filling.fits += 1
    raise AssertionError("turns never end")


def lay(placer: CopyPlacer, copies: PodCopies, filling: Filling) -> Filling:
    """Place the copies of a filling that was worked out at once, so that the count can go on one by one after them."""
    numbers = count(_first_number(copies))
    for (node, _), number in filling.pods.items():
        for _ in range(number):
            pod, _ = copies.copy(next(numbers))
            placer.cluster.nodes.place(pod.with_node(node), node)
    return Filling(filling.pods, filling.fits, cluster=placer.cluster)


def _first_number(copies: PodCopies) -> int:
    ordinals = copies.workload.spec.ordinals if copies.workload is not None else None
    return ordinals.start if ordinals is not None else 0


# ---- The numbers of `OneByOne` at once, where a node's answer depends on nothing but its own sums.
#
# Then the order in which copies go to nodes does not matter in the end: each node takes as many as its free resources
# and its allowed pods say. Whether that is so, the plugins declare themselves (`@reads`, `demand`). The core has the
# last word: the counts are laid on a fork of the cluster, and its decision there must be that no further copy fits.


def fill_at_once(placer: CopyPlacer, copies: PodCopies) -> Filling | None:
    """As many copies as fit; None if that cannot be worked out at once."""
    pod, claims = copies.copy(0)
    runner = placer.runner(pod)
    if runner is None or claims or not _has_only_builtin_plugins(runner) or placer.gate(pod) is not None:
        return None
    try:
        slots = count_slots(runner.open(pod, placer.cluster))
    except AttemptError:
        return None  # the decision on the first copy says it
    if slots is None or len(slots.demands) != 1 or slots.demands[0].waived is not None:
        return None
    return _filled(placer, copies, pod, slots.demands[0], slots.counts) if _holds_what_it_requests(pod) else None


def _has_only_builtin_plugins(runner: Runner) -> bool:
    return all(type(plugin) in in_tree_plugins() for plugin in runner.profile.plugins.values())


def _holds_what_it_requests(pod: Pod) -> bool:
    """Whether a copy takes from its node what it is compared by, and nothing else: `_with_sums` counts no more."""
    return {name: amount for name, (amount, _) in pod.shape.held.items() if amount} == {
        name: amount for name, amount in pod.shape.request.items() if amount
    }


def _filled(placer: CopyPlacer, copies: PodCopies, pod: Pod, demand: ResourceDemand, counts: Ints) -> Filling | None:
    """The counts, if the core agrees that no further copy fits beside them."""
    fork = _with_sums(placer.cluster, demand, counts)
    decision = placer.decide(pod, cluster=fork)
    if not isinstance(decision, NoFit):
        return None
    names = placer.cluster.nodes.names
    pods = Counter({(names[row], copies.name): int(counts[row]) for row in np.flatnonzero(counts)})
    return Filling(pods, int(counts.sum()), decision, copies, pod, fork)


def _with_sums(cluster: Cluster, demand: ResourceDemand, counts: Ints) -> Cluster:
    """A fork in which so many pods more are counted on each row: in the sums that the demand is compared with, and nowhere
    else."""
    fork = cluster.fork()
    requested, rows = fork.nodes.amounts.requested, slice(0, fork.nodes.height)
    requested[demand.resources, rows] += demand.amounts * counts
    fork.nodes.pod_count[rows] += counts
    return fork
