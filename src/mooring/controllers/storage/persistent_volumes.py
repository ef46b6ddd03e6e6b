"""The persistent volume controllers: binding claims to volumes, the phases of volumes, and the protection of both.

A claim is bound to an existing volume, to the one that the scheduler chose, or to a new one. The rules are in
rules/claims_and_volumes.py; this module does the writes.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.apiserver.resource_api import Change, ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import (
    CLAIM_STORE,
    CLAIMS,
    CLASS_STORE,
    CLASSES,
    NODES,
    NORMAL,
    POD_STORE,
    VOLUME_STORE,
    VOLUMES,
    WARNING,
    change_object,
    delete_object,
    lift,
    put_status,
    record_event,
)
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Index
from mooring.kit.clock import NS_PER_S
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER
from mooring.model.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.rules.claims_and_volumes import (
    best_volume,
    binding_marks,
    can_provision,
    chosen_volume,
    claim_key,
    class_of,
    is_for,
    mismatch,
    provisioned,
    reference_to,
    volume_name,
)


class ClaimBinding(Controller):
    """Keys are claims. A binding is several writes; any of them can be the last before a stop, and the next sync goes
    on from there."""

    name = "claim-binding"
    storages = (CLAIM_STORE, VOLUME_STORE, CLASS_STORE)
    rest_ns = NS_PER_S // 20
    """A binding writes claim and volume several times; one sync sees them all."""

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        # Three indexes, so that a claim costs a look at its candidates and not at all volumes.
        self._volumes_by_claim = Index(
            api.store, VOLUME_STORE, lambda volume: [key for key in (claim_key(volume),) if key]
        )
        self._free_by_class = Index(api.store, VOLUME_STORE, _class_if_free)
        self._waiting_by_class = Index(api.store, CLAIM_STORE, _class_if_waiting)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """The claim itself; claims that wait for the class; claims that a volume names, or that could have it."""
        if write.storage == CLAIM_STORE:
            return (write.key,) if write.type != "DELETED" else ()
        if write.storage == CLASS_STORE:
            return self._waiting(write.object["metadata"]["name"])
        return [*self._named(write.object), *(self._waiting(class_of(write.object)) if _is_offered(write) else ())]

    def _waiting(self, class_name: str) -> list[Key]:
        """Claims without a volume that wait for volumes of a class."""
        waiting = self._waiting_by_class[f"class {class_name}"]
        return [key_of(claim) for claim in waiting]

    def _named(self, volume: JsonObject) -> list[Key]:
        """The claim that the volume names, and claims that name the volume."""
        reference = volume["spec"].get("claimRef") or {}
        keys = [(reference.get("namespace", ""), reference["name"])] if reference.get("name") else []
        naming = self._waiting_by_class[f"volume {volume['metadata']['name']}"]
        return [*keys, *map(key_of, naming)]

    def sync(self, key: Key) -> int | None:
        """A claim that is being deleted gets no volume."""
        claim = self._api.find(CLAIMS, *key)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return None
        if _is_bound(claim):
            self._keep(claim)
        else:
            self._seek(claim)
        return None

    def _keep(self, claim: JsonObject) -> None:
        """Complete the binding of a bound claim; it is Lost if its volume is gone or belongs to another claim."""
        volume = self._api.find(VOLUMES, "", claim["spec"]["volumeName"])
        if volume is None or not is_for(volume, claim):
            if claim.get("status", {}).get("phase") != "Lost":
                self._api.put_status(CLAIMS, claim, {**claim.get("status", {}), "phase": "Lost"})
                why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._record(claim, "ClaimLost", why, WARNING)
            return
        self._bind(claim, volume)

    def _seek(self, claim: JsonObject) -> None:
        """Bind a claim to the volume that names it or that it names; otherwise look for one."""
        meta, name = claim["metadata"], claim["spec"].get("volumeName", "")
        named = self._api.find(VOLUMES, "", name) if name else None
        volume = chosen_volume(claim, named, self._volumes_by_claim[f"{meta['namespace']}/{meta['name']}"])
        if volume is not None:
            self._bind(claim, volume)
        elif not name:
            self._serve(claim)
        elif named is not None and not named["spec"].get("claimRef"):
            why = f'Cannot bind to requested volume "{name}": {mismatch(named, claim)}'
            self._record(claim, "VolumeMismatch", why, WARNING)

    def _serve(self, claim: JsonObject) -> None:
        """Wait for the scheduler, bind the best free volume, or provision one, as the class says."""
        class_name = class_of(claim)
        storage_class = self._api.find(CLASSES, "", class_name) if class_name else None
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER
        if waits and not node_name:
            why = "waiting for first consumer to be created before binding"
            return self._record(claim, "WaitForFirstConsumer", why)
        volume = None if waits else best_volume(claim, self._free_by_class[class_name])
        if volume is not None:
            return self._bind(claim, volume)
        if storage_class is None or not can_provision(storage_class.get("provisioner", "")):
            return self._record(claim, "FailedBinding", _why_not(class_name, storage_class))
        return self._provision(claim, storage_class, self._api.find(NODES, "", node_name) if node_name else None)

    def _provision(self, claim: JsonObject, storage_class: JsonObject, node: JsonObject | None) -> None:
        """Make a volume. Its name follows from the claim, so a sync that was interrupted finds it again."""
        name = volume_name(claim)
        volume = self._api.find(VOLUMES, "", name)
        if volume is None:
            volume = self._api.create(VOLUMES, "", provisioned(claim, storage_class, node))
            self._record(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        self._bind(claim, volume, storage_class["provisioner"])

    # ---- the writes of a binding

    def _bind(self, claim: JsonObject, volume: JsonObject, provisioner: str = "") -> None:
        """Volume first, claim last, as upstream: a claim that says Bound has a volume that names it."""
        volume = self._claim_volume(claim, volume)
        if volume.get("status", {}).get("phase") != "Bound":
            volume = self._api.put_status(VOLUMES, volume, {"phase": "Bound"})
        claim = self._name_volume(claim, volume["metadata"]["name"], provisioner)
        spec = volume["spec"]
        bound = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": spec.get("capacity", {})}
        status = {**claim.get("status", {}), **bound}
        put_status(self._api, CLAIMS, claim, status)

    def _claim_volume(self, claim: JsonObject, volume: JsonObject) -> JsonObject:
        """Write the claim into the volume. The annotation says that the controller chose it and may undo that."""
        held = volume["spec"].get("claimRef") or {}
        if held.get("uid") == claim["metadata"]["uid"]:
            return volume
        marks = {} if held else {BOUND_BY_CONTROLLER: "yes"}
        return change_object(self._api, VOLUMES, volume, _with(marks, claimRef=reference_to(claim)))

    def _name_volume(self, claim: JsonObject, volume: str, provisioner: str) -> JsonObject:
        """Write the volume into the claim, with upstream's annotations."""
        if _is_bound(claim):
            return claim
        marks = binding_marks(bool(claim["spec"].get("volumeName")), provisioner)
        return change_object(self._api, CLAIMS, claim, _with(marks, volumeName=volume))

    def _record(self, claim: JsonObject, reason: str, message: str, event_type: str = NORMAL) -> None:
        record_event(self._api, "persistentvolume-controller", claim, reason, message, event_type)


