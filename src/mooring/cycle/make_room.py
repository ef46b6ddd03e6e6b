"""PostFilter: asks the profile's plugins for a way to make room for a pod that fits nowhere."""

from dataclasses import dataclass

from mooring.framework.attempt import AttemptError
from mooring.framework.failure import FitFailure
from mooring.framework.points import Nomination, NoRoom, PostFilterPlugin
from mooring.framework.runner import Runner
from mooring.framework.status import Code, PluginError


@dataclass(slots=True)
class Room:
    """What PostFilter came to."""

    nomination: Nomination | None = None
    found_by: PostFilterPlugin | None = None
    message: str = ""
    """What it adds to the fit error; empty when room was found."""
    clear_nomination: bool = False
    """Whether a node that was promised earlier is to be forgotten. Otherwise an earlier promise stands."""


def make_room(runner: Runner, failure: FitFailure) -> Room:
    """Ask in order until one finds room; the reasons of those that do not are gathered."""
    reasons: list[str] = []
    clear = False
    for plugin in runner.profile.points.get("postFilter", ()):
        assert isinstance(plugin, PostFilterPlugin)
        try:
            answer = plugin.post_filter(failure)
        except (PluginError, AttemptError) as fault:
            return Room(message=str(fault))
        except Exception as fault:  # one failed attempt with the plugin named, never a dead loop
            return Room(message=f'running PostFilter plugin "{plugin.name}": {fault}')
        if isinstance(answer, Nomination):
            return Room(answer, plugin)
        if not isinstance(answer, NoRoom):
            return Room(message=f'running PostFilter plugin "{plugin.name}": unexpected answer {answer!r}')
        clear = clear or answer.clear_nomination
        if answer.rejection.code is Code.UnschedulableAndUnresolvable:
            return Room(message=answer.rejection.message, clear_nomination=answer.clear_nomination)
        reasons += [reason for reason in answer.rejection.reasons if reason]
    return Room(message=", ".join(reasons), clear_nomination=clear)
