"""Jobs: pods that are to end well, and what happens when they do not."""

from typing import Any

import pytest

from mooring.controllers.workloads.job_outcome import index_of, parse_indexes, show_indexes
from workload_stage import PODS, Stage, a_template


def a_stage(restart: str = "Never", **spec: Any) -> Stage:
    stage = Stage()
    template = a_template({}, restartPolicy=restart)
    stage.create("jobs", {"metadata": {"name": "sum"}, "spec": {"template": template, **spec}})
    stage.run()
    return stage


def active(stage: Stage) -> list[Any]:
    return [
        pod
        for pod in stage.pods()
        if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
    ]


def end_all(stage: Stage, phase: str = "Succeeded") -> None:
    for pod in active(stage):
        stage.end(pod, phase)
    stage.run()


def outcomes(stage: Stage) -> dict[str, tuple[str, str, str]]:
    held = stage.status("jobs", "sum").get("conditions", [])
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in held}


def test_a_job_of_one_pod_is_complete_when_that_has_ended() -> None:
    stage = a_stage()
    (pod,) = stage.pods()
    job = stage.get("jobs", "sum")
    assert pod["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
        "batch.kubernetes.io/job-name": "sum",
        "controller-uid": job["metadata"]["uid"],
        "job-name": "sum",
    }
    assert job["status"]["active"] == 1
    assert job["status"]["startTime"] == "2027-01-15T08:00:00Z"
    end_all(stage)
    reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
    assert outcomes(stage) == {"SuccessCriteriaMet": reached, "Complete": reached}
    status = stage.status("jobs", "sum")
    assert (status["succeeded"], status.get("active"), status.get("failed")) == (1, None, None)
    assert status["completionTime"] == "2027-01-15T08:00:01Z"
    assert ("Completed", "Job completed") in stage.events()
    assert stage.look_again("sum") == 0
    assert stage.look_again("nobody") == 0


def test_so_many_pods_run_at_once_as_are_allowed_and_still_needed() -> None:
    stage = a_stage(parallelism=3, completions=5)
    assert len(active(stage)) == 3
    end_all(stage)
    assert len(active(stage)) == 2
    end_all(stage)
    assert stage.status("jobs", "sum")["succeeded"] == 5
    assert "Complete" in outcomes(stage)


def test_ready_pods_are_counted() -> None:
    stage = a_stage(parallelism=2, completions=2)
    stage.start(stage.pods()[0])
    stage.run()
    status = stage.status("jobs", "sum")
    assert (status["active"], status["ready"]) == (2, 1)


def test_a_work_queue_is_done_when_one_has_succeeded_and_all_have_ended() -> None:
    stage = a_stage(parallelism=2)
    first, second = stage.pods()
    stage.end(first)
    stage.run()
    assert len(stage.pods()) == 2
    assert outcomes(stage) == {}
    stage.end(second)
    stage.run()
    assert "Complete" in outcomes(stage)


