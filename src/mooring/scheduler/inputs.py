"""Everything that happens to a scheduler, as values: `Scheduler.handle` takes them one after another.

A run is determined by its inputs, their order and the clock, so that it can be recorded and repeated.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallReply, WriteFault
from mooring.framework.contract.points import PodListener
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.backoff import QueueSettings

# Hot: inputs are in no reference cycle, so the garbage collector need not know of them.


class ObjectAdded(msgspec.Struct, frozen=True, gc=False):
    """An object was created, or is seen for the first time."""

    item: KubeObject


class ObjectUpdated(msgspec.Struct, frozen=True, gc=False):
    """An object was changed. `old` is what the previous input about it showed, so that events can be derived from
    the pair."""

    old: KubeObject
    new: KubeObject


class ObjectRemoved(msgspec.Struct, frozen=True, gc=False):
    """An object was deleted. `item` is its last known state."""

    item: KubeObject


class BindAnswered(msgspec.Struct, frozen=True, gc=False):
    """A Bind was carried out, or failed."""

    pod: Pod
    fault: str | None = None
    """Why it failed; None: the pod is bound."""
    elsewhere: str = ""
    """The node that the pod turned out to be on already."""


class EvictionAnswered(msgspec.Struct, frozen=True, gc=False):
    """An Evict was carried out, or failed."""

    victim: Pod
    preemptor: Pod
    fault: str | None = None
    was_there: bool = True
    """False: the victim was gone before it could be evicted."""


class WriteAnswered(msgspec.Struct, frozen=True, gc=False):
    """A Write was carried out, or failed."""

    token: int
    item: KubeObject | None
    """The object as it is now; None: it was deleted, or the write failed."""
    fault: WriteFault | None = None
    """Why it failed; the code tells a conflict (409) from an object that is gone (404)."""


class CallAnswered(msgspec.Struct, frozen=True, gc=False):
    """An extender answered a Call, or did not (CallFault)."""

    token: int
    reply: CallReply


class TimePassed(msgspec.Struct, frozen=True, gc=False):
    """Some time has passed, a second at most: pods leave backoff, waits on Permit expire, PreBind goes on. Upstream
    flushes backoff every second."""


class HalfMinutePassed(msgspec.Struct, frozen=True, gc=False):
    """Half a minute has passed: pods that have been unschedulable for too long get another attempt. Upstream flushes
    them every 30 s."""


class NewProfiles(msgspec.Struct, frozen=True):
    """The parts of a scheduler that a configuration describes. They are built, and change nothing until they are put in."""

    runners: dict[str, Runner]
    extenders: tuple[Extender, ...]
    queue_settings: QueueSettings
    pod_listeners: Sequence[PodListener] = ()
    """The listeners that the plugins registered while they were built."""


class ConfigurationChanged(msgspec.Struct, frozen=True):
    """The scheduler has another configuration from now on."""

    settings: dict[str, Any]
    """The configuration and the feature gates, in the form that snapshots and recordings have (`settings_object`)."""
    profiles: NewProfiles | None = None
    """The configuration, built; None in a recorded step, which is built before it is repeated."""


Input = (
    ObjectAdded
    | ObjectUpdated
    | ObjectRemoved
    | BindAnswered
    | EvictionAnswered
    | WriteAnswered
    | CallAnswered
    | TimePassed
    | HalfMinutePassed
    | ConfigurationChanged
)
