"""Which pods each disruption budget covers, kept up to date with every write instead of searched for."""

from collections.abc import Iterable

from mooring.apiserver.selector_text import selector_from
from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.controllers.cluster_kinds import BUDGET_STORE, POD_STORE
from mooring.model.json_objects import JsonObject
from mooring.model.selectors import Selector


class BudgetMembers:
    """`hear` is to be told of every write of pods and budgets."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._selectors: dict[str, dict[Key, Selector]] = {}
        """By namespace and budget."""
        self._members: dict[Key, dict[Key, JsonObject]] = {}

    def of(self, budget: Key) -> list[JsonObject]:
        return list(self._members.get(budget, {}).values())

    def has(self, budget: Key, pod: str) -> bool:
        return (budget[0], pod) in self._members.get(budget, {})

    def hear(self, write: StoreWrite) -> Iterable[Key]:
        """The budgets that cover the object of the write, or did so before."""
        if write.storage == BUDGET_STORE:
            self._take(write)
            return (write.key,)
        budgets = self._selectors.get(write.object["metadata"]["namespace"])
        return (
            [budget for budget, selector in budgets.items() if self._file(budget, selector, write)] if budgets else ()
        )

    def _file(self, budget: Key, selector: Selector, write: StoreWrite) -> bool:
        members = self._members[budget]
        labels = write.object["metadata"].get("labels", {})
        if write.type != "DELETED" and selector.matches(labels):
            members[write.key] = write.object
            return True
        return members.pop(write.key, None) is not None

    def _take(self, write: StoreWrite) -> None:
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
