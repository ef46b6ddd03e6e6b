"""Runs self-checks at an interval, in short slices between turns of the event loop, and reports what they find."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from time import thread_time
from typing import Any

import msgspec

from mooring.apiclient.throttle import Timing
from mooring.drivers.listed_versions import ListedVersions, ObjectPlace
from mooring.kit.logs import Log
from mooring.kit.metrics import Description, MetricRegistry, exponential
from mooring.scheduler.inputs import ConfigurationChanged, Input
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.check import RETAKES_S, SelfCheck
from mooring.state.check.fresh_scheduler import KnownObjects
from mooring.state.check.object_differences import KINDS, DifferenceKind, StateDifference, cut

# ---- Metrics of self-checks. They exist only where self-checks are on.


RUNS = Description(
    "mooring_self_check_runs_total",
    "counter",
    "ALPHA",
    "Self-checks that ended, by result: clean, differences, failed, void (the configuration changed meanwhile).",
    ("result",),
)
DIFFERENCES = Description(
    "mooring_self_check_differences_total",
    "counter",
    "ALPHA",
    "Differences that self-checks found.",
    ("kind",),
    shows_zero=True,
)
REPAIRS = Description(
    "mooring_self_check_repairs_total",
    "counter",
    "ALPHA",
    "Differences that were mended, or could not be.",
    ("kind", "result"),
)
DURATION = Description(
    "mooring_self_check_duration_seconds",
    "histogram",
    "ALPHA",
    "How long self-checks took, pauses included.",
    bounds=exponential(0.25, 2, 12),
)
CPU = Description("mooring_self_check_cpu_seconds_total", "counter", "ALPHA", "Processor time of self-checks.")
STRANDED = Description(
    "mooring_self_check_stranded_pods",
    "gauge",
    "ALPHA",
    "Pods that the last self-check found waiting although a fresh scheduler would place them.",
)


class SelfCheckMetrics:
    """Records one check after another in a registry."""

    def __init__(self, registry: MetricRegistry) -> None:
        for description in (RUNS, DIFFERENCES, REPAIRS, DURATION, CPU, STRANDED):
            registry.declare(description)
        self._runs, self._repairs = registry.counter(RUNS.name), registry.counter(REPAIRS.name)
        differences = registry.counter(DIFFERENCES.name)
        self._differences = {kind: differences.series(kind) for kind in KINDS}
        self._duration = registry.histogram(DURATION.name).series()
        self._cpu = registry.counter(CPU.name).series()
        self._stranded = registry.gauge(STRANDED.name).series()

    def found(self, kind: DifferenceKind) -> None:
        self._differences[kind].add()

    def mended(self, kind: DifferenceKind, is_mended: bool) -> None:
        self._repairs.series(kind, "mended" if is_mended else "failed").add()

    def worked(self, taken_s: float) -> None:
        """A slice took so much processor time."""
        self._cpu.add(taken_s)

    def ended(self, result: str, duration_s: float) -> None:
        self._runs.series(result).add()
        self._duration.observe(duration_s)

    def stranded(self, count: int) -> None:
        self._stranded.set(count)


SLICE_S = 0.002
"""How long a slice works before others get their turn; the driver attempts pods for 5 ms at a time."""
SHARE = 0.05
"""The share of the time that a check works."""
MAX_LOGGED = 20
"""Differences of one kind that a check logs one by one. The metric counts all of them."""


class SelfCheckSettings(msgspec.Struct, frozen=True):
    """The settings of self-checks, as flags give them."""

    interval_s: float
    repairs: bool = False


class CheckedScheduler(msgspec.Struct, frozen=True):
    """The subject of a check: a scheduler, how another one like it is built, and the objects that its watches show."""

    scheduler: Scheduler
    make: Callable[[], Scheduler]
    known: KnownObjects


class SelfChecks:
    """Pass every input of the scheduler to `follow`; `run` until cancelled. A check that fails is logged, and is not the
    end of the scheduler."""

    def __init__(
        self,
        checked: CheckedScheduler,
        settings: SelfCheckSettings,
        log: Log,
        metrics: SelfCheckMetrics | None = None,
        lists: ListedVersions | None = None,
        timing: Timing | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called after something was mended: there may be work. Without `lists` nothing is asked of an API
        server."""
        self._checked, self._settings = checked, settings
        self._log, self._lists = log, lists
        self._metrics = metrics or SelfCheckMetrics(MetricRegistry())
        self._timing = timing or Timing()
        self._wake = wake
        self._check: SelfCheck | None = None
        self._is_void = False
        """Whether the configuration has changed since the present check began."""
        self.on_checked: Callable[[int], None] | None = None
        """Called after each check with the number of differences that it found."""
        self.longest_slice_s = 0.0
        """The longest of all slices so far, in processor time."""

    def follow(self, change: Input) -> None:
        """The scheduler got an input; the check under way follows it, whatever the scheduler made of it. With another
        configuration the fresh scheduler is not like the running one any more, so the check is void."""
        if isinstance(change, ConfigurationChanged):
            self._is_void = True
        elif self._check is not None:
            self._check.follow(change)

    async def run(self) -> None:
        """Check at every interval. A check that takes longer delays the next."""
        while True:
            await self._timing.sleep(self._settings.interval_s)
            await self.check()

    async def check(self) -> list[StateDifference]:
        """One check. Returns what it found, after it was reported, and mended if the settings say so."""
        began_s, result = self._timing.monotonic_s(), "failed"
        found: list[StateDifference] = []
        try:
            missed = await self._compare_lists()
            check = self._check = self._begin()
            await self._work(check)
            if self._is_void:
                return []
            found = [*missed, *check.differences]
            self._report(found, self._timing.monotonic_s() - began_s)
            result = "differences" if found else "clean"
            if self._settings.repairs and found:
                await self._mend(check, found)
            self._check = None
            await self._discard(check)
        except Exception as fault:  # a bug in a comparison, or in a plugin, must not stop the scheduler
            if not self._is_void:
                self._log.error("Self-check failed", fault)
        finally:
            self._check = None
            result = "void" if self._is_void else result
            self._metrics.ended(result, self._timing.monotonic_s() - began_s)
        if self.on_checked is not None:
            self.on_checked(len(found))
        return found

    def _begin(self) -> SelfCheck:
        checked, lists = self._checked, self._lists
        self._is_void = False
        if lists is None:
            return SelfCheck(checked.scheduler, checked.make, checked.known)
        return SelfCheck(checked.scheduler, checked.make, checked.known, lists.is_unseen)

    # ---- work in slices

    async def _work(self, check: SelfCheck) -> None:
        """Before differences are taken again, the objects that they are about are read from the API server."""
        while not self._is_void:
            pause_s, taken_s = self._slice(check)
            if pause_s is None:
                return
            if pause_s and self._lists is not None:
                await self._lists.read((each.about, each.name) for each in check.candidates if each.about is not None)
            await self._rest(taken_s, pause_s)

    def _slice(self, check: SelfCheck) -> tuple[float | None, float]:
        """Returns for how long to pause at least, None at the end; and the processor time that the slice took."""
        began_s = thread_time()
        pause_s = check.work(lambda: thread_time() - began_s >= SLICE_S)
        return pause_s, thread_time() - began_s

    async def _rest(self, taken_s: float, pause_s: float = 0.0) -> None:
        """Pause after a slice that took so much processor time, so that slices take no more than their share."""
        self.longest_slice_s = max(self.longest_slice_s, taken_s)
        self._metrics.worked(taken_s)
        await self._timing.sleep(max(pause_s, taken_s * (1 / SHARE - 1)))

    async def _discard(self, check: SelfCheck) -> None:
        began_s = thread_time()
        for _ in check.discard():
            if thread_time() - began_s >= SLICE_S:
                await self._rest(thread_time() - began_s)
                began_s = thread_time()

    async def _compare_lists(self) -> list[StateDifference]:
        """The objects that watches have lost: behind a list, still so after a while, and behind what the API server then
        says."""
        if self._lists is None:
            return []
        behind: list[ObjectPlace] = []
        pages = 0
        async for compare in self._lists.pages():
            began_s, pages = thread_time(), pages + 1
            behind += compare()
            await self._rest(thread_time() - began_s)
        self._log.v(4, "Self-check compared lists with watches", pages=pages, behind=len(behind))
        if not behind:
            return []
        for pause_s in RETAKES_S:
            await self._lists.read(behind)
            await self._timing.sleep(pause_s)
            behind = [(each.about, each.name) for each in self._lists.missed(behind) if each.about is not None]
        return self._lists.missed(behind)

    # ---- what was found

    def _report(self, found: list[StateDifference], duration_s: float) -> None:
        """One line for each difference, with both stories, and one about the check."""
        logged: Counter[str] = Counter()
        for each in found:
            logged[each.kind] += 1
            self._metrics.found(each.kind)
            if logged[each.kind] <= MAX_LOGGED:
                self._log.warning(_TEXTS.get(each.kind, "Self-check found a difference"), **_keys(each))
        self._metrics.stranded(logged["stranded"])
        keys = {"seconds": round(duration_s, 1), "longestSliceMs": round(self.longest_slice_s * 1000, 1)}
        if found:
            self._log.warning("Self-check finished", differences=dict(logged), **keys)
        else:
            self._log.v(2, "Self-check finished: no differences", **keys)

    async def _mend(self, check: SelfCheck, found: list[StateDifference]) -> None:
        """Repair the differences that a check found. For a watch, the reflector gets the event that the watch has lost; the
        check itself repairs the other differences, slice by slice. At the end the driver is woken."""
        lists = self._lists
        for each in found if lists is not None else ():
            if each.kind == "watch" and lists is not None:
                self._mended(each, await _fault_of(lists.mend(each)))
        while (outcomes := check.mend()) is None:
            await self._timing.sleep(SLICE_S)
        for each, fault in outcomes:
            self._mended(each, fault)
        self._wake()

    def _mended(self, each: StateDifference, fault: Exception | None) -> None:
        self._metrics.mended(each.kind, fault is None)
        keys: dict[str, Any] = {"kind": each.kind, "subject": each.subject, "what": each.what}
        if fault is None:
            self._log.info("Self-check mended a difference", **keys)
        else:
            self._log.error("Self-check could not mend a difference", fault, **keys)


_TEXTS = {"stranded": "Self-check found a stranded pod"}


def _keys(each: StateDifference) -> dict[str, Any]:
    stories = {"believed": cut(each.believed), "fresh": cut(each.fresh)}
    return {"kind": each.kind, "subject": each.subject, "what": each.what, **stories}


async def _fault_of(work: Awaitable[None]) -> Exception | None:
    try:
        await work
    except asyncio.CancelledError:
        raise
    except Exception as fault:  # one that cannot be mended must not stop the others
        return fault
    return None
