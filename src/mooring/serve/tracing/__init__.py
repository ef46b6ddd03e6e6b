"""Spans through the OpenTelemetry SDK."""
