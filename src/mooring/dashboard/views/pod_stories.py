"""What happened to each pod, line by line, for its page: a bounded store of stories.

A scheduler that is built with `tell` passes each line here. The store keeps the pods to which something happened last,
within limits for pods, for lines of one pod, and for bytes.
"""

from collections import OrderedDict
from collections.abc import Callable

from mooring.model.pod import Pod

MAX_PODS = 20_000
MAX_LINES = 100
"""Of one pod, the newest."""
MAX_BYTES = 16 << 20
"""Of all lines together. 20,000 pods that are placed in their first attempt have some 11 MiB."""
MAX_TEXT = 1024
"""Characters of one line: a plugin may say anything."""

_POD_BYTES, _LINE_BYTES = 300, 56
"""What a pod and a line take besides the text: keys, lists and numbers of Python."""
_SHARED_TEXTS = 4096

StoryLine = tuple[int, str]
"""(time in nanoseconds, what happened)"""


class PodStories:
    """Stories by `namespace/name`. A pod that is deleted and created again goes on with its story."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        max_pods: int = MAX_PODS,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._now_ns = now_ns
        self._max_pods, self._max_lines, self._max_bytes = max_pods, max_lines, max_bytes
        self._lines: OrderedDict[str, list[StoryLine]] = OrderedDict()
        """The pod that something happened to last is the last one."""
        self._bytes = 0
        self._texts: dict[str, str] = {}
        """Texts that many lines have in common, such as `added to the active queue`."""

    def tell(self, pod: Pod, text: str) -> None:
        """Something happened to a pod. Hot: four calls a pod that is placed; 0.5 µs each."""
        key = pod.key
        text = self._shared(text)
        lines = self._lines.get(key)
        if lines is None:
            self._lines[key] = [(self._now_ns(), text)]
            self._bytes += _POD_BYTES
        else:
            lines.append((self._now_ns(), text))
            self._lines.move_to_end(key)
            if len(lines) > self._max_lines:
                self._bytes -= _LINE_BYTES + len(lines[0][1])
                del lines[0]
        self._bytes += _LINE_BYTES + len(text)
        if self._bytes > self._max_bytes or len(self._lines) > self._max_pods:
            self._forget_oldest()

    def _shared(self, text: str) -> str:
        """The same text as one object for all lines."""
        known = self._texts.get(text)
        if known is not None:
            return known
        if len(text) > MAX_TEXT:
            text = text[:MAX_TEXT]
        if len(self._texts) >= _SHARED_TEXTS:
            self._texts.clear()
        self._texts[text] = text
        return text

    def _forget_oldest(self) -> None:
        """Drop whole stories until the rest is within the limits; the newest one stays."""
        while len(self._lines) > 1 and (self._bytes > self._max_bytes or len(self._lines) > self._max_pods):
            _, lines = self._lines.popitem(last=False)
            self._bytes -= _POD_BYTES + sum(_LINE_BYTES + len(text) for _, text in lines)

    def of(self, key: str) -> list[StoryLine]:
        """The lines of a pod, oldest first; empty if nothing is known of it."""
        return list(self._lines.get(key, ()))

    def __len__(self) -> int:
        return len(self._lines)

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        counted = sum(_POD_BYTES + sum(_LINE_BYTES + len(t) for _, t in lines) for lines in self._lines.values())
        problems = [] if counted == self._bytes else [f"{self._bytes} bytes are counted, {counted} are there"]
        if len(self._lines) > self._max_pods:
            problems.append(f"{len(self._lines)} pods have stories")
        problems += [
            f"{key} has {len(lines)} lines" for key, lines in self._lines.items() if len(lines) > self._max_lines
        ]
        return problems
