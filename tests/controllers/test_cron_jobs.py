"""CronJobs: a job at each minute that the schedule means."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.kit.clock import NS_PER_S
from mooring.rules.cron_schedule import ScheduleError, parse_schedule
from workload_stage import Stage, a_template


def a_stage(schedule: str = "* * * * *", **spec: Any) -> Stage:
    """It is 08:00:00."""
    stage = Stage()
    template = {"spec": {"template": a_template({}, restartPolicy="Never")}}
    held = {"schedule": schedule, "jobTemplate": template, **spec}
    stage.create("cronjobs", {"metadata": {"name": "tick"}, "spec": held})
    stage.run()
    return stage


def jobs(stage: Stage) -> list[str]:
    return [job["metadata"]["name"] for job in stage.all("jobs")]


def end_all(stage: Stage, phase: str = "Succeeded") -> None:
    for pod in stage.pods():
        if pod["status"]["phase"] == "Pending":
            stage.end(pod, phase)
    stage.run()


MINUTE = 1_800_000_000 // 60


def test_a_job_is_made_each_time_the_schedule_says_so() -> None:
    stage = a_stage("*/2 * * * *")
    assert jobs(stage) == []
    stage.run(118)
    assert jobs(stage) == []
    stage.run(3)
    assert jobs(stage) == [f"tick-{MINUTE + 2}"]
    (job,) = stage.all("jobs")
    assert job["metadata"]["annotations"] == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2027-01-15T08:02:00Z"}
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    assert len(stage.pods()) == 1
    status = stage.status("cronjobs", "tick")
    assert status["lastScheduleTime"] == "2027-01-15T08:02:00Z"
    assert [active["name"] for active in status["active"]] == jobs(stage)
    assert ("SuccessfulCreate", f"Created job tick-{MINUTE + 2}") in stage.events()
    end_all(stage)
    status = stage.status("cronjobs", "tick")
    assert "active" not in status
    assert status["lastSuccessfulTime"] == stage.all("jobs")[0]["status"]["completionTime"]
    assert ("SawCompletedJob", f"Saw completed job: tick-{MINUTE + 2}, condition: Complete") in stage.events()


@pytest.mark.parametrize(("policy", "expected"), [("Allow", [1, 2, 3]), ("Forbid", [1]), ("Replace", [3])])
def test_what_becomes_of_jobs_that_overlap(policy: str, expected: list[int]) -> None:
    stage = a_stage(concurrencyPolicy=policy)
    stage.run(185)
    assert jobs(stage) == [f"tick-{MINUTE + number}" for number in expected]


def test_a_forbidden_job_is_made_up_for_when_the_other_has_ended() -> None:
    stage = a_stage(concurrencyPolicy="Forbid")
    stage.run(150)
    end_all(stage)
    assert jobs(stage) == [f"tick-{MINUTE + 1}", f"tick-{MINUTE + 2}"]


def test_a_suspended_schedule_rests_and_then_makes_up_for_the_last_time_only() -> None:
    stage = a_stage(suspend=True)
    stage.run(600)
    assert jobs(stage) == []
    stage.edit("cronjobs", "tick", suspend=False)
    stage.run()
    assert jobs(stage) == [f"tick-{MINUTE + 10}"]


def test_what_is_too_late_is_left_out() -> None:
    stage = a_stage("0 * * * *", suspend=True, startingDeadlineSeconds=30)
    stage.run(3700)
    stage.edit("cronjobs", "tick", suspend=False)
    stage.run()
    assert jobs(stage) == []
    assert ("MissSchedule", "Missed scheduled time to start a job: 2027-01-15T09:00:00Z") in stage.events()


def test_only_the_last_few_jobs_are_kept() -> None:
    stage = a_stage(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    for number in range(6):
        stage.run(60)
        end_all(stage, "Succeeded" if number % 2 else "Failed")
        for job in stage.all("jobs"):
            stage.edit("jobs", job["metadata"]["name"], backoffLimit=0)
        stage.run()
    ended = [{c["type"] for c in job["status"]["conditions"]} & {"Complete", "Failed"} for job in stage.all("jobs")]
    assert sorted(kind for kinds in ended for kind in kinds) == ["Complete", "Complete", "Failed"]


def test_a_schedule_that_cannot_be_read_is_told() -> None:
    stage = a_stage("every day")
    stage.run(120)
    assert jobs(stage) == []
    assert "UnparseableSchedule" in {reason for reason, _ in stage.events()}


SCHEDULES = {
    "every minute": ("* * * * *", "", "2027-01-15T08:00:30", "2027-01-15T08:01:00"),
    "at the minute itself the next one": ("* * * * *", "", "2027-01-15T08:00:00", "2027-01-15T08:01:00"),
    "steps": ("*/15 * * * *", "", "2027-01-15T08:16:00", "2027-01-15T08:30:00"),
    "steps from a start": ("10/20 * * * *", "", "2027-01-15T08:31:00", "2027-01-15T08:50:00"),
    "lists and ranges": ("0 6,18-20 * * *", "", "2027-01-15T08:00:00", "2027-01-15T18:00:00"),
    "weekdays by name": ("0 9 * * mon-fri", "", "2027-01-15T10:00:00", "2027-01-18T09:00:00"),
    "Sunday is also 7": ("0 0 * * 7", "", "2027-01-15T10:00:00", "2027-01-17T00:00:00"),
    "months by name": ("0 0 1 mar *", "", "2027-01-15T10:00:00", "2027-03-01T00:00:00"),
    "a day of the month or of the week": ("0 0 20 * sun", "", "2027-01-15T10:00:00", "2027-01-17T00:00:00"),
    "a day that is rare": ("0 0 29 2 *", "", "2027-01-15T10:00:00", "2028-02-29T00:00:00"),
    "a day that never comes": ("0 0 30 2 *", "", "2027-01-15T10:00:00", ""),
    "a shorthand": ("@monthly", "", "2027-01-15T10:00:00", "2027-02-01T00:00:00"),
    "another zone": ("0 9 * * *", "America/New_York", "2027-01-15T10:00:00", "2027-01-15T14:00:00"),
    "another zone in summer": ("0 9 * * *", "America/New_York", "2027-07-15T10:00:00", "2027-07-15T13:00:00"),
    "the end of a day in another zone": ("30 23 * * fri", "Asia/Kolkata", "2027-01-13T10:00:00", "2027-01-15T18:00:00"),
}


@pytest.mark.parametrize(("text", "zone", "after", "expected"), SCHEDULES.values(), ids=SCHEDULES.keys())
def test_the_next_moment(text: str, zone: str, after: str, expected: str) -> None:
    found = parse_schedule(text, zone).next_ns(_ns(after))
    assert found == (_ns(expected) if expected else None)


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        pytest.param("* * * * *", "2020-01-01T00:00:00", "2027-01-15T08:00:00", id="of very many"),
        pytest.param("0 0 1 1 *", "2020-01-01T00:00:00", "2027-01-01T00:00:00", id="of few"),
        pytest.param("0 9 * * *", "2027-01-15T00:00:00", "", id="none yet"),
    ],
)
def test_the_latest_moment(text: str, after: str, expected: str) -> None:
    found = parse_schedule(text).latest_ns(_ns(after), _ns("2027-01-15T08:00:00"))
    assert found == (_ns(expected) if expected else None)


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "* 24 * * *", "x * * * *", "5-1 * * * *", "*/0 * * * *"])
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def test_a_zone_that_nobody_knows() -> None:
    with pytest.raises(ScheduleError, match="unknown time zone Mars/Base"):
        parse_schedule("* * * * *", "Mars/Base")


def _ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NS_PER_S
