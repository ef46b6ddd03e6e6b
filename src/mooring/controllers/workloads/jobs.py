"""The Job controller: runs pods until a number of them has succeeded, with a limit on how many run at once.

Workloads and PodGroups of Jobs (gate WorkloadWithJob): how the pods of a Job are scheduled together, by its
`spec.scheduling`.

A Job that no other object controls gets a Workload with one template, and the PodGroup of that template. A Job whose parent
has a Workload, and names one of its templates in an annotation, gets the PodGroup alone. Other Jobs get nothing, nor do Jobs
whose pods name a group themselves. Objects are created only for Jobs that have never started.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mooring.api.api_errors import ApiError, unexplained
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.scheduling import GROUP_TEMPLATES, POD_GROUP
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import JOBS, POD_STORE, WARNING, delete_object, record_event
from mooring.controllers.index import manager_of, owner_uid
from mooring.controllers.nodes.pod_statuses import ACTIVE, is_terminating, phase_of, state_of
from mooring.controllers.workloads.job_outcome import (
    COMPLETE,
    SUSPENDED,
    Counts,
    JobAccount,
    JobVerdict,
    Ledger,
    deadline_ns,
    expires_ns,
    index_of,
    is_over,
    parse_indexes,
    show_indexes,
    verdict_on,
    wanted_active,
)
from mooring.controllers.workloads.owned_pods import OwnedPods, first_to_go
from mooring.controllers.workloads.workload_control import BURST, PodWorkloads, WorkloadIndexes, manager_key
from mooring.kit.clock import NS_PER_S
from mooring.model.names import safe_encode
from mooring.rules.conditions import condition_of, with_workload_condition, workload_condition
from mooring.rules.workload_pods import owner_reference, with_index

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
        is_new, parent = _is_new(job, has_pods), manager_of(job)
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
        uid, workloads = job["metadata"]["uid"], self._of(JOBS.group, JOBS.kind, job["metadata"]["name"], job)
        found = [each for each in workloads if owner_uid(each) == uid]
        if not found:
            return self._new_workload(job) if is_new else None
        if len(found) == 1 and len(found[0]["spec"].get("podGroupTemplates", ())) != 1:
            name, namespace = found[0]["metadata"]["name"], job["metadata"]["namespace"]
            count = len(found[0]["spec"].get("podGroupTemplates", ()))
            raise unexplained(
                f"workload {namespace}/{name} for job {namespace}/{job['metadata']['name']} has {count} PodGroupTemplates, "
                "want exactly 1"
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
        group = parent.get("apiVersion", "").rpartition("/")[0]
        workload = next(self._of(group, parent["kind"], parent["name"], job), None)
        templates = workload["spec"].get("podGroupTemplates", ()) if workload is not None else ()
        # Parity: an empty name means the first template.
        template = next((each for each in templates if each["name"] == name or not name), None)
        if workload is None or template is None:
            return None
        found = next(self._groups(job, workload), None)
        if found is None and is_new:
            found = self._new_group(job, workload, template, owns=False)
        return self._resized(found, at(template, "schedulingPolicy.gang.minCount"))

    def _groups(self, job: JsonObject, workload: JsonObject) -> Iterator[JsonObject]:
        """The PodGroups of a Workload that the Job controls. Others, which users have made, do not count."""
        for each in self._all(POD_GROUP, job):
            is_of_workload = at(each, "spec.workloadRef.workloadName") == workload["metadata"]["name"]
            if is_of_workload and owner_uid(each) == job["metadata"]["uid"]:
                yield each

    def _of(self, group: str, kind: str, name: str, job: JsonObject) -> Iterator[JsonObject]:
        """The Workloads in the namespace of a Job that are about an object."""
        for each in self._all(GROUP_TEMPLATES, job):
            named = each["spec"].get("controllerRef") or {}
            if (named.get("apiGroup", ""), named.get("kind"), named.get("name")) == (group, kind, name):
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


@dataclass(slots=True)
class JobSync:
    """A Job during one sync."""

    job: JsonObject
    account: JobAccount
    completed: set[int]
    """Indexes that have succeeded, of an Indexed Job."""
    conditions: list[JsonObject]
    started: str | None
    """The start time that goes into the status; None while suspended."""
    group: JsonObject | None = None
    """The PodGroup of its pods, if they go together."""

    @property
    def is_indexed(self) -> bool:
        return bool(self.job["spec"].get("completionMode") == "Indexed")

    @property
    def waits_for_end(self) -> bool:
        """Whether a pod that is being deleted keeps its place until it has ended."""
        spec = self.job["spec"]
        return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy"))


class Jobs(PodWorkloads):
    """Keys are Jobs. Counts what finished and creates missing pods, after a backoff where pods failed."""

    name = "job"
    resource = JOBS
    rest_ns = NS_PER_S // 10
    """While hundreds of pods of a Job finish, each of their writes concerns it."""

    def __init__(self, api: ResourceApi, indexes: WorkloadIndexes) -> None:
        super().__init__(api, indexes)
        self._ledger = Ledger()
        self._groups = JobGroups(api)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """The Job, or the Job that owns a pod. Pods that are gone are counted here: a sync would not see them."""
        if write.storage == POD_STORE and write.type == "DELETED":
            key = manager_key(write.object, JOBS.kind)
            if key is not None:
                self._ledger.observe(key, write)
        return super().concerned(write)

    def sync(self, key: Key) -> int | None:
        """Finished: wait for its time to live. Otherwise adopt, judge, act and report, in upstream's order."""
        job = self._api.find(JOBS, *key)
        if job is None or is_over(job):
            self._ledger.close(key)
            return self._expire(job) if job is not None else None
        if not self.claim_pods(job):
            return None
        sync = self._begin_sync(key, job)
        sync.group = self._groups.group_of(job, bool(self.pods_of(job).pods))
        self._note_suspension(sync)
        verdict = self._judge(sync)
        again_ns = None if is_terminating(job) else self._act(sync, verdict)
        self._report(sync, verdict)
        return again_ns

    def _expire(self, job: JsonObject) -> int | None:
        """Delete a finished Job after ttlSecondsAfterFinished. Returns when."""
        due_ns = expires_ns(job)
        if due_ns is None or is_terminating(job):
            return None
        if due_ns > self._api.clock.now_ns():
            return due_ns
        delete_object(self._api, JOBS, job, "Background")
        return None

    def _begin_sync(self, key: Key, job: JsonObject) -> JobSync:
        """The Job at the beginning of a sync: its status and its present pods together."""
        owned, status = self.pods_of(job), job.get("status", {})
        account = self._ledger.of(key, job, owned)
        sync = JobSync(job, account, set(), list(status.get("conditions", ())), status.get("startTime"))
        if sync.is_indexed:
            sync.completed = parse_indexes(status.get("completedIndexes", "")) | _completed(owned, job)
        return sync

    # ---- the look

    def _note_suspension(self, sync: JobSync) -> None:
        """Follow spec.suspend. The start time of a Job is set anew when it resumes."""
        now, held = self._api.now(), condition_of(sync.job, SUSPENDED)
        is_held = held is not None and held["status"] == "True"
        if sync.job["spec"].get("suspend"):
            if not is_held:
                self._note(sync, SUSPENDED, True, "JobSuspended", "Job suspended")
                self.record(sync.job, "Suspended", "Job suspended")
            return
        if is_held:
            self._note(sync, SUSPENDED, False, "JobResumed", "Job resumed")
            self.record(sync.job, "Resumed", "Job resumed")
            sync.started = now
        sync.started = sync.started or now

    def _judge(self, sync: JobSync) -> JobVerdict | None:
        """The verdict by the present counts and time."""
        counts, now_ns = self._counts(sync), self._api.clock.now_ns()
        sync.account.note(counts.succeeded, counts.failed, now_ns)
        started = {**sync.job.get("status", {}), "startTime": sync.started}
        return verdict_on({**sync.job, "status": started}, counts, self.pods_of(sync.job), now_ns)

    def _counts(self, sync: JobSync) -> Counts:
        """The counts of now: pods that were created or deleted in this sync are included."""
        owned = self.pods_of(sync.job)
        succeeded = len(sync.completed) if sync.is_indexed else sync.account.succeeded(owned)
        return Counts(owned.count(*ACTIVE), succeeded, sync.account.failed(owned, sync.waits_for_end))

    def _act(self, sync: JobSync, verdict: JobVerdict | None) -> int | None:
        """Delete or create pods. Returns when to sync again, whatever happens until then."""
        if verdict is not None:
            self._end_all(sync, is_excused=verdict.end == COMPLETE)
            return None
        counts = self._counts(sync)
        wanted = wanted_active(sync.job, counts)
        # Too many pods: parallelism was lowered, the Job was suspended, or enough have succeeded.
        if counts.active > wanted:
            self._reduce(sync, counts.active - wanted)
        resumes_ns = sync.account.resumes_ns()
        if counts.active < wanted and resumes_ns <= self._api.clock.now_ns():
            self._make(sync, wanted - counts.active)
        # The end of the backoff matters only while pods are missing; the deadline always.
        started = {**sync.job, "status": {"startTime": sync.started}}
        return self.next_ns([resumes_ns if counts.active < wanted else 0, deadline_ns(started) or 0])

    # ---- pods

    def _make(self, sync: JobSync, number: int) -> None:
        """Create missing pods; of an Indexed Job, one for each free index."""
        if sync.waits_for_end:
            number -= self.pods_of(sync.job).count("terminating")
        pod = self.pod_of(sync.job)
        pod = pod if sync.group is None else in_group(pod, sync.group)
        pods = [pod] * max(0, min(number, BURST))
        if sync.is_indexed:
            name = sync.job["metadata"]["name"]
            pods = [with_index(pod, name, index) for index in self._free_indexes(sync, len(pods))]
        self.create_many(sync.job, pods)

    def _free_indexes(self, sync: JobSync, number: int) -> list[int]:
        """The lowest indexes that are neither done nor being worked on."""
        owned = self.pods_of(sync.job)
        # A pod that is being deleted may keep its index until it has ended.
        states = (*ACTIVE, "terminating") if sync.waits_for_end else ACTIVE
        held = [pod for pod in owned.pods.values() if state_of(pod) in states]
        taken = sync.completed | {index for pod in held if (index := index_of(pod)) is not None}
        free = (index for index in range(sync.job["spec"]["completions"]) if index not in taken)
        return [index for index, _ in zip(free, range(number), strict=False)]

    def _reduce(self, sync: JobSync, number: int) -> None:
        """Delete surplus pods. They do not count as failed."""
        surplus = first_to_go(self.pods_of(sync.job).active(), min(number, BURST), self._api.clock.now_ns())
        sync.account.excused.update(pod["metadata"]["uid"] for pod in surplus)
        self.delete_many(sync.job, surplus)

    def _end_all(self, sync: JobSync, is_excused: bool) -> None:
        """Delete all pods that run: the outcome is decided."""
        active = self.pods_of(sync.job).active()
        if is_excused:
            sync.account.excused.update(pod["metadata"]["uid"] for pod in active)
        self.delete_many(sync.job, active)

    # ---- status

    def _note(self, sync: JobSync, condition_type: str, status: bool, reason: str, message: str) -> None:
        now = self._api.now()
        condition = {**workload_condition(condition_type, status, now, reason, message), "lastProbeTime": now}
        sync.conditions = with_workload_condition(sync.conditions, condition)

    def _report(self, sync: JobSync, verdict: JobVerdict | None) -> None:
        """Write the status if it differs."""
        owned, counts = self.pods_of(sync.job), self._counts(sync)
        numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
        status: JsonObject = {key: number for key, number in numbers.items() if number}
        status |= {"ready": owned.count("ready"), "terminating": owned.count("terminating")}
        status["uncountedTerminatedPods"] = {}
        if sync.started:
            status["startTime"] = sync.started
        if sync.completed:
            status["completedIndexes"] = show_indexes(sync.completed)
        if verdict is not None:
            self._conclude(sync, verdict, status)
        if sync.conditions:
            status["conditions"] = sync.conditions
        self.report(sync.job, status)

    def _conclude(self, sync: JobSync, verdict: JobVerdict, status: JsonObject) -> None:
        """Set the condition for the outcome at once, the final one when no pod runs any more."""
        self._note(sync, verdict.target, True, verdict.reason, verdict.message)
        if status.get("active") or status["terminating"]:
            return
        self._note(sync, verdict.end, True, verdict.reason, verdict.message)
        if verdict.end == COMPLETE:
            status["completionTime"] = self._api.now()
            self.record(sync.job, "Completed", "Job completed")
        else:
            self.record(sync.job, verdict.reason, verdict.message, WARNING)


def _completed(owned: OwnedPods, job: JsonObject) -> set[int]:
    """Indexes of pods that succeeded; the Job may have fewer completions by now."""
    ended = (index_of(pod) for pod in owned.pods.values() if phase_of(pod) == "Succeeded")
    return {index for index in ended if index is not None and index < job["spec"]["completions"]}
