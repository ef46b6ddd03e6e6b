"""`mooring record`: writes down what happens in a cluster that any scheduler runs, by watching it."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.app.record import ObserverError, ObserverSettings, Observing
from mooring.cli.options import (
    chosen_gates,
    configured,
    context_name,
    duration,
    feature_gates,
    file_option,
    keep_annotations,
    size,
    tell_gates,
)
from mooring.cli.recording_options import recording_limits
from mooring.cli.refusal import refusals, refuse, refuse_file
from mooring.cli.terminal import tell
from mooring.framework.config.durations import Duration
from mooring.inputs.live_source import connection_to
from mooring.kit.process import raise_descriptor_limit, run_event_loop
from mooring.kit.version import VERSION
from mooring.kit.words import count
from mooring.model.quantity import show_bytes
from mooring.state.recording.recorder import ObserverRecorder

TOLD_S = 10.0
"""How often a terminal shows what was recorded."""

EPILOG = """
\b
Examples:
  mooring record night/                                 the cluster that kubectl would use, until Ctrl-C
  mooring record night/ --context production --for 12h  another one, for twelve hours
  mooring record night/ --config kube-scheduler.yaml    with the configuration of the scheduler that runs it
  mooring record night/ --keep-annotations example.com/watts   with an annotation that a plugin reads
  mooring agree night/                                  would Mooring have decided the same?

\b
A recording has every change of nodes, pods, volumes, devices and the other kinds that decisions read, with its time, and
all objects at its start and at each interval. It never has Secrets, ConfigMaps, environment variables, commands or
arguments. Digests replace annotations, except for those that Mooring reads and those of --keep-annotations: name there the
annotations that plugins of the scheduler read.

\b
Permissions: `list` and `watch`; mooring/inputs/reader.yaml in the package has the ClusterRole
mooring-observer. Nothing is written to the cluster.

\b
Exit status:
  0  stopped by SIGTERM, SIGINT or SIGHUP, or --for has passed
  2  the cluster cannot be watched, the folder cannot be written, or the input is invalid
"""


@click.command(epilog=EPILOG, short_help="Record what happens in a cluster, whichever scheduler runs it.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@file_option("--kubeconfig", "The cluster of this kubeconfig, instead of the one kubectl would use.")
@context_name
@file_option("--config", "The KubeSchedulerConfiguration (v1) of the scheduler that runs the cluster.")
@feature_gates
@duration("--for", "How long to record, such as 1h30m.  [default: until stopped]", argument="lasts")
@size("--max-size", "Of all recordings in DIR; older ones go.", "1Gi")
@duration("--max-age", "Older recordings in DIR are removed.", "168h")
@duration("--interval", "How often all objects are written again.", "15m")
@keep_annotations
def record(directory: Path, **given: Any) -> None:
    """Watch a cluster and write every change to DIR: what arrived, where it was bound, what changed.

    The scheduler of the cluster goes on as before: `mooring record` only reads.
    """
    settings = _RecordFlags(directory, **given).settings()
    raise_descriptor_limit()
    try:
        recorder = run_event_loop(_observe(settings))
    except ObserverError as fault:
        refuse(f"{settings.access.server}: {fault}")
    except OSError as fault:
        refuse_file(directory, fault)
    _tell_end(recorder)


async def _observe(settings: ObserverSettings) -> ObserverRecorder | None:
    return await Observing(settings, _tell_trouble).run(_TurnTeller(settings.access.server))


@dataclass(frozen=True, slots=True)
class _RecordFlags:
    """The command line; the fields have the names of the options."""

    directory: Path
    kubeconfig: str | None
    context: str
    config: str | None
    feature_gates: str
    lasts: Duration | None
    max_size: int
    max_age: Duration
    interval: Duration
    keep_annotations: tuple[str, ...]

    def settings(self) -> ObserverSettings:
        """The settings that the flags ask for. Exits where they cannot be used."""
        for name, value in (("--max-age", self.max_age), ("--interval", self.interval)):
            if value.seconds <= 0:
                refuse(f"{name} must be longer than 0s")
        if not self.max_size:
            refuse("--max-size must be more than 0")
        if self.lasts is not None and self.lasts.seconds <= 0:
            refuse("--for must be longer than 0s")
        limits = recording_limits(self.max_size, self.max_age, self.interval)
        lasts_s = None if self.lasts is None else self.lasts.seconds
        gates = chosen_gates(self.feature_gates)
        tell_gates(gates)
        with refusals(self.config or "configuration"):
            config, access = configured(self.config, gates), connection_to(self.kubeconfig, self.context)
        return ObserverSettings(access, self.directory, config, gates, limits, lasts_s, VERSION, self.keep_annotations)


# ---- what is said meanwhile


class _TurnTeller:
    """Says where the recording is once it has begun, and on a terminal now and then how far it is."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._told_s = 0.0
        self._said = ""

    def __call__(self, recorder: ObserverRecorder) -> None:
        now_s = time.monotonic()
        if not self._told_s:
            self._told_s = now_s
            known = count(recorder.known_count, "object")
            tell(f"recording {self._server} in {recorder.path}: {known} at the start; Ctrl-C ends it", err=True)
        elif now_s - self._told_s >= TOLD_S and sys.stderr.isatty():
            self._told_s = now_s
            if (text := _figures(recorder)) != self._said:
                self._said = text
                tell(text, err=True)


def _figures(recorder: ObserverRecorder) -> str:
    figures = recorder.figures
    lost = f", {count(figures.lost_steps, 'step')} lost" if figures.lost_steps else ""
    size = show_bytes(figures.bytes)
    return f"{count(figures.steps, 'step')}, {count(recorder.bindings, 'binding')}, {size}{lost}"


def _tell_end(recorder: ObserverRecorder | None) -> None:
    if recorder is None:
        tell("stopped before the first lists were complete: nothing is recorded", err=True)
    else:
        tell(f"{recorder.path}: {_figures(recorder)}", err=True)


def _tell_trouble(text: str, fault: Exception | None) -> None:
    tell(f"{text}{f': {fault}' if fault is not None else ''}", err=True)
