"""The disruption controller: writes into each PodDisruptionBudget how many of its pods are healthy, have to be, and may
be disrupted now."""

from collections.abc import Iterable

from mooring.api.json_objects import JsonObject
from mooring.api.selector_text import selector_from
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.controllers.cluster_writes import (
    BUDGET_STORE,
    BUDGETS,
    DEPLOYMENTS,
    POD_STORE,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    put_status,
)
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import manager_of
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.selectors import Selector
from mooring.rules.conditions import holds, with_condition
from mooring.rules.evictions import BudgetNeeds, budget_needs

DISRUPTION_LASTS_S = 120
"""An evicted pod that does not begin to end within this time counts again (upstream: DeletionTimeout)."""

_SCALED = {kind.kind: kind for kind in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)}
"""Controllers of pods that say how many there should be."""


class NoScale(Exception):
    """The expected number of pods is unknown: then no disruption is allowed."""


class DisruptionBudgets(Controller):
    """Keys are budgets. Evictions and preemption read `disruptionsAllowed`."""

    name = "disruption-budgets"
    storages = (POD_STORE, BUDGET_STORE, DEPLOYMENTS.storage, *(kind.storage for kind in _SCALED.values()))
    rest_ns = NS_PER_S // 4
    """A rollout changes hundreds of pods in a second; four counts a second are enough."""

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self._members = BudgetMembers(api.store)
        self._by_owner: dict[str, set[Key]] = {}
        """By uid of a workload: the budgets that counted on its scale when they were last looked at."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Budgets that cover a pod, and budgets that depend on the scale of a workload."""
        if write.storage in (POD_STORE, BUDGET_STORE):
            return self._members.observe(write)
        uid = write.object["metadata"]["uid"]
        if write.type == "DELETED":
            return self._by_owner.pop(uid, ())
        return tuple(self._by_owner.get(uid, ())) if _is_scaled(write) else ()

    def sync(self, key: Key) -> int | None:
        """Count, compare, write the status if it differs. Returns when an evicted pod counts again."""
        budget = self._api.find(BUDGETS, *key)
        if budget is None:
            return None
        disrupted, again_ns = self._disrupted(key, budget.get("status", {}).get("disruptedPods", {}))
        pods = self._members.of(key)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        try:
            written = (budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable"))
            needs = budget_needs(*written, len(pods), lambda: self._scale(key, pods))
        except NoScale as why:
            status = self._failed(budget, str(why))
        else:
            status = self._counted(budget, needs, healthy)
        status = {**status, "disruptedPods": disrupted} if disrupted else status
        put_status(self._api, BUDGETS, budget, status)
        return again_ns

    def _disrupted(self, key: Key, noted: JsonObject) -> tuple[JsonObject, int | None]:
        """Evicted pods that have not begun to end yet, and when the first of them counts again."""
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

    def _scale(self, key: Key, pods: list[JsonObject]) -> int:
        """The sum of the replicas of all workloads that own the pods, each counted once."""
        scales: dict[str, int] = {}
        for owner in {reference["uid"]: reference for pod in pods if (reference := manager_of(pod))}.values():
            uid, replicas = self._scale_of(key[0], owner)
            scales[uid] = replicas
            self._by_owner.setdefault(uid, set()).add(key)
            self._by_owner.setdefault(owner["uid"], set()).add(key)
        return sum(scales.values())

    def _scale_of(self, namespace: str, owner: JsonObject) -> tuple[str, int]:
        """The workload that decides (a Deployment above its ReplicaSets) and its replicas. Raises NoScale."""
        resource = _SCALED.get(owner["kind"])
        found = self._api.find(resource, namespace, owner["name"]) if resource else None
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            raise NoScale(
                f"{owner['kind'].lower()}s {namespace}/{owner['name']} does not implement the scale subresource"
            )
        above = manager_of(found)
        if above is not None and above["kind"] == "Deployment":
            found = self._api.find(DEPLOYMENTS, namespace, above["name"]) or found
        return found["metadata"]["uid"], found["spec"].get("replicas", 1)

    def _counted(self, budget: JsonObject, needs: BudgetNeeds, healthy: int) -> JsonObject:
        """The status by the counts."""
        allowed = needs.allowed(healthy)
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status: JsonObject = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": needs.desired,
            "expectedPods": needs.expected,
        }
        return status | {"conditions": self._conditions(budget, bool(allowed), reason)}

    def _failed(self, budget: JsonObject, why: str) -> JsonObject:
        """The status if the scale is unknown: it fails safe, with no disruptions allowed."""
        held = {key: value for key, value in budget.get("status", {}).items() if key != "disruptedPods"}
        conditions = self._conditions(budget, False, "SyncFailed", why)
        return {**held, "disruptionsAllowed": 0, "conditions": conditions}

    def _conditions(self, budget: JsonObject, is_allowed: bool, reason: str, message: str = "") -> list[JsonObject]:
        generation = budget["metadata"].get("generation", 1)
        status = "True" if is_allowed else "False"
        new = {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": message}
        held = budget.get("status", {}).get("conditions", ())
        return with_condition(held, {**new, "observedGeneration": generation}, self._api.now())


def _is_healthy(pod: JsonObject) -> bool:
    return holds(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")


def _is_scaled(write: StoreWrite) -> bool:
    before = (write.before or {}).get("spec", {}).get("replicas")
    return bool(before != write.object["spec"].get("replicas"))


# ---- Which pods each budget covers, kept up to date with every write.


class BudgetMembers:
    """Pods by budget. It has to observe every write of pods and budgets."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._selectors: dict[str, dict[Key, Selector]] = {}
        """By namespace and budget."""
        self._members: dict[Key, dict[Key, JsonObject]] = {}
        """By budget: the pods that it covers."""

    def of(self, budget: Key) -> list[JsonObject]:
        return list(self._members.get(budget, {}).values())

    def has(self, budget: Key, pod: str) -> bool:
        return (budget[0], pod) in self._members.get(budget, {})

    def observe(self, write: StoreWrite) -> Iterable[Key]:
        """The budgets that cover the object of the write, or did before it."""
        if write.storage == BUDGET_STORE:
            self._take(write)
            return (write.key,)
        budgets = self._selectors.get(write.object["metadata"]["namespace"])
        return (
            [budget for budget, selector in budgets.items() if self._file(budget, selector, write)] if budgets else ()
        )

    def _file(self, budget: Key, selector: Selector, write: StoreWrite) -> bool:
        """Add or remove a pod. Returns whether the budget covers it, or did."""
        members = self._members[budget]
        labels = write.object["metadata"].get("labels", {})
        if write.type != "DELETED" and selector.matches(labels):
            members[write.key] = write.object
            return True
        return members.pop(write.key, None) is not None

    def _take(self, write: StoreWrite) -> None:
        """A budget came or changed: all pods of its namespace are matched once."""
        key = write.key
        if write.type == "DELETED":
            self._selectors[key[0]].pop(key, None)
            self._members.pop(key, None)
            return
        selector = selector_from(write.object["spec"].get("selector"))
        if self._selectors.setdefault(key[0], {}).get(key) == selector:
            return
        self._selectors[key[0]][key] = selector
        self._members[key] = {
            (key[0], pod["metadata"]["name"]): pod
            for pod in self._store.all(POD_STORE)
            if pod["metadata"]["namespace"] == key[0] and selector.matches(pod["metadata"].get("labels", {}))
        }


CONTROLLERS = (DisruptionBudgets,)
