"""Recordings of simulated clusters, as `mooring record` and a recorded scheduler write them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from mooring.apiclient.reflectors.mirror import tell
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.intents import Intent
from mooring.kit.clock import Clock, VirtualClock
from mooring.model.meta import KubeObject
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import by_seed
from mooring.state.recording.recorder import ObserverRecorder, RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.scheduler_assembly import Recorder, build_scheduler


class Changes(Protocol):
    """What takes changes: an ObserverRecorder, or a list of them."""

    def added(self, item: Any) -> None: ...

    def updated(self, old: Any, new: Any) -> None: ...

    def removed(self, item: Any) -> None: ...


class WatchedSteps:
    """A recorder that shows an observer the changes that a scheduler is told of, and nothing else."""

    def __init__(self, observer: Changes) -> None:
        self._observer = observer

    def took_in(self, scheduler: Scheduler, now_ns: int, change: Input, intents: Sequence[Intent]) -> None:
        match change:
            case ObjectAdded():
                self._observer.added(change.item)
            case ObjectUpdated():
                self._observer.updated(change.old, change.new)
            case ObjectRemoved():
                self._observer.removed(change.item)

    def stepped(self, scheduler: Scheduler, now_ns: int, code: int, intents: Sequence[Intent]) -> None:
        pass

    def interrupted(self) -> None:
        pass


def write_changes(directory: Path, changes: Sequence[tuple[KubeObject | None, KubeObject | None]]) -> None:
    """Record these changes as an observer does."""
    observer = an_observer(directory)
    for old, new in changes:
        tell(lambda old, new: _show(observer, old, new), (old, new))
    observer.close()


def _show(observer: Changes, old: KubeObject | None, new: KubeObject | None) -> None:
    if old is None:
        observer.added(new)
    elif new is None:
        observer.removed(old)
    else:
        observer.updated(old, new)


def a_header(config: KubeSchedulerConfiguration | None = None, started_ns: int = START_NS) -> SegmentHeader:
    return scheduler_header(config or configuration.default(), {}, started_ns)


def an_observer(
    directory: Path,
    known: Sequence[KubeObject] = (),
    config: KubeSchedulerConfiguration | None = None,
    clock: Clock | None = None,
    limits: RecordingLimits | None = None,
) -> ObserverRecorder:
    return ObserverRecorder(directory, a_header(config), clock or VirtualClock(START_NS), lambda: known, limits)


class ListedChanges:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[tuple[KubeObject | None, KubeObject | None]] = []
        """Objects before and after."""

    def added(self, item: KubeObject) -> None:
        self.found.append((None, item))

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        self.found.append((old, new))

    def removed(self, item: KubeObject) -> None:
        self.found.append((item, None))


def changes_while_scheduling(objects: Sequence[KubeObject]) -> list[tuple[KubeObject | None, KubeObject | None]]:
    """All changes that a watch shows of a simulated scheduler that places the pending pods, in order."""
    clock, listed = VirtualClock(START_NS), ListedChanges()
    recorder = WatchedSteps(listed)
    scheduler = build_scheduler(configuration.default(), clock, None, DecideOptions(by_seed), recorder=recorder)
    driver = Driver(clock, scheduler, with_versions=True)
    for item in objects:
        driver.create(item)
    driver.settle()
    return listed.found


def schedule_all(
    directory: Path,
    objects: Sequence[KubeObject],
    config: KubeSchedulerConfiguration | None = None,
    *,
    is_observed: bool = True,
    then: Callable[[Driver], None] = lambda driver: None,
    limits: RecordingLimits | None = None,
) -> int:
    """Record a simulated scheduler that places the pending pods. Returns how many pods have a node in the end."""
    config, clock = config or configuration.default(), VirtualClock(START_NS)
    observer = an_observer(directory, (), config, clock, limits) if is_observed else None
    run = None if is_observed else RunRecorder(directory, a_header(config), limits)
    recorder: Recorder = WatchedSteps(observer) if observer is not None else run  # type: ignore[assignment]
    scheduler = build_scheduler(config, clock, None, DecideOptions(by_seed), recorder=recorder)
    driver = Driver(clock, scheduler, with_versions=True)
    for item in objects:
        driver.create(item)
    driver.settle()
    then(driver)
    driver.settle()
    for written in (observer, run):
        if written is not None:
            written.close()
    return sum(bool(pod.spec.node_name) for pod in scheduler.pods.values())
