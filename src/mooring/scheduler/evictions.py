"""The evictions that preemption has asked for: which victims have yet to leave for which pod."""

import msgspec

from mooring.framework.contract.points import PostFilterPlugin
from mooring.model.pod import Pod


class Eviction(msgspec.Struct):
    """The victims that have yet to be evicted to make room for one pod. `victims` is never empty while it is
    registered."""

    preemptor: Pod
    victims: set[str]
    """Ids of pods."""
    plugin: PostFilterPlugin
    members: tuple[Pod, ...] = ()
    """The pods that wait for it: the preemptor; or the members of its group, where the group preempts as one."""
    has_failed: bool = False
    """Whether one of them could not be evicted."""


class Evictions(msgspec.Struct):
    """All evictions that are not over. A preemptor has at most one: it is not tried again before that is over."""

    by_preemptor: dict[str, Eviction] = msgspec.field(default_factory=dict)
    """By pod id."""

    def begin(self, eviction: Eviction) -> None:
        self.by_preemptor[eviction.preemptor.id] = eviction

    def of_victim(self, pod_id: str) -> list[Eviction]:
        """The evictions that wait for this pod to leave; two preemptors may have chosen the same victim."""
        return [eviction for eviction in self.by_preemptor.values() if pod_id in eviction.victims]

    def cross_off(self, eviction: Eviction, victim_id: str) -> bool:
        """A victim is gone, or cannot be evicted. Returns whether the eviction is over."""
        eviction.victims.discard(victim_id)
        if eviction.victims:
            return False
        del self.by_preemptor[eviction.preemptor.id]
        return True

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        return [
            f"{e.preemptor.key} waits for victims, but there are none"
            for e in self.by_preemptor.values()
            if not e.victims
        ]
