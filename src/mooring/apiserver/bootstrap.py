"""What every cluster has from the start: namespaces, the system's priority classes, the service of the API itself."""

from mooring.apiserver.resource_api import ResourceApi
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_CLASSES: tuple[JsonObject, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Pods that the cluster needs, on whichever node.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Pods that their node needs.",
    },
)
_SERVICE: JsonObject = {
    "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}


def create_initial_objects(api: ResourceApi) -> None:
    """Create whatever of it is not there yet."""
    for name in NAMESPACES:
        _ensure(api, "", "namespaces", {"metadata": {"name": name}})
        _ensure(api, "", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    for priority_class in _CLASSES:
        _ensure(api, "scheduling.k8s.io", "priorityclasses", priority_class)
    _ensure(api, "", "services", _SERVICE)


def _ensure(api: ResourceApi, group: str, plural: str, item: JsonObject) -> None:
    resource = RESOURCES[group, "v1", plural]
    namespace = item["metadata"].get("namespace", "default") if resource.namespaced else ""
    if api.find(resource, namespace, item["metadata"]["name"]) is None:
        api.create(resource, namespace, item)
