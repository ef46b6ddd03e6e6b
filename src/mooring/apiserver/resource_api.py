"""Everything that can be done to the objects of the embedded cluster, without transport.

The HTTP server, the controllers, the simulated kubelets and the scheduler all use it, so an object is admitted,
checked, versioned and deleted in one way for all of them. A refusal is an ApiError.

The kinds that one server serves are those of Kubernetes, and those of the CustomResourceDefinitions in its store.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mooring.api.api_errors import already_exists, bad_request, conflict, forbidden, not_found
from mooring.api.json_objects import MAX_OBJECT_BYTES, JsonObject, at, check_size, size_of
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION, ESTABLISHED, is_true
from mooring.api.kinds.events import shown_form, stored_form
from mooring.api.kinds.nodes import NODE
from mooring.api.kinds.pods import POD
from mooring.api.patches.apply_patch import FieldWriter, apply_configuration, record_update
from mooring.api.patches.merge_keys import bare
from mooring.api.schema.openapi import CustomDocuments
from mooring.apiserver.admission import admit, object_meta
from mooring.apiserver.admission.admit import TemplatePods
from mooring.apiserver.admission.faults import CLEARING_GATE, check_form, check_valid
from mooring.apiserver.admission.object_meta import Deletion, Lookups
from mooring.apiserver.admission.pod_updates import bind, check_binding, take_part
from mooring.apiserver.admission.quotas import Quotas
from mooring.apiserver.admission.special_kinds import special
from mooring.apiserver.store import Exists, Key, Store, StoreWrite
from mooring.apiserver.watch import Backlog
from mooring.kit.clock import Clock, in_seconds
from mooring.model.names import SAFE_LETTERS
from mooring.rules.pod_defaults import complete_pod

_POSTED = {(kind.group, kind.version, kind.plural): kind for kind in REQUESTS}
"""Kinds that clients only post, by group, version and plural."""


class KindTable:
    """The table of kinds. It follows the definitions in the store, so that a restart finds all kinds again."""

    def __init__(self, store: Store) -> None:
        self._custom: dict[str, list[KindSpec]] = {}
        """By the name of the definition, in the order in which they came."""
        self._by_path: dict[tuple[str, str, str], KindSpec] = {}
        self._by_storage: dict[str, KindSpec] = {}
        self.documents = CustomDocuments()
        """The OpenAPI documents of custom kinds."""
        for write in store.additions(CUSTOM_RESOURCE_DEFINITION.storage):
            self._observe(write)
        store.listen(self._observe, (CUSTOM_RESOURCE_DEFINITION.storage,))

    def find(self, group: str, version: str, plural: str) -> KindSpec | None:
        """The kind at a path; a kind of Kubernetes comes before a custom one."""
        key = group, version, plural
        return RESOURCES.get(key) or _POSTED.get(key) or self._by_path.get(key)

    def named(self, api_version: str, kind: str) -> KindSpec | None:
        """The custom kind that a manifest names."""
        found = (spec for specs in self._custom.values() for spec in specs)
        return next((spec for spec in found if (spec.api_version, spec.kind) == (api_version, kind)), None)

    def custom(self) -> Iterator[KindSpec]:
        """All custom kinds in all their served versions."""
        for specs in self._custom.values():
            yield from specs

    def stored(self) -> dict[str, KindSpec]:
        """One custom kind for each storage."""
        return self._by_storage

    def of_definition(self, name: str) -> KindSpec | None:
        """The kind of a definition in its preferred version; None: it is not served."""
        return next(iter(self._custom.get(name, ())), None)

    def _observe(self, write: StoreWrite) -> None:
        """A definition came, changed or went. A change of what says nothing about the kinds changes nothing."""
        # Not at the start: the rules of schemas are in CEL, which takes 30 ms, and most clusters have no definitions.
        from mooring.rules.custom_kinds import kinds_of

        name, before, after = write.key[1], write.before, write.object
        if write.type == "MODIFIED" and before is not None and _is_alike(before, after):
            return
        for spec in self._custom.pop(name, ()):
            del self._by_path[spec.group, spec.version, spec.plural]
            self._by_storage.pop(spec.storage, None)
        if write.type == "DELETED" or not is_true(after, ESTABLISHED):
            return
        self._custom[name] = kinds_of(after)
        for spec in self._custom[name]:
            self._by_path[spec.group, spec.version, spec.plural] = spec
            self._by_storage.setdefault(spec.storage, spec)


def _is_alike(before: JsonObject, after: JsonObject) -> bool:
    """Whether two states of a definition lead to the same kinds."""
    names = [at(item, "status.acceptedNames") for item in (before, after)]
    is_same = names[0] == names[1] and is_true(before, ESTABLISHED) == is_true(after, ESTABLISHED)
    return is_same and bool(before["spec"] == after["spec"])


NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""Keeps pods off a node until the node controller finds it ready."""
_NAME_TRIES = 8
"""Parity: how often upstream tries another generated name when one is taken."""
_RESETS = {"": frozenset({"status"}), "status": frozenset({"spec"})}
"""Top-level fields that cannot be written through a subresource, where a kind has a status of its own."""


