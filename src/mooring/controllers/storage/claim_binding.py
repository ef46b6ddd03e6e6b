"""Binds claims to volumes: one that is there, one that the scheduler chose, or one made to measure."""

from collections.abc import Collection, Iterable, Sequence

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_events import NORMAL, WARNING, tell
from mooring.controllers.cluster_kinds import CLAIM_STORE, CLAIMS, CLASS_STORE, CLASSES, NODES, VOLUME_STORE, VOLUMES
from mooring.controllers.index import Index
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER
from mooring.model.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.rules.persistent_volumes import (
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

_SOURCE = "persistentvolume-controller"


class ClaimBinding:
    """Keys are claims. Binding is several writes; each can be the last before a stop, and the next look goes on there."""

    name = "claim-binding"
    storages: Sequence[str] = (CLAIM_STORE, VOLUME_STORE, CLASS_STORE)
    rest_ns = NS_PER_S // 20

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._volumes_by_claim = Index(
            api.store, VOLUME_STORE, lambda volume: [key for key in (claim_key(volume),) if key]
        )
        self._free_by_class = Index(api.store, VOLUME_STORE, _class_if_free)
        self._waiting_by_class = Index(api.store, CLAIM_STORE, _class_if_waiting)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == CLAIM_STORE:
            return (write.key,) if write.type != "DELETED" else ()
        if write.storage == CLASS_STORE:
            return self._waiting(write.object["metadata"]["name"])
        return [*self._named(write.object), *(self._waiting(class_of(write.object)) if _is_offered(write) else ())]

    def _waiting(self, class_name: str) -> list[Key]:
        waiting = self._waiting_by_class[f"class {class_name}"]
        return [(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in waiting]

    def _named(self, volume: JsonObject) -> list[Key]:
        """The claim that the volume names, and claims that name the volume."""
        reference = volume["spec"].get("claimRef") or {}
        keys = [(reference.get("namespace", ""), reference["name"])] if reference.get("name") else []
        naming = self._waiting_by_class[f"volume {volume['metadata']['name']}"]
        return [*keys, *((claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in naming)]

    def sync(self, key: Key) -> int | None:
        claim = self._api.find(CLAIMS, *key)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return None
        if _is_bound(claim):
            self._keep(claim)
        else:
            self._seek(claim)
        return None

    def _keep(self, claim: JsonObject) -> None:
        """A bound claim says so, unless its volume is gone or somebody else's."""
        volume = self._api.find(VOLUMES, "", claim["spec"]["volumeName"])
        if volume is None or not is_for(volume, claim):
            lost = {**claim.get("status", {}), "phase": "Lost"}
            if claim.get("status", {}).get("phase") != "Lost":
                self._api.put_status(CLAIMS, claim, lost)
                self._say(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
            return
        self._bind(claim, volume)

    def _seek(self, claim: JsonObject) -> None:
        meta, name = claim["metadata"], claim["spec"].get("volumeName", "")
        named = self._api.find(VOLUMES, "", name) if name else None
        volume = chosen_volume(claim, named, self._volumes_by_claim[f"{meta['namespace']}/{meta['name']}"])
        if volume is not None:
            self._bind(claim, volume)
        elif not name:
            self._serve(claim)
        elif named is not None and not named["spec"].get("claimRef"):
            why = f'Cannot bind to requested volume "{name}": {mismatch(named, claim)}'
            self._say(claim, "VolumeMismatch", why, WARNING)

    def _serve(self, claim: JsonObject) -> None:
        class_name = class_of(claim)
        storage_class = self._api.find(CLASSES, "", class_name) if class_name else None
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER
        if waits and not node_name:
            return self._say(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        volume = None if waits else best_volume(claim, self._free_by_class[class_name])
        if volume is not None:
            return self._bind(claim, volume)
        if storage_class is None or not can_provision(storage_class.get("provisioner", "")):
            return self._say(claim, "FailedBinding", _why_not(class_name, storage_class), NORMAL)
        return self._provision(claim, storage_class, self._api.find(NODES, "", node_name) if node_name else None)

    def _provision(self, claim: JsonObject, storage_class: JsonObject, node: JsonObject | None) -> None:
        name = volume_name(claim)
        volume = self._api.find(VOLUMES, "", name)
        if volume is None:
            volume = self._api.create(VOLUMES, "", provisioned(claim, storage_class, node))
            self._say(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}", NORMAL)
        self._bind(claim, volume, storage_class["provisioner"])

    # ---- the writes of a binding

    def _bind(self, claim: JsonObject, volume: JsonObject, provisioner: str = "") -> None:
        volume = self._claim_volume(claim, volume)
        if volume.get("status", {}).get("phase") != "Bound":
            volume = self._api.put_status(VOLUMES, volume, {"phase": "Bound"})
        claim = self._name_volume(claim, volume["metadata"]["name"], provisioner)
        spec = volume["spec"]
        bound = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": spec.get("capacity", {})}
        status = {**claim.get("status", {}), **bound}
        if status != claim.get("status"):
            self._api.put_status(CLAIMS, claim, status)

    def _claim_volume(self, claim: JsonObject, volume: JsonObject) -> JsonObject:
        held = volume["spec"].get("claimRef") or {}
        if held.get("uid") == claim["metadata"]["uid"]:
            return volume
        marks = {} if held else {BOUND_BY_CONTROLLER: "yes"}
        return self._api.change(
            VOLUMES,
            "",
            volume["metadata"]["name"],
            lambda found: _annotated({**found, "spec": {**found["spec"], "claimRef": reference_to(claim)}}, marks),
        )

    def _name_volume(self, claim: JsonObject, volume: str, provisioner: str) -> JsonObject:
        if _is_bound(claim):
            return claim
        marks = binding_marks(bool(claim["spec"].get("volumeName")), provisioner)
        return self._api.change(
            CLAIMS,
            claim["metadata"]["namespace"],
            claim["metadata"]["name"],
            lambda found: _annotated({**found, "spec": {**found["spec"], "volumeName": volume}}, marks),
        )

    def _say(self, claim: JsonObject, reason: str, message: str, type: str = "") -> None:
        usual = WARNING if reason == "ClaimLost" else NORMAL
        tell(self._api, _SOURCE, claim, reason, message, type or usual)


def _is_bound(claim: JsonObject) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in claim["metadata"].get("annotations", {})


def _is_offered(write: StoreWrite) -> bool:
    """Whether the write makes a volume free that was not."""
    is_free = bool([*_class_if_free(write.object)]) and write.type != "DELETED"
    return is_free and (write.before is None or not [*_class_if_free(write.before)])


def _class_if_free(volume: JsonObject) -> Collection[str]:
    is_free = not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")
    return (class_of(volume),) if is_free else ()


def _class_if_waiting(claim: JsonObject) -> Collection[str]:
    """Claims that are not bound yet, by class or by the volume that they name."""
    if _is_bound(claim):
        return (f"volume {claim['spec']['volumeName']}",)
    name = claim["spec"].get("volumeName")
    return (f"volume {name}",) if name else (f"class {class_of(claim)}",)


def _why_not(class_name: str, storage_class: JsonObject | None) -> str:
    if class_name and storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if class_name:
        return "no persistent volumes available for this claim"
    return "no persistent volumes available for this claim and no storage class is set"


def _annotated(item: JsonObject, marks: JsonObject) -> JsonObject:
    if not marks:
        return item
    annotations = {**item["metadata"].get("annotations", {}), **marks}
    return {**item, "metadata": {**item["metadata"], "annotations": annotations}}
