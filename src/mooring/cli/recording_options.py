"""The options by which a command records, traces and checks its scheduler, and what they mean."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from mooring.cli.options import duration, gathered, keep_annotations, size
from mooring.cli.refusal import refuse
from mooring.drivers.self_checks import SelfCheckSettings
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.durations import Duration
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.profile.registry import Registry
from mooring.kit.private_files import make_private_folders
from mooring.kit.version import VERSION
from mooring.serve.tracing import PLUGIN_THRESHOLD, Tracing, TracingError, TracingSettings, tracing_settings
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits

# ---- the self-check

SHORTEST_S = 1.0
"""A check of a small cluster takes some milliseconds of processor time; more often than each second nothing new is found."""


@dataclass(frozen=True, slots=True)
class SelfCheckFlags:
    """The values of --self-check and --self-check-repair."""

    self_check: Duration | None
    self_check_repair: bool

    def settings(self) -> SelfCheckSettings | None:
        """The settings that the flags ask for; None without --self-check. Exits if they contradict each other."""
        if self.self_check is None:
            if self.self_check_repair:
                refuse("--self-check-repair needs --self-check with an interval, such as --self-check=10m")
            return None
        if self.self_check.seconds < SHORTEST_S:
            refuse(f"--self-check {self.self_check}: must be at least 1s")
        return SelfCheckSettings(self.self_check.seconds, self.self_check_repair)


self_check_flags = gathered(
    "self_check",
    SelfCheckFlags,
    duration(
        "--self-check",
        "At this interval, such as 10m, build a fresh scheduler from the API's objects and report where the running one "
        "differs from it.  [default: off]",
    ),
    click.option(
        "--self-check-repair",
        is_flag=True,
        help="Mend what --self-check finds, and give stranded pods another attempt.",
    ),
)
"""The options of the self-check: a command gets them as one argument, `self_check`."""


# ---- traces

trace_plugins_over = duration(
    "--trace-plugins-over",
    "In traces, show the plugins that take at least this time at an extension point.",
    str(PLUGIN_THRESHOLD),
)


def start_tracing(settings: TracingSettings | None, threshold_ns: int, report: Callable[[str], None]) -> Tracing:
    """Start tracing as the settings say; the OpenTelemetry SDK is imported only where it is needed. Raises TracingError where
    they ask for what cannot be had, such as a package that is not installed.

    `report` gets what goes wrong later, at most once a minute, from any thread.
    """
    if settings is None:
        return Tracing()
    try:
        from mooring.serve.open_telemetry import OpenTelemetryTracing

        return OpenTelemetryTracing(settings, threshold_ns, report)
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith(("opentelemetry", "google", "grpc")):
            raise
        raise TracingError(
            f"{settings.source} turns tracing on, which needs the OpenTelemetry SDK: pip install 'mooring[tracing]'"
        ) from None


def tracing_of(config: KubeSchedulerConfiguration, threshold: Duration, report: Callable[[str], None]) -> Tracing:
    """Tracing as the configuration or the variables of OpenTelemetry say; `report` gets what goes wrong with it later."""
    try:
        settings = tracing_settings(config.tracing, os.environ)
        tracing = start_tracing(settings, threshold.nanoseconds, report)
    except TracingError as fault:
        refuse(fault)
    if settings is not None and not settings.ratio:
        report(f"Tracing: {settings.source} turns tracing on, but its sampling rate is 0: no attempt is traced")
    return tracing


# ---- recordings


@dataclass(frozen=True, slots=True)
class RecordingFlags:
    """The values of --record and of the options that go with it."""

    record: Path | None
    record_interval: Duration
    record_max_size: int
    record_max_age: Duration
    keep_annotations: Sequence[str]

    def settings(self, registry: Registry, drops: bool = True) -> RecordingSettings | None:
        """The settings that the options ask for; None without --record. Exits with status 2 where the directory cannot be
        made. `drops`: see RecordingLimits. The recording has the annotations that plugins of the registry declare."""
        if self.record is None:
            return None
        try:
            make_private_folders(self.record)
        except OSError as fault:
            refuse(f"--record {self.record}: the directory cannot be made: {fault.strerror}")
        limits = recording_limits(self.record_max_size, self.record_max_age, self.record_interval, drops)
        annotations = registry.all_annotation_keys() | AnnotationKeys.of(self.keep_annotations)
        return RecordingSettings(self.record, limits, VERSION, tuple(annotations.patterns()))


recording_options = gathered(
    "recording",
    RecordingFlags,
    click.option(
        "--record",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Record all that the scheduler is told and decides in this directory, for `mooring replay`.",
    ),
    duration(
        "--record-interval", "How often the recording gets the whole state, so that replay can begin there.", "15m"
    ),
    size("--record-max-size", "Remove the oldest files of the directory beyond this size.", "1Gi"),
    duration("--record-max-age", "Remove files of the directory that are older.", "168h"),
    keep_annotations,
)
"""The options of a recording: a command gets them as one argument, `recording`."""


def undeclared_annotations(settings: RecordingSettings | None, registry: Registry) -> list[str]:
    """A note for each plugin that probably reads annotations of which the recording has digests only."""
    if settings is None or settings.annotations:
        return []
    return [
        f"plugin {name} reads annotations and declares none: the recording has digests of them, and a replay decides "
        "otherwise. Declare their keys in the class (annotations = ...), or name them with --keep-annotations"
        for name in registry.undeclared_readers()
    ]


def recording_limits(total_bytes: int, age: Duration, interval: Duration, drops: bool = True) -> RecordingLimits:
    """A quarter of the directory is the most that one file takes: old ones go file by file."""
    return RecordingLimits(
        segment_bytes=max(min(RecordingLimits().segment_bytes, total_bytes // 4), 1),
        interval_s=interval.seconds,
        total_bytes=total_bytes,
        age_s=age.seconds,
        drops=drops,
    )
