"""From a path to what it means: a collection, an object, or a part of one."""

from dataclasses import dataclass

from mooring.model.kind_spec import KindSpec
from mooring.model.kinds import REQUESTS, RESOURCES

_POSTED = {(resource.group, resource.version, resource.plural): resource for resource in REQUESTS}


@dataclass(frozen=True, slots=True)
class Target:
    """An empty name stands for the collection, an empty namespace for all of them."""

    resource: KindSpec
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """None: there is nothing of ours at that path.

    /api/v1/nodes/n1                          a node
    /api/v1/namespaces/default                a namespace
    /api/v1/namespaces/default/pods           the pods in it
    /apis/apps/v1/namespaces/a/deployments/b/scale
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            return _target("", version, rest)
        case ["apis", group, version, *rest]:
            return _target(group, version, rest)
    return None


def _target(group: str, version: str, parts: list[str]) -> Target | None:
    if not all(parts):
        return None  # or `namespaces//pods`, with a name forgotten, would be the pods of all namespaces
    namespace = ""
    is_within = parts[:1] == ["namespaces"] and len(parts) > 2
    if is_within and not (group == "" and parts[2] in RESOURCES["", "v1", "namespaces"].subresources):
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3:
        return None
    plural, name, subresource = (*parts, "", "")[:3]
    resource = RESOURCES.get((group, version, plural)) or _POSTED.get((group, version, plural))
    if resource is None or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        return None
    return Target(resource, namespace, name, subresource)
