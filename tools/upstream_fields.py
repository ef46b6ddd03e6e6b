"""Writes api/schema/data/fields.txt anew: the fields of every type that the embedded server serves.

python tools/upstream_fields.py v1.37 CHECKOUT
    CHECKOUT has two parts of a checkout of Kubernetes: api/openapi-spec/v3, which says what fields hold and which are
    required, and the types.go below staging/src/k8s.io, whose tags have the numbers of protobuf

The kinds come from Mooring's own table of kinds, so a new kind, or a kind in a further version, appears after the script has
run again. Types that no kind leads to, because only a request has them, are in EXTRA.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from mooring.api.kinds import REQUESTS, RESOURCES

TABLE = Path(__file__).parent.parent / "src/mooring/api/schema/data/fields.txt"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SERVED = (*(spec for spec in RESOURCES.values() if spec.schema is None), *REQUESTS)
EXTRA: Mapping[str, tuple[str, ...]] = {
    META: ("Condition", "DeleteOptions", "ListMeta", "ShardInfo"),
    "io.k8s.api.core.v1": ("Binding",),
    "io.k8s.api.authentication.v1": ("TokenRequest",),
    "io.k8s.api.authorization.v1": ("LocalSubjectAccessReview",),
    "io.k8s.api.policy.v1": ("Eviction",),
    "io.k8s.api.autoscaling.v1": ("Scale",),
}
"""By package: types of requests, and of parts of answers."""
_FIRST = ("", "apps", "authentication", "authorization", "autoscaling", "batch", "coordination", "events", "node")
_ORDER = (*_FIRST, "policy", "resource", "scheduling", "storage", "rbac", "networking")
"""The order of groups in the table; others follow. Packages that name their version come last."""
_MAIN = "v1"
"""The version whose package has the name of its group alone."""
_PLAIN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "object",
    f"{META}.Time": "time",
    f"{META}.MicroTime": "micro-time",
    f"{META}.FieldsV1": "fields-v1",
}
"""Plain values that have schemas of their own."""
_RULES = ("list-type", "list-map-keys", "map-type", "patch-merge-key", "patch-strategy")
"""The extensions by which patches merge a field or a type."""
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?:(\w+)\s+)?(\*?)([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_ALIAS = re.compile(r"^type (\w+) ([\w.]+)$", re.MULTILINE)


class Tag(NamedTuple):
    """The place of a field in protobuf, as fields.txt writes it."""

    number: str
    keeps_zero: bool
    is_bytes: bool = False

    def __str__(self) -> str:
        return f"{self.number}{'?' if self.keeps_zero else ''}{' bytes' if self.is_bytes else ''}"


class Checkout:
    """The parts of a checkout that the script reads."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """All schemas by their full names."""
        found: dict[str, Any] = {}
        for path in sorted((self._root / "api/openapi-spec/v3").glob("*.json")):
            found.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
        return found

    def tags(self, full: str) -> dict[str, Tag]:
        """The places of the fields of a type in protobuf, by their names in JSON."""
        package, _, name = full.rpartition(".")
        return dict(self._tags(package, name, ""))

    def _tags(self, package: str, name: str, before: str) -> Iterator[tuple[str, Tag]]:
        structs = self._structs(package)
        for go_name, star, held, tag in _FIELD.findall(structs.get(name, "")):
            json_tag, number = _tag(tag, "json").split(","), _tag(tag, "protobuf").split(",")
            if len(number) < 2:
                continue
            if not json_tag[0] and (not go_name or "inline" in json_tag):
                yield from self._tags(package, held.rpartition(".")[2], f"{before}{number[1]}.")
                continue
            keeps_zero = (bool(star) or "omitempty" not in json_tag) and number[0] in ("varint", "bytes")
            yield json_tag[0], Tag(f"{before}{number[1]}", keeps_zero)

    def _structs(self, package: str) -> dict[str, str]:
        """The bodies of the structs of a package, by name."""
        place = package.removeprefix("io.k8s.").replace(".", "/")
        text = (self._root / "staging/src/k8s.io" / place / "types.go").read_text()
        text = re.sub(r"^\s*//[^\n]*\n", "", text, flags=re.MULTILINE)
        bodies = dict(_STRUCT.findall(text))
        bodies |= {name: bodies[other] for name, other in _ALIAS.findall(text) if other in bodies}
        return bodies


def _tag(tags: str, name: str) -> str:
    found = re.search(rf'\b{name}:"([^"]*)"', tags)
    return found[1] if found else ""


def _rules(described: Mapping[str, Any]) -> Iterator[str]:
    """The extensions that say how a field or a type is merged: `list-map-keys=port,protocol`."""
    for rule in _RULES:
        if value := described.get(f"x-kubernetes-{rule}"):
            yield f"{rule}={value if isinstance(value, str) else ','.join(value)}"


class Package(NamedTuple):
    """One group in one version: its name in the table, and the full name that its schemas begin with."""

    short: str
    full: str


def packages() -> list[Package]:
    """The packages of all kinds, in the order of the table."""
    wanted = {(spec.group.split(".")[0], spec.version) for spec in SERVED} | {("autoscaling", _MAIN)}
    mains = {group for group, version in wanted if version == _MAIN}

    def rank(each: tuple[str, str]) -> tuple[bool, int, str, str]:
        group, version = each
        place = _ORDER.index(group) if group in _ORDER else len(_ORDER)
        return version != _MAIN and group in mains, place, group, version

    made = [Package("meta", META)]
    for group, version in sorted(wanted, key=rank):
        name = group or "core"
        short = name if version == _MAIN or group not in mains else f"{name}-{version}"
        made.append(Package(short, f"io.k8s.api.{name}.{version}"))
    return made


class Writer:
    """Writes the rows of the table from a checkout."""

    def __init__(self, checkout: Checkout, known: list[Package]) -> None:
        self._checkout = checkout
        self._shorts = {package.full: package.short for package in known}

    def rows(self, known: list[Package]) -> Iterator[str]:
        """All rows: each package, its types in alphabetical order, and their fields."""
        found = self._reached(known)
        for package in known:
            yield f"package {package.short} {package.full}"
            for full in sorted(name for name in found if name.rpartition(".")[0] == package.full):
                yield " ".join((full.rpartition(".")[2], *_rules(self._checkout.schemas[full])))
                yield from self.fields(full)
            yield ""

    def _reached(self, known: list[Package]) -> set[str]:
        """The full names of the types of all kinds, and of all types that they lead to."""
        fulls = {(package.full.split(".")[-2], package.full.rpartition(".")[2]): package.full for package in known[1:]}
        waiting = [f"{package}.{name}" for package, names in EXTRA.items() for name in names]
        for spec in SERVED:
            full = f"{fulls[spec.group.split('.')[0] or 'core', spec.version]}.{spec.kind}"
            if full in self._checkout.schemas:
                waiting.append(full)
        found: set[str] = set()
        while waiting:
            full = waiting.pop()
            if full in found or full in _PLAIN:
                continue
            found.add(full)
            waiting.extend(re.findall(r"#/components/schemas/([\w.]+)", json.dumps(self._checkout.schemas[full])))
        return found

    def fields(self, full: str) -> Iterator[str]:
        """The rows of the fields of one type."""
        schema, tags, package = self._checkout.schemas[full], self._checkout.tags(full), full.rpartition(".")[0]
        required = schema.get("required", ())
        for name, described in sorted(schema.get("properties", {}).items()):
            holds, tag = self._holds(described, package), tags.get(name)
            if tag is not None and holds not in ("string", "integer", "boolean"):
                tag = tag._replace(keeps_zero=False)
            if tag is not None and described.get("additionalProperties", described).get("format") == "byte":
                tag = tag._replace(is_bytes=True)
            yield " ".join((f"    {name}{'!' if name in required else ''} {holds} {tag or '-'}", *_rules(described)))

    def _holds(self, described: Mapping[str, Any], package: str) -> str:
        """The value of a field, as the table writes it."""
        if "allOf" in described:
            return self._holds(described["allOf"][0], package)
        if "$ref" in described:
            full = described["$ref"].rpartition("/")[2]
            other, _, name = full.rpartition(".")
            return _PLAIN.get(full) or (name if other == package else f"{self._shorts[other]}.{name}")
        match described.get("type"):
            case "array":
                return f"[{self._holds(described['items'], package)}]"
            case "object" if "additionalProperties" in described:
                return f"{{{self._holds(described['additionalProperties'], package)}}}"
            case "number":
                return "integer" if described.get("format") == "int32" else "number"
            case str(plain):
                return plain
        return "object"


def main(arguments: list[str]) -> None:
    match arguments:
        case [release, root]:
            known = packages()
            head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
            head[0] = re.sub(r"v\d+\.\d+", release, head[0])
            rows = Writer(Checkout(Path(root)), known).rows(known)
            TABLE.write_text("\n".join([*head, "", *rows]).rstrip("\n") + "\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
