"""What the pods of a job came to, those included that are gone: counts that only grow, and the pauses after failures."""

from dataclasses import dataclass, field

from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.index import owner_uid
from mooring.controllers.nodes.pod_states import is_finished, is_terminating, phase_of
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject

FIRST_PAUSE_NS, LAST_PAUSE_NS = 10 * NS_PER_S, 600 * NS_PER_S


@dataclass(slots=True)
class JobAccount:
    """Of one job. `gone_…` are pods that no longer exist; `excused` those that end because their job wants it so."""

    uid: str
    gone_succeeded: int = 0
    gone_failed: int = 0
    excused: set[str] = field(default_factory=set)
    failures: int = 0
    """In a row, since the last success."""
    last_failure_ns: int = 0
    _seen: tuple[int, int] | None = None

    def succeeded(self, owned: OwnedPods) -> int:
        return self.gone_succeeded + owned.count("Succeeded")

    def failed(self, owned: OwnedPods, only_when_ended: bool) -> int:
        """A pod on its way out counts at once, unless its job waits for its end."""
        ended = self.gone_failed + owned.count("Failed")
        if only_when_ended or not owned.count("terminating"):
            return ended
        ending = [pod for pod in owned.pods.values() if is_terminating(pod) and not is_finished(pod)]
        return ended + sum(pod["metadata"]["uid"] not in self.excused for pod in ending)

    def note(self, succeeded: int, failed: int, now_ns: int) -> None:
        """Compare with the last look: a success ends the row of failures."""
        before = self._seen or (succeeded, 0)
        self._seen = succeeded, failed
        if succeeded > before[0]:
            self.failures = 0
        elif failed > before[1]:
            self.failures += failed - before[1]
            self.last_failure_ns = now_ns

    def resumes_ns(self) -> int:
        """When the next pod may be made."""
        if not self.failures:
            return 0
        return self.last_failure_ns + min(FIRST_PAUSE_NS << min(self.failures - 1, 20), LAST_PAUSE_NS)


class Ledger:
    """The accounts of all jobs that are being worked on."""

    def __init__(self) -> None:
        self._accounts: dict[Key, JobAccount] = {}

    def of(self, key: Key, job: JsonObject, owned: OwnedPods) -> JobAccount:
        """An account that is opened late takes over what the status says of pods that are gone."""
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

    def hear(self, key: Key, write: StoreWrite) -> None:
        """Take note of a pod of this job that is gone. One that never ended counts as failed."""
        account = self._accounts.get(key)
        if account is None or write.type != "DELETED" or owner_uid(write.object) != account.uid:
            return
        uid = write.object["metadata"]["uid"]
        if phase_of(write.object) == "Succeeded":
            account.gone_succeeded += 1
        elif phase_of(write.object) == "Failed" or uid not in account.excused:
            account.gone_failed += 1
        account.excused.discard(uid)
