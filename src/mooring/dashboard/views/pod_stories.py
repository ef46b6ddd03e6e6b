"""Events of each pod for its page, line by line, in one bounded journal of all stories.

A scheduler that is built with `tell` passes each line here, four for a pod that is placed at once. So a line is only appended
to one journal of all pods; a page that asks for a pod searches it.
"""

from collections import deque
from collections.abc import Callable

from mooring.dashboard.slices import Sliced
from mooring.model.pod import Pod

MAX_LINES = 80_000
"""Largest number of lines of all pods together; the newest are kept. These are the lines of 20,000 pods that are placed in
their first attempt, and take some 15 MiB."""
MAX_SHOWN = 100
"""Largest number of lines that the page of one pod shows; the newest are shown."""
LONG = 120
"""Texts with more characters are counted: they say why an attempt failed, and a plugin may say anything."""
MAX_TEXT = 1024
MAX_LONG = 4 << 20
"""Characters of all long texts; many pods share each of them."""
_STEP = 5000
"""Lines that are searched between two yields: some 0.2 ms."""

StoryLine = tuple[int, str]
"""(time in nanoseconds, what happened)"""


class PodStories:
    """Stories by `namespace/name`. A pod that is deleted and created again goes on with its story."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        max_lines: int = MAX_LINES,
        max_shown: int = MAX_SHOWN,
        max_long: int = MAX_LONG,
    ) -> None:
        self._now_ns = now_ns
        self._max_shown, self._max_long = max_shown, max_long
        self._lines: deque[tuple[str, int, str]] = deque(maxlen=max_lines)
        self._note = self._lines.append
        self._long_texts: dict[str, str] = {}
        """The long texts in the journal, each once."""
        self._long = 0
        """Number of characters of the long texts that are kept."""

    def tell(self, pod: Pod, text: str) -> None:
        """Something happened to a pod. Hot: a list for each pod took 1.2 µs a line, this takes 0.3."""
        if len(text) > LONG:
            text = self._long_text(text)
        self._note((pod.key, self._now_ns(), text))

    def _long_text(self, text: str) -> str:
        """The text as one object for all lines that have it."""
        text = text[:MAX_TEXT]
        known = self._long_texts.get(text)
        if known is not None:
            return known
        while self._long + len(text) > self._max_long and self._lines:
            self._forget_half()
        self._long += len(text)
        self._long_texts[text] = text
        return text

    def _forget_half(self) -> None:
        """Drop the older half of the journal, and count the long texts that are left."""
        for _ in range((len(self._lines) + 1) // 2):
            self._lines.popleft()
        self._long_texts = {text: text for _, _, text in self._lines if len(text) > LONG}
        self._long = sum(map(len, self._long_texts))

    def take_over(self, earlier: "PodStories", before_ns: int) -> None:
        """Begin with the lines of another journal that are older than a moment: a time line has gone back to it."""
        for key, time_ns, text in earlier._lines:
            if time_ns < before_ns:
                self._note((key, time_ns, self._long_text(text) if len(text) > LONG else text))

    def of(self, key: str) -> Sliced[list[StoryLine]]:
        """The newest lines of a pod, oldest first; empty if nothing is known of it."""
        lines, found = list(self._lines), list[StoryLine]()
        for end in range(len(lines), 0, -_STEP):
            part = lines[max(end - _STEP, 0) : end]
            found[:0] = [(time_ns, text) for name, time_ns, text in part if name == key]
            if len(found) >= self._max_shown:
                break
            yield
        return found[-self._max_shown :]

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        held = {text for _, _, text in self._lines if len(text) > LONG}
        problems = [f"a long text is not known: {text[:20]}" for text in held - self._long_texts.keys()]
        if self._long != sum(map(len, self._long_texts)):
            problems.append(f"{self._long} characters are counted")
        return problems
