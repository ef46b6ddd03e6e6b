"""Runs controllers: hears every write, notes who is to be looked at again, and looks when told to.

Nothing here waits or reads a clock of its own: a driver calls `step` whenever there is something due, and `next_ns`
says when that will be. In production that is an event loop, in tests a virtual clock.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.kit.clock import NS_PER_S
from mooring.model.api_errors import ApiError

FIRST_RETRY_NS = NS_PER_S // 10
LAST_RETRY_NS = 60 * NS_PER_S


class Controller(Protocol):
    """Keeps one kind of object true. It is told keys, not changes: what it does depends only on how things are."""

    name: str
    storages: Sequence[str]
    """Whose writes it wants to hear of: `/pods`, `apps/replicasets`, ..."""
    rest_ns: int
    """How long an object is left alone after it was looked at, so that a storm of changes costs one look."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Which of its objects are to be looked at again because of a write. Called within the write: quick, no writes."""
        ...

    def sync(self, key: Key) -> int | None:
        """Look at an object and do what is to be done. Returns when to look again (ns), None: when something changes.

        May raise ApiError, as on a conflict: then it is tried again a little later.
        """
        ...


Report = Callable[[str, Exception], None]

Task = tuple[int, Key]
"""The controller, by its place, and the object that it is to look at."""


class ControlLoop:
    """All controllers of a cluster."""

    def __init__(
        self, api: ResourceApi, controllers: Sequence[Controller], report: Report = lambda text, error: None
    ) -> None:
        """`report` is told of faults that are no refusals: they are tried again, but somebody should know."""
        self._api = api
        self._controllers = controllers
        self._report = report
        self._ready: dict[Task, None] = {}
        self._later: list[tuple[int, Task]] = []
        self._when: dict[Task, int] = {}
        """When a task of `_later` is really due: the heap also holds earlier plans for it."""
        self._rests: dict[Task, int] = {}
        self._failures: dict[Task, int] = {}
        self._hearers: dict[str, list[tuple[int, Controller]]] = {}
        for place, controller in enumerate(controllers):
            for storage in controller.storages:
                self._hearers.setdefault(storage, []).append((place, controller))
        for storage in self._hearers:
            for write in api.store.additions(storage):
                self._hear(write)
        api.store.listen(self._hear, self._hearers)

    def step(self, limit: int = 1000) -> int:
        """Look at what is due, at most at so many objects. Returns how many were looked at."""
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

    def _hear(self, write: StoreWrite) -> None:
        for place, controller in self._hearers.get(write.storage, ()):
            for key in controller.concerned(write):
                self._plan((place, key))

    def _plan(self, task: Task) -> None:
        """As soon as may be: at once, or when its rest is over. A retry that was planned for later gives way."""
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
        if task in self._ready or self._when.get(task, when_ns + 1) <= when_ns:
            return
        self._when[task] = when_ns
        heappush(self._later, (when_ns, task))

    def _wake(self) -> None:
        now_ns = self._api.clock.now_ns()
        self._drop_outdated()
        while self._later and self._later[0][0] <= now_ns:
            _, task = heappop(self._later)
            del self._when[task]
            self._rests.pop(task, None)
            self._ready[task] = None
            self._drop_outdated()

    def _drop_outdated(self) -> None:
        while self._later and self._when.get(self._later[0][1]) != self._later[0][0]:
            heappop(self._later)

    def _run(self, task: Task) -> None:
        controller, now_ns = self._controllers[task[0]], self._api.clock.now_ns()
        if controller.rest_ns:
            self._rests[task] = now_ns + controller.rest_ns
        try:
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
        self._defer(task, now_ns + min(FIRST_RETRY_NS << min(tries - 1, 20), LAST_RETRY_NS))
