"""Claims for devices: made from templates for pods that ask so, and given back when nobody needs them any more."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.access import Api
from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.store import Key, Write, key_of
from mooring.controllers.cluster_kinds import POD_STORE, PODS
from mooring.controllers.index import Index, owner_uid
from mooring.controllers.lifecycle.finalizers import lift
from mooring.controllers.nodes.pod_states import is_finished
from mooring.controllers.workloads.ownership import owner_reference
from mooring.model.json_objects import JsonObject
from mooring.model.resources import RESOURCES

DEVICE_CLAIMS = RESOURCES["resource.k8s.io", "v1", "resourceclaims"]
TEMPLATES = RESOURCES["resource.k8s.io", "v1", "resourceclaimtemplates"]
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
PROTECTION = "resource.kubernetes.io/delete-protection"


class PodClaims:
    """Makes the claims of a pod from their templates, and names them in the pod's status."""

    name = "pod-claims"
    storages: Sequence[str] = (POD_STORE, TEMPLATES.storage)
    rest_ns = 0

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting = Index(api.store, POD_STORE, _templates_waited_for)
        self._by_owner = Index(
            api.store, DEVICE_CLAIMS.storage, lambda claim: [uid] if (uid := owner_uid(claim)) else []
        )

    def concerned(self, write: Write) -> Iterable[Key]:
        if write.storage == TEMPLATES.storage:
            namespace, name = write.key
            return [key_of(pod) for pod in self._waiting[f"{namespace}/{name}"]]
        return (write.key,) if write.type != "DELETED" and _templates_waited_for(write.object) else ()

    def sync(self, key: Key) -> int | None:
        pod = self._api.find(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        made = {status["name"]: status for status in pod.get("status", {}).get("resourceClaimStatuses", ())}
        for entry in pod["spec"].get("resourceClaims", ()):
            template_name = entry.get("resourceClaimTemplateName")
            if template_name and entry["name"] not in made:
                template = self._api.find(TEMPLATES, key[0], template_name)
                if template is not None:
                    claim = self._claim_of(pod, entry["name"]) or self._make(pod, entry["name"], template)
                    made[entry["name"]] = {"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]}
        status = {**pod.get("status", {}), "resourceClaimStatuses": list(made.values())}
        if made:
            self._api.put_status(PODS, pod, status)
        return None

    def _claim_of(self, pod: JsonObject, entry: str) -> JsonObject | None:
        """A claim that was made already, though the pod's status does not say so yet."""
        for claim in self._by_owner[pod["metadata"]["uid"]]:
            if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
                return claim
        return None

    def _make(self, pod: JsonObject, entry: str, template: JsonObject) -> JsonObject:
        given = template["spec"].get("metadata", {})
        metadata = {
            "generateName": f"{pod['metadata']['name']}-{entry}-",
            "labels": given.get("labels", {}),
            "annotations": {**given.get("annotations", {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [owner_reference(PODS, pod)],
        }
        namespace = pod["metadata"]["namespace"]
        return self._api.create(DEVICE_CLAIMS, namespace, {"metadata": metadata, "spec": template["spec"]["spec"]})


class ClaimRelease:
    """Takes pods off the claims that they no longer need, and devices off the claims that nobody needs."""

    name = "claim-release"
    storages: Sequence[str] = (POD_STORE, DEVICE_CLAIMS.storage)
    rest_ns = 0

    def __init__(self, api: Api) -> None:
        self._api = api
        self._by_user = Index(api.store, DEVICE_CLAIMS.storage, _users)

    def concerned(self, write: Write) -> Iterable[Key]:
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
            claim = self._api.put_status(DEVICE_CLAIMS, claim, _with_users(status, kept))
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
        elif POD_CLAIM_NAME in metadata.get("annotations", {}) and not self._owner_lives(claim):
            self._api.delete(DEVICE_CLAIMS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))

    def _owner_lives(self, claim: JsonObject) -> bool:
        for owner in claim["metadata"].get("ownerReferences", ()):
            pod = self._api.find(PODS, claim["metadata"]["namespace"], owner["name"])
            if pod is not None and pod["metadata"]["uid"] == owner["uid"] and not is_finished(pod):
                return True
        return False


def _templates_waited_for(pod: JsonObject) -> list[str]:
    """The templates of which a pod has no claims yet, by namespace and name."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return []
    made = {status["name"] for status in pod.get("status", {}).get("resourceClaimStatuses", ())}
    namespace = pod["metadata"]["namespace"]
    waiting = (entry for entry in entries if entry.get("resourceClaimTemplateName") and entry["name"] not in made)
    return [f"{namespace}/{entry['resourceClaimTemplateName']}" for entry in waiting]


def _users(claim: JsonObject) -> list[str]:
    """Uids of the pods that a claim is reserved for, and of the pod that it was made for."""
    reserved = [user["uid"] for user in claim.get("status", {}).get("reservedFor", ())]
    owner = owner_uid(claim)
    return [*reserved, owner] if owner and owner not in reserved else reserved


def _with_users(status: JsonObject, users: list[JsonObject]) -> JsonObject:
    """Devices are given back with the last user."""
    left = {name: value for name, value in status.items() if name != "reservedFor"}
    if users:
        return {**left, "reservedFor": users}
    return {name: value for name, value in left.items() if name not in ("allocation", "devices")}
