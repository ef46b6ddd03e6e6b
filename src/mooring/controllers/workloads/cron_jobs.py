"""The CronJob controller: a job at each minute that a schedule means, and a short memory of those that are over."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_events import NORMAL, WARNING, tell
from mooring.controllers.index import Index
from mooring.controllers.workloads.cron_schedule import Schedule, ScheduleError, parse_schedule
from mooring.controllers.workloads.job_verdicts import COMPLETE, is_over
from mooring.controllers.workloads.jobs import JOBS
from mooring.controllers.workloads.ownership import managers_concerned
from mooring.kit.clock import NS_PER_S, in_seconds, moment_ns
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.conditions import holds
from mooring.rules.workload_pods import owner_reference

CRON_JOBS = RESOURCES["batch", "v1", "cronjobs"]
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs:
    """Of the minutes that it missed, a CronJob makes up for the last one only."""

    name = "cronjob"
    storages: Sequence[str] = (CRON_JOBS.storage, JOBS.storage)
    rest_ns = NS_PER_S // 10

    def __init__(self, api: ResourceApi, jobs: Index) -> None:
        """`jobs` are jobs by their controller."""
        self._api = api
        self._jobs = jobs

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == JOBS.storage:
            return managers_concerned(write, CRON_JOBS.kind)
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        cron_job = self._api.find(CRON_JOBS, *key)
        if cron_job is None or "deletionTimestamp" in cron_job["metadata"]:
            return None
        self._tell_finished(cron_job)
        self._forget_finished(cron_job)
        spec = cron_job["spec"]
        try:
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone", ""))
        except ScheduleError as fault:
            self._tell(cron_job, "UnparseableSchedule", f"unparseable schedule: {spec['schedule']} : {fault}", WARNING)
            return None
        started = None if spec.get("suspend") else self._start_due(cron_job, schedule)
        self._report(cron_job, started)
        return None if spec.get("suspend") else schedule.next_ns(self._api.clock.now_ns())

    # ---- the next job

    def _start_due(self, cron_job: JsonObject, schedule: Schedule) -> int | None:
        """Make the job that is due, if there is one and it may run. Returns the moment that it is for."""
        due_ns = schedule.latest_ns(self._last_ns(cron_job), self._api.clock.now_ns())
        if due_ns is None or not self._may_start(cron_job, due_ns):
            return None
        if cron_job["spec"]["concurrencyPolicy"] == "Replace":
            for job in self._active(cron_job):
                self._delete(cron_job, job)
        self._start(cron_job, due_ns)
        return due_ns

    def _last_ns(self, cron_job: JsonObject) -> int:
        last = cron_job.get("status", {}).get("lastScheduleTime")
        return moment_ns(last or cron_job["metadata"]["creationTimestamp"])

    def _may_start(self, cron_job: JsonObject, due_ns: int) -> bool:
        spec, now_ns = cron_job["spec"], self._api.clock.now_ns()
        deadline_s = spec.get("startingDeadlineSeconds")
        if deadline_s is not None and due_ns + deadline_s * NS_PER_S < now_ns:
            self._tell(cron_job, "MissSchedule", f"Missed scheduled time to start a job: {in_seconds(due_ns)}", WARNING)
            return False
        if spec["concurrencyPolicy"] == "Forbid" and self._active(cron_job):
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._tell(cron_job, "JobAlreadyActive", message)
            return False
        return True

    def _start(self, cron_job: JsonObject, due_ns: int) -> None:
        metadata, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
        held = template.get("metadata", {})
        name = f"{metadata['name']}-{due_ns // NS_PER_S // 60}"
        job = {
            "metadata": {
                "name": name,
                "labels": held.get("labels", {}),
                "annotations": {**held.get("annotations", {}), _SCHEDULED: in_seconds(due_ns)},
                "ownerReferences": [owner_reference(CRON_JOBS, cron_job)],
            },
            "spec": template["spec"],
        }
        try:
            self._api.create(JOBS, metadata["namespace"], job)
        except ApiError as refusal:
            if refusal.reason == "AlreadyExists":
                return
            self._tell(cron_job, "FailedCreate", f"Error creating job: {refusal.message}", WARNING)
            raise
        self._tell(cron_job, "SuccessfulCreate", f"Created job {name}")

    # ---- jobs that are over

    def _active(self, cron_job: JsonObject) -> list[JsonObject]:
        return [job for job in self._jobs[cron_job["metadata"]["uid"]] if not is_over(job)]

    def _tell_finished(self, cron_job: JsonObject) -> None:
        """Of those that were running at the last look."""
        noted = {job["uid"] for job in cron_job.get("status", {}).get("active", ())}
        for job in self._jobs[cron_job["metadata"]["uid"]]:
            if job["metadata"]["uid"] in noted and is_over(job):
                outcome = "Complete" if holds(job, COMPLETE) else "Failed"
                message = f"Saw completed job: {job['metadata']['name']}, condition: {outcome}"
                self._tell(cron_job, "SawCompletedJob", message)

    def _forget_finished(self, cron_job: JsonObject) -> None:
        over = [job for job in self._jobs[cron_job["metadata"]["uid"]] if is_over(job)]
        over.sort(key=lambda job: (job["status"].get("startTime", ""), job["metadata"]["name"]))
        for well, limit in ((True, "successfulJobsHistoryLimit"), (False, "failedJobsHistoryLimit")):
            ended = [job for job in over if holds(job, COMPLETE) == well]
            for job in ended[: max(0, len(ended) - cron_job["spec"].get(limit, len(ended)))]:
                self._delete(cron_job, job)

    def _delete(self, cron_job: JsonObject, job: JsonObject) -> None:
        metadata = job["metadata"]
        how = Deletion(uid=metadata["uid"], propagation="Background")
        self._api.delete(JOBS, metadata["namespace"], metadata["name"], how)
        self._tell(cron_job, "SuccessfulDelete", f"Deleted job {metadata['name']}")

    # ---- status

    def _report(self, cron_job: JsonObject, started_ns: int | None) -> None:
        held = cron_job.get("status", {})
        active = [_reference(job) for job in self._active(cron_job)]
        ended = [
            job["status"].get("completionTime", "") for job in self._jobs[cron_job["metadata"]["uid"]] if is_over(job)
        ]
        times = {
            "lastScheduleTime": in_seconds(started_ns) if started_ns is not None else held.get("lastScheduleTime", ""),
            "lastSuccessfulTime": max([held.get("lastSuccessfulTime", ""), *ended]),
        }
        status: JsonObject = {"active": active} if active else {}
        status |= {key: text for key, text in times.items() if text}
        if status != held:
            self._api.put_status(CRON_JOBS, cron_job, status)

    def _tell(self, cron_job: JsonObject, reason: str, message: str, type: str = NORMAL) -> None:
        tell(self._api, "cronjob-controller", cron_job, reason, message, type)


def _reference(job: JsonObject) -> JsonObject:
    metadata = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
