"""Claims for devices: made from templates for pods that ask so, and given back when nobody needs them any more."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_kinds import POD_STORE, PODS
from mooring.controllers.index import Index, owner_uid
from mooring.controllers.lifecycle.finalizers import lift
from mooring.controllers.nodes.pod_states import is_finished
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.pod_claims import (
    POD_CLAIM_NAME,
    device_claim_for,
    owning_pod,
    templates_waited_for,
    with_users,
)

DEVICE_CLAIMS = RESOURCES["resource.k8s.io", "v1", "resourceclaims"]
TEMPLATES = RESOURCES["resource.k8s.io", "v1", "resourceclaimtemplates"]
PROTECTION = "resource.kubernetes.io/delete-protection"


class PodClaims:
    """Makes the claims of a pod from their templates, and names them in the pod's status."""

    name = "pod-claims"
    storages: Sequence[str] = (POD_STORE, TEMPLATES.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._waiting = Index(api.store, POD_STORE, _templates)
        self._by_owner = Index(
            api.store, DEVICE_CLAIMS.storage, lambda claim: [uid] if (uid := owner_uid(claim)) else []
        )

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == TEMPLATES.storage:
            namespace, name = write.key
            return [key_of(pod) for pod in self._waiting[f"{namespace}/{name}"]]
        return (write.key,) if write.type != "DELETED" and _templates(write.object) else ()

    def sync(self, key: Key) -> int | None:
        pod = self._api.find(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        made = list(pod.get("status", {}).get("resourceClaimStatuses", ()))
        for entry, template_name in templates_waited_for(pod).items():
            template = self._api.find(TEMPLATES, key[0], template_name)
            if template is not None:
                claim = self._claim_of(pod, entry) or self._api.create(
                    DEVICE_CLAIMS, key[0], device_claim_for(pod, entry, template)
                )
                made.append({"name": entry, "resourceClaimName": claim["metadata"]["name"]})
        if made:
            self._api.put_status(PODS, pod, {**pod.get("status", {}), "resourceClaimStatuses": made})
        return None

    def _claim_of(self, pod: JsonObject, entry: str) -> JsonObject | None:
        """A claim that was made already, though the pod's status does not say so yet."""
        for claim in self._by_owner[pod["metadata"]["uid"]]:
            if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
                return claim
        return None


class ClaimRelease:
    """Takes pods off the claims that they no longer need, and devices off the claims that nobody needs."""

    name = "claim-release"
    storages: Sequence[str] = (POD_STORE, DEVICE_CLAIMS.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._by_user = Index(api.store, DEVICE_CLAIMS.storage, _users)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == DEVICE_CLAIMS.storage:
            return (write.key,) if write.type != "DELETED" else ()
        if write.type == "DELETED" or is_finished(write.object):
            return [key_of(claim) for claim in self._by_user[write.object["metadata"]["uid"]]]
        return ()

    def sync(self, key: Key) -> int | None:
        claim = self._api.find(DEVICE_CLAIMS, *key)
        if claim is None:
            return None
        status = claim.get("status", {})
        reserved = status.get("reservedFor", [])
        kept = [user for user in reserved if user.get("resource") != "pods" or self._is_needed(key[0], user)]
        if len(kept) != len(reserved):
            claim = self._api.put_status(DEVICE_CLAIMS, claim, with_users(status, kept))
            if not kept and not claim["metadata"].get("deletionTimestamp"):
                lift(self._api, DEVICE_CLAIMS, claim, PROTECTION)
        self._let_go(claim, kept)
        return None

    def _is_needed(self, namespace: str, user: JsonObject) -> bool:
        pod = self._api.find(PODS, namespace, user["name"])
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not is_finished(pod)

    def _let_go(self, claim: JsonObject, users: list[JsonObject]) -> None:
        """A claim that was made for a pod goes with it; one that is to be deleted goes when nobody uses it."""
        metadata = claim["metadata"]
        if users:
            return
        if metadata.get("deletionTimestamp"):
            status = {name: value for name, value in claim.get("status", {}).items() if name != "allocation"}
            lift(self._api, DEVICE_CLAIMS, self._api.put_status(DEVICE_CLAIMS, claim, status), PROTECTION)
        elif self._is_left(claim):
            self._api.delete(DEVICE_CLAIMS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))

    def _is_left(self, claim: JsonObject) -> bool:
        """Whether a claim was made for a pod that needs it no more."""
        owner = owning_pod(claim)
        if owner is None:
            return False
        return not self._is_needed(claim["metadata"]["namespace"], {"name": owner[0], "uid": owner[1]})


def _templates(pod: JsonObject) -> list[str]:
    """The templates of which a pod has no claims yet, by namespace and name."""
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for name in templates_waited_for(pod).values()]


def _users(claim: JsonObject) -> list[str]:
    """Uids of the pods that a claim is reserved for, and of the pod that it was made for."""
    reserved = [user["uid"] for user in claim.get("status", {}).get("reservedFor", ())]
    owner = owner_uid(claim)
    return [*reserved, owner] if owner and owner not in reserved else reserved
