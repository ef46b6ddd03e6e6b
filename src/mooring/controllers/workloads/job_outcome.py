"""Results of the pods of a Job, and the next action that follows from them: complete, failed, or the number of pods that
should run now."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.control_loop import backoff
from mooring.controllers.index import owner_uid
from mooring.controllers.nodes.pod_statuses import is_finished, is_terminating, phase_of
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.rules.conditions import condition_of, find_condition
from mooring.rules.workload_pods import INDEX

# ---- Accounts: counts that only grow, also for pods that are gone, and the backoff after failures.


# Upstream's backoff of Jobs: 10 s, doubled up to ten minutes.
FIRST_PAUSE_NS, LAST_PAUSE_NS = 10 * NS_PER_S, 600 * NS_PER_S


@dataclass(slots=True)
class JobAccount:
    """The counts of one Job."""

    uid: str
    gone_succeeded: int = 0
    """Pods that succeeded and no longer exist."""
    gone_failed: int = 0
    excused: set[str] = field(default_factory=set)
    """Uids of pods that the Job itself ends: they do not count as failed."""
    failures: int = 0
    """In a row, since the last success."""
    last_failure_ns: int = 0
    _seen: tuple[int, int] | None = None
    """Succeeded and failed at the last sync."""

    def succeeded(self, owned: OwnedPods) -> int:
        return self.gone_succeeded + owned.count("Succeeded")

    def failed(self, owned: OwnedPods, only_when_ended: bool) -> int:
        """A pod that is being deleted counts at once, unless its Job waits for its end (podReplacementPolicy Failed)."""
        ended = self.gone_failed + owned.count("Failed")
        if only_when_ended or not owned.count("terminating"):
            return ended
        ending = [pod for pod in owned.pods.values() if is_terminating(pod) and not is_finished(pod)]
        return ended + sum(pod["metadata"]["uid"] not in self.excused for pod in ending)

    def note(self, succeeded: int, failed: int, now_ns: int) -> None:
        """Compare with the last sync: a success ends the row of failures."""
        before = self._seen or (succeeded, 0)
        self._seen = succeeded, failed
        if succeeded > before[0]:
            self.failures = 0
        elif failed > before[1]:
            self.failures += failed - before[1]
            self.last_failure_ns = now_ns

    def resumes_ns(self) -> int:
        """When the next pod may be created."""
        if not self.failures:
            return 0
        return self.last_failure_ns + backoff(FIRST_PAUSE_NS, LAST_PAUSE_NS, self.failures)


class Ledger:
    """The accounts of all Jobs that have not finished."""

    def __init__(self) -> None:
        self._accounts: dict[Key, JobAccount] = {}

    def of(self, key: Key, job: JsonObject, owned: OwnedPods) -> JobAccount:
        """The account of a Job. One that is opened late, as after a restart, takes over what the status says of pods
        that are gone."""
        held = self._accounts.get(key)
        if held is None or held.uid != job["metadata"]["uid"]:
            status = job.get("status", {})
            held = self._accounts[key] = JobAccount(
                job["metadata"]["uid"],
                max(0, status.get("succeeded", 0) - owned.count("Succeeded")),
                max(0, status.get("failed", 0) - owned.count("Failed", "terminating")),
            )
        return held

    def close(self, key: Key) -> None:
        self._accounts.pop(key, None)

    def observe(self, key: Key, write: StoreWrite) -> None:
        """Count a pod of this Job that is gone. One that never finished counts as failed."""
        account = self._accounts.get(key)
        if account is None or write.type != "DELETED" or owner_uid(write.object) != account.uid:
            return
        uid = write.object["metadata"]["uid"]
        if phase_of(write.object) == "Succeeded":
            account.gone_succeeded += 1
        elif phase_of(write.object) == "Failed" or uid not in account.excused:
            account.gone_failed += 1
        account.excused.discard(uid)


# Conditions of Jobs.
COMPLETE, FAILED = "Complete", "Failed"
CRITERIA_MET, TARGETS_FAILURE, SUSPENDED = "SuccessCriteriaMet", "FailureTarget", "Suspended"


class JobVerdict(NamedTuple):
    """The outcome of a Job as conditions."""

    target: str
    """The condition that is set at once."""
    end: str
    """The condition that follows when all pods have ended."""
    reason: str
    message: str


_REACHED = JobVerdict(CRITERIA_MET, COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY = JobVerdict(TARGETS_FAILURE, FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = JobVerdict(TARGETS_FAILURE, FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")


class Counts(NamedTuple):
    """Pods of a Job; `succeeded` of an Indexed Job are its indexes."""

    active: int
    """Pods that run or wait."""
    succeeded: int
    failed: int


def is_over(job: JsonObject) -> bool:
    """Whether the Job has finished."""
    status = job.get("status", {})
    held = status.get("conditions", ())
    return any(c["type"] in (COMPLETE, FAILED) and c["status"] == "True" for c in held)


def verdict_on(job: JsonObject, counts: Counts, owned: OwnedPods, now_ns: int) -> JobVerdict | None:
    """The outcome, once it is decided; None: there is still work to do. A verdict that is in the conditions stands."""
    given = _given(job)
    if given is not None:
        return given
    spec = job["spec"]
    if counts.failed > spec["backoffLimit"] or _restarted_too_often(job, owned):
        return _TOO_MANY
    if _is_done(spec, counts):
        return _REACHED
    due_ns = deadline_ns(job)
    return _TOO_LONG if due_ns is not None and due_ns <= now_ns else None


def deadline_ns(job: JsonObject) -> int | None:
    """When activeDeadlineSeconds is over; a suspended Job has no deadline."""
    limit_s, started = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
    if limit_s is None or started is None or job["spec"].get("suspend"):
        return None
    return int(moment_ns(started) + limit_s * NS_PER_S)


def wanted_active(job: JsonObject, counts: Counts) -> int:
    """How many pods should run now. A work queue (no completions) that has one success lets its pods finish and adds
    none."""
    parallelism: int = job["spec"]["parallelism"]
    if job["spec"].get("suspend"):
        return 0
    completions: int | None = job["spec"].get("completions")
    if completions is None:
        return min(parallelism, counts.active) if counts.succeeded else parallelism
    return max(0, min(parallelism, completions - counts.succeeded))


def expires_ns(job: JsonObject) -> int | None:
    """When a finished Job may be deleted; None: never."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return None
    status = job["status"]
    end = next(held for kind in (COMPLETE, FAILED) if (held := find_condition(status["conditions"], kind)) is not None)
    return int(moment_ns(end["lastTransitionTime"]) + ttl_s * NS_PER_S)


