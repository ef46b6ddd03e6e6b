"""Discovery, which a client asks before anything else: the version, the groups, and the kinds with their verbs.

Everything is made from the table of served kinds, so what is served and what is announced cannot drift apart.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.model.release import GIT_VERSION

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type to ask for, and to answer with: kubectl reads the aggregated form only if it is named in full."""

VERSION: JsonObject = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""`/version`: the release whose behaviour is emulated, because kubectl warns about skew and picks features by it.
Mooring's own version follows the plus sign."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """The kind and the verbs of a subresource. An empty kind stands for that of the resource itself."""

    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str = ""
    version: str = ""


_ORDINARY = Subresource()
"""Read and written like `status`."""

SUBRESOURCES: dict[str, Subresource] = {
    "binding": Subresource(("create",), "Binding"),
    "eviction": Subresource(("create",), "Eviction", "policy", "v1"),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "scale": Subresource(kind="Scale", group="autoscaling", version="v1"),
}
"""The subresources that are not read and written like `status`."""


def document(path: str, aggregated: bool = False, address: str = "") -> JsonObject | None:
    """The answer to one discovery path; None if there is no such path. `address` is where this server is reached."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return aggregated_list("") if aggregated else api_versions(address)
        case ["apis"]:
            return aggregated_list(*_groups()) if aggregated else group_list()
        case ["apis", group] if group in _groups():
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group)
        case ["api", version]:
            return resource_list("", version)
        case ["apis", group, version] if group:
            return resource_list(group, version)
    return None


# One document for each group and version


def api_versions(address: str = "") -> JsonObject:
    """`/api`: the versions of the core group."""
    reached = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": _versions(""), "serverAddressByClientCIDRs": reached}


def group_list() -> JsonObject:
    """`/apis`: the named groups with their versions."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups()]}


def resource_list(group: str, version: str) -> JsonObject | None:
    """`/api/v1`, `/apis/apps/v1`: the kinds of one group and version; None if there are none."""
    kinds = _kinds(group, version)
    if not kinds:
        return None
    head: JsonObject = {"kind": "APIResourceList"}
    if group:  # Parity: the core group's document goes without apiVersion.
        head["apiVersion"] = "v1"
    head["groupVersion"] = kinds[0].api_version
    return head | {"resources": [line for resource in kinds for line in _lines(resource)]}


def _lines(resource: KindSpec) -> Iterator[JsonObject]:
    """The lines of a resource and of its subresources, in upstream's order."""
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    for name in sorted(resource.subresources):
        yield _subresource_line(resource, name, SUBRESOURCES.get(name, _ORDINARY))


def _subresource_line(resource: KindSpec, name: str, sub: Subresource) -> JsonObject:
    """The line of one subresource. It names a group only where its kind is of another one."""
    line: JsonObject = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if sub.group:
        line |= {"group": sub.group, "version": sub.version}
    return line | {"kind": sub.kind or resource.kind, "verbs": list(sub.verbs)}


def _group(name: str) -> JsonObject:
    """One group with its versions; the first is preferred."""
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


# All at once


def aggregated_list(*groups: str) -> JsonObject:
    """`/api` and `/apis` in one document each, which spares kubectl a request for every group."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(name) for name in groups],
    }


def _aggregated_group(name: str) -> JsonObject:
    """One group with the resources of all its versions."""
    versions = [
        {
            "version": version,
            "resources": [_aggregated(resource) for resource in _kinds(name, version)],
            "freshness": "Current",
        }
        for version in _versions(name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated(resource: KindSpec) -> JsonObject:
    """One resource with its subresources."""
    line: JsonObject = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        line["subresources"] = [_aggregated_subresource(resource, name) for name in sorted(resource.subresources)]
    return line


def _aggregated_subresource(resource: KindSpec, name: str) -> JsonObject:
    """One subresource."""
    sub = SUBRESOURCES.get(name, _ORDINARY)
    kind = _response_kind(sub.kind or resource.kind, sub.group, sub.version)
    return {"subresource": name, "responseKind": kind, "verbs": list(sub.verbs)}


def _response_kind(kind: str, group: str = "", version: str = "") -> dict[str, str]:
    """An empty group and version stand for those of the list that the kind is in."""
    return {"group": group, "version": version, "kind": kind}


# The table of kinds, by group and version


def _all() -> Iterable[KindSpec]:
    """Everything that has a path: what is stored, and what is only posted."""
    return (*RESOURCES.values(), *REQUESTS)


def _groups() -> list[str]:
    """The named groups, in the order of the table of kinds."""
    return list(dict.fromkeys(resource.group for resource in _all() if resource.group))


def _versions(group: str) -> list[str]:
    """The versions of a group that are served, in the order of the table."""
    return list(dict.fromkeys(resource.version for resource in _all() if resource.group == group))


def _kinds(group: str, version: str) -> list[KindSpec]:
    """The kinds of a group and version in the order of their names, as kube-apiserver lists them."""
    found = [resource for resource in _all() if (resource.group, resource.version) == (group, version)]
    return sorted(found, key=lambda resource: resource.plural)


def _names(resource: KindSpec) -> dict[str, Any]:
    """Short names and categories, left out where there are none."""
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(values) for key, values in names.items() if values}
