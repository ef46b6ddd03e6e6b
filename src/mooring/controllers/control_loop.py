"""Runs controllers: observes every write, notes which objects have to be synced, and syncs them when the driver says
so.

Nothing here waits or reads a clock of its own: a driver calls `step` whenever something is due, and `next_ns` says when
that will be. In production that is an event loop, in tests a virtual clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from mooring.api.api_errors import ApiError
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import NODE_STORE, POD_STORE
from mooring.controllers.index import Index
from mooring.kit.callbacks import ReportFault
from mooring.kit.clock import NS_PER_S

# Retries after a failure double from a tenth of a second to a minute, per object: conflicts are gone at once, and a
# persistent fault must not keep the loop busy.
FIRST_RETRY_NS = NS_PER_S // 10
LAST_RETRY_NS = 60 * NS_PER_S


class Controller(ABC):
    """Keeps one kind of object in its desired state. It gets keys, not changes: what it does depends on the present
    state only, so a write that is missed or seen twice does no harm."""

    name: str
    storages: Sequence[str]
    """The storages whose writes it observes: `/pods`, `apps/replicasets`, ..."""
    follows_custom: bool = False
    """Whether it also observes the objects of all custom kinds."""
    rest_ns: int = 0
    """How long an object is left alone after a sync, so that many changes in a row cost one sync."""

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    @abstractmethod
    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """The keys to sync because of a write. Called within the write: it has to be quick, and must not write."""

    @abstractmethod
    def sync(self, key: Key) -> int | None:
        """Bring one object to its desired state. Returns when to sync it again (ns); None: when something changes.

        May raise ApiError, as on a conflict: then the loop tries again a little later.
        """


class NodePodsController(Controller):
    """A controller that follows nodes and the pods on them."""

    storages = (POD_STORE, NODE_STORE)

    def __init__(self, api: ResourceApi, pods_by_node: Index) -> None:
        super().__init__(api)
        self._pods_by_node = pods_by_node


def backoff(first: int, last: int, failures: int) -> int:
    """The pause after so many failures in a row, in the unit of `first` and `last`: it doubles from one to the other."""
    return min(first << min(failures - 1, 40), last) if failures else 0


Task = tuple[int, Key]
"""The controller, by its place in the list, and the key of the object to sync."""


class ControlLoop:
    """All controllers of a cluster. Each task is planned once at most, however many writes concern it."""

    def __init__(
        self, api: ResourceApi, controllers: Sequence[Controller], report: ReportFault = lambda text, error: None
    ) -> None:
        """`report` takes faults other than refusals of the API server: they are tried again, but they are bugs."""
        self._api = api
        self._controllers = controllers
        self._report = report
        self._ready: dict[Task, None] = {}
        """Tasks that are due, in the order in which they became so."""
        self._later: list[tuple[int, Task]] = []
        """A heap of (time, task); entries that `_when` does not confirm are outdated."""
        self._when: dict[Task, int] = {}
        """When a task of `_later` is really due: the heap also holds earlier plans for it."""
        self._rests: dict[Task, int] = {}
        """Until when an object is left alone after a sync."""
        self._failures: dict[Task, int] = {}
        """How often a task failed in a row."""
        self._listeners: dict[str, list[tuple[int, Controller]]] = {}
        for place, controller in enumerate(controllers):
            for storage in controller.storages:
                self._listeners.setdefault(storage, []).append((place, controller))
        self._custom = [(i, each) for i, each in enumerate(controllers) if getattr(each, "follows_custom", False)]
        # Objects that are in the store already count as just added: after a restart every object is synced once.
        for storage in (*self._listeners, *api.kinds.stored()):
            for write in api.store.additions(storage):
                self._observe(write)
        api.store.listen(self._observe)

    def step(self, limit: int = 1000) -> int:
        """Run what is due, at most so many tasks, so that a driver can do other things in between. Returns how many
        were run."""
        self._wake()
        for done in range(limit):
            if not self._ready:
                return done
            task = next(iter(self._ready))
            del self._ready[task]
            self._run(task)
        return limit

    def next_ns(self) -> int | None:
        """When there is something to do: 0 for now, None for never unless something changes."""
        if self._ready:
            return 0
        self._drop_outdated()
        return self._later[0][0] if self._later else None

    def _observe(self, write: StoreWrite) -> None:
        """Plan the tasks that a write calls for. It runs inside of the write, so the order of tasks is the order of
        writes."""
        is_custom = write.storage not in self._listeners and write.storage in self._api.kinds.stored()
        for place, controller in self._custom if is_custom else self._listeners.get(write.storage, ()):
            for key in controller.concerned(write):
                self._plan((place, key))

    def _plan(self, task: Task) -> None:
        """Run a task as soon as possible: at once, or when its rest is over. This overrides a retry that is planned for
        later."""
        if task in self._ready:
            return
        rests_until = self._rests.get(task, 0)
        if rests_until > self._api.clock.now_ns():
            self._defer(task, rests_until)
        else:
            self._rests.pop(task, None)
            self._when.pop(task, None)
            self._ready[task] = None

    def _defer(self, task: Task, when_ns: int) -> None:
        """Run a task at a time, unless an earlier one is planned."""
        if task in self._ready or self._when.get(task, when_ns + 1) <= when_ns:
            return
        self._when[task] = when_ns
        heappush(self._later, (when_ns, task))

    def _wake(self) -> None:
        """Move the tasks whose time has come to `_ready`."""
        now_ns = self._api.clock.now_ns()
        self._drop_outdated()
        while self._later and self._later[0][0] <= now_ns:
            _, task = heappop(self._later)
            del self._when[task]
            self._rests.pop(task, None)
            self._ready[task] = None
            self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Drop heap entries that were replaced by an earlier plan: to remove them when they are replaced would be
        linear."""
        while self._later and self._when.get(self._later[0][1]) != self._later[0][0]:
            heappop(self._later)

    def _run(self, task: Task) -> None:
        """Run one task and plan what follows from its outcome."""
        controller, now_ns = self._controllers[task[0]], self._api.clock.now_ns()
        # The rest begins before the sync: what the sync itself writes must not bring the object back at once.
        if controller.rest_ns:
            self._rests[task] = now_ns + controller.rest_ns
        try:
            # A refusal (conflict, quota, not found) is normal and tried again; anything else is a bug, is reported, and
            # must not stop the other controllers.
            again_ns = controller.sync(task[1])
        except ApiError:
            self._retry(task, now_ns)
        except Exception as fault:  # a controller's own fault must not end the cluster
            self._report(f"controller {controller.name} failed on {'/'.join(filter(None, task[1]))}", fault)
            self._retry(task, now_ns)
        else:
            self._failures.pop(task, None)
            if again_ns is not None:
                self._defer(task, max(again_ns, self._rests.get(task, 0)))

    def _retry(self, task: Task, now_ns: int) -> None:
        tries = self._failures[task] = self._failures.get(task, 0) + 1
        self._defer(task, now_ns + backoff(FIRST_RETRY_NS, LAST_RETRY_NS, tries))
