"""Volumes: available while nobody has claimed them, released when their claim is gone, deleted if they are to be.

Claims and volumes are also kept from vanishing while they are in use: the finalizers for that are lifted here.
"""

from collections.abc import Iterable, Sequence

from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import CLAIM_STORE, CLAIMS, POD_STORE, VOLUME_STORE, VOLUMES
from mooring.controllers.index import Index
from mooring.controllers.lifecycle.finalizers import lift
from mooring.model.json_objects import JsonObject
from mooring.model.pod_spec import FINISHED_PHASES

VOLUME_PROTECTION, CLAIM_PROTECTION = "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"


class Volumes:
    """The phases of volumes, what becomes of those that are released, and their protection."""

    name = "volumes"
    storages: Sequence[str] = (VOLUME_STORE, CLAIM_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == VOLUME_STORE:
            return (write.key,) if write.type != "DELETED" else ()
        name = write.object["spec"].get("volumeName")
        return (("", name),) if name else ()

    def sync(self, key: Key) -> int | None:
        volume = self._api.find(VOLUMES, *key)
        if volume is None:
            return None
        if volume["metadata"].get("deletionTimestamp"):
            self._let_go(volume)
            return None
        phase = self._phase(volume)
        if phase != volume.get("status", {}).get("phase"):
            volume = self._api.put_status(VOLUMES, volume, {**volume.get("status", {}), "phase": phase})
        if phase == "Released" and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._api.delete(VOLUMES, "", key[1], Deletion(uid=volume["metadata"]["uid"]))
        return None

    def _phase(self, volume: JsonObject) -> str:
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            return "Available"
        claim = self._api.find(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            return "Released"
        is_bound = claim["spec"].get("volumeName") == volume["metadata"]["name"]
        held: str = volume.get("status", {}).get("phase", "Available")
        return "Bound" if is_bound else "Available" if held == "Pending" else held

    def _let_go(self, volume: JsonObject) -> None:
        if self._phase(volume) != "Bound":
            lift(self._api, VOLUMES, volume, VOLUME_PROTECTION)


class ClaimProtection:
    """A claim that is to be deleted goes when the last pod is over that uses it."""

    name = "claim-protection"
    storages: Sequence[str] = (CLAIM_STORE, POD_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._users = Index(api.store, POD_STORE, used_claims)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Hot: most pods use no claim, and those that do matter only when they end."""
        if write.storage == CLAIM_STORE:
            is_ending = write.object["metadata"].get("deletionTimestamp") and write.type != "DELETED"
            return (write.key,) if is_ending else ()
        pod = write.object
        if not pod["spec"].get("volumes"):
            return ()
        before = used_claims(write.before) if write.before is not None else ()
        after = used_claims(pod) if write.type != "DELETED" else ()
        return [(pod["metadata"]["namespace"], mark.partition("/")[2]) for mark in before if mark not in after]

    def sync(self, key: Key) -> int | None:
        claim = self._api.find(CLAIMS, *key)
        is_ending = claim is not None and claim["metadata"].get("deletionTimestamp")
        if claim is not None and is_ending and not self._users.count(f"{key[0]}/{key[1]}"):
            lift(self._api, CLAIMS, claim, CLAIM_PROTECTION)
        return None


def used_claims(pod: JsonObject) -> list[str]:
    """`namespace/name` of the claims that a pod uses which has a node and is not over."""
    spec = pod["spec"]
    if not spec.get("volumes") or not spec.get("nodeName") or pod.get("status", {}).get("phase") in FINISHED_PHASES:
        return []
    meta = pod["metadata"]
    return [f"{meta['namespace']}/{name}" for volume in spec["volumes"] if (name := _claim_name(pod, volume))]


def _claim_name(pod: JsonObject, volume: JsonObject) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    name: str = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    return name
