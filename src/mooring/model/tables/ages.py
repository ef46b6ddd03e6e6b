"""Ages as kubectl prints them: durations with the units that matter."""

from mooring.kit.clock import NS_PER_S


def human_duration(seconds: int) -> str:
    """A duration with the two units that matter.

    5 -> 5s, 119 -> 119s, 192 -> 3m12s, 600 -> 10m, 10800 -> 3h, 187200 -> 2d4h, 864000 -> 10d
    """
    if seconds < 0:  # Parity: a clock that is a second off is taken for now.
        return "0s" if seconds == -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, _two(minutes, "m", seconds % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 2 * 365, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def whole_s(duration_ns: int) -> int:
    """Cut off towards zero, as Go does."""
    return abs(duration_ns) // NS_PER_S * (1 if duration_ns >= 0 else -1)
