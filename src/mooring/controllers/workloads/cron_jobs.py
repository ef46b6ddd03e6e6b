"""The CronJob controller: creates a Job at each time of a schedule, and deletes finished ones beyond the history
limits."""

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key
from mooring.controllers.cluster_writes import CRON_JOBS, JOBS, WARNING, delete_object
from mooring.controllers.index import Index
from mooring.controllers.nodes.pod_statuses import is_terminating
from mooring.controllers.workloads.job_outcome import COMPLETE, is_over
from mooring.controllers.workloads.workload_control import Workloads
from mooring.kit.clock import NS_PER_S, in_seconds, moment_ns
from mooring.rules.conditions import holds
from mooring.rules.cron_schedule import Schedule, ScheduleError, parse_schedule
from mooring.rules.workload_pods import owner_reference

_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""The annotation of a Job with the time that it was made for."""


class CronJobs(Workloads):
    """Keys are CronJobs. Of the times that were missed, only the last one is made up for."""

    name = "cronjob"
    resource, owned = CRON_JOBS, JOBS
    rest_ns = NS_PER_S // 10
    """A Job that ends writes its status several times in a row."""

    def __init__(self, api: ResourceApi, jobs: Index) -> None:
        """`jobs` are jobs by their controller."""
        super().__init__(api)
        self._jobs = jobs

    def sync(self, key: Key) -> int | None:
        """Create what is due, clean up, and return the next time of the schedule."""
        cron_job = self._api.find(CRON_JOBS, *key)
        if cron_job is None or is_terminating(cron_job):
            return None
        self._record_finished(cron_job)
        self._forget_finished(cron_job)
        spec = cron_job["spec"]
        try:
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone", ""))
        except ScheduleError as fault:
            message = f"unparseable schedule: {spec['schedule']} : {fault}"
            self.record(cron_job, "UnparseableSchedule", message, WARNING)
            return None
        # A suspended CronJob creates nothing, but its status and history are still kept.
        started = None if spec.get("suspend") else self._start_due(cron_job, schedule)
        self._report(cron_job, started)
        return None if spec.get("suspend") else schedule.next_ns(self._api.clock.now_ns())

    # ---- the next job

    def _start_due(self, cron_job: JsonObject, schedule: Schedule) -> int | None:
        """Create the Job that is due, if there is one and it may run. Returns the time that it is for."""
        due_ns = schedule.latest_ns(self._last_ns(cron_job), self._api.clock.now_ns())
        if due_ns is None or not self._may_start(cron_job, due_ns):
            return None
        if cron_job["spec"]["concurrencyPolicy"] == "Replace":
            for job in self._active(cron_job):
                self._delete(cron_job, job)
        self._start(cron_job, due_ns)
        return due_ns

    def _last_ns(self, cron_job: JsonObject) -> int:
        """The time from which on schedules count: the last Job's, or the creation."""
        last = cron_job.get("status", {}).get("lastScheduleTime")
        return moment_ns(last or cron_job["metadata"]["creationTimestamp"])

    def _may_start(self, cron_job: JsonObject, due_ns: int) -> bool:
        """Whether the deadline has not passed and the concurrency policy allows another Job."""
        spec, now_ns = cron_job["spec"], self._api.clock.now_ns()
        deadline_s = spec.get("startingDeadlineSeconds")
        if deadline_s is not None and due_ns + deadline_s * NS_PER_S < now_ns:
            message = f"Missed scheduled time to start a job: {in_seconds(due_ns)}"
            self.record(cron_job, "MissSchedule", message, WARNING)
            return False
        if spec["concurrencyPolicy"] == "Forbid" and self._active(cron_job):
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.record(cron_job, "JobAlreadyActive", message)
            return False
        return True

    def _start(self, cron_job: JsonObject, due_ns: int) -> None:
        """Create the Job. Its name follows from the time, so the same time never makes two."""
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
            self.record(cron_job, "FailedCreate", f"Error creating job: {refusal.message}", WARNING)
            raise
        self.record(cron_job, "SuccessfulCreate", f"Created job {name}")

    # ---- jobs that are over

    def _active(self, cron_job: JsonObject) -> list[JsonObject]:
        """Jobs that have not finished."""
        return [job for job in self._jobs[cron_job["metadata"]["uid"]] if not is_over(job)]

    def _record_finished(self, cron_job: JsonObject) -> None:
        """Events about Jobs that were active at the last sync and have finished."""
        noted = {job["uid"] for job in cron_job.get("status", {}).get("active", ())}
        for job in self._jobs[cron_job["metadata"]["uid"]]:
            if job["metadata"]["uid"] in noted and is_over(job):
                outcome = "Complete" if holds(job, COMPLETE) else "Failed"
                message = f"Saw completed job: {job['metadata']['name']}, condition: {outcome}"
                self.record(cron_job, "SawCompletedJob", message)

    def _forget_finished(self, cron_job: JsonObject) -> None:
        """Delete the oldest finished Jobs beyond the limits, successful and failed ones apart."""
        over = [job for job in self._jobs[cron_job["metadata"]["uid"]] if is_over(job)]
        over.sort(key=lambda job: (job["status"].get("startTime", ""), job["metadata"]["name"]))
        for well, limit in ((True, "successfulJobsHistoryLimit"), (False, "failedJobsHistoryLimit")):
            ended = [job for job in over if holds(job, COMPLETE) == well]
            for job in ended[: max(0, len(ended) - cron_job["spec"].get(limit, len(ended)))]:
                self._delete(cron_job, job)

    def _delete(self, cron_job: JsonObject, job: JsonObject) -> None:
        """Delete a Job and, in the background, its pods."""
        delete_object(self._api, JOBS, job, "Background")
        self.record(cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")

    # ---- status

    def _report(self, cron_job: JsonObject, started_ns: int | None) -> None:
        """Write the status if it differs."""
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


def _reference(job: JsonObject) -> JsonObject:
    """An entry of status.active."""
    metadata = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