def _is_bound(claim: JsonObject) -> bool:
    """Whether the binding was completed once: then the claim never gets another volume."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in claim["metadata"].get("annotations", {})


def _is_offered(write: StoreWrite) -> bool:
    """Whether the write makes a volume free that was not free before."""
    is_free = bool([*_class_if_free(write.object)]) and write.type != "DELETED"
    return is_free and (write.before is None or not [*_class_if_free(write.before)])


def _class_if_free(volume: JsonObject) -> Collection[str]:
    """Index marks of volumes that a claim may get."""
    is_free = not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")
    return (class_of(volume),) if is_free else ()


def _class_if_waiting(claim: JsonObject) -> Collection[str]:
    """Index marks of claims: by class while they wait, by volume once they name one."""
    if _is_bound(claim):
        return (f"volume {claim['spec']['volumeName']}",)
    name = claim["spec"].get("volumeName")
    return (f"volume {name}",) if name else (f"class {class_of(claim)}",)


def _why_not(class_name: str, storage_class: JsonObject | None) -> str:
    """Upstream's text for a claim that cannot be served."""
    if class_name and storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if class_name:
        return "no persistent volumes available for this claim"
    return "no persistent volumes available for this claim and no storage class is set"


def _with(marks: JsonObject, **spec: Any) -> Change:
    """A change that adds annotations and parts of the spec."""

    def change(held: JsonObject) -> JsonObject:
        meta = held["metadata"]
        own = {"annotations": {**meta.get("annotations", {}), **marks}} if marks else {}
        return {**held, "metadata": {**meta, **own}, "spec": {**held["spec"], **spec}}

    return change


