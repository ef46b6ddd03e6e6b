"""Gangs of Jobs (gate WorkloadWithJob): a Job whose pods all run at once gets a Workload and a PodGroup.

A Job qualifies if it is Indexed, has as many completions as pods at once, more than one, and a template without a group.
Where anything is ambiguous, the Job's pods are scheduled one by one, as without the gate.
"""

from collections.abc import Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.scheduling import GROUP_TEMPLATES, POD_GROUP
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import JOBS
from mooring.controllers.cluster_writes import record_event
from mooring.model.names import safe_encode
from mooring.rules.conditions import condition_of
from mooring.rules.workload_pods import owner_reference

GATE = "WorkloadWithJob"
_LONGEST_NAME = 253


class JobGroups:
    """Finds or creates the group of a Job."""

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def group_of(self, job: JsonObject, has_pods: bool) -> JsonObject | None:
        """The PodGroup of the Job's pods; None if they are scheduled one by one."""
        if not self._api.is_on(GATE) or not _is_candidate(job["spec"]):
            return None
        workload = self._workload(job, has_pods)
        return None if workload is None else self._group(job, workload)

    def _workload(self, job: JsonObject, has_pods: bool) -> JsonObject | None:
        found = [each for each in self._all(GROUP_TEMPLATES.storage, job) if _is_about(each, job)]
        if not found:
            return self._new_workload(job) if _is_new(job, has_pods) else None
        usable = len(found) == 1 and _is_controlled(found[0], job) and len(found[0]["spec"]["podGroupTemplates"]) == 1
        return found[0] if usable else None

    def _group(self, job: JsonObject, workload: JsonObject) -> JsonObject | None:
        """Find or create the PodGroup of a Job for its Workload; None if there are several, or if the Job does not control
        the one that exists."""
        name = workload["metadata"]["name"]
        place = "spec.podGroupTemplateRef.workload.workloadName"
        found = [each for each in self._all(POD_GROUP.storage, job) if at(each, place) == name]
        if not found:
            return self._new_group(job, workload)
        return found[0] if len(found) == 1 and _is_controlled(found[0], job) else None

    def _all(self, storage: str, job: JsonObject) -> Sequence[JsonObject]:
        namespace = job["metadata"]["namespace"]
        return [each for each in self._api.store.all(storage) if each["metadata"]["namespace"] == namespace]

    def _new_workload(self, job: JsonObject) -> JsonObject | None:
        """Create the Workload of a Job with one template of a pod group: a gang with as many pods as `parallelism`."""
        name = job["metadata"]["name"]
        policy = {"gang": {"minCount": job["spec"]["parallelism"]}}
        spec = {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [{"name": f"{name}-pgt-0"[:63], "schedulingPolicy": policy}],
        }
        own = {"name": workload_name(job), "ownerReferences": [owner_reference(JOBS, job)]}
        return self._create(GROUP_TEMPLATES, job, {"metadata": own, "spec": spec})

    def _new_group(self, job: JsonObject, workload: JsonObject) -> JsonObject | None:
        """Create the PodGroup of a Job from the template of its Workload. The Job and the Workload own it."""
        name, template = workload["metadata"]["name"], workload["spec"]["podGroupTemplates"][0]
        owners = [owner_reference(JOBS, job), plain_reference(GROUP_TEMPLATES.api_version, "Workload", workload)]
        named = {"workload": {"workloadName": name, "podGroupTemplateName": template["name"]}}
        spec = {"podGroupTemplateRef": named, "schedulingPolicy": template["schedulingPolicy"]}
        metadata = {"name": new_group_name(name, template["name"]), "ownerReferences": owners}
        return self._create(POD_GROUP, job, {"metadata": metadata, "spec": spec})

    def _create(self, kind: KindSpec, job: JsonObject, item: JsonObject) -> JsonObject | None:
        """The new object; None if one of its name is there that is not the Job's."""
        try:
            made = self._api.create(kind, job["metadata"]["namespace"], item)
        except ApiError as refusal:
            if refusal.code != 409:
                raise
            return None
        if kind is GROUP_TEMPLATES:
            text = f"Created Workload {made['metadata']['name']} for Job {job['metadata']['name']}"
            record_event(self._api, "job-controller", job, "WorkloadCreated", text)
        return made


def in_group(pod: JsonObject, group: JsonObject) -> JsonObject:
    """The pod as a member of the group, which it ends with."""
    meta, owner = pod["metadata"], plain_reference(POD_GROUP.api_version, POD_GROUP.kind, group)
    spec = {**pod["spec"], "schedulingGroup": {"podGroupName": group["metadata"]["name"]}}
    return {**pod, "metadata": {**meta, "ownerReferences": [*meta.get("ownerReferences", ()), owner]}, "spec": spec}


def plain_reference(api_version: str, kind: str, owner: JsonObject) -> JsonObject:
    """The reference to an owner that does not control the object."""
    meta = owner["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}


def _is_candidate(spec: JsonObject) -> bool:
    at_once = spec.get("parallelism", 1)
    is_gang = spec.get("completionMode") == "Indexed" and at_once > 1 and spec.get("completions") == at_once
    return is_gang and not at(spec, "template.spec.schedulingGroup")


def _is_new(job: JsonObject, has_pods: bool) -> bool:
    """Whether the Job has never started: one that was there before the gate keeps its way of scheduling."""
    status = job.get("status", {})
    began = has_pods or any(status.get(name) for name in ("startTime", "succeeded", "failed"))
    return not began and condition_of(job, "Suspended") is None


def _is_about(workload: JsonObject, job: JsonObject) -> bool:
    named = workload["spec"].get("controllerRef", {})
    expected = (JOBS.group, JOBS.kind, job["metadata"]["name"])
    return (named.get("apiGroup"), named.get("kind"), named.get("name")) == expected


def _is_controlled(item: JsonObject, job: JsonObject) -> bool:
    owners = item["metadata"].get("ownerReferences", ())
    return any(owner.get("controller") and owner.get("uid") == job["metadata"]["uid"] for owner in owners)


# ---- names: the same each time, and short enough


def workload_name(job: JsonObject) -> str:
    """The name of the Job, cut, and a hash of its uid."""
    ending = _hash(f"(types.UID){job['metadata']['uid']}")
    return f"{job['metadata']['name'][: _LONGEST_NAME - len(ending) - 1]}-{ending}"


def new_group_name(workload: str, template: str) -> str:
    """The names of workload and template, each cut to its share, and a hash of both."""
    ending = _hash(f"{workload}{template}")
    room = _LONGEST_NAME - len(ending) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        own = min(len(workload), max(room - half, room - len(template)))
        workload, template = workload[:own], template[: room - own]
    return f"{workload}-{template}-{ending}"


def _hash(text: str) -> str:
    """FNV-1a of 32 bits, in safe letters."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return safe_encode(str(value).encode())
