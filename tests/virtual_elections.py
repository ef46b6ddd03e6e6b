"""Leader election on virtual time: a loop that skips every wait, an API server with one lease, and whoever stands for it."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from electing import LEASE, SILENT, TIMES, version_of, with_version
from fake_client import FakeClient
from mooring.api.api_errors import already_exists, conflict, not_found
from mooring.api.json_objects import JsonObject
from mooring.apiclient.throttle import Timing
from mooring.kit.clock import NS_PER_S
from mooring.kit.tasks import Fence
from mooring.serve.lease.leader_elector import Callbacks, ElectorSettings, LeaderElector, Outcome, TimeAndChance

T = TypeVar("T")


class Skipping(selectors.DefaultSelector):
    """Instead of waiting, time is moved on."""

    now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that never comes")
        self.now_s += 0 if ready else timeout or 0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.now_s


def on_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def now_s() -> float:
    return asyncio.get_running_loop().time() - 1000.0


class Skewed:
    """A wall clock that is wrong."""

    def __init__(self, skew_s: float) -> None:
        self._skew_s = skew_s

    def now_ns(self) -> int:
        return round((1_800_000_000 + now_s() + self._skew_s) * NS_PER_S)


@dataclass
class FakeApi(FakeClient):
    """A lease and events. `faults` are met by requests in turn: a delay, an error, or None for an answer at once."""

    objects: dict[str, JsonObject] = field(default_factory=dict)
    faults: list[float | Exception | None] = field(default_factory=list)
    always: Exception | None = None
    asked: list[str] = field(default_factory=list)
    events: list[JsonObject] = field(default_factory=list)
    version: int = 0

    async def get(self, path: str, params: Any = None) -> Any:
        await self._meet("GET", params)
        if path not in self.objects:
            raise not_found("leases", LEASE.name, "coordination.k8s.io")
        return deepcopy(self.objects[path])

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        if path.endswith("/events"):
            self.events.append(body)
            return body
        await self._meet("POST", params)
        if LEASE.path in self.objects:
            raise already_exists("leases", LEASE.name, "coordination.k8s.io")
        return self.store(body)

    async def put(self, path: str, body: Any, params: Any = None) -> Any:
        await self._meet("PUT", params)
        if path not in self.objects:
            raise not_found("leases", LEASE.name, "coordination.k8s.io")
        if version_of(body) != version_of(self.objects[path]):
            raise conflict("leases", LEASE.name, group="coordination.k8s.io")
        return self.store(body)

    def store(self, body: JsonObject) -> JsonObject:
        self.version += 1
        self.objects[LEASE.path] = with_version(deepcopy(body), str(self.version))
        return deepcopy(self.objects[LEASE.path])

    async def _meet(self, method: str, params: Any) -> None:
        self.asked.append(method)
        assert params == {"timeout": "5s"}
        fault = self.faults.pop(0) if self.faults else self.always
        if isinstance(fault, Exception):
            raise fault
        if fault:
            await asyncio.sleep(fault)

    def spec(self) -> JsonObject:
        spec: JsonObject = self.objects[LEASE.path]["spec"]
        return spec


@dataclass
class Contender:
    api: FakeApi
    identity: str
    skew_s: float = 0.0
    story: list[tuple[float, str]] = field(default_factory=list)
    status: list[bool] = field(default_factory=list)
    elector: LeaderElector = field(init=False)
    fence: Fence = field(init=False)
    task: "asyncio.Task[Outcome]" = field(init=False)

    def __post_init__(self) -> None:
        self.fence = Fence(now_s=lambda: asyncio.get_running_loop().time())
        timing = Timing(lambda: asyncio.get_running_loop().time(), asyncio.sleep)
        callbacks = Callbacks(lambda: self._note("leads"), lambda: self._note("stops"), self.status.append)
        around = TimeAndChance(timing, Skewed(self.skew_s), lambda: 0.5)
        settings = ElectorSettings(self.identity, LEASE, TIMES)
        self.elector = LeaderElector(self.api, settings, callbacks, SILENT, around, self.api, self.fence)
        self.task = asyncio.ensure_future(self.elector.run())

    def _note(self, what: str) -> None:
        self.story.append((round(now_s(), 3), what))
