"""The Job controller: pods that are to end well, so and so often, so many at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_events import NORMAL, WARNING
from mooring.controllers.lifecycle.orphans import Orphans, Seekers
from mooring.controllers.nodes.pod_states import ACTIVE, is_active, is_finished, is_terminating, phase_of
from mooring.controllers.workloads.deletion_order import first_to_go
from mooring.controllers.workloads.job_indexes import parse_indexes, show_indexes
from mooring.controllers.workloads.job_ledger import JobAccount, Ledger
from mooring.controllers.workloads.job_pods import index_of
from mooring.controllers.workloads.job_verdicts import (
    COMPLETE,
    SUSPENDED,
    Counts,
    JobVerdict,
    deadline_ns,
    expires_ns,
    is_over,
    verdict_on,
    wanted_active,
)
from mooring.controllers.workloads.owned_pods import OwnedPodIndex, OwnedPods
from mooring.controllers.workloads.ownership import covers_own_template, manager_key, managers_concerned, selector_of
from mooring.controllers.workloads.pod_claiming import claim_pods
from mooring.controllers.workloads.pod_control import PODS, PodControl
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.conditions import condition_of, with_workload_condition, workload_condition
from mooring.rules.workload_pods import with_index

JOBS = RESOURCES["batch", "v1", "jobs"]
_BURST = 500


@dataclass(slots=True)
class JobSync:
    """A job while it is looked at."""

    job: JsonObject
    account: JobAccount
    completed: set[int]
    """Indexes, of an Indexed job."""
    conditions: list[JsonObject]
    started: str | None

    @property
    def is_indexed(self) -> bool:
        return bool(self.job["spec"].get("completionMode") == "Indexed")

    @property
    def waits_for_end(self) -> bool:
        """Whether a pod on its way out keeps its place until it has ended."""
        spec = self.job["spec"]
        return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy"))


class Jobs:
    """Counts what ended and makes the pods that are missing, after a pause where pods failed."""

    name = "job"
    storages: Sequence[str] = (JOBS.storage, PODS.storage)
    rest_ns = NS_PER_S // 10

    def __init__(self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans) -> None:
        """`orphans` are pods without a controller."""
        self._api = api
        self._owned_pods = owned_pods
        self._orphans = orphans
        self._ledger = Ledger()
        self._seekers = Seekers(api.store, JOBS.storage)
        self._control = PodControl(api, JOBS, "job-controller")

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage != PODS.storage:
            return (write.key,)
        if write.type == "DELETED":
            key = manager_key(write.object, JOBS.kind)
            if key is not None:
                self._ledger.hear(key, write)
        return managers_concerned(write, JOBS.kind, self._seekers)

    def sync(self, key: Key) -> int | None:
        job = self._api.find(JOBS, *key)
        if job is None or is_over(job):
            self._ledger.close(key)
            return self._expire(job) if job is not None else None
        selector = selector_of(job)
        if not covers_own_template(job, selector):
            return None
        owned = self._owned_pods.of(job["metadata"]["uid"])
        claim_pods(self._api, JOBS, job, selector, owned, self._orphans)
        sync = self._shift(key, job)
        self._note_suspension(sync)
        verdict = self._judge(sync)
        again_ns = None if "deletionTimestamp" in job["metadata"] else self._act(sync, verdict)
        self._report(sync, verdict)
        return again_ns

    def _expire(self, job: JsonObject) -> int | None:
        """Delete a job some time after its end, if it wants that. Returns when."""
        due_ns, metadata = expires_ns(job), job["metadata"]
        if due_ns is None or "deletionTimestamp" in metadata:
            return None
        if due_ns > self._api.clock.now_ns():
            return due_ns
        how = Deletion(uid=metadata["uid"], propagation="Background")
        self._api.delete(JOBS, metadata["namespace"], metadata["name"], how)
        return None

    def _shift(self, key: Key, job: JsonObject) -> JobSync:
        owned, status = self._crew(job), job.get("status", {})
        account = self._ledger.of(key, job, owned)
        sync = JobSync(job, account, set(), list(status.get("conditions", ())), status.get("startTime"))
        if sync.is_indexed:
            sync.completed = parse_indexes(status.get("completedIndexes", "")) | _completed(owned, job)
        return sync

    def _crew(self, job: JsonObject) -> OwnedPods:
        return self._owned_pods.of(job["metadata"]["uid"])

    # ---- the look

    def _note_suspension(self, sync: JobSync) -> None:
        """The time of a job runs from its start, and anew when it is resumed."""
        now, held = self._api.now(), condition_of(sync.job, SUSPENDED)
        is_held = held is not None and held["status"] == "True"
        if sync.job["spec"].get("suspend"):
            if not is_held:
                self._note(sync, SUSPENDED, True, "JobSuspended", "Job suspended")
                self._control.tell(sync.job, NORMAL, "Suspended", "Job suspended")
            return
        if is_held:
            self._note(sync, SUSPENDED, False, "JobResumed", "Job resumed")
            self._control.tell(sync.job, NORMAL, "Resumed", "Job resumed")
            sync.started = now
        sync.started = sync.started or now

    def _judge(self, sync: JobSync) -> JobVerdict | None:
        counts, now_ns = self._counts(sync), self._api.clock.now_ns()
        sync.account.note(counts.succeeded, counts.failed, now_ns)
        started = {**sync.job.get("status", {}), "startTime": sync.started}
        return verdict_on({**sync.job, "status": started}, counts, self._crew(sync.job), now_ns)

    def _counts(self, sync: JobSync) -> Counts:
        owned = self._crew(sync.job)
        succeeded = len(sync.completed) if sync.is_indexed else sync.account.succeeded(owned)
        return Counts(owned.count(*ACTIVE), succeeded, sync.account.failed(owned, sync.waits_for_end))

    def _act(self, sync: JobSync, verdict: JobVerdict | None) -> int | None:
        """Returns when to look again, whatever happens until then."""
        if verdict is not None:
            self._end_all(sync, is_excused=verdict.end == COMPLETE)
            return None
        counts = self._counts(sync)
        wanted = wanted_active(sync.job, counts)
        if counts.active > wanted:
            self._reduce(sync, counts.active - wanted)
        resumes_ns = sync.account.resumes_ns()
        if counts.active < wanted and resumes_ns <= self._api.clock.now_ns():
            self._make(sync, wanted - counts.active)
        moments = [resumes_ns if counts.active < wanted else 0, deadline_ns(self._with_start(sync)) or 0]
        return min((at for at in moments if at > self._api.clock.now_ns()), default=None)

    def _with_start(self, sync: JobSync) -> JsonObject:
        return {**sync.job, "status": {"startTime": sync.started}}

    # ---- pods

    def _make(self, sync: JobSync, number: int) -> None:
        if sync.waits_for_end:
            number -= self._crew(sync.job).count("terminating")
        pod = self._control.pod_of(sync.job, sync.job["spec"]["template"])
        pods = [pod] * max(0, min(number, _BURST))
        if sync.is_indexed:
            name = sync.job["metadata"]["name"]
            pods = [with_index(pod, name, index) for index in self._free_indexes(sync, len(pods))]
        self._control.create_many(sync.job, pods)

    def _free_indexes(self, sync: JobSync, number: int) -> list[int]:
        """The lowest that are neither done nor being worked on."""
        held = [p for p in self._crew(sync.job).pods.values() if is_active(p) or self._keeps_place(sync, p)]
        taken = sync.completed | {index for pod in held if (index := index_of(pod)) is not None}
        free = (index for index in range(sync.job["spec"]["completions"]) if index not in taken)
        return [index for index, _ in zip(free, range(number), strict=False)]

    def _keeps_place(self, sync: JobSync, pod: JsonObject) -> bool:
        return sync.waits_for_end and is_terminating(pod) and not is_finished(pod)

    def _reduce(self, sync: JobSync, number: int) -> None:
        """Pods that the job itself does without are no failures."""
        surplus = first_to_go(self._crew(sync.job).active(), min(number, _BURST), self._api.clock.now_ns())
        sync.account.excused.update(pod["metadata"]["uid"] for pod in surplus)
        self._control.delete_many(sync.job, surplus)

    def _end_all(self, sync: JobSync, is_excused: bool) -> None:
        active = self._crew(sync.job).active()
        if is_excused:
            sync.account.excused.update(pod["metadata"]["uid"] for pod in active)
        self._control.delete_many(sync.job, active)

    # ---- status

    def _note(self, sync: JobSync, type: str, status: bool, reason: str, message: str) -> None:
        now = self._api.now()
        condition = {**workload_condition(type, status, now, reason, message), "lastProbeTime": now}
        sync.conditions = with_workload_condition(sync.conditions, condition)

    def _report(self, sync: JobSync, verdict: JobVerdict | None) -> None:
        owned, counts = self._crew(sync.job), self._counts(sync)
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
        if status != sync.job.get("status"):
            self._api.put_status(JOBS, sync.job, status)

    def _conclude(self, sync: JobSync, verdict: JobVerdict, status: JsonObject) -> None:
        """The outcome is told at once, the end only when nothing runs any more."""
        self._note(sync, verdict.target, True, verdict.reason, verdict.message)
        if status.get("active") or status["terminating"]:
            return
        self._note(sync, verdict.end, True, verdict.reason, verdict.message)
        if verdict.end == COMPLETE:
            status["completionTime"] = self._api.now()
            self._control.tell(sync.job, NORMAL, "Completed", "Job completed")
        else:
            self._control.tell(sync.job, WARNING, verdict.reason, verdict.message)


def _completed(owned: OwnedPods, job: JsonObject) -> set[int]:
    """Indexes of pods that ended well; the job may have become smaller than some of them."""
    ended = (index_of(pod) for pod in owned.pods.values() if phase_of(pod) == "Succeeded")
    return {index for index in ended if index is not None and index < job["spec"]["completions"]}