@dataclass(frozen=True, slots=True)
class Requester:
    """The writer of a request. Without a manager, as inside this process, no owner is noted in managedFields."""

    manager: str = ""
    is_dry_run: bool = False
    is_client: bool = False
    """Whether the form of its objects is checked as well. Objects that the cluster starts with, such as those of a dump
    without images, and those of controllers are taken as they are."""

    def writer(self, resource: KindSpec, now: str, subresource: str) -> FieldWriter:
        """How the write is recorded in managedFields."""
        resets = _RESETS.get(subresource, frozenset()) if "status" in resource.subresources else frozenset()
        schema = resource.schema if resource.definition else None
        return FieldWriter(self.manager, resource.api_version, now, subresource, resets, schema)


CONTROL_PLANE = Requester()
"""Writers inside this process."""

Change = Callable[[JsonObject], JsonObject]
"""Turns the present object into what a client wants it to be."""


def _new_uid() -> str:
    """A random uid. Hot: `uuid.uuid4` takes ten times as long, for randomness that no code here relies on."""
    digits = f"{random.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _random_suffix() -> str:
    return "".join(random.choices(SAFE_LETTERS, k=5))


@dataclass(slots=True)
class ResourceApi:
    """The cluster's objects and the rules by which they change."""

    store: Store
    clock: Clock
    taints_new_nodes: bool = False
    """Whether a new node is tainted not-ready, for the node controller to lift."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """The feature gates of the cluster, for its API and for its controllers. One that is not named has its default."""
    cluster_id: str = field(default_factory=_new_uid)
    """By which clients tell this cluster from others; see `api/schema/discovery.py`."""
    new_uid: Callable[[], str] = _new_uid
    random_suffix: Callable[[], str] = _random_suffix
    failing: set[str] = field(default_factory=set)
    """The names of the health checks that fail."""
    backlog: Backlog = field(default_factory=Backlog)
    """The lines that wait for all watchers together."""
    kinds: KindTable = field(init=False)
    lookups: Lookups = field(init=False)
    templates: TemplatePods = field(init=False)
    quotas: Quotas = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = KindTable(self.store)
        self.lookups = Lookups(self.store, self.gates)
        self.templates = TemplatePods(self.store)
        self.quotas = Quotas(self.store, self.clock.now_ns)

    def now(self) -> str:
        """The present moment in whole seconds, as objects carry it."""
        return in_seconds(self.clock.now_ns())

    def is_on(self, gate: str, default: bool = False) -> bool:
        """Whether a feature gate of the cluster is on; `default` is the value of one that is not named."""
        return self.gates.get(gate, default)

    # ---- reading

    def find(self, resource: KindSpec, namespace: str, name: str) -> JsonObject | None:
        """The object as it is stored, or None. It must not be changed."""
        return self.store.find(resource.storage, _key(resource, namespace, name))

    def get(self, resource: KindSpec, namespace: str, name: str) -> JsonObject:
        """The object in the form of the resource. Raises 404."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource.plural, name, resource.group)
        return shown_form(resource, found)

    # ---- creating

    def create(self, resource: KindSpec, namespace: str, item: JsonObject, by: Requester = CONTROL_PLANE) -> JsonObject:
        """A new object, admitted and stored; a dry run only admits it."""
        for _ in range(_NAME_TRIES):
            made = self._prepare_new(resource, namespace, item, by)
            self.quotas.check_create(resource, made)
            key = _key(resource, namespace, made["metadata"]["name"])
            if by.is_dry_run and self.store.find(resource.storage, key) is None:
                return made
            try:
                return shown_form(resource, self.store.create(resource.storage, key, stored_form(resource, made)))
            except Exists:
                if item.get("metadata", {}).get("name"):
                    break
        raise already_exists(resource.plural, key[1], resource.group)

    def _prepare_new(self, resource: KindSpec, namespace: str, item: JsonObject, by: Requester) -> JsonObject:
        """A new object, admitted. Hot: a pod like the last one of its template skips admission; see `TemplatePods`."""
        now = self.now()
        if resource.definition:
            self._check_not_ending(resource)
        if resource is POD and not by.is_client:
            made = self.templates.another(namespace, item, now, self.new_uid, self.random_suffix)
            if made is not None:
                return made
        made = admit.prepare_create(
            *(resource, namespace, item, self.lookups, now, self.new_uid, self.random_suffix), by.is_client
        )
        if resource is NODE and self.taints_new_nodes:
            spec = made.setdefault("spec", {})
            spec["taints"] = [*spec.get("taints", ()), dict(NOT_READY_TAINT)]
        allocate = special(resource).allocate
        if allocate is not None:
            allocate(made, self.store.all(resource.storage))
        if by.manager:
            return _recorded(None, made, by.writer(resource, now, ""))
        if resource is POD and not by.is_client:
            self.templates.remember(namespace, item, made)
        return made

    def _check_not_ending(self, resource: KindSpec) -> None:
        """Raises 403 for a new object of a custom kind whose definition is being deleted."""
        definition = self.store.find(CUSTOM_RESOURCE_DEFINITION.storage, ("", resource.definition))
        if definition is None or definition["metadata"].get("deletionTimestamp"):
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.plural, "", why, resource.group)

    # ---- changing

    def change(
        self,
        resource: KindSpec,
        namespace: str,
        name: str,
        change: Change,
        by: Requester = CONTROL_PLANE,
        subresource: str = "",
    ) -> JsonObject:
        """Replace the object by `change(object)`: how every PUT and PATCH is done.

        What `change` returns may name the version that it means; if that is not the present one, the change is refused.
        Raises ApiError.
        """
        old = self.get(resource, namespace, name)
        made = self._prepare_change(resource, old, change(old), subresource, by)
        if by.manager:
            made = _recorded(old, made, by.writer(resource, self.now(), subresource))
        return self._put(resource, namespace, name, made, by)

    def apply(
        self,
        resource: KindSpec,
        namespace: str,
        name: str,
        configuration: object,
        by: Requester,
        force: bool = False,
        subresource: str = "",
    ) -> tuple[JsonObject, bool]:
        """Server-side apply. Returns the object and whether it is new."""
        writer = by.writer(resource, self.now(), subresource)
        found = self.find(resource, namespace, name)
        if found is None:
            if subresource:
                raise not_found(resource.plural, name, resource.group)
            wanted = apply_configuration(None, configuration, writer, force)
            _check_names(resource, namespace, name, wanted)
            if wanted.get("metadata", {}).get("resourceVersion"):
                raise conflict(resource.plural, name, group=resource.group)
            wanted = {**wanted, "metadata": {**wanted.get("metadata", {}), "name": name}}
            return self.create(resource, namespace, wanted, replace(by, manager="")), True
        old = shown_form(resource, found)
        new = apply_configuration(old, configuration, writer, force)
        made = self._prepare_change(resource, old, new, subresource, by)
        held = new.get("metadata", {}).get("managedFields")
        made = {**made, "metadata": {**made["metadata"], **({"managedFields": held} if held else {})}}
        return self._put(resource, namespace, name, made, by), False

    def put_status(self, resource: KindSpec, item: JsonObject, status: JsonObject) -> JsonObject:
        """Write a status from inside this process as it is, at the object's present version.

        Returns the object as it is now. Raises ApiError (404) when it is gone, or when another object has its name.
        """
        metadata = item["metadata"]
        held = self.get(resource, metadata.get("namespace", ""), metadata["name"])
        if held["metadata"]["uid"] != metadata["uid"]:
            raise not_found(resource.plural, metadata["name"], resource.group)
        return self.store.update(resource.storage, _key_of(resource, held), {**held, "status": status})

    def put_spec(self, resource: KindSpec, item: JsonObject, spec: JsonObject) -> JsonObject:
        """Write a spec from inside this process in the same way: for what is written so often that admission would cost
        too much."""
        return self.store.update(resource.storage, _key_of(resource, item), {**item, "spec": spec})

    def _prepare_change(
        self, resource: KindSpec, old: JsonObject, new: JsonObject, subresource: str, by: Requester
    ) -> JsonObject:
        """A changed object, admitted by the rules of the object, of its status, or of one part."""
        meta = old["metadata"]
        _check_names(resource, meta.get("namespace", ""), meta["name"], new)
        object_meta.check_version(resource, old, new)
        if subresource == "status":
            return admit.prepare_status(resource, old, new, self.lookups)
        if subresource:
            made = self._prepare_part(resource, old, new, subresource)
        else:
            made = admit.prepare_update(resource, old, new, self.lookups, by.is_client)
        self.quotas.check_change(resource, old, made, subresource)
        return made

    def _prepare_part(self, resource: KindSpec, old: JsonObject, new: JsonObject, subresource: str) -> JsonObject:
        """The object with the one part that a subresource is for."""
        check_form(resource, new)
        object_meta.check_uid(resource, old, (new.get("metadata") or {}).get("uid"))
        made = take_part(subresource, old, new)
        if resource is POD:
            complete_pod(made)
        check_valid(resource, made)
        return made

    def _put(self, resource: KindSpec, namespace: str, name: str, made: JsonObject, by: Requester) -> JsonObject:
        """Store a changed object. One that only its finalizers kept goes with the last of them."""
        if by.is_dry_run:
            return made
        key, stored = _key(resource, namespace, name), stored_form(resource, made)
        if object_meta.is_over(resource, made):
            return shown_form(resource, self.store.delete(resource.storage, key))
        return shown_form(resource, self.store.update(resource.storage, key, stored))

    # ---- binding and deleting

    def bind(self, namespace: str, name: str, binding: JsonObject, by: Requester = CONTROL_PLANE) -> None:
        """Give the pod its node. Raises ApiError."""
        check_binding(name, binding)
        pod = self.get(POD, namespace, name)
        node = self.lookups.find(NODE, binding["target"]["name"])
        self._put(
            POD, namespace, name, bind(pod, binding, node, self.now(), self.is_on(CLEARING_GATE, default=True)), by
        )

    def delete(
        self, resource: KindSpec, namespace: str, name: str, how: Deletion | None = None, by: Requester = CONTROL_PLANE
    ) -> tuple[JsonObject, bool]:
        """Delete an object, or begin to. Returns its last content and whether it is gone."""
        how = how or Deletion()
        object_meta.check_mortal(resource, name)
        old = self.get(resource, namespace, name)
        object_meta.check_preconditions(resource, old, how)
        made = object_meta.ending(resource, old, how, self.clock.now_ns())
        if by.is_dry_run:
            return made, object_meta.is_over(resource, made)
        key, is_gone = _key(resource, namespace, name), object_meta.is_over(resource, made)
        if not is_gone:
            made = self.store.update(resource.storage, key, stored_form(resource, made))
        elif resource.has_grace_period:  # Parity: watchers see a pod end even without grace.
            made = self.store.finish(resource.storage, key, stored_form(resource, made))
        else:
            made = self.store.delete(resource.storage, key)
        return shown_form(resource, made), is_gone


def _key(resource: KindSpec, namespace: str, name: str) -> Key:
    return (namespace if resource.namespaced else "", name)


def _key_of(resource: KindSpec, item: JsonObject) -> Key:
    return _key(resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])


def _check_names(resource: KindSpec, namespace: str, name: str, item: JsonObject) -> None:
    """Refuse a body that names another object than the URL does. Raises 400."""
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, dict):
        return  # admission says what is wrong with that
    said = metadata.get("name")
    if said is not None and said != name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")
    placed = metadata.get("namespace")
    if resource.namespaced and placed and placed != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _recorded(old: JsonObject | None, made: JsonObject, writer: FieldWriter) -> JsonObject:
    """The object with the owners of its fields. Parity: one that is too large with them is stored without them."""
    without_owners = bare(made)
    size = check_size(without_owners)
    recorded = record_update(old, made, writer)
    owners_size = size_of(recorded["metadata"].get("managedFields", []))
    return recorded if size + owners_size <= MAX_OBJECT_BYTES else without_owners
