"""What happened to each pod, line by line, for its page: a bounded store of stories.

A scheduler that is built with `tell` passes each line here. The store keeps the pods to which something happened last.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from mooring.model.pod import Pod

MAX_PODS = 20_000
MAX_LINES = 100
"""Of one pod, the newest."""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One thing that happened to a pod."""

    time_ns: int
    text: str


class PodStories:
    """Stories by `namespace/name`."""

    def __init__(self, now_ns: Callable[[], int], max_pods: int = MAX_PODS, max_lines: int = MAX_LINES) -> None:
        self._now_ns = now_ns
        self._max_pods, self._max_lines = max_pods, max_lines
        self._lines: OrderedDict[str, list[StoryLine]] = OrderedDict()

    def tell(self, pod: Pod, text: str) -> None:
        """Something happened to a pod."""
        lines = self._lines.setdefault(pod.key, [])
        self._lines.move_to_end(pod.key)
        lines.append(StoryLine(self._now_ns(), text))
        if len(lines) > self._max_lines:
            del lines[0]
        if len(self._lines) > self._max_pods:
            self._lines.popitem(last=False)

    def of(self, key: str) -> list[StoryLine]:
        """The lines of a pod, oldest first; empty if nothing is known of it."""
        return list(self._lines.get(key, ()))
