"""The CronJob controller: creates a Job at each time of a schedule, and deletes finished ones beyond the history
limits."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

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
from mooring.rules.workload_pods import owner_reference

# ---- Schedules as cron writes them, `*/5 9-17 * * mon-fri`: which minutes they mean, in which time zone. Why not a
# library: ADR 10.


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""The macros of upstream's cron library."""
_LONGEST_S = 5 * 366 * 86400
"""A schedule without a time in five years (30 February) has none: the search has to end."""
_WINDOWS_S = (60, 3600, 86400, 31 * 86400, 366 * 86400, _LONGEST_S)
"""How far back `latest_ns` looks, in steps: most schedules have a time in the last hour or day."""


class ScheduleError(ValueError):
    """A text that is no schedule, or an unknown time zone."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The values that each part of a time may have."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    """cron's rule: if the days of the month or of the week are `*`, a day must match both; otherwise one of them is
    enough."""
    zone: tzinfo

    def next_ns(self, after_ns: int) -> int | None:
        """The first time after this one; None: there is none.

        It steps forward by days, hours and minutes in UTC and compares local time, so that changes of daylight saving
        time are right.
        """
        start = datetime.fromtimestamp(after_ns // NS_PER_S, UTC)
        moment = (start + timedelta(minutes=1)).replace(second=0)
        while (moment - start).total_seconds() <= _LONGEST_S:
            step = self._step(moment.astimezone(self.zone))
            if not step:
                return int(moment.timestamp()) * NS_PER_S
            moment += step
        return None

    def latest_ns(self, after_ns: int, until_ns: int) -> int | None:
        """The last time in (after, until]; None: there is none. Its cost does not depend on how long the span is."""
        for window_s in _WINDOWS_S:
            found = self.next_ns(max(after_ns, until_ns - window_s * NS_PER_S))
            if found is not None and found <= until_ns:
                while (later := self.next_ns(found)) is not None and later <= until_ns:
                    found = later
                return found
            if until_ns - window_s * NS_PER_S <= after_ns:
                return None
        return None

    def _step(self, local: datetime) -> timedelta:
        """Zero: this is a time of the schedule. Otherwise a step forward that does not pass the next one."""
        if local.month not in self.months or not self._means_day(local):
            # Clocks are moved at night by an hour or so: the last stretch of a day goes by single hours.
            return timedelta(hours=max(1, 21 - local.hour), minutes=-local.minute)
        if local.hour not in self.hours:
            return timedelta(minutes=60 - local.minute)
        return timedelta() if local.minute in self.minutes else timedelta(minutes=1)

    def _means_day(self, local: datetime) -> bool:
        in_month, in_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day else in_month or in_week


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Parse five fields or a macro; UTC without a zone. Raises ScheduleError."""
    parts = _SHORTHANDS.get(text.strip(), text).split()
    if len(parts) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    minute, hour, day, month, weekday = parts
    return Schedule(
        _values(minute, 0, 59),
        _values(hour, 0, 23),
        _values(day, 1, 31),
        _values(month, 1, 12, _MONTHS),
        frozenset(value % 7 for value in _values(weekday, 0, 7, _DAYS)),
        day[0] in "*?" or weekday[0] in "*?",
        _zone(zone),
    )


def _zone(name: str) -> tzinfo:
    """The time zone by name. Python raises several kinds of errors for unknown or malformed names."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _values(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    """The values of one field: lists, ranges, steps and names."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _value(first, low, names)
            end = _value(last, low, names) if dash else (high if step else start)
        width = _value(step, 1) if step else 1
        if not low <= start <= end <= high or width < 1:
            raise ScheduleError(f"a part of the schedule is out of range ({low}-{high}): {part}")
        found.update(range(start, end + 1, width))
    return frozenset(found)


def _value(text: str, low: int, names: tuple[str, ...] = ()) -> int:
    """A number in the range, or a name that stands for one. Raises ScheduleError."""
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)


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
