"""All that a scheduler watches, each resource on its own connection."""

import asyncio
from collections.abc import Sequence

from mooring.apiclient.reflectors.changes import ChangeListener
from mooring.apiclient.reflectors.reflector import Reflector, ReflectorOptions, WatchSource
from mooring.apiclient.reflectors.unserved import advice
from mooring.apiclient.reflectors.watched import WATCHED, Watched


class Reflectors:
    """One reflector for each resource, all at once. Scheduling may begin when all have settled.

    Pods may be told before their nodes: lists come in any order, as they do to kube-scheduler.
    """

    def __init__(
        self,
        source: WatchSource,
        listener: ChangeListener,
        watched: Sequence[Watched] = WATCHED,
        reflector_options: ReflectorOptions | None = None,
    ) -> None:
        self.members = tuple(Reflector(source, resource, listener, reflector_options) for resource in watched)

    async def run(self) -> None:
        """Until cancelled, or until a bug of ours ends one of them."""
        async with asyncio.TaskGroup() as tasks:
            for member in self.members:
                tasks.create_task(member.run(), name=f"reflector of {member.watched.name}")

    async def settle(self) -> None:
        """Return when nobody needs to wait any longer: each has synced, or is optional and refused by the server."""
        for member in self.members:
            await member.settled.wait()

    @property
    def is_settled(self) -> bool:
        return all(member.settled.is_set() for member in self.members)

    def waited_for(self) -> list[str]:
        """The resources that scheduling still waits for."""
        return [member.watched.name for member in self.members if not member.settled.is_set()]

    def refused(self) -> list[str]:
        """What the server does not show us, why, and what to do about it."""
        return [advice(member.watched, member.refusal) for member in self.members if member.refusal is not None]
