"""`mooring dump --anonymize`: the same cluster under other names, so that people can attach it to a bug report.

Everything is renamed twice: the first time only notes all names, and then each gets a new one. Amounts, times, counts, and
words that are Kubernetes' own stay. Decisions on the copy are the same, under the new names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_KIND
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.framework.config.types import API_VERSION, KIND
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.inputs.created_objects import Manifest
from mooring.inputs.dumps.contents import header_of
from mooring.inputs.dumps.device_groups import DeviceGroups
from mooring.inputs.dumps.renaming import DURATION, EXCEPTIONS, FIELDS, NUMERIC_OPERATORS, NameBook, Rule, word
from mooring.inputs.manifests import Manifests
from mooring.model import storage
from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject, OwnerReference, Requirement, Wire
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAffinitySpec, Toleration
from mooring.model.workloads import Namespace, PriorityClass
from mooring.plugins import in_tree

W = TypeVar("W", bound=Wire)

# ---- structs whose fields depend on each other


def _requirement(book: NameBook, item: Requirement) -> Requirement:
    """`metadata.name` is a field of nodes, and its values are their names. Numbers that are compared stay."""
    values = item.values
    if item.operator in NUMERIC_OPERATORS:
        book.compared_keys.add(item.key)
        book.numbers.update(values or ())
    if values is not None:
        is_name = item.key == "metadata.name"
        values = [book.name(text) if is_name else book.value_of(item.key, text) for text in values]
    return Requirement(key=book.key(item.key), operator=word(book, item.operator), values=values)


def _toleration(book: NameBook, item: Toleration) -> Toleration:
    if item.operator in NUMERIC_OPERATORS:
        book.compared_keys.add(item.key)
        book.numbers.add(item.value)
    key, value = book.key(item.key), book.value(item.value)
    operator, effect = word(book, item.operator), word(book, item.effect)
    return msgspec.structs.replace(item, key=key, value=value, operator=operator, effect=effect)


def _topology(book: NameBook, item: storage.TopologyRequirement) -> storage.TopologyRequirement:
    values = None if item.values is None else [book.value_of(item.key, text) for text in item.values]
    return storage.TopologyRequirement(key=book.key(item.key), values=values)


def _owner(book: NameBook, item: OwnerReference) -> OwnerReference:
    """The kinds of custom resources are names too."""
    api_version, kind = item.api_version, item.kind
    if (api_version, kind) not in BY_KIND:
        api_version, kind = f"{book.name(api_version.partition('/')[0])}/v1", book.name(kind)
    name, uid = book.name(item.name), book.name(item.uid)
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=item.controller)


SPECIAL: dict[type[Wire], Rule] = {
    Requirement: _requirement,
    Toleration: _toleration,
    storage.TopologyRequirement: _topology,
    OwnerReference: _owner,
}


# ---- Copies with new names. A field of text without a rule is an error, so a field that is new in the model cannot leak.


def renamed(book: NameBook, item: W) -> W:
    """A copy with new names; while the book is open, it only notes the names."""
    special = SPECIAL.get(type(item))
    if special is not None:
        copy: W = special(book, item)
        return copy
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    own = _own_name(book, item) if isinstance(item, KubeObject) else None
    if own is not None:
        fields["metadata"] = msgspec.structs.replace(fields["metadata"], name="")
    for name, rule in rules_of(type(item)):
        held = fields[name]
        if held is not None and held != "":
            fields[name] = rule(book, held)
    if own is not None:
        fields["metadata"] = msgspec.structs.replace(fields["metadata"], name=own)
    return type(item)(**fields)


def _own_name(book: NameBook, item: KubeObject) -> str | None:
    """Namespaces and classes may have a name that every cluster has; claims may be named after a pod and its volume. None
    for kinds whose names are like any others."""
    match item:
        case Namespace() | PriorityClass() | storage.StorageClass():
            return book.public_name(item.name)
        case storage.PersistentVolumeClaim():
            return book.claim(item.name)
        case storage.CSIDriver():
            return book.driver(item.name)
    return None


@cache
def rules_of(struct: type[Wire]) -> tuple[tuple[str, Rule], ...]:
    """The rules for the fields of a struct. Raises LookupError for text without a rule."""
    if struct in SPECIAL:
        return ()
    exceptions, found = EXCEPTIONS.get(struct, {}), []
    for name, hint in get_type_hints(struct).items():
        if holds_text(hint):
            rule = exceptions.get(name) or FIELDS.get(name)
            if rule is None:
                raise LookupError(f"{struct.__name__}.{name} holds text, and no rule says whether to rename it")
            found.append((name, rule))
        if any(_structs(hint)):
            found.append((name, _inner))
    return tuple(found)


def _inner(book: NameBook, value: Any) -> Any:
    """The value with the structs in it renamed."""
    if isinstance(value, Wire):
        return renamed(book, value)
    if isinstance(value, list):
        return [_inner(book, each) for each in value]
    if isinstance(value, dict):
        return {key: _inner(book, each) for key, each in value.items()}
    return value


def holds_text(hint: Any) -> bool:
    return hint in (str, Any) or any(map(holds_text, get_args(hint)))


def structs_in(struct: type[Wire]) -> list[type[Wire]]:
    """The structs that the fields of a struct hold."""
    return [each for hint in get_type_hints(struct).values() for each in _structs(hint)]


def _structs(hint: Any) -> Iterator[type[Wire]]:
    if isinstance(hint, type) and issubclass(hint, Wire):
        yield hint
    for part in get_args(hint):
        yield from _structs(part)


# ---- The settings of a scheduler for an anonymous dump: what decisions read of a configuration, under new names.


_CONFIGURATION = frozenset((API_VERSION, KIND, *(f"{name}Args" for name in in_tree())))
"""The version and the kinds of a configuration and of the arguments of plugins."""
_KEPT = (
    *("apiVersion", "kind", "parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds"),
    *("podMaxBackoffSeconds", "delayCacheUntilActive"),
)
"""Fields that decisions or the queue read, without names. Extenders, credentials and leases are left out."""


def anonymous_settings(book: NameBook, settings: JsonObject) -> JsonObject:
    """Profiles with the plugins that Mooring has; those of users are code that nobody else has."""
    written = settings["configuration"]
    known = {*in_tree()}
    profiles = [_profile(book, profile, known) for profile in written.get("profiles", ())]
    kept = {name: _args(book, written[name]) for name in _KEPT if name in written}
    gates = {name: on for name, on in settings.get("featureGates", {}).items() if name in DEFAULTS}
    return {
        **{name: settings[name] for name in ("apiVersion", "kind", "rules") if name in settings},
        "configuration": {**kept, "profiles": profiles},
        "featureGates": gates,
    }


def unknown_plugins(settings: JsonObject) -> list[str]:
    """The plugins that an anonymous dump leaves out."""
    known = {*in_tree()}
    profiles = settings["configuration"].get("profiles", ())
    names = {name for profile in profiles for name in _plugin_names(profile.get("plugins", {}))}
    return sorted(names - known - {"*"})


def _plugin_names(plugins: Mapping[str, Any]) -> Iterator[str]:
    for point in plugins.values():
        for entry in (*point.get("enabled", ()), *point.get("disabled", ())):
            yield entry["name"]


def _profile(book: NameBook, profile: JsonObject, known: set[str]) -> JsonObject:
    """Profile with anonymous names. Plugins that are not in `known`, and their arguments, are left out."""
    new = {name: profile[name] for name in ("percentageOfNodesToScore",) if name in profile}
    if "schedulerName" in profile:
        new["schedulerName"] = book.public_name(profile["schedulerName"])
    if "plugins" in profile:
        new["plugins"] = {name: _point(point, known) for name, point in profile["plugins"].items()}
    if "pluginConfig" in profile:
        entries = [entry for entry in profile["pluginConfig"] if entry["name"] in known]
        new["pluginConfig"] = [{"name": entry["name"], "args": _args(book, entry.get("args", {}))} for entry in entries]
    return new


def _point(point: JsonObject, known: set[str]) -> JsonObject:
    return {
        name: [entry for entry in point[name] if entry["name"] in known or entry["name"] == "*"]
        for name in ("enabled", "disabled")
        if name in point
    }


def _args(book: NameBook, args: Any) -> Any:
    """Arguments of plugins: resources, topology keys and the added node affinity have names."""
    if isinstance(args, list):
        return [_args(book, each) for each in args]
    if not isinstance(args, dict):
        is_public = isinstance(args, str) and (args in _CONFIGURATION or DURATION.fullmatch(args))
        return args if is_public else word(book, args)
    return {name: _argument(book, name, value) for name, value in args.items()}


def _argument(book: NameBook, name: str, value: Any) -> Any:
    """Replace the names in one argument of a plugin: label keys, resources and drivers. Other arguments are searched for
    nested names."""
    match name:
        case "addedAffinity" if value:
            return msgspec.to_builtins(renamed(book, msgspec.convert(value, NodeAffinitySpec)))
        case "topologyKey":
            return book.key(value)
        case "resources":
            return [{**entry, "name": book.resource(entry["name"])} for entry in value or ()]
        case "ignoredResources":
            return [book.resource(each) for each in value or ()]
        case "ignoredResourceGroups":
            return [book.driver(each) for each in value or ()]
    return _args(book, value)


class Anonymizer:
    """Renames what belongs to one cluster. It knows all names after `read`.

    Raises TooManySelectors for device selectors that cannot be replaced.
    """

    def __init__(
        self,
        manifests: Manifests,
        settings: JsonObject | None = None,
        kept: AnnotationKeys | None = None,
        declared: AnnotationKeys | None = None,
    ) -> None:
        """Annotations that are `kept` stay as they are. Those that plugins have `declared` get other keys and values."""
        self._manifests = manifests
        self._settings = settings
        objects = [manifest.object for manifest in manifests.objects]
        self._groups = DeviceGroups.of(objects)
        self.book = NameBook()
        self.book.kept_annotations = kept or AnnotationKeys()
        self.book.renamed_annotations = declared or AnnotationKeys()
        self.book.expressions = self._groups.expressions
        self.book.made_of = _claim_names(objects)
        self._all()
        self.book.numbers |= _compared_values(objects, self.book.compared_keys)
        self.book.close()

    def manifests(self) -> Manifests:
        """The cluster under new names."""
        objects, workloads = self._all()
        source = self._manifests
        events = [renamed(self.book, event) for event in source.events]
        # Keys of annotations are names, too.
        header = msgspec.structs.replace(header_of(source), is_anonymous=True, left_out_annotations=None)
        return Manifests(objects, workloads=workloads, events=events, header=header)

    def settings(self) -> JsonObject | None:
        """The configuration of the scheduler under new names."""
        return None if self._settings is None else anonymous_settings(self.book, self._settings)

    def _all(self) -> tuple[list[Manifest], list[Manifest]]:
        """Objects and workloads, renamed; while the book is open, this notes all names."""
        objects = self._renamed(self._manifests.objects)
        workloads = self._renamed(self._manifests.workloads)
        if not self.book.is_closed:
            self.settings()
            for event in self._manifests.events:
                renamed(self.book, event)
        return objects, workloads

    def _renamed(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        return [
            msgspec.structs.replace(each, object=self._object(each.object), place=None, made_from="")
            for each in manifests
        ]

    def _object(self, item: KubeObject) -> KubeObject:
        if isinstance(item, ResourceSlice):
            plain = renamed(self.book, self._groups.without_attributes(item))
            return self._groups.with_groups(plain, item)
        return renamed(self.book, item)


def _claim_names(objects: Iterable[KubeObject]) -> dict[str, tuple[str, str]]:
    """The claims of ephemeral volumes, which are found by the names of the pod and its volume."""
    return {
        f"{pod.name}-{volume.name}": (pod.name, volume.name)
        for pod in objects
        if isinstance(pod, Pod)
        for volume in pod.spec.volumes or ()
        if volume.ephemeral is not None
    }


def _compared_values(objects: Sequence[KubeObject], keys: set[str]) -> set[str]:
    """The numbers that nodes have under keys that selectors or tolerations compare by size."""
    found: set[str] = set()
    for node in objects if keys else ():
        if isinstance(node, Node):
            found |= {node.labels[key] for key in keys & node.labels.keys()}
            found |= {taint.value for taint in node.taints if taint.key in keys}
    return {text for text in found if text.lstrip("+-").isdecimal()}
