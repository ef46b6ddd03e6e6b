"""Workloads and PodGroups of Jobs (gate WorkloadWithJob): how the pods of a Job are scheduled together, by its
`spec.scheduling`.

A Job that no other object controls gets a Workload with one template, and the PodGroup of that template. A Job whose parent
has a Workload, and names one of its templates in an annotation, gets the PodGroup alone. Other Jobs get nothing, nor do Jobs
whose pods name a group themselves. Objects are created only for Jobs that have never started.
"""

from collections.abc import Iterator, Sequence

from mooring.api.api_errors import ApiError, unexplained
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.scheduling import GROUP_TEMPLATES, POD_GROUP
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import JOBS
from mooring.controllers.cluster_writes import WARNING, record_event
from mooring.model.names import safe_encode
from mooring.rules.conditions import condition_of
from mooring.rules.workload_pods import owner_reference

GATE = "WorkloadWithJob"
GROUP_TEMPLATE_NAME = "scheduling.k8s.io/group-template-name"
"""The annotation by which the controller of a Job leaves the PodGroup to the Job controller: a template of its Workload."""
_LONGEST_NAME = 253
_OF_TEMPLATE = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "priorityClassName", "resourceClaims")
_OF_GROUP = (*_OF_TEMPLATE, "priority")
"""The fields that a PodGroup takes over from its template."""


class JobGroups:
    """Finds or creates the group of a Job, and keeps the minimum of a gang as the Job has it."""

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def group_of(self, job: JsonObject, has_pods: bool) -> JsonObject | None:
        """The PodGroup of the Job's pods; None if they are scheduled one by one. Raises ApiError where an object that the
        Job needs cannot be written: the Job is tried again."""
        if not self._api.is_on(GATE) or at(job, "spec.template.spec.schedulingGroup"):
            return None
        is_new, parent = _is_new(job, has_pods), _controller(job)
        if parent is not None:
            name = (job["metadata"].get("annotations") or {}).get(GROUP_TEMPLATE_NAME)
            return None if name is None else self._delegated(job, parent, name, is_new)
        workload = self._workload(job, is_new)
        if workload is None:
            return None
        group = self._group(job, workload, workload["spec"]["podGroupTemplates"][0], is_new)
        wanted = at(template_of(job), "schedulingPolicy.gang.minCount")
        self._resize_workload(workload, wanted)
        return self._resized(group, wanted)

    def _workload(self, job: JsonObject, is_new: bool) -> JsonObject | None:
        """Find or create the Workload of a Job; None if there is none for it, or several."""
        found = [each for each in self._all(GROUP_TEMPLATES, job) if _is_about(each, job) and _is_controlled(each, job)]
        if not found:
            return self._new_workload(job) if is_new else None
        if len(found) == 1 and len(found[0]["spec"].get("podGroupTemplates", ())) != 1:
            name, namespace = found[0]["metadata"]["name"], job["metadata"]["namespace"]
            count = len(found[0]["spec"].get("podGroupTemplates", ()))
            raise unexplained(
                f"workload {namespace}/{name} for job {namespace}/{job['metadata']['name']} has {count} PodGroupTemplates, "
                "want exactly 1",
            )
        return found[0] if len(found) == 1 else None

    def _group(self, job: JsonObject, workload: JsonObject, template: JsonObject, is_new: bool) -> JsonObject | None:
        """Find or create the PodGroup of a Job for its own Workload; None if there is none for it, or several."""
        found = [*self._groups(job, workload)]
        if not found and is_new:
            return self._new_group(job, workload, template, owns=True)
        return found[0] if len(found) == 1 else None

    def _delegated(self, job: JsonObject, parent: JsonObject, name: str, is_new: bool) -> JsonObject | None:
        """Find or create the PodGroup of a Job for a template of the Workload of its parent; None while there is none."""
        workloads = (each for each in self._all(GROUP_TEMPLATES, job) if _names(each, parent))
        workload = next(workloads, None)
        templates = workload["spec"].get("podGroupTemplates", ()) if workload is not None else ()
        # Parity: an empty name means the first template.
        template = next((each for each in templates if each["name"] == name or not name), None)
        if workload is None or template is None:
            return None
        group = next(self._groups(job, workload), None)
        if group is None and is_new:
            group = self._new_group(job, workload, template, owns=False)
        return self._resized(group, at(template, "schedulingPolicy.gang.minCount"))

    def _groups(self, job: JsonObject, workload: JsonObject) -> Iterator[JsonObject]:
        """The PodGroups of a Workload that the Job controls. Others, which users have made, do not count."""
        for each in self._all(POD_GROUP, job):
            if at(each, "spec.workloadRef.workloadName") == workload["metadata"]["name"] and _is_controlled(each, job):
                yield each

    def _all(self, kind: KindSpec, job: JsonObject) -> Sequence[JsonObject]:
        namespace = job["metadata"]["namespace"]
        return [each for each in self._api.store.all(kind.storage) if each["metadata"]["namespace"] == namespace]

    # ---- writes

    def _new_workload(self, job: JsonObject) -> JsonObject:
        """Create the Workload of a Job, with one template."""
        name = job["metadata"]["name"]
        spec = {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [template_of(job)],
        }
        own = {"name": workload_name(job), "ownerReferences": [owner_reference(JOBS, job)]}
        try:
            made = self._api.create(GROUP_TEMPLATES, job["metadata"]["namespace"], {"metadata": own, "spec": spec})
        except ApiError as refusal:
            text = f"Failed to create Workload for Job {name}: {refusal}"
            record_event(self._api, _SOURCE, job, "FailedWorkloadCreate", text, WARNING)
            raise
        text = f"Created Workload {made['metadata']['name']} for Job {name}"
        record_event(self._api, _SOURCE, job, "WorkloadCreated", text)
        return made

    def _new_group(self, job: JsonObject, workload: JsonObject, template: JsonObject, owns: bool) -> JsonObject:
        """Create the PodGroup of a Job from a template. The Job controls it; a Workload of the Job owns it too."""
        name = workload["metadata"]["name"]
        owners = [owner_reference(JOBS, job)]
        if owns:
            owners.append(plain_reference(GROUP_TEMPLATES.api_version, "Workload", workload))
        spec = {field: template[field] for field in _OF_GROUP if field in template}
        spec["workloadRef"] = {"workloadName": name, "templateName": template["name"]}
        metadata = {"name": new_group_name(name, template["name"]), "ownerReferences": owners}
        made = self._api.create(POD_GROUP, job["metadata"]["namespace"], {"metadata": metadata, "spec": spec})
        text = f"Created PodGroup {made['metadata']['name']} for Job {job['metadata']['name']}"
        record_event(self._api, _SOURCE, job, "PodGroupCreated", text)
        return made

    def _resize_workload(self, workload: JsonObject, wanted: int | None) -> None:
        """Give the gang of a Workload another minimum."""
        (template,) = workload["spec"]["podGroupTemplates"]
        held = at(template, "schedulingPolicy.gang.minCount")
        if wanted is not None and held is not None and held != wanted:
            changed = {**template, "schedulingPolicy": {"gang": {"minCount": wanted}}}
            self._change(GROUP_TEMPLATES, workload, {**workload["spec"], "podGroupTemplates": [changed]})

    def _resized(self, group: JsonObject | None, wanted: int | None) -> JsonObject | None:
        """The PodGroup, with another minimum if it is a gang."""
        held = None if group is None else at(group, "spec.schedulingPolicy.gang.minCount")
        if group is None or wanted is None or held is None or held == wanted:
            return group
        return self._change(POD_GROUP, group, {**group["spec"], "schedulingPolicy": {"gang": {"minCount": wanted}}})

    def _change(self, kind: KindSpec, item: JsonObject, spec: JsonObject) -> JsonObject:
        metadata = item["metadata"]
        return self._api.change(kind, metadata["namespace"], metadata["name"], lambda held: {**held, "spec": spec})


