"""Discovery, which a client asks before anything else: the version, the groups, and the kinds with their verbs.

Everything is made from the table of served kinds, so what is served and what is announced cannot drift apart.

By its identity a client recognises a cluster of `mooring up`, and writes to that one cluster only. A GET of `/mooring`
answers with the id of the cluster; no other API server has that path. The whole API is served a second time below
`/mooring/clusters/ID`. A request there cannot reach another cluster, even if another server has taken the address since
the client read the id: every other server, also one of `mooring up`, answers 404.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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
    "token": Subresource(("create",), "TokenRequest", "authentication.k8s.io", "v1"),
}
"""The subresources that are not read and written like `status`."""


def document(
    path: str, aggregated: bool = False, address: str = "", custom: Iterable[KindSpec] = ()
) -> JsonObject | None:
    """The answer to one discovery path; None if there is no such path. `address` is where this server is reached, `custom`
    are the kinds that it serves besides those of Kubernetes."""
    groups = _groups(custom)
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return aggregated_list({"": groups[""]}) if aggregated else api_versions(address)
        case ["apis"]:
            named = {name: versions for name, versions in groups.items() if name}
            return aggregated_list(named) if aggregated else group_list(named)
        case ["apis", group] if group and group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, groups[group])
        case ["api", version]:
            return resource_list(groups[""].get(version, []))
        case ["apis", group, version] if group:
            return resource_list(groups.get(group, {}).get(version, []))
    return None


# One document for each group and version


def api_versions(address: str = "") -> JsonObject:
    """`/api`: the versions of the core group."""
    reached = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": list(_groups()[""]), "serverAddressByClientCIDRs": reached}


def group_list(groups: "Mapping[str, Versions]") -> JsonObject:
    """`/apis`: the named groups with their versions."""
    found = [_group(name, versions) for name, versions in groups.items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resource_list(kinds: list[KindSpec]) -> JsonObject | None:
    """`/api/v1`, `/apis/apps/v1`: the kinds of one group and version; None if there are none."""
    if not kinds:
        return None
    head: JsonObject = {"kind": "APIResourceList"}
    if kinds[0].group:  # Parity: the core group's document goes without apiVersion.
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


def _group(name: str, kinds: "Versions") -> JsonObject:
    """One group with its versions; the first is preferred."""
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in kinds]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


# All at once


def aggregated_list(groups: "Mapping[str, Versions]") -> JsonObject:
    """`/api` and `/apis` in one document each, which spares kubectl a request for every group."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(name, versions) for name, versions in groups.items()],
    }


def _aggregated_group(name: str, kinds: "Versions") -> JsonObject:
    """One group with the resources of all its versions."""
    versions = [
        {"version": version, "resources": [_aggregated(resource) for resource in found], "freshness": "Current"}
        for version, found in kinds.items()
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


Versions = Mapping[str, list[KindSpec]]
"""The kinds of a group by version, the preferred version first."""
_BUILT_IN = (*RESOURCES.values(), *REQUESTS)
"""Everything of Kubernetes that has a path: what is stored, and what is only posted."""
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def _groups(custom: Iterable[KindSpec] = ()) -> dict[str, Versions]:
    """All groups in the order of the table of kinds. Kinds are in the order of their names, as kube-apiserver lists them."""
    found: dict[str, dict[str, list[KindSpec]]] = {}
    for resource in (*_BUILT_IN, *custom):
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {group: dict(_ordered(versions)) for group, versions in found.items()}


def _ordered(versions: Versions) -> Iterable[tuple[str, list[KindSpec]]]:
    """Versions of a group with custom kinds are ordered by their names, others stay in the order of the table."""
    listed = [(version, sorted(kinds, key=lambda kind: kind.plural)) for version, kinds in versions.items()]
    is_custom = any(kind.definition for _, kinds in listed for kind in kinds)
    return sorted(listed, key=lambda entry: version_rank(entry[0])) if is_custom else listed


def version_rank(name: str) -> tuple[int, int, int, str]:
    """The order in which discovery lists versions: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    found = _VERSION.fullmatch(name)
    if found is None:
        return 3, 0, 0, name
    return {None: 0, "beta": 1, "alpha": 2}[found[2]], -int(found[1]), -int(found[3] or 0), name


def _names(resource: KindSpec) -> dict[str, Any]:
    """Short names and categories, left out where there are none."""
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(values) for key, values in names.items() if values}


# ---- the identity of a cluster

IDENTITY_PATH = "/mooring"
_IDENTITY_KIND = "MooringCluster"
_ID = re.compile(r"[0-9a-f-]{36}")
"""A uid. Anything else must not become part of a path."""


def identity(cluster_id: str) -> JsonObject:
    """The answer of `/mooring`."""
    return {"kind": _IDENTITY_KIND, "apiVersion": "mooring.dev/v1", "metadata": {"uid": cluster_id}}


def id_in(answer: Any) -> str:
    """The id in an answer to `/mooring`; empty: the server is no `mooring up`, but for instance a proxy that answers
    everything."""
    if (
        not isinstance(answer, dict)
        or answer.get("kind") != _IDENTITY_KIND
        or not isinstance(answer.get("metadata"), dict)
    ):
        return ""
    uid = answer["metadata"].get("uid")
    return uid if isinstance(uid, str) and _ID.fullmatch(uid) else ""


def prefix_of(cluster_id: str) -> str:
    """The path below which the API of this cluster, and of no other, is served."""
    return f"{IDENTITY_PATH}/clusters/{cluster_id}"
