"""Traces of attempts: settings, the OpenTelemetry SDK behind the spans, and the spans of requests."""
