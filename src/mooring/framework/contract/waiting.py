"""Pods that Permit plugins hold after their node was chosen, until they are allowed, rejected or time is up."""

from collections.abc import Iterator

import msgspec

from mooring.framework.config.durations import Duration
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod

MAX_WAIT_S = 15 * 60
"""Upstream's maxTimeout for Permit: fifteen minutes, whatever a plugin asks for."""


class Release(msgspec.Struct):
    """How a wait ended: allowed (no plugin, no message), refused by a plugin, or cut short because of preemption."""

    plugin: str = ""
    message: str = ""
    is_allowed: bool = False
    is_error: bool = False


class WaitingPod(msgspec.Struct):
    """A pod with the plugins that it waits for, each with its deadline. The first release counts; later ones are
    ignored."""

    pod: Pod
    node_name: str
    deadlines_ns: dict[str, int]
    """By plugin that has not allowed the pod yet."""
    timeouts_ns: dict[str, int]
    """By plugin: the limit that it asked for, at most MAX_WAIT_S. The message of a timeout names it."""
    release: Release | None = None

    @property
    def pending_plugins(self) -> list[str]:
        return list(self.deadlines_ns)

    def allow(self, plugin: str) -> None:
        """The plugin allows the pod; when all have, the pod goes on."""
        self.deadlines_ns.pop(plugin, None)
        if not self.deadlines_ns:
            self._end(Release(is_allowed=True))

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod. Returns whether this call ended the wait."""
        return self._end(Release(plugin, message))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait because a preemptor needs the room: an error, not a rejection. Returns whether this call
        ended it."""
        return self._end(Release(plugin, message, is_error=True))

    def expire(self, now_ns: int) -> None:
        """Reject the pod if a deadline has passed; the earliest one names the plugin."""
        due = [(deadline, plugin) for plugin, deadline in self.deadlines_ns.items() if deadline <= now_ns]
        if due:
            plugin = min(due)[1]
            waited = Duration(self.timeouts_ns[plugin])
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _end(self, release: Release) -> bool:
        if self.release is not None:
            return False
        self.release = release
        return True


class WaitingPods(msgspec.Struct):
    """All waiting pods, of all profiles, by id."""

    by_id: dict[str, WaitingPod] = msgspec.field(default_factory=dict)
    """Hot: the loop looks three times a pod whether any pod waits, and `len` is a call more."""

    def hold(self, pod: Pod, node_name: str, timeouts_s: dict[str, float], now_ns: int) -> WaitingPod:
        """Let a pod wait for plugins, for each at most MAX_WAIT_S."""
        timeouts = {plugin: round(min(limit, MAX_WAIT_S) * NS_PER_S) for plugin, limit in timeouts_s.items()}
        deadlines = {plugin: now_ns + limit for plugin, limit in timeouts.items()}
        waiting = self.by_id[pod.id] = WaitingPod(pod, node_name, deadlines, timeouts)
        return waiting

    def get(self, pod_id: str) -> WaitingPod | None:
        return self.by_id.get(pod_id)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self.by_id.values()))

    def __len__(self) -> int:
        return len(self.by_id)

    def expire(self, now_ns: int) -> None:
        for waiting in self:
            waiting.expire(now_ns)

    def next_deadline_ns(self) -> int | None:
        """When the next wait will be over."""
        return min((min(w.deadlines_ns.values()) for w in self.by_id.values() if w.deadlines_ns), default=None)

    def take_released(self) -> list[WaitingPod]:
        """The pods whose wait has ended; they are no longer among the waiting."""
        if not self.by_id:
            return []
        released = [waiting for waiting in self.by_id.values() if waiting.release is not None]
        for waiting in released:
            del self.by_id[waiting.pod.id]
        return released
