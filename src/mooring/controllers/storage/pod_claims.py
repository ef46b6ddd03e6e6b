"""Claims that belong to pods and pod groups: made from ephemeral volumes and from templates, and released when no pod needs
them."""

from collections.abc import Iterable

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.scheduling import GROUP_PROTECTION, POD_GROUP
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import CLAIMS, DEVICE_CLAIMS, POD_STORE, PODS, TEMPLATES, delete_object, lift
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Index, by_controller, owner_uid
from mooring.controllers.nodes.pod_statuses import is_finished
from mooring.controllers.storage.persistent_volumes import UseProtection
from mooring.rules.claims_and_volumes import (
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

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that the scheduler sets on allocated claims."""


class EphemeralClaims(Controller):
    """Keys are pods with generic ephemeral volumes: a pod has the template, and owns the claim. Schedulers wait for these
    claims before they place the pod."""

    name = "ephemeral-claims"
    storages = (POD_STORE,)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        volumes = write.object["spec"].get("volumes") if write.type == "ADDED" else None
        return (write.key,) if volumes and any("ephemeral" in volume for volume in volumes) else ()

    def sync(self, key: Key) -> int | None:
        """Create the claims that are missing. Their names follow from pod and volume."""
        pod = _staying(self._api, PODS, key)
        if pod is None:
            return None
        for volume in pod["spec"].get("volumes", ()):
            name = f"{key[1]}-{volume['name']}"
            if "ephemeral" in volume and self._api.find(CLAIMS, key[0], name) is None:
                self._api.create(CLAIMS, key[0], volume_claim_for(pod, volume))
        return None


class TemplateClaims(Controller):
    """Keys are holders of ResourceClaims, pods or groups. Makes their claims from templates, and names them in the status of
    the holder."""

    resource: KindSpec

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self._waiting = Index(api.store, self.resource.storage, _keys_of_templates)
        self._by_owner = Index(api.store, DEVICE_CLAIMS.storage, by_controller)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Holders with templates that have no claims yet; a template that comes later wakes the holders that wait for it."""
        if write.storage == TEMPLATES.storage:
            return map(key_of, self._waiting["/".join(write.key)])
        return (write.key,) if write.type != "DELETED" and _keys_of_templates(write.object) else ()

    def sync(self, key: Key) -> int | None:
        """Create what can be created now, and name all claims in the holder's status. A template that does not exist yet is
        waited for."""
        holder = _staying(self._api, self.resource, key)
        if holder is None:
            return None
        before = holder.get("status", {}).get("resourceClaimStatuses", ())
        claims = {entry: self.claim_for(holder, entry, name) for entry, name in templates_waited_for(holder).items()}
        made = [
            {"name": entry, "resourceClaimName": claim["metadata"]["name"]}
            for entry, claim in claims.items()
            if claim is not None
        ]
        if made:
            status = {**holder.get("status", {}), "resourceClaimStatuses": [*before, *made]}
            self._api.put_status(self.resource, holder, status)
        return None

    def claim_for(self, holder: JsonObject, entry: str, template_name: str) -> JsonObject | None:
        """The claim of an entry: one that an interrupted sync made, or a new one. None: it must wait for its template."""
        namespace = holder["metadata"]["namespace"]
        template = self._api.find(TEMPLATES, namespace, template_name)
        if template is None:
            return None
        return self.claim_made_for(holder, entry) or self._api.create(
            DEVICE_CLAIMS, namespace, device_claim_for(holder, entry, template, self.resource)
        )

    def claim_made_for(self, holder: JsonObject, entry: str) -> JsonObject | None:
        """A claim that was made for an entry of a pod or a group, whose status may not name it yet."""
        for claim in self._by_owner[holder["metadata"]["uid"]]:
            if claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry:
                return claim
        return None


class PodClaims(TemplateClaims):
    """Keys are pods. A claim of the pod's group is made for the group (GroupClaims), and only named in the pod's status. A
    group keeps its claims when the gate DRAWorkloadResourceClaims goes off, and no controller makes them then."""

    name = "pod-claims"
    resource = PODS
    storages = (POD_STORE, TEMPLATES.storage, POD_GROUP.storage)

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self._has_groups = api.is_on("GenericWorkload")
        self._has_group_claims = self._has_groups and api.is_on(GROUP_CLAIMS_GATE)
        self._waiting_members = Index(api.store, POD_STORE, _group_waited_for)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A group that comes later than its pods wakes those that wait for it."""
        if write.storage != POD_GROUP.storage:
            return super().concerned(write)
        return map(key_of, self._waiting_members["/".join(write.key)]) if self._has_groups else ()

    def claim_for(self, holder: JsonObject, entry: str, template_name: str) -> JsonObject | None:
        """The group's claim, if the entry is one of the group, or the pod's own. None: it must wait for its template or for
        its group."""
        name = group_name(holder) if self._has_groups else ""
        group = self._api.find(POD_GROUP, holder["metadata"]["namespace"], name) if name else None
        if name and group is None:
            return None
        if group is not None and is_claim_of(group, holder, entry):
            return self.claim_made_for(group, entry) if self._has_group_claims else None
        return super().claim_for(holder, entry, template_name)


class GroupClaims(TemplateClaims):
    """Keys are PodGroups (gate DRAWorkloadResourceClaims). The garbage collector deletes the claims with the group."""

    name = "group-claims"
    resource = POD_GROUP

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self.storages = (POD_GROUP.storage, TEMPLATES.storage) if api.is_on(GROUP_CLAIMS_GATE) else ()


def _keys_of_templates(holder: JsonObject) -> list[str]:
    """The templates of which a pod or a group has no claims yet, by namespace and name."""
    namespace = holder["metadata"]["namespace"]
    return list(dict.fromkeys(f"{namespace}/{name}" for name in templates_waited_for(holder).values()))


def _group_waited_for(pod: JsonObject) -> list[str]:
    """The group of a pod that lacks claims, by namespace and name."""
    name = group_name(pod)
    return [f"{pod['metadata']['namespace']}/{name}"] if name and templates_waited_for(pod) else []


def _staying(api: ResourceApi, resource: KindSpec, key: Key) -> JsonObject | None:
    """The object, unless it is being deleted: a claim that is made then would be left behind."""
    item = api.find(resource, *key)
    return None if item is None or item["metadata"].get("deletionTimestamp") else item


class ClaimRelease(Controller):
    """Keys are ResourceClaims. Removes finished pods and deleted groups from reservedFor, and frees the devices of claims
    that no pod uses."""

    name = "claim-release"
    storages = (POD_STORE, DEVICE_CLAIMS.storage, POD_GROUP.storage)

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
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
        if users:
            return
        if claim["metadata"].get("deletionTimestamp"):
            status = {name: value for name, value in claim.get("status", {}).items() if name != "allocation"}
            lift(self._api, DEVICE_CLAIMS, self._api.put_status(DEVICE_CLAIMS, claim, status), PROTECTION)
        elif self._is_left(claim):
            delete_object(self._api, DEVICE_CLAIMS, claim)

    def _is_left(self, claim: JsonObject) -> bool:
        """Whether the pod that the claim was made for needs it no more."""
        owner = owning_pod(claim)
        if owner is None:
            return False
        return not self._is_needed(claim["metadata"]["namespace"], {"name": owner[0], "uid": owner[1]})


def _users(claim: JsonObject) -> list[str]:
    """Uids of the pods and groups that a claim is reserved for, and of the one that it was made for."""
    reserved = [user["uid"] for user in claim.get("status", {}).get("reservedFor", ())]
    owner = owner_uid(claim)
    return [*reserved, owner] if owner and owner not in reserved else reserved


class GroupProtection(UseProtection):
    """Keys are PodGroups (gate GenericWorkload). A group stays until its last pod has finished: until then its claims are in
    use."""

    name = "group-protection"
    resource, finalizer = POD_GROUP, GROUP_PROTECTION

    def used_by(self, pod: JsonObject) -> list[str]:
        name = group_name(pod)
        return [f"{pod['metadata']['namespace']}/{name}"] if name and not is_finished(pod) else []


CONTROLLERS = (EphemeralClaims, PodClaims, ClaimRelease, GroupClaims, GroupProtection)
