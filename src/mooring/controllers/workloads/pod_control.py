"""Creates and deletes the pods of workloads, with events about it: upstream's PodControl."""

from collections.abc import Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import PODS
from mooring.controllers.cluster_writes import NORMAL, WARNING, record_event
from mooring.rules.workload_pods import pod_of

_TOLD_ONE_BY_ONE = 20
"""How many pods of one sync get an event each: 500 events about one sync help no reader."""


class PodControl:
    """In the name of one controller (`replicaset-controller`), for workloads of one kind."""

    def __init__(self, api: ResourceApi, resource: KindSpec, component: str) -> None:
        self._api = api
        self._resource = resource
        self._component = component

    def record(self, owner: JsonObject, type: str, reason: str, message: str) -> None:
        """Record an event about the owner."""
        record_event(self._api, self._component, owner, reason, message, type)

    def pod_of(self, owner: JsonObject, template: JsonObject) -> JsonObject:
        """A pod by the template of a workload. It shares parts with the template, so it must not be changed in depth."""
        return pod_of(self._resource, owner, template)

    def create_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> int:
        """Create them all. Returns how many; raises the first refusal, after events about those before it."""
        made: list[str] = []
        try:
            made.extend(self.create_one(owner, pod)["metadata"]["name"] for pod in pods)
        finally:
            self._record_all(owner, "SuccessfulCreate", "Created", made)
        return len(made)

    def delete_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> None:
        """Delete them all, with events."""
        for pod in pods:
            self.delete_one(pod)
        self._record_all(owner, "SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in pods])

    def delete_one(self, pod: JsonObject) -> None:
        """Delete one, without an event. A pod that is gone already, or replaced by one of the same name, is fine."""
        metadata = pod["metadata"]
        try:
            self._api.delete(PODS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))
        except ApiError as refusal:
            if refusal.code not in (404, 409):
                raise

    def create_one(self, owner: JsonObject, pod: JsonObject) -> JsonObject:
        """Create one, with an event only if the API server refuses."""
        try:
            return self._api.create(PODS, owner["metadata"]["namespace"], pod)
        except ApiError as refusal:
            if not _is_leaving(refusal):
                self.record(owner, WARNING, "FailedCreate", f"Error creating: {refusal.message}")
            raise

    def _record_all(self, owner: JsonObject, reason: str, verb: str, names: Sequence[str]) -> None:
        """One event for each pod, or one for all of them if there are many."""
        if len(names) > _TOLD_ONE_BY_ONE:
            self.record(owner, NORMAL, reason, f"{verb} {len(names)} pods: {names[0]} ... {names[-1]}")
            return
        for name in names:
            self.record(owner, NORMAL, reason, f"{verb} pod: {name}")


def _is_leaving(refusal: ApiError) -> bool:
    """Whether the namespace is being deleted: it accepts no pods, and events about that would only be noise."""
    causes = refusal.details.causes if refusal.details else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)
