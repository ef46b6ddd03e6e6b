"""Says of every disruption budget how many of its pods are healthy, must be, and how many may be disrupted now."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import BUDGET_STORE, BUDGETS, POD_STORE, PODS
from mooring.controllers.workloads.budget_members import BudgetMembers
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.kinds import RESOURCES
from mooring.rules.conditions import holds, with_condition

DISRUPTION_LASTS_S = 120
"""A pod that was evicted but does not go within this time counts again."""

_DEPLOYMENTS = RESOURCES["apps", "v1", "deployments"]
_SCALED: dict[str, KindSpec] = {
    "ReplicaSet": RESOURCES["apps", "v1", "replicasets"],
    "StatefulSet": RESOURCES["apps", "v1", "statefulsets"],
    "ReplicationController": RESOURCES["", "v1", "replicationcontrollers"],
}
"""The owners of pods that say how many there should be."""


class NoScale(Exception):
    """How many pods there should be cannot be told: then nothing may be disrupted."""


class DisruptionBudgets:
    name = "disruption-budgets"
    storages: Sequence[str] = (
        POD_STORE,
        BUDGET_STORE,
        _DEPLOYMENTS.storage,
        *(r.storage for r in _SCALED.values()),
    )
    rest_ns = NS_PER_S // 4

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
        self._members = BudgetMembers(api.store)
        self._by_owner: dict[str, set[Key]] = {}
        """By uid of a workload: the budgets that counted on its scale when they were last looked at."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage in (POD_STORE, BUDGET_STORE):
            return self._members.hear(write)
        uid = write.object["metadata"]["uid"]
        if write.type == "DELETED":
            return self._by_owner.pop(uid, ())
        return tuple(self._by_owner.get(uid, ())) if _is_scaled(write) else ()

    def sync(self, key: Key) -> int | None:
        budget = self._api.find(BUDGETS, *key)
        if budget is None:
            return None
        disrupted, again_ns = self._disrupted(key, budget.get("status", {}).get("disruptedPods", {}))
        pods = self._members.of(key)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        try:
            expected, desired = self._needs(key, budget["spec"], pods)
        except NoScale as why:
            status = self._failed(budget, str(why))
        else:
            allowed = max(healthy - desired, 0) if expected > 0 else 0
            status = self._counted(budget, expected, desired, healthy, allowed)
        status = {**status, "disruptedPods": disrupted} if disrupted else status
        if status != budget.get("status"):
            self._api.put_status(BUDGETS, budget, status)
        return again_ns

    def _disrupted(self, key: Key, noted: JsonObject) -> tuple[JsonObject, int | None]:
        """Evicted pods that have not begun to end yet, and when the first of them is given up."""
        now_ns = self._api.clock.now_ns()
        due_ns = {name: moment_ns(since) + DISRUPTION_LASTS_S * NS_PER_S for name, since in noted.items()}
        kept = {
            name: since
            for name, since in noted.items()
            if due_ns[name] > now_ns and self._members.has(key, name) and not self._is_ending(key[0], name)
        }
        return kept, min((due_ns[name] for name in kept), default=None)

    def _is_ending(self, namespace: str, name: str) -> bool:
        pod = self._api.find(PODS, namespace, name)
        return pod is None or bool(pod["metadata"].get("deletionTimestamp"))

    def _needs(self, key: Key, spec: JsonObject, pods: list[JsonObject]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(key, pods)
            return expected, max(expected - part_of(expected, spec["maxUnavailable"]), 0)
        least = spec.get("minAvailable", 0)
        expected = self._scale(key, pods) if isinstance(least, str) and least.endswith("%") else len(pods)
        return expected, part_of(expected, least)

    def _scale(self, key: Key, pods: list[JsonObject]) -> int:
        scales: dict[str, int] = {}
        for owner in {reference["uid"]: reference for pod in pods if (reference := _controller(pod))}.values():
            uid, replicas = self._scale_of(key[0], owner)
            scales[uid] = replicas
            self._by_owner.setdefault(uid, set()).add(key)
            self._by_owner.setdefault(owner["uid"], set()).add(key)
        return sum(scales.values())

    def _scale_of(self, namespace: str, owner: JsonObject) -> tuple[str, int]:
        resource = _SCALED.get(owner["kind"])
        found = self._api.find(resource, namespace, owner["name"]) if resource else None
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            raise NoScale(
                f"{owner['kind'].lower()}s {namespace}/{owner['name']} does not implement the scale subresource"
            )
        above = _controller(found)
        if above is not None and above["kind"] == "Deployment":
            found = self._api.find(_DEPLOYMENTS, namespace, above["name"]) or found
        return found["metadata"]["uid"], found["spec"].get("replicas", 1)

    def _counted(self, budget: JsonObject, expected: int, desired: int, healthy: int, allowed: int) -> JsonObject:
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status: JsonObject = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        return status | {"conditions": self._conditions(budget, bool(allowed), reason)}

    def _failed(self, budget: JsonObject, why: str) -> JsonObject:
        held = {key: value for key, value in budget.get("status", {}).items() if key != "disruptedPods"}
        conditions = self._conditions(budget, False, "SyncFailed", why)
        return {**held, "disruptionsAllowed": 0, "conditions": conditions}

    def _conditions(self, budget: JsonObject, is_allowed: bool, reason: str, message: str = "") -> list[JsonObject]:
        generation = budget["metadata"].get("generation", 1)
        status = "True" if is_allowed else "False"
        new = {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": message}
        held = budget.get("status", {}).get("conditions", ())
        return with_condition(held, {**new, "observedGeneration": generation}, self._api.now())


def part_of(whole: int, written: int | str) -> int:
    """A number as it stands, or a percentage of the whole, rounded up."""
    if isinstance(written, str) and written.endswith("%"):
        return -(-whole * int(written[:-1]) // 100)
    return int(written)


def _is_healthy(pod: JsonObject) -> bool:
    return holds(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")


def _controller(item: JsonObject) -> JsonObject | None:
    owners: list[JsonObject] = item["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def _is_scaled(write: StoreWrite) -> bool:
    before = (write.before or {}).get("spec", {}).get("replicas")
    return bool(before != write.object["spec"].get("replicas"))
