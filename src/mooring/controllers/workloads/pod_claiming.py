"""Takes matching pods into the crew of a workload, and lets go of those that no longer match."""

from collections.abc import Callable

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.lifecycle.orphans import Orphans, equal_labels
from mooring.controllers.nodes.pod_states import is_active
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.controllers.workloads.ownership import adopt, release
from mooring.controllers.workloads.pod_control import PODS
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.selectors import Selector


def claim_pods(
    api: ResourceApi,
    resource: KindSpec,
    workload: JsonObject,
    selector: Selector,
    owned: OwnedPods,
    orphans: Orphans,
    fits: Callable[[JsonObject], bool] = is_active,
) -> None:
    """Make the crew what the selector says; of orphans only those that `fits`.

    Labels are looked at once for all pods that share them.
    """
    strange = owned.strange_labels(selector) if owned.pods else set()
    if strange:
        for pod in list(owned.pods.values()):
            if frozenset(pod["metadata"].get("labels", {}).items()) in strange:
                release(api, workload, PODS, pod)
    candidates = orphans.candidates(workload["metadata"]["namespace"], equal_labels(workload))
    wanted = [p for p in candidates if fits(p) and selector.matches(p["metadata"].get("labels", {}))]
    adopt(api, resource, workload, PODS, wanted)
