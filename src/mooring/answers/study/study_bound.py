"""The bound beside the policies of a study: what no placement of the pods that arrive one by one could exceed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mooring.answers.study.allocation_bound import Mask, PodsAndNodes, SharedDevices, most_allocated
from mooring.answers.study.study_arrivals import arriving_pods
from mooring.answers.study.study_inputs import StudyInputs
from mooring.answers.study.study_metrics import amount_in
from mooring.answers.study.study_plan import StudyPlan
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.resource_amounts import NOWHERE
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.device_sharing import DeviceSharing
from mooring.model.pod import Pod
from mooring.sim.fragmentation import fitting_nodes
from mooring.sim.one_by_one import OneByOne

EXACT, RELAXATION = "exact", "relaxation"


@dataclass(frozen=True, slots=True)
class StudyBound:
    """The bounds of the metrics of a run, by column, and whether all of them can be reached."""

    values: Mapping[str, float | None]
    pods: int
    """How many pods arrived."""
    kind: str


def bound_of(inputs: StudyInputs, plan: StudyPlan) -> StudyBound:
    """The most of each resource that a policy could allocate to the pods that arrive in a run.

    A placement may put a pod on any node that the filters of one of the configurations let it use in the empty cluster, as
    long as requests do not exceed what nodes have, and single devices have room where plugins of all configurations declare
    it (`DeviceSharing`). What plugins ask for beyond that is left out: the bound holds nevertheless. Raises InputError,
    ConfigError and SolverMissing.
    """
    metrics = [metric for metric in inputs.study.metrics if metric.is_bounded]
    cluster = Cluster(inputs.cluster(plan.cluster).loaded.gates)
    for item in inputs.cluster(plan.cluster).objects:
        cluster.put(item)
    pods = [*arriving_pods(inputs.workload(plan.workload, plan.cluster), plan, cluster)]
    kinds = Counter((id(pod.shape), pod.spec.scheduler_name) for pod in pods)
    templates = [*{(id(pod.shape), pod.spec.scheduler_name): pod for pod in reversed(pods)}.items()]
    counts = [kinds[key] for key, _ in templates]
    resources = [*dict.fromkeys(metric.of for metric in metrics)]
    given, names = _problem(inputs, plan, cluster, [pod for _, pod in templates], counts)
    found = {name: most_allocated(given, names.index(name)) for name in resources if name in names}
    values: dict[str, float | None] = {}
    for metric in metrics:
        room, held = (amount_in(cluster, metric.of, is_requested=each) for each in (False, True))
        added = found[metric.of].amount if metric.of in found else 0
        values[metric.column] = 100 * (held + added) / room if room else None
    is_exact = all(bound.is_exact for bound in found.values())
    return StudyBound(values, len(pods), EXACT if is_exact else RELAXATION)


def _problem(
    inputs: StudyInputs, plan: StudyPlan, cluster: Cluster, pods: Sequence[Pod], counts: Iterable[int]
) -> tuple[PodsAndNodes, list[str]]:
    """The pods and nodes of a run, and the names of the resources. Slots for pods are the last column."""
    nodes = cluster.nodes
    asked = dict.fromkeys(name for pod in pods for name in pod.shape.request)
    names = [name for name, place in zip(asked, nodes.amounts.places(asked), strict=True) if place != NOWHERE]
    places = nodes.amounts.places(names)
    rows = np.flatnonzero(nodes.alive[: nodes.height])
    free = (nodes.amounts.allocatable - nodes.amounts.requested)[places][:, rows]
    slots = nodes.allowed_pods[rows] - nodes.pod_count[rows]
    requests = [[*(pod.shape.request.get(name, 0) for name in names), 1] for pod in pods]
    allowed, sharing = _allowed(inputs, plan, pods, [nodes.names[row] for row in rows.tolist()])
    devices = None
    if sharing is not None and sharing.device_resource in names:
        wanted = [sharing.device_request(pod) for pod in pods]
        devices = SharedDevices(
            sharing.device_size,
            np.array([each.share if each.count else 0 for each in wanted], np.int64),
            np.array([each.count for each in wanted], np.int64),
            np.array([sharing.device_count(node) for row in rows.tolist() if (node := nodes.nodes[row])], np.int64),
        )
    given = PodsAndNodes(
        np.array(requests, np.int64).reshape(len(pods), len(names) + 1),
        np.array([*counts], np.int64),
        np.vstack([free, slots]).T,
        allowed,
        devices,
    )
    return given, names


def _allowed(
    inputs: StudyInputs, plan: StudyPlan, pods: Sequence[Pod], names: Sequence[str]
) -> tuple[Mask, DeviceSharing | None]:
    """Pods x nodes: whether the filters of a configuration let the pod use the node of that name while no pods are there.
    Other pods only make filters stricter, as long as pods do not ask to be near others; those of tables do not. And the
    plugin that declares devices, if each configuration has it for each pod."""
    declared: set[type[DeviceSharing] | None] = set()
    sharing: DeviceSharing | None = None
    loaded = inputs.cluster(plan.cluster).loaded
    objects = [item for item in loaded.objects if not isinstance(item, Pod)]
    allowed = np.zeros((len(pods), len(names)), np.bool_)
    for place, entry in enumerate(inputs.study.configurations):
        config = inputs.config(replace(plan, config=place), loaded.gates)
        empty = OneByOne(objects, config, inputs.registry(entry), loaded.gates)
        row_of = {name: row for row, name in enumerate(empty.cluster.nodes.names)}
        rows = [row_of[name] for name in names]
        for at, pod in enumerate(pods):
            allowed[at] |= fitting_nodes(empty, pod)[rows]
            sharing = _sharing(empty.runner(pod))
            declared.add(None if sharing is None else type(sharing))
    return allowed, sharing if len({each and each.name for each in declared}) == 1 else None


def _sharing(runner: Runner | None) -> DeviceSharing | None:
    """The filter of a profile that declares devices."""
    return next((each for each in runner.filters if isinstance(each, DeviceSharing)), None) if runner else None