def test_failures_are_tried_again_after_pauses_that_double() -> None:
    stage = a_stage()
    waits = []
    for _ in range(3):
        end_all(stage, "Failed")
        waited = 1
        while not active(stage):
            stage.run(1)
            waited += 1
        waits.append(waited)
    assert [wait // 10 for wait in waits] == [1, 2, 4]
    assert stage.status("jobs", "sum")["failed"] == 3


def test_a_success_ends_the_row_of_failures() -> None:
    stage = a_stage(completions=2)
    for pause_s in (11, 21):
        end_all(stage, "Failed")
        stage.run(pause_s)
    end_all(stage)
    assert len(active(stage)) == 1
    end_all(stage, "Failed")
    stage.run(11)
    assert len(active(stage)) == 1


def test_too_many_failures_end_the_job() -> None:
    stage = a_stage(backoffLimit=1)
    end_all(stage, "Failed")
    stage.run(11)
    end_all(stage, "Failed")
    stage.run(60)
    why = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert outcomes(stage) == {"FailureTarget": why, "Failed": why}
    assert stage.status("jobs", "sum")["failed"] == 2
    assert len(stage.pods()) == 2
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in stage.events()


def test_the_other_pods_of_a_job_that_failed_are_ended_before_it_is_over() -> None:
    stage = a_stage(backoffLimit=0, parallelism=2, completions=2)
    first, second = stage.pods()
    stage.start(second)
    stage.end(first, "Failed")
    stage.run()
    assert set(outcomes(stage)) == {"FailureTarget"}
    assert stage.present([second]) == []
    stage.reap()
    stage.run()
    assert set(outcomes(stage)) == {"FailureTarget", "Failed"}
    assert stage.status("jobs", "sum")["failed"] == 2


def test_restarts_in_place_use_up_the_limit() -> None:
    stage = a_stage("OnFailure", backoffLimit=2)
    pod = stage.place(stage.pods()[0])
    for restarts, over in ((1, False), (2, True)):
        status = {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": restarts}]}
        stage.api.put_status(PODS, pod, status)
        stage.run()
        assert ("FailureTarget" in outcomes(stage)) == over


def test_a_job_that_takes_too_long_is_ended() -> None:
    stage = a_stage(activeDeadlineSeconds=30)
    stage.start_all()
    stage.run(28)
    assert outcomes(stage) == {}
    stage.run(2)
    stage.reap()
    stage.run()
    why = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
    assert outcomes(stage) == {"FailureTarget": why, "Failed": why}
    assert active(stage) == []


def test_a_job_that_is_over_is_deleted_when_its_time_has_come() -> None:
    stage = a_stage(ttlSecondsAfterFinished=20)
    end_all(stage)
    stage.run(18)
    assert len(stage.all("jobs")) == 1
    stage.run(3)
    assert stage.all("jobs") == []


def test_a_job_that_waits_for_its_end_is_left_in_peace() -> None:
    stage = a_stage(ttlSecondsAfterFinished=20)
    hold = {"finalizers": ["example.com/hold"]}
    stage.change("jobs", "sum", lambda held: {**held, "metadata": {**held["metadata"], **hold}})
    end_all(stage)
    stage.run(60)
    assert "deletionTimestamp" in stage.get("jobs", "sum")["metadata"]
    assert stage.loop.next_ns() is None


def test_what_is_known_of_pods_that_are_gone_outlives_the_controllers() -> None:
    stage = a_stage(completions=3)
    end_all(stage)
    stage.delete("pods", stage.names()[0])
    stage.run()
    heirs = Stage(stage.api)
    heirs.run()
    for _ in range(2):
        end_all(heirs)
    assert "Complete" in outcomes(heirs)
    assert heirs.status("jobs", "sum")["succeeded"] == 3


def test_a_suspended_job_has_no_pods_and_starts_anew_when_it_is_resumed() -> None:
    stage = a_stage(suspend=True, parallelism=2, completions=2)
    assert stage.pods() == []
    assert outcomes(stage) == {"Suspended": ("True", "JobSuspended", "Job suspended")}
    assert "startTime" not in stage.status("jobs", "sum")
    stage.edit("jobs", "sum", suspend=False)
    stage.run()
    assert len(active(stage)) == 2
    assert outcomes(stage) == {"Suspended": ("False", "JobResumed", "Job resumed")}
    stage.start_all()
    stage.edit("jobs", "sum", suspend=True)
    stage.run()
    assert active(stage) == []
    stage.reap()
    stage.run()
    assert stage.status("jobs", "sum").get("failed") is None


def test_the_time_of_a_job_runs_anew_when_it_is_resumed() -> None:
    stage = a_stage(activeDeadlineSeconds=100)
    for suspend in (True, False):
        stage.run(59)
        stage.edit("jobs", "sum", suspend=suspend)
        stage.run()
    assert stage.status("jobs", "sum")["startTime"] == "2027-01-15T08:02:00Z"
    assert "FailureTarget" not in outcomes(stage)


def test_a_pod_that_somebody_deletes_counts_as_failed_and_is_replaced() -> None:
    stage = a_stage()
    stage.start_all()
    stage.delete("pods", stage.names()[0])
    stage.run()
    assert stage.status("jobs", "sum")["failed"] == 1
    stage.reap()
    stage.run(15)
    assert stage.status("jobs", "sum")["failed"] == 1
    assert len(active(stage)) == 1


def test_successes_count_even_when_their_pods_are_gone() -> None:
    stage = a_stage(completions=3)
    for _ in range(3):
        end_all(stage)
        stage.delete("pods", stage.pods()[0]["metadata"]["name"])
        stage.run()
    assert stage.status("jobs", "sum")["succeeded"] == 3
    assert "Complete" in outcomes(stage)


def test_fewer_pods_at_once_are_no_failures() -> None:
    stage = a_stage(parallelism=4, completions=8)
    stage.start_all()
    stage.edit("jobs", "sum", parallelism=1)
    stage.run()
    assert len(active(stage)) == 1
    stage.reap()
    stage.run()
    assert stage.status("jobs", "sum").get("failed") is None


def test_each_index_is_done_once() -> None:
    stage = a_stage(parallelism=2, completions=4, completionMode="Indexed")
    assert sorted(index_of(pod) or 0 for pod in stage.pods()) == [0, 1]
    pod = next(pod for pod in stage.pods() if index_of(pod) == 1)
    assert pod["metadata"]["name"].startswith("sum-1-")
    assert pod["spec"]["hostname"] == "sum-1"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    source = {"apiVersion": "v1", "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    assert pod["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": source}}]
    stage.end(pod)
    stage.run()
    assert sorted(index_of(pod) or 0 for pod in active(stage)) == [0, 2]
    stage.end(next(pod for pod in active(stage) if index_of(pod) == 2))
    stage.run()
    status = stage.status("jobs", "sum")
    assert (status["succeeded"], status["completedIndexes"]) == (2, "1,2")
    for name in [pod["metadata"]["name"] for pod in stage.pods() if pod["status"]["phase"] == "Succeeded"]:
        stage.delete("pods", name)
    stage.run()
    assert sorted(index_of(pod) or 0 for pod in active(stage)) == [0, 3]
    end_all(stage)
    assert stage.status("jobs", "sum")["completedIndexes"] == "0-3"
    assert "Complete" in outcomes(stage)


def test_an_index_that_failed_is_tried_again() -> None:
    stage = a_stage(parallelism=1, completions=2, completionMode="Indexed")
    end_all(stage, "Failed")
    stage.run(11)
    assert [index_of(pod) for pod in active(stage)] == [0]


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_when_a_pod_on_its_way_out_is_replaced(policy: str) -> None:
    stage = a_stage(podReplacementPolicy=policy)
    stage.start_all()
    stage.delete("pods", stage.names()[0])
    stage.run(30)
    assert len(active(stage)) == (1 if policy == "TerminatingOrFailed" else 0)
    stage.reap()
    stage.run(30)
    assert len(active(stage)) == 1


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({4}, "4"), ({1, 3, 4, 5, 7, 8}, "1,3-5,7,8"), ({0, 1, 2}, "0-2")]
)
def test_indexes_are_written_in_ranges(indexes: set[int], text: str) -> None:
    assert show_indexes(indexes) == text
    assert parse_indexes(text) == indexes
