"""Makes and deletes the pods of workloads, and tells users of it."""

from collections.abc import Sequence

from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_events import NORMAL, WARNING, tell
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.kinds import RESOURCES
from mooring.rules.workload_pods import pod_of

PODS = RESOURCES["", "v1", "pods"]

_TOLD_ONE_BY_ONE = 20
"""How many pods of one look get an event each: beyond that, nobody reads them one by one."""


class PodControl:
    """In the name of one controller (`replicaset-controller`), for workloads of one kind."""

    def __init__(self, api: ResourceApi, resource: KindSpec, component: str) -> None:
        self._api = api
        self._resource = resource
        self._component = component

    def tell(self, owner: JsonObject, type: str, reason: str, message: str) -> None:
        tell(self._api, self._component, owner, reason, message, type)

    def pod_of(self, owner: JsonObject, template: JsonObject) -> JsonObject:
        """A pod as the template of a workload has it. It shares parts with the template: not to be changed in depth."""
        return pod_of(self._resource, owner, template)

    def create_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> int:
        """Create them all. Returns how many; raises what the first refusal says, once those before it are told of."""
        made: list[str] = []
        try:
            made.extend(self.create_untold(owner, pod)["metadata"]["name"] for pod in pods)
        finally:
            self._tell_all(owner, "SuccessfulCreate", "Created", made)
        return len(made)

    def delete_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> None:
        for pod in pods:
            self.delete_untold(pod)
        self._tell_all(owner, "SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in pods])

    def delete_untold(self, pod: JsonObject) -> None:
        """That it is gone already, or another has its name, is as good."""
        metadata = pod["metadata"]
        try:
            self._api.delete(PODS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))
        except ApiError as refusal:
            if refusal.code not in (404, 409):
                raise

    def create_untold(self, owner: JsonObject, pod: JsonObject) -> JsonObject:
        try:
            return self._api.create(PODS, owner["metadata"]["namespace"], pod)
        except ApiError as refusal:
            if not _is_leaving(refusal):
                self.tell(owner, WARNING, "FailedCreate", f"Error creating: {refusal.message}")
            raise

    def _tell_all(self, owner: JsonObject, reason: str, verb: str, names: Sequence[str]) -> None:
        if len(names) > _TOLD_ONE_BY_ONE:
            self.tell(owner, NORMAL, reason, f"{verb} {len(names)} pods: {names[0]} ... {names[-1]}")
            return
        for name in names:
            self.tell(owner, NORMAL, reason, f"{verb} pod: {name}")


def _is_leaving(refusal: ApiError) -> bool:
    """A namespace that is on its way out takes no pods, and nobody needs to hear of it."""
    causes = refusal.details.causes if refusal.details else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)
