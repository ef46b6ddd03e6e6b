"""The flags of the self-check, for `mooring run` and `mooring up`."""

from typing import Any

import click

from mooring.cli.options import GoDuration
from mooring.cli.refusal import refuse
from mooring.drivers.self_checks import SelfCheckSettings
from mooring.framework.config.durations import Duration

SHORTEST_S = 1.0
"""A check of a small cluster takes some milliseconds of processor time; more often than each second nothing new is found."""


def self_check_flags(command: Any) -> Any:
    """Add --self-check and --self-check-repair to a command."""
    for option in (_REPAIR, _SELF_CHECK):
        command = option(command)
    return command


_SELF_CHECK = click.option(
    "--self-check",
    type=GoDuration(),
    help="At this interval, such as 10m, build a fresh scheduler from the API's objects and report where the running one "
    "differs from it.  [default: off]",
)
_REPAIR = click.option(
    "--self-check-repair", is_flag=True, help="Mend what --self-check finds, and give stranded pods another attempt."
)


def chosen_self_check(interval: Duration | None, repairs: bool) -> SelfCheckSettings | None:
    """What the flags say. Exits if they contradict each other."""
    if interval is None:
        if repairs:
            refuse("--self-check-repair needs --self-check with an interval, such as --self-check=10m")
        return None
    if interval.seconds < SHORTEST_S:
        refuse(f"--self-check {interval}: must be at least 1s")
    return SelfCheckSettings(interval.seconds, repairs)
