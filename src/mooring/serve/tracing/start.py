"""Starts tracing as the settings say. The OpenTelemetry SDK is imported only where it is needed."""

from mooring.serve.tracing.settings import TracingError, TracingSettings
from mooring.serve.tracing.tracing import Report, Tracing


def start_tracing(settings: TracingSettings | None, threshold_ns: int, report: Report) -> Tracing:
    """Raises TracingError where the settings ask for what cannot be had, such as a package that is not installed.

    `report` gets what goes wrong later, at most once a minute, from any thread.
    """
    if settings is None:
        return Tracing()
    try:
        from mooring.serve.tracing.open_telemetry import OpenTelemetryTracing

        return OpenTelemetryTracing(settings, threshold_ns, report)
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith(("opentelemetry", "google", "grpc")):
            raise
        raise TracingError(
            f"{settings.source} turns tracing on, which needs the OpenTelemetry SDK: pip install 'mooring[tracing]'"
        ) from None
