"""The options by which a command records its scheduler, and what they mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mooring.cli.options import ByteQuantity, GoDuration, keep_annotations
from mooring.cli.refusal import refuse
from mooring.framework.config.durations import Duration
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.profile.registry import Registry
from mooring.kit.private_files import make_private_folders
from mooring.kit.version import VERSION
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits

_OPTIONS = (
    click.option(
        "--record",
        "record",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Record all that the scheduler is told and decides in this directory, for `mooring replay`.",
    ),
    click.option(
        "--record-interval",
        type=GoDuration(),
        default="15m",
        show_default=True,
        help="How often the recording gets the whole state, so that replay can begin there.",
    ),
    click.option(
        "--record-max-size",
        type=ByteQuantity(),
        default="1Gi",
        show_default=True,
        help="Remove the oldest files of the directory beyond this size.",
    ),
    click.option(
        "--record-max-age",
        type=GoDuration(),
        default="168h",
        show_default=True,
        help="Remove files of the directory that are older.",
    ),
    keep_annotations,
)


def recording_options(command: Any) -> Any:
    """Add the options; `recording_settings` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def recording_settings(
    record: Path | None,
    record_interval: Duration,
    record_max_size: int,
    record_max_age: Duration,
    keep_annotations: Sequence[str],
    registry: Registry,
    *,
    drops: bool = True,
) -> RecordingSettings | None:
    """What the options say; None without --record. Exits with status 2 where the directory cannot be made. `drops`: see
    RecordingLimits. The recording has the annotations that plugins of the registry declare."""
    if record is None:
        return None
    try:
        make_private_folders(record)
    except OSError as fault:
        refuse(f"--record {record}: the directory cannot be made: {fault.strerror}")
    limits = recording_limits(record_max_size, record_max_age, record_interval, drops)
    annotations = registry.all_annotation_keys() | AnnotationKeys.of(keep_annotations)
    return RecordingSettings(record, limits, VERSION, tuple(annotations.patterns()))


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
