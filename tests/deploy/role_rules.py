"""What the roles of a release allow, as an API server reads them, and which of it was used."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from urllib.parse import parse_qs, urlsplit

from deploying import Item

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
LINKED = {("kube-system", "extension-apiserver-authentication-reader"): ("", "configmaps", "get", "kube-system")}
"""Roles of the cluster itself that a release may refer to: what this program uses of them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, in the words of a role."""

    verb: str
    group: str
    resource: str
    """With its subresource: `pods/status`."""
    namespace: str = ""
    name: str = ""


def asked(line: str) -> Asked | None:
    """What `GET /path?query` asks for; None for a document that is no object."""
    method, _, target = line.partition(" ")
    url = urlsplit(target)
    parts = url.path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
        return None
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, part = (*rest, "", "")[:3]
    verb = VERBS.get(method) or ("get" if name else "watch" if "watch" in parse_qs(url.query) else "list")
    return Asked(verb, group, "/".join(filter(None, (resource, part))), namespace, name)


Grant = tuple[str, str, str, str]
"""Group, resource, verb and namespace, which is empty for all of them."""


@dataclass
class Permissions:
    """The rules of the roles that a service account is bound to."""

    grants: dict[Grant, frozenset[str]] = field(default_factory=dict)
    """With the names that a grant is for; none: all names."""
    used: set[Grant] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def allows(self, line: str) -> bool:
        request = asked(line)
        if request is None:
            return True  # discovery, which every account may read
        for namespace in {"", request.namespace}:
            grant = (request.group, request.resource, request.verb, namespace)
            names = self.grants.get(grant)
            if names is not None and (not names or request.name in names):
                self.used.add(grant)
                return True
        self.refused.append(line)
        return False


def permissions_of(items: list[Item], account: str) -> Permissions:
    """What the objects of a release allow its account."""
    granted = Permissions()
    roles = {(item["kind"], item["metadata"]["name"]): item for item in items if item["kind"].endswith("Role")}
    for binding in (item for item in items if item["kind"].endswith("RoleBinding")):
        assert [subject["name"] for subject in binding["subjects"]] == [account]
        named, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        if (namespace, named["name"]) in LINKED:
            granted.grants[LINKED[namespace, named["name"]]] = frozenset(("extension-apiserver-authentication",))
            continue
        for grant, names in _grants(roles[named["kind"], named["name"]], namespace):
            assert grant not in granted.grants, f"{grant} is granted twice"
            granted.grants[grant] = names
    return granted


def _grants(role: Item, namespace: str) -> Iterator[tuple[Grant, frozenset[str]]]:
    for rule in role["rules"]:
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            assert "*" not in (group, resource, verb)
            yield (group, resource, verb, namespace), frozenset(rule.get("resourceNames", ()))
