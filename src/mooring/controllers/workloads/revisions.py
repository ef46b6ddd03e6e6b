"""ControllerRevisions: the templates that a StatefulSet or DaemonSet had, so that users can inspect them and roll back."""

from collections.abc import Collection
from itertools import count

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.index import Index
from mooring.rules.workload_pods import REVISION_LABEL, owner_reference, template_hash

REVISIONS = RESOURCES["apps", "v1", "controllerrevisions"]
_NOT_COPIED = "kubectl.kubernetes.io/last-applied-configuration"


class Revisions:
    """The revisions of workloads of one kind; `owned` has all ControllerRevisions by their controller."""

    def __init__(self, api: ResourceApi, resource: KindSpec, owned: Index) -> None:
        self._api = api
        self._resource = resource
        self._owned = owned

    def of(self, workload: JsonObject) -> list[JsonObject]:
        """The oldest first."""
        return sorted(self._owned[workload["metadata"]["uid"]], key=lambda item: (item["revision"], name_of(item)))

    def settle(self, workload: JsonObject) -> JsonObject:
        """The revision of the present template: created if there is none, and given the highest number if it is an old
        one (a rollback)."""
        data = _data_of(workload)
        held = self.of(workload)
        number = held[-1]["revision"] + 1 if held else 1
        same = next((item for item in reversed(held) if item["data"] == data), None)
        if same is None:
            return self._create(workload, data, number)
        return same if same is held[-1] else self._renumber(same, number)

    def trim(self, workload: JsonObject, live: Collection[str]) -> None:
        """Delete the oldest beyond revisionHistoryLimit, but none that pods still have (`live`, by name)."""
        idle = [item for item in self.of(workload) if name_of(item) not in live]
        surplus = len(idle) - workload["spec"].get("revisionHistoryLimit", 10)
        for item in idle[: max(0, surplus)]:
            self._api.delete(REVISIONS, item["metadata"]["namespace"], name_of(item))

    def _create(self, workload: JsonObject, data: JsonObject, number: int) -> JsonObject:
        """Create a revision. If another object has its name, the hash is computed anew."""
        for collisions in count():
            made = self._new(workload, data, number, collisions)
            try:
                return self._api.create(REVISIONS, workload["metadata"]["namespace"], made)
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
        raise AssertionError("there is always another name")

    def _new(self, workload: JsonObject, data: JsonObject, number: int, collisions: int) -> JsonObject:
        """The manifest. Its labels are those of the template, so that selectors find revisions with the pods."""
        template, metadata = workload["spec"]["template"], workload["metadata"]
        digest = template_hash(template, collisions)
        annotations = {key: text for key, text in metadata.get("annotations", {}).items() if key != _NOT_COPIED}
        return {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": {**template.get("metadata", {}).get("labels", {}), REVISION_LABEL: digest},
                "annotations": annotations,
                "ownerReferences": [owner_reference(self._resource, workload)],
            },
            "data": data,
            "revision": number,
        }

    def _renumber(self, revision: JsonObject, number: int) -> JsonObject:
        metadata = revision["metadata"]
        return self._api.change(
            REVISIONS, metadata["namespace"], metadata["name"], lambda held: {**held, "revision": number}
        )


def name_of(revision: JsonObject) -> str:
    name: str = revision["metadata"]["name"]
    return name


def hash_of(revision: JsonObject) -> str:
    digest: str = revision["metadata"]["labels"][REVISION_LABEL]
    return digest


def template_of(revision: JsonObject) -> JsonObject:
    """The template that a revision holds."""
    return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}


def _data_of(workload: JsonObject) -> JsonObject:
    """A patch that restores the template: kubectl applies it to roll back."""
    return {"spec": {"template": {**workload["spec"]["template"], "$patch": "replace"}}}
