"""Takes matching pods into the crew of a workload, and lets go of those that no longer match."""

from collections.abc import Callable

from mooring.apiserver.access import Api
from mooring.controllers.lifecycle.orphans import Orphans, equal_labels
from mooring.controllers.nodes.pod_states import is_active
from mooring.controllers.workloads.crews import Crew
from mooring.controllers.workloads.ownership import adopt, release
from mooring.controllers.workloads.pod_control import PODS
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.selectors import Selector


def recruit(
    api: Api,
    resource: KindSpec,
    workload: JsonObject,
    selector: Selector,
    crew: Crew,
    orphans: Orphans,
    fits: Callable[[JsonObject], bool] = is_active,
) -> None:
    """Make the crew what the selector says; of orphans only those that `fits`.

    Labels are looked at once for all pods that share them.
    """
    strange = crew.strange_labels(selector) if crew.pods else set()
    if strange:
        for pod in list(crew.pods.values()):
            if frozenset(pod["metadata"].get("labels", {}).items()) in strange:
                release(api, workload, PODS, pod)
    candidates = orphans.candidates(workload["metadata"]["namespace"], equal_labels(workload))
    wanted = [p for p in candidates if fits(p) and selector.matches(p["metadata"].get("labels", {}))]
    adopt(api, resource, workload, PODS, wanted)
