"""`mooring record`: one process that watches a cluster and writes what it sees, from start to end. It sends no write."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mooring.apiclient.client import ApiClient, server_version
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import ReflectorOptions, Reflectors, watched_with
from mooring.apiclient.served_kinds import ServedKinds
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.inputs.live_source import READER_ROLE
from mooring.kit.clock import SteadyClock
from mooring.kit.process import on_stop_signals
from mooring.kit.tasks import settle
from mooring.model.meta import KubeObject
from mooring.state.recording.recorder import ObserverRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits

USER_AGENT = "mooring-record"
TURN_S = 0.5
"""How often what was noted is handed to the thread that writes: a process that is killed loses so much."""
ANSWER_S = 10.0
"""How long the server may take to answer at all when the process starts: a wrong address should be noticed."""
FIRST_LIST_S = 120.0
"""How long the first lists may take. After them a broken connection is waited for as long as it takes."""


class ObserverError(Exception):
    """The cluster cannot be watched: what the server says, and what to do."""


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """The settings of an observer: the cluster, the directory, and for how long it records."""

    access: ConnectionSettings
    directory: Path
    config: KubeSchedulerConfiguration
    """The configuration of the scheduler that runs the cluster, as far as it is known."""
    gates: dict[str, bool] = field(default_factory=dict)
    limits: RecordingLimits = field(default_factory=RecordingLimits)
    lasts_s: float | None = None
    """None: until a signal."""
    version: str = ""
    annotations: tuple[str, ...] = ()
    """Patterns of annotation keys whose values are written, beside those that Mooring reads itself."""


class Observing:
    """One process of `mooring record`. Make it inside the event loop, and call `run` once."""

    def __init__(self, settings: ObserverSettings, tell: Callable[[str, Exception | None], None]) -> None:
        """`tell` gets what goes wrong with the watches, once for each trouble."""
        self._settings, self._tell = settings, tell
        self._client = ApiClient(settings.access, USER_AGENT)
        watched = watched_with(with_defaults(settings.gates))
        self._recorder: ObserverRecorder | None = None
        """Gets changes once all objects are known; before that, the reflectors keep them."""
        options = ReflectorOptions(report=self._trouble)
        served = ServedKinds(self._client, watched)
        self.reflectors = Reflectors(self._client, self._changed, watched, options, served)
        self._last_trouble = ""
        self._server = ""
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End the recording."""
        self._stopping.set()

    def _stop_on(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP and not self._stopping.is_set():
            self._tell("received SIGHUP: the recording ends", None)
        self.stop()

    async def run(self, on_turn: Callable[[ObserverRecorder], None]) -> ObserverRecorder | None:
        """Record until `stop`, a signal, or the end of its time; None: it was stopped before it knew the cluster.

        `on_turn` is called after the first lists and then a few times a second. Raises ObserverError and OSError.
        """
        on_stop_signals(self._stop_on)
        async with self._client:
            watching = asyncio.create_task(self.reflectors.run())
            try:
                if not await self._get_to_know(watching):
                    return None
                self._server = await server_version(self._client)
                return await self._record(watching, on_turn)
            finally:
                watching.cancel()
                await settle((watching,))

    async def _get_to_know(self, watching: "asyncio.Task[None]") -> bool:
        """Wait for the first lists. False: the recording was stopped meanwhile."""
        knowing = asyncio.create_task(self.reflectors.settle())
        began_s = asyncio.get_running_loop().time()
        try:
            while not knowing.done() and not self._stopping.is_set():
                await asyncio.wait({knowing, watching}, timeout=TURN_S, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
                self._refuse_if_hopeless(asyncio.get_running_loop().time() - began_s)
        finally:
            knowing.cancel()
            await settle((knowing,))
        return not self._stopping.is_set()

    def _refuse_if_hopeless(self, waited_s: float) -> None:
        """Give up if the server does not show pods or nodes, or does not answer in time."""
        for member in self.reflectors.members:
            if member.refusal is not None and member.is_required:
                raise ObserverError(
                    f"you may not watch {member.spec.resource}: {member.refusal.message} ({member.refusal.code}); "
                    f"the ClusterRole mooring-observer in {READER_ROLE} allows what is needed"
                )
        has_answered = any(member.has_synced or member.statistics.events for member in self.reflectors.members)
        if waited_s >= (FIRST_LIST_S if has_answered else ANSWER_S):
            missing = ", ".join(self.reflectors.waited_for()[:3])
            trouble = self._last_trouble or "the server does not answer"
            raise ObserverError(f"{missing} could not be listed within {waited_s:.0f} s: {trouble}")

    async def _record(
        self, watching: "asyncio.Task[None]", on_turn: Callable[[ObserverRecorder], None]
    ) -> ObserverRecorder:
        """Nothing may be awaited between the last list and the first segment: it has the objects that are known then."""
        settings, clock = self._settings, SteadyClock()
        described = settings.config, settings.gates, clock.now_ns(), settings.version, settings.annotations
        header = scheduler_header(*described)
        header.server = self._server
        recorder = ObserverRecorder(settings.directory, header, clock, self._objects, settings.limits)
        self._recorder = recorder
        stopping = asyncio.create_task(self._stopping.wait())
        ends_s = None if settings.lasts_s is None else asyncio.get_running_loop().time() + settings.lasts_s
        try:
            while not stopping.done() and (ends_s is None or asyncio.get_running_loop().time() < ends_s):
                on_turn(recorder)
                await asyncio.wait({stopping, watching}, timeout=TURN_S, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
                recorder.write_out()
        finally:
            stopping.cancel()
            recorder.close()
        return recorder

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        recorder = self._recorder
        if recorder is not None and old is not None and new is not None:
            recorder.updated(old, new)
        elif recorder is not None and new is not None:
            recorder.added(new)
        elif recorder is not None and old is not None:
            recorder.removed(old)

    def _objects(self) -> Iterator[KubeObject]:
        for member in self.reflectors.members:
            yield from member.objects.values()

    def _trouble(self, text: str, fault: Exception | None) -> None:
        self._last_trouble = text
        self._tell(text, fault)
