"""A wall clock that is set to another time while something runs."""

from mooring.kit.clock import NS_PER_S, Clock, WallClock

JUMPS_S = (-3600, 3600, -30)
"""An hour back, an hour ahead, half a minute back: what a first synchronisation, an operator and a leap of NTP do."""


class JumpingClock:
    """Shows the time of another clock plus all jumps so far."""

    def __init__(self, base: Clock | None = None) -> None:
        self._base = base or WallClock()
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return self._base.now_ns() + self.ahead_ns

    def jump(self, by_s: int) -> None:
        self.ahead_ns += by_s * NS_PER_S