def _given(job: JsonObject) -> JobVerdict | None:
    """The verdict that the conditions hold."""
    for target, end in ((CRITERIA_MET, COMPLETE), (TARGETS_FAILURE, FAILED)):
        held = condition_of(job, target)
        if held is not None and held["status"] == "True":
            return JobVerdict(target, end, held["reason"], held["message"])
    return None


def _is_done(spec: JsonObject, counts: Counts) -> bool:
    """With completions: so many succeeded. Without (a work queue): one succeeded and none runs any more."""
    completions = spec.get("completions")
    if completions is None:
        return counts.succeeded > 0 and counts.active == 0
    return bool(counts.succeeded >= completions)


def _restarted_too_often(job: JsonObject, owned: OwnedPods) -> bool:
    """Containers that are restarted in place use up the same limit."""
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in owned.active())
    return bool(restarts > 0 if spec["backoffLimit"] == 0 else restarts >= spec["backoffLimit"])


def _restarts(pod: JsonObject) -> int:
    """The restarts of all containers of a pod, init containers included."""
    status = pod.get("status", {})
    held = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return sum(container.get("restartCount", 0) for container in held)


# ---- Indexes of an Indexed Job, as its status has them: `1,3-5,7`.


def parse_indexes(text: str) -> set[int]:
    """The set that a text stands for."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def show_indexes(indexes: Iterable[int]) -> str:
    """Two neighbours are written apart, three or more as a range.

    {1, 3, 4, 5, 7, 8} -> 1,3-5,7,8
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def index_of(pod: JsonObject) -> int | None:
    """The index of a pod; None: it has none."""
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None
