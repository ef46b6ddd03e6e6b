"""How commands that run a scheduler turn traces on: one option, and what configuration and environment say."""

import os
from collections.abc import Callable

import click

from mooring.cli.options import GoDuration
from mooring.cli.refusal import refuse
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.durations import Duration
from mooring.serve.tracing.settings import TracingError, tracing_settings
from mooring.serve.tracing.start import start_tracing
from mooring.serve.tracing.tracing import PLUGIN_THRESHOLD, Tracing

trace_plugins_over = click.option(
    "--trace-plugins-over",
    type=GoDuration(),
    default=str(PLUGIN_THRESHOLD),
    show_default=True,
    help="In traces, show the plugins that take at least this time at an extension point.",
)


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
