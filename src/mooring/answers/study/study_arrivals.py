"""The pods of a run that arrive one by one, and loads that are drawn like a table."""

from collections.abc import Iterator

import numpy as np

from mooring.answers.study.study_inputs import StudyWorkload
from mooring.answers.study.study_metrics import amount_in
from mooring.answers.study.study_plan import StudyPlan
from mooring.cluster.cluster import Cluster
from mooring.inputs.arrivals import Arrival
from mooring.inputs.input_errors import InputError
from mooring.inputs.trace_reader import TracePods
from mooring.model.pod import Pod


def fitted_load(given: TracePods, count: int, seed: int) -> TracePods:
    """Draws `count` pods from those that are given; their names are numbered.

    What a pod asks for and how long it runs are drawn together, so that large pods run as long as large pods did. Distances
    between arrivals are drawn from those of the given pods, so bursts stay bursts; a rate that rises and falls over the day
    does not. Each seed gives another load.
    """
    if not len(given):
        return given
    # Uniform numbers alone: NumPy gives the same for a seed in all releases.
    uniform = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, count]))).random
    rows = (uniform(count) * len(given)).astype(np.int64)
    gaps_ns = np.diff(np.array(given.at_ns, np.int64))
    steps_ns = gaps_ns[(uniform(count - 1) * len(gaps_ns)).astype(np.int64)] if len(gaps_ns) else np.zeros(count - 1)
    at_ns = np.concatenate([[0], np.cumsum(steps_ns)]).astype(np.int64)
    return TracePods(
        given.templates,
        [f"fitted-{number}" for number in range(count)],
        [given.which[row] for row in rows.tolist()],
        at_ns.tolist(),
        [given.run_ns[row] for row in rows.tolist()],
    )


MAX_PODS = 2_000_000
"""How many pods may arrive one by one: a small resource of a large cluster would want more."""


def fitted(workload: StudyWorkload, plan: StudyPlan) -> list[Arrival]:
    """A load like the pods of the table, another one for each seed."""
    assert workload.pods is not None and workload.entry.fit is not None, "the reader of the study checks it"
    return fitted_load(workload.pods, workload.entry.fit.pods or len(workload.pods), plan.seed).arrivals()


def arriving_pods(workload: StudyWorkload, plan: StudyPlan, cluster: Cluster) -> Iterator[Pod]:
    """The pods in the order of their arrival: shuffled by the seed, then drawn again at random until they ask for enough.
    They depend on the seed and the load of the plan, and not on its configuration. Raises InputError."""
    entry = workload.entry
    pods = workload.built_pods()
    if entry.fit is not None:
        pods = [arrival.pod for arrival in fitted(workload, plan)]
    if not pods:
        return
    draw = np.random.Generator(np.random.PCG64(plan.seed)).random
    order = np.argsort(draw(len(pods)), kind="stable").tolist()
    if entry.until is None:
        wanted, resource = float(round(len(pods) * plan.load)), ""
    else:
        resource = entry.until.resource
        room = amount_in(cluster, resource, is_requested=False)
        if not room:
            raise InputError(f"workload {entry.name}: until: no node has {resource}")
        if not any(pod.shape.request.get(resource, 0) for pod in pods):
            raise InputError(f"workload {entry.name}: until: no pod asks for {resource}")
        wanted = entry.until.percent / 100 * plan.load * room
    asked = 0
    for number in range(MAX_PODS):
        pod = pods[order[number]] if number < len(pods) else _drawn(pods, float(draw()), number)
        yield pod
        asked += pod.shape.request.get(resource, 0) if resource else 1
        if asked >= wanted:
            return
    raise InputError(f"workload {entry.name}: more than {MAX_PODS} pods would arrive: write a lower percentage")


def _drawn(pods: list[Pod], share: float, number: int) -> Pod:
    """Another pod like one of these."""
    pod = pods[int(share * len(pods))]
    name = f"{pod.name}-again-{number}"
    return pod.with_name(name, f"{pod.namespace}/{name}")
