"""Deletes events an hour after their last write, and sooner if there are too many."""

from collections.abc import Iterable, Sequence

from mooring.api.api_errors import ApiError
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import EVENT_STORE, EVENTS
from mooring.kit.clock import NS_PER_S

KEPT_S = 3600
"""Upstream's --event-ttl."""
MOST_EVENTS = 200_000
"""About 300 MB: a cluster that starts thousands of pods a second would otherwise fill the memory within the hour."""

_MOST_A_STEP = 200
"""Deletions in one sync: more would delay other controllers."""
_ALL: Key = ("", "events")
"""The one key of this controller: it has one task for all events."""


class EventExpiry:
    """One task for all events: they are kept in the order of their last writes, so the first is always the next to
    expire."""

    name = "event-expiry"
    storages: Sequence[str] = (EVENT_STORE,)
    rest_ns = 0

    def __init__(self, api: ResourceApi, kept_s: float = KEPT_S, most: int = MOST_EVENTS) -> None:
        self._api = api
        self._kept_ns = round(kept_s * NS_PER_S)
        self._most = most
        self._written_ns: dict[Key, int] = {}

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Only the first event, and one too many, start the task: from then on it plans itself."""
        key = write.key
        self._written_ns.pop(key, None)
        if write.type == "DELETED":
            return ()
        self._written_ns[key] = self._api.clock.now_ns()
        return (_ALL,) if len(self._written_ns) == 1 or len(self._written_ns) > self._most else ()

    def sync(self, key: Key) -> int | None:
        """Delete what is due. Returns when the next event is."""
        now_ns = self._api.clock.now_ns()
        for _ in range(_MOST_A_STEP):
            if not self._written_ns:
                return None
            oldest = next(iter(self._written_ns))
            due_ns = self._written_ns[oldest] + self._kept_ns
            if due_ns > now_ns and len(self._written_ns) <= self._most:
                return due_ns
            self._remove(oldest)
        return now_ns

    def _remove(self, key: Key) -> None:
        """Delete one event; one that is gone already is fine."""
        try:
            self._api.delete(EVENTS, *key)
        except ApiError as refusal:
            if refusal.code != 404:
                raise
        self._written_ns.pop(key, None)


CONTROLLERS = (EventExpiry,)
