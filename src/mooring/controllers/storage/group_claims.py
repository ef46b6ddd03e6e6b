"""Claims of pod groups: made from templates for the group (gate DRAWorkloadResourceClaims), and the protection of groups
whose pods have not ended, which may use them (gate GenericWorkload)."""

from collections.abc import Iterable, Sequence

from mooring.api.json_objects import JsonObject
from mooring.api.kinds.scheduling import GROUP_PROTECTION, POD_GROUP
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_kinds import POD_STORE
from mooring.controllers.cluster_writes import lift
from mooring.controllers.index import Index
from mooring.controllers.nodes.pod_states import is_finished
from mooring.controllers.storage.pod_claims import DEVICE_CLAIMS, TEMPLATES, by_owner, claim_made_for, keys_of_templates
from mooring.rules.pod_claims import GROUP_CLAIMS_GATE, device_claim_for, group_name, templates_waited_for


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