_SOURCE = "job-controller"


def template_of(job: JsonObject) -> JsonObject:
    """The template of the PodGroup of a Job: as its `spec.scheduling` says, or else basic.

    | scheduling           | parallelism | policy of the template |
    | none                 | 3           | basic                  |
    | gang without minimum | 3           | gang of 3              |
    | gang without minimum | 0           | gang of 1              |
    | gang of 2            | 3           | gang of 2              |
    """
    spec = job["spec"]
    asked = spec.get("scheduling") or {}
    made = {"name": f"{job['metadata']['name']}-pgt-0", **{key: asked[key] for key in _OF_TEMPLATE if asked.get(key)}}
    gang = (asked.get("schedulingPolicy") or {}).get("gang")
    least = None if gang is None else gang.get("minCount") or max(1, spec.get("parallelism", 1))
    made["schedulingPolicy"] = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    if priority_class := at(spec, "template.spec.priorityClassName"):
        made["priorityClassName"] = priority_class
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


def _is_new(job: JsonObject, has_pods: bool) -> bool:
    """Whether the Job has never started: one that was there before the gate keeps its way of scheduling."""
    status = job.get("status", {})
    began = has_pods or any(status.get(name) for name in ("startTime", "succeeded", "failed"))
    return not began and condition_of(job, "Suspended") is None


def _controller(item: JsonObject) -> JsonObject | None:
    """The reference to the object that controls this one."""
    owners: list[JsonObject] = item["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def _is_about(workload: JsonObject, job: JsonObject) -> bool:
    named = workload["spec"].get("controllerRef", {})
    expected = (JOBS.group, JOBS.kind, job["metadata"]["name"])
    return (named.get("apiGroup"), named.get("kind"), named.get("name")) == expected


def _names(workload: JsonObject, parent: JsonObject) -> bool:
    """Whether a Workload is that of the object that a reference is to."""
    named = workload["spec"].get("controllerRef")
    group = parent.get("apiVersion", "").rpartition("/")[0]
    expected = (group, parent.get("kind"), parent.get("name"))
    return named is not None and (named.get("apiGroup", ""), named.get("kind"), named.get("name")) == expected


def _is_controlled(item: JsonObject, job: JsonObject) -> bool:
    owner = _controller(item)
    return owner is not None and owner.get("uid") == job["metadata"]["uid"]


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
