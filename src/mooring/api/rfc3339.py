"""Moments in the form in which Kubernetes writes them."""

from datetime import UTC, datetime

from mooring.kit.clock import NS_PER_S


def in_seconds(moment_ns: int) -> str:
    """`2026-11-15T07:17:46Z`: metav1.Time, of which nothing below a second is kept."""
    return f"{datetime.fromtimestamp(moment_ns // NS_PER_S, UTC):%Y-%m-%dT%H:%M:%SZ}"


def in_micros(moment_ns: int) -> str:
    """`2026-11-15T07:17:46.000123Z`: metav1.MicroTime, of leases and events."""
    return f"{in_seconds(moment_ns)[:-1]}.{moment_ns % NS_PER_S // 1000:06d}Z"
