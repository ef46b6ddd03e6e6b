"""The Job controller: runs pods until a number of them has succeeded, with a limit on how many run at once."""

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import JOBS, POD_STORE
from mooring.controllers.cluster_writes import WARNING, delete_object
from mooring.controllers.nodes.pod_statuses import ACTIVE, is_terminating, phase_of, state_of
from mooring.controllers.workloads.job_groups import JobGroups, in_group
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
from mooring.rules.conditions import condition_of, with_workload_condition, workload_condition
from mooring.rules.workload_pods import with_index


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
