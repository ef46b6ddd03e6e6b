"""The Job controller: pods that are to end well, so and so often, so many at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.apiserver.access import Api
from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.store import Key, Write
from mooring.controllers.cluster_events import NORMAL, WARNING
from mooring.controllers.lifecycle.orphans import Orphans, Seekers
from mooring.controllers.nodes.pod_states import ACTIVE, is_active, is_finished, is_terminating, phase_of
from mooring.controllers.workloads.crews import Crew, Crews
from mooring.controllers.workloads.deletion_order import first_to_go
from mooring.controllers.workloads.job_indexes import parse_indexes, show_indexes
from mooring.controllers.workloads.job_ledger import Account, Ledger
from mooring.controllers.workloads.job_pods import index_of
from mooring.controllers.workloads.job_verdicts import (
    COMPLETE,
    SUSPENDED,
    Counts,
    Verdict,
    deadline_ns,
    expires_ns,
    is_over,
    verdict_on,
    wanted_active,
)
from mooring.controllers.workloads.ownership import covers_own_template, manager_key, managers_concerned, selector_of
from mooring.controllers.workloads.pod_control import PODS, PodControl
from mooring.controllers.workloads.recruiting import recruit
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject
from mooring.model.resources import RESOURCES
from mooring.rules.conditions import condition_of, with_workload_condition, workload_condition
from mooring.rules.workload_pods import with_index

JOBS = RESOURCES["batch", "v1", "jobs"]
_BURST = 500


@dataclass(slots=True)
class Shift:
    """A job while it is looked at."""

    job: JsonObject
    account: Account
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

    def __init__(self, api: Api, crews: Crews, orphans: Orphans) -> None:
        """`orphans` are pods without a controller."""
        self._api = api
        self._crews = crews
        self._orphans = orphans
        self._ledger = Ledger()
        self._seekers = Seekers(api.store, JOBS.storage)
        self._control = PodControl(api, JOBS, "job-controller")

    def concerned(self, write: Write) -> Iterable[Key]:
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
        crew = self._crews.of(job["metadata"]["uid"])
        recruit(self._api, JOBS, job, selector, crew, self._orphans)
        shift = self._shift(key, job)
        self._note_suspension(shift)
        verdict = self._judge(shift)
        again_ns = None if "deletionTimestamp" in job["metadata"] else self._act(shift, verdict)
        self._report(shift, verdict)
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

    def _shift(self, key: Key, job: JsonObject) -> Shift:
        crew, status = self._crew(job), job.get("status", {})
        account = self._ledger.of(key, job, crew)
        shift = Shift(job, account, set(), list(status.get("conditions", ())), status.get("startTime"))
        if shift.is_indexed:
            shift.completed = parse_indexes(status.get("completedIndexes", "")) | _completed(crew, job)
        return shift

    def _crew(self, job: JsonObject) -> Crew:
        return self._crews.of(job["metadata"]["uid"])

    # ---- the look

    def _note_suspension(self, shift: Shift) -> None:
        """The time of a job runs from its start, and anew when it is resumed."""
        now, held = self._api.now(), condition_of(shift.job, SUSPENDED)
        is_held = held is not None and held["status"] == "True"
        if shift.job["spec"].get("suspend"):
            if not is_held:
                self._note(shift, SUSPENDED, True, "JobSuspended", "Job suspended")
                self._control.tell(shift.job, NORMAL, "Suspended", "Job suspended")
            return
        if is_held:
            self._note(shift, SUSPENDED, False, "JobResumed", "Job resumed")
            self._control.tell(shift.job, NORMAL, "Resumed", "Job resumed")
            shift.started = now
        shift.started = shift.started or now

    def _judge(self, shift: Shift) -> Verdict | None:
        counts, now_ns = self._counts(shift), self._api.clock.now_ns()
        shift.account.note(counts.succeeded, counts.failed, now_ns)
        started = {**shift.job.get("status", {}), "startTime": shift.started}
        return verdict_on({**shift.job, "status": started}, counts, self._crew(shift.job), now_ns)

    def _counts(self, shift: Shift) -> Counts:
        crew = self._crew(shift.job)
        succeeded = len(shift.completed) if shift.is_indexed else shift.account.succeeded(crew)
        return Counts(crew.count(*ACTIVE), succeeded, shift.account.failed(crew, shift.waits_for_end))

    def _act(self, shift: Shift, verdict: Verdict | None) -> int | None:
        """Returns when to look again, whatever happens until then."""
        if verdict is not None:
            self._end_all(shift, is_excused=verdict.end == COMPLETE)
            return None
        counts = self._counts(shift)
        wanted = wanted_active(shift.job, counts)
        if counts.active > wanted:
            self._reduce(shift, counts.active - wanted)
        resumes_ns = shift.account.resumes_ns()
        if counts.active < wanted and resumes_ns <= self._api.clock.now_ns():
            self._make(shift, wanted - counts.active)
        moments = [resumes_ns if counts.active < wanted else 0, deadline_ns(self._with_start(shift)) or 0]
        return min((at for at in moments if at > self._api.clock.now_ns()), default=None)

    def _with_start(self, shift: Shift) -> JsonObject:
        return {**shift.job, "status": {"startTime": shift.started}}

    # ---- pods

    def _make(self, shift: Shift, number: int) -> None:
        if shift.waits_for_end:
            number -= self._crew(shift.job).count("terminating")
        pod = self._control.pod_of(shift.job, shift.job["spec"]["template"])
        pods = [pod] * max(0, min(number, _BURST))
        if shift.is_indexed:
            name = shift.job["metadata"]["name"]
            pods = [with_index(pod, name, index) for index in self._free_indexes(shift, len(pods))]
        self._control.create_many(shift.job, pods)

    def _free_indexes(self, shift: Shift, number: int) -> list[int]:
        """The lowest that are neither done nor being worked on."""
        held = [p for p in self._crew(shift.job).pods.values() if is_active(p) or self._keeps_place(shift, p)]
        taken = shift.completed | {index for pod in held if (index := index_of(pod)) is not None}
        free = (index for index in range(shift.job["spec"]["completions"]) if index not in taken)
        return [index for index, _ in zip(free, range(number), strict=False)]

    def _keeps_place(self, shift: Shift, pod: JsonObject) -> bool:
        return shift.waits_for_end and is_terminating(pod) and not is_finished(pod)

    def _reduce(self, shift: Shift, number: int) -> None:
        """Pods that the job itself does without are no failures."""
        surplus = first_to_go(self._crew(shift.job).active(), min(number, _BURST), self._api.clock.now_ns())
        shift.account.excused.update(pod["metadata"]["uid"] for pod in surplus)
        self._control.delete_many(shift.job, surplus)

    def _end_all(self, shift: Shift, is_excused: bool) -> None:
        active = self._crew(shift.job).active()
        if is_excused:
            shift.account.excused.update(pod["metadata"]["uid"] for pod in active)
        self._control.delete_many(shift.job, active)

    # ---- status

    def _note(self, shift: Shift, type: str, status: bool, reason: str, message: str) -> None:
        now = self._api.now()
        condition = {**workload_condition(type, status, now, reason, message), "lastProbeTime": now}
        shift.conditions = with_workload_condition(shift.conditions, condition)

    def _report(self, shift: Shift, verdict: Verdict | None) -> None:
        crew, counts = self._crew(shift.job), self._counts(shift)
        numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
        status: JsonObject = {key: number for key, number in numbers.items() if number}
        status |= {"ready": crew.count("ready"), "terminating": crew.count("terminating")}
        status["uncountedTerminatedPods"] = {}
        if shift.started:
            status["startTime"] = shift.started
        if shift.completed:
            status["completedIndexes"] = show_indexes(shift.completed)
        if verdict is not None:
            self._conclude(shift, verdict, status)
        if shift.conditions:
            status["conditions"] = shift.conditions
        if status != shift.job.get("status"):
            self._api.put_status(JOBS, shift.job, status)

    def _conclude(self, shift: Shift, verdict: Verdict, status: JsonObject) -> None:
        """The outcome is told at once, the end only when nothing runs any more."""
        self._note(shift, verdict.target, True, verdict.reason, verdict.message)
        if status.get("active") or status["terminating"]:
            return
        self._note(shift, verdict.end, True, verdict.reason, verdict.message)
        if verdict.end == COMPLETE:
            status["completionTime"] = self._api.now()
            self._control.tell(shift.job, NORMAL, "Completed", "Job completed")
        else:
            self._control.tell(shift.job, WARNING, verdict.reason, verdict.message)


def _completed(crew: Crew, job: JsonObject) -> set[int]:
    """Indexes of pods that ended well; the job may have become smaller than some of them."""
    ended = (index_of(pod) for pod in crew.pods.values() if phase_of(pod) == "Succeeded")
    return {index for index in ended if index is not None and index < job["spec"]["completions"]}
