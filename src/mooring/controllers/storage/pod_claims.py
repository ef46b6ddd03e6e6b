"""Claims that belong to pods: made from ephemeral volumes and from templates, and released when no pod needs them."""

from collections.abc import Iterable, Sequence

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.scheduling import GROUP_PROTECTION, POD_GROUP
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_kinds import CLAIMS, POD_STORE, PODS
from mooring.controllers.cluster_writes import lift
from mooring.controllers.index import Index, owner_uid
from mooring.controllers.nodes.pod_statuses import is_finished
from mooring.rules.pod_claims import (
    GROUP_CLAIMS_GATE,
    POD_CLAIM_NAME,
    device_claim_for,
    group_name,
    is_claim_of,
    is_group_user,
    owning_pod,
    templates_waited_for,
    volume_claim_for,
    with_users,
)

# ---- Claims of generic ephemeral volumes: a pod has the template, and owns the claim.


class EphemeralClaims:
    """Keys are pods. Schedulers wait for these claims before they place the pod."""

    name = "ephemeral-claims"
    storages: Sequence[str] = (POD_STORE,)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        volumes = write.object["spec"].get("volumes") if write.type == "ADDED" else None
        return (write.key,) if volumes and any("ephemeral" in volume for volume in volumes) else ()

    def sync(self, key: Key) -> int | None:
        """Create the claims that are missing. Their names follow from pod and volume."""
        pod = _staying_pod(self._api, key)
        if pod is None:
            return None
        for volume in pod["spec"].get("volumes", ()):
            name = f"{key[1]}-{volume['name']}"
            if "ephemeral" in volume and self._api.find(CLAIMS, key[0], name) is None:
                self._api.create(CLAIMS, key[0], volume_claim_for(pod, volume))
        return None