# ---- Phases of volumes: Available without a claim, Bound, Released when the claim is gone, deleted if the policy says
# so. Claims and volumes in use must not vanish: finalizers protect them, and are removed here when the use ends.


# Upstream's finalizers; admission sets them.
VOLUME_PROTECTION, CLAIM_PROTECTION = "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"


class Volumes(Controller):
    """Keys are volumes: their phase, their reclaim policy and their protection."""

    name = "volumes"
    storages = (VOLUME_STORE, CLAIM_STORE)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A volume, or the volume that a claim names."""
        if write.storage == VOLUME_STORE:
            return (write.key,) if write.type != "DELETED" else ()
        name = write.object["spec"].get("volumeName")
        return (("", name),) if name else ()

    def sync(self, key: Key) -> int | None:
        """Write the phase; delete a released volume whose policy says so. Recycling is not supported, as with CSI."""
        volume = self._api.find(VOLUMES, *key)
        if volume is None:
            return None
        if volume["metadata"].get("deletionTimestamp"):
            # A deleted volume goes unless a claim is bound to it.
            if self._phase(volume) != "Bound":
                lift(self._api, VOLUMES, volume, VOLUME_PROTECTION)
            return None
        phase = self._phase(volume)
        if phase != volume.get("status", {}).get("phase"):
            volume = self._api.put_status(VOLUMES, volume, {**volume.get("status", {}), "phase": phase})
        if phase == "Released" and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            delete_object(self._api, VOLUMES, volume)
        return None

    def _phase(self, volume: JsonObject) -> str:
        """The phase that follows from the claim. A volume whose claim has yet to name it keeps its phase."""
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            return "Available"
        claim = self._api.find(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            return "Released"
        is_bound = claim["spec"].get("volumeName") == volume["metadata"]["name"]
        held: str = volume.get("status", {}).get("phase", "Available")
        return "Bound" if is_bound else "Available" if held == "Pending" else held


class UseProtection(Controller):
    """Keys are objects that pods use. A deleted one goes when the last pod that uses it has finished: a finalizer holds it
    until then."""

    resource: KindSpec
    finalizer: str

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self.storages = (self.resource.storage, POD_STORE)
        self._users = Index(api.store, POD_STORE, self.used_by)

    @abstractmethod
    def used_by(self, pod: JsonObject) -> list[str]:
        """`namespace/name` of the objects that a pod uses which has not finished. Hot: every write of a pod asks twice."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A deleted object, and objects that a pod uses no more."""
        if write.storage != POD_STORE:
            is_ending = write.object["metadata"].get("deletionTimestamp") and write.type != "DELETED"
            return (write.key,) if is_ending else ()
        before = self.used_by(write.before) if write.before is not None else ()
        if not before:
            return ()
        after = self.used_by(write.object) if write.type != "DELETED" else ()
        return [(write.key[0], mark.partition("/")[2]) for mark in before if mark not in after]

    def sync(self, key: Key) -> int | None:
        """Remove the finalizer of a deleted object that no pod uses."""
        item = self._api.find(self.resource, *key)
        if item is not None and item["metadata"].get("deletionTimestamp") and not self._users.count("/".join(key)):
            lift(self._api, self.resource, item, self.finalizer)
        return None


class ClaimProtection(UseProtection):
    """Keys are claims for volumes. A pod uses a claim once it has a node."""

    name = "claim-protection"
    resource, finalizer = CLAIMS, CLAIM_PROTECTION

    def used_by(self, pod: JsonObject) -> list[str]:
        spec = pod["spec"]
        if not spec.get("volumes") or not spec.get("nodeName") or pod.get("status", {}).get("phase") in FINISHED_PHASES:
            return []
        meta = pod["metadata"]
        return [f"{meta['namespace']}/{name}" for volume in spec["volumes"] if (name := _claim_name(pod, volume))]


def _claim_name(pod: JsonObject, volume: JsonObject) -> str:
    """The claim of a volume: named, or made from an ephemeral volume; empty: the volume has none."""
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    name: str = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    return name


CONTROLLERS = (ClaimBinding, Volumes, ClaimProtection)