DEVICE_CLAIMS = RESOURCES["resource.k8s.io", "v1", "resourceclaims"]
TEMPLATES = RESOURCES["resource.k8s.io", "v1", "resourceclaimtemplates"]
PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that the scheduler sets on allocated claims."""


class PodClaims:
    """Keys are pods. Makes the ResourceClaims of a pod from their templates, and names them in the pod's status. A claim of
    the pod's group is made for the group (group_claims.py), and only named."""

    name = "pod-claims"
    storages: Sequence[str] = (POD_STORE, TEMPLATES.storage, POD_GROUP.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._has_groups = api.is_on(GROUP_CLAIMS_GATE)
        self._waiting = Index(api.store, POD_STORE, keys_of_templates)
        self._waiting_members = Index(api.store, POD_STORE, _group_waited_for)
        self._by_owner = Index(api.store, DEVICE_CLAIMS.storage, by_owner)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Pods with templates that have no claims yet; a template or a group that comes later wakes the pods that wait for
        it."""
        if write.storage == TEMPLATES.storage:
            return [key_of(pod) for pod in self._waiting["/".join(write.key)]]
        if write.storage == POD_GROUP.storage:
            return [key_of(pod) for pod in self._waiting_members["/".join(write.key)]] if self._has_groups else ()
        return (write.key,) if write.type != "DELETED" and keys_of_templates(write.object) else ()

    def sync(self, key: Key) -> int | None:
        """Create what can be created now, and name all claims in the pod's status. A template that does not exist yet
        is waited for."""
        pod = _staying_pod(self._api, key)
        if pod is None:
            return None
        group = None
        if self._has_groups and group_name(pod):
            group = self._api.find(POD_GROUP, key[0], group_name(pod))
            if group is None:
                return None
        made = list(pod.get("status", {}).get("resourceClaimStatuses", ()))
        for entry, template_name in templates_waited_for(pod).items():
            claim = self._made_claim(pod, group, entry, template_name)
            if claim is not None:
                made.append({"name": entry, "resourceClaimName": claim["metadata"]["name"]})
        if made:
            self._api.put_status(PODS, pod, {**pod.get("status", {}), "resourceClaimStatuses": made})
        return None

    def _made_claim(
        self, pod: JsonObject, group: JsonObject | None, entry: str, template_name: str
    ) -> JsonObject | None:
        """The claim of an entry: the group's, one that an interrupted sync made, or a new one. None: it must wait for its
        template or for its group."""
        if is_claim_of(group, pod, entry):
            assert group is not None
            return claim_made_for(self._by_owner, group, entry)
        template = self._api.find(TEMPLATES, pod["metadata"]["namespace"], template_name)
        if template is None:
            return None
        return claim_made_for(self._by_owner, pod, entry) or self._api.create(
            DEVICE_CLAIMS, pod["metadata"]["namespace"], device_claim_for(pod, entry, template)
        )


def claim_made_for(by_owner: Index, holder: JsonObject, entry: str) -> JsonObject | None:
    """A claim that was made for an entry of a pod or a group, whose status may not name it yet. `by_owner` has claims by
    the uid of their owner."""
    for claim in by_owner[holder["metadata"]["uid"]]:
        if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
            return claim
    return None


def by_owner(claim: JsonObject) -> list[str]:
    """The uid of the pod or the group that a claim was made for."""
    uid = owner_uid(claim)
    return [uid] if uid else []


class ClaimRelease:
    """Keys are ResourceClaims. Removes finished pods and deleted groups from reservedFor, and frees the devices of claims
    that no pod uses."""

    name = "claim-release"
    storages: Sequence[str] = (POD_STORE, DEVICE_CLAIMS.storage, POD_GROUP.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._by_user = Index(api.store, DEVICE_CLAIMS.storage, _users)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """The claim itself, and the claims of a pod that finished or is gone, or of a group that is gone."""
        if write.storage == DEVICE_CLAIMS.storage:
            return (write.key,) if write.type != "DELETED" else ()
        if write.type == "DELETED" or (write.storage == POD_STORE and is_finished(write.object)):
            return [key_of(claim) for claim in self._by_user[write.object["metadata"]["uid"]]]
        return ()

    def sync(self, key: Key) -> int | None:
        """Drop users that need the claim no more; a claim without users loses its allocation."""
        claim = self._api.find(DEVICE_CLAIMS, *key)
        if claim is None:
            return None
        status = claim.get("status", {})
        reserved = status.get("reservedFor", [])
        kept = [user for user in reserved if self._is_kept(key[0], user)]
        if len(kept) != len(reserved):
            claim = self._api.put_status(DEVICE_CLAIMS, claim, with_users(status, kept))
            if not kept and not claim["metadata"].get("deletionTimestamp"):
                lift(self._api, DEVICE_CLAIMS, claim, PROTECTION)
        self._let_go(claim, kept)
        return None

    def _is_kept(self, namespace: str, user: JsonObject) -> bool:
        """Whether an entry of reservedFor stays. Parity: a group stays until it is gone, and users of other kinds stay."""
        if is_group_user(user) and self._api.is_on(GROUP_CLAIMS_GATE):
            group = self._api.find(POD_GROUP, namespace, user["name"])
            return group is not None and group["metadata"]["uid"] == user["uid"]
        return user.get("resource") != "pods" or self._is_needed(namespace, user)

    def _is_needed(self, namespace: str, user: JsonObject) -> bool:
        """Whether the pod still exists, is the same one, and has not finished."""
        pod = self._api.find(PODS, namespace, user["name"])
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not is_finished(pod)

    def _let_go(self, claim: JsonObject, users: list[JsonObject]) -> None:
        """Delete a claim with the pod that it was made for; let a deleted claim go when no pod uses it."""
        metadata = claim["metadata"]
        if users:
            return
        if metadata.get("deletionTimestamp"):
            status = {name: value for name, value in claim.get("status", {}).items() if name != "allocation"}
            lift(self._api, DEVICE_CLAIMS, self._api.put_status(DEVICE_CLAIMS, claim, status), PROTECTION)
        elif self._is_left(claim):
            self._api.delete(DEVICE_CLAIMS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))

    def _is_left(self, claim: JsonObject) -> bool:
        """Whether the pod that the claim was made for needs it no more."""
        owner = owning_pod(claim)
        if owner is None:
            return False
        return not self._is_needed(claim["metadata"]["namespace"], {"name": owner[0], "uid": owner[1]})


def _staying_pod(api: ResourceApi, key: Key) -> JsonObject | None:
    """The pod, unless it is being deleted: a claim that is made then would be left behind."""
    pod = api.find(PODS, *key)
    return None if pod is None or pod["metadata"].get("deletionTimestamp") else pod


def keys_of_templates(holder: JsonObject) -> list[str]:
    """The templates of which a pod or a group has no claims yet, by namespace and name."""
    namespace = holder["metadata"]["namespace"]
    return list(dict.fromkeys(f"{namespace}/{name}" for name in templates_waited_for(holder).values()))


def _group_waited_for(pod: JsonObject) -> list[str]:
    """The group of a pod that lacks claims, by namespace and name."""
    name = group_name(pod)
    return [f"{pod['metadata']['namespace']}/{name}"] if name and templates_waited_for(pod) else []


def _users(claim: JsonObject) -> list[str]:
    """Uids of the pods and groups that a claim is reserved for, and of the one that it was made for."""
    reserved = [user["uid"] for user in claim.get("status", {}).get("reservedFor", ())]
    owner = owner_uid(claim)
    return [*reserved, owner] if owner and owner not in reserved else reserved


# ---- Claims of pod groups: made from templates for the group (gate DRAWorkloadResourceClaims), and the protection of
# groups whose pods have not ended, which may use them (gate GenericWorkload).


class GroupClaims:
    """Keys are PodGroups. Makes the claims of a group from their templates, and names them in the group's status. The garbage
    collector deletes them with the group."""

    name = "group-claims"
    storages: Sequence[str] = (POD_GROUP.storage, TEMPLATES.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._is_on = api.is_on(GROUP_CLAIMS_GATE)
        self._waiting = Index(api.store, POD_GROUP.storage, keys_of_templates)
        self._by_owner = Index(api.store, DEVICE_CLAIMS.storage, by_owner)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Groups with templates that have no claims yet; a template that comes later wakes the groups that wait for it."""
        if not self._is_on:
            return ()
        if write.storage == TEMPLATES.storage:
            return [key_of(group) for group in self._waiting["/".join(write.key)]]
        return (write.key,) if write.type != "DELETED" and keys_of_templates(write.object) else ()

    def sync(self, key: Key) -> int | None:
        """Create what can be created now, and name all claims in the group's status."""
        group = self._api.find(POD_GROUP, *key)
        if group is None or group["metadata"].get("deletionTimestamp"):
            return None
        before = group.get("status", {}).get("resourceClaimStatuses", ())
        made = list(before)
        for entry, template_name in templates_waited_for(group).items():
            template = self._api.find(TEMPLATES, key[0], template_name)
            if template is not None:
                claim = claim_made_for(self._by_owner, group, entry) or self._api.create(
                    DEVICE_CLAIMS, key[0], device_claim_for(group, entry, template, POD_GROUP)
                )
                made.append({"name": entry, "resourceClaimName": claim["metadata"]["name"]})
        if len(made) > len(before):
            self._api.put_status(POD_GROUP, group, {**group.get("status", {}), "resourceClaimStatuses": made})
        return None


class GroupProtection:
    """Keys are PodGroups. A deleted group goes when its last pod has finished: until then its claims are in use."""

    name = "group-protection"
    storages: Sequence[str] = (POD_GROUP.storage, POD_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._members = Index(api.store, POD_STORE, _group_in_use)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A deleted group, and the group of a pod that finished or is gone. Hot: most pods are in none."""
        if write.storage == POD_GROUP.storage:
            is_ending = write.object["metadata"].get("deletionTimestamp") and write.type != "DELETED"
            return (write.key,) if is_ending else ()
        if not write.object["spec"].get("schedulingGroup") or (
            write.type != "DELETED" and not is_finished(write.object)
        ):
            return ()
        return ((write.key[0], group_name(write.object)),)

    def sync(self, key: Key) -> int | None:
        """Remove the finalizer of a deleted group that has no pods."""
        group = self._api.find(POD_GROUP, *key)
        is_ending = group is not None and group["metadata"].get("deletionTimestamp")
        if group is not None and is_ending and not self._members.count("/".join(key)):
            lift(self._api, POD_GROUP, group, GROUP_PROTECTION)
        return None


def _group_in_use(pod: JsonObject) -> list[str]:
    """The group of a pod that has not finished, by namespace and name."""
    name = group_name(pod)
    return [f"{pod['metadata']['namespace']}/{name}"] if name and not is_finished(pod) else []


CONTROLLERS = (GroupClaims, GroupProtection)
