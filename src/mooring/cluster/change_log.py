"""A log of changed objects: whoever keeps what follows from them learns what to work out again."""

from mooring.model.meta import KubeObject

Changed = tuple[type[KubeObject], str]
"""Kind and key."""


class ChangeLog:
    """Objects in the order in which they changed. A reader keeps a position and later asks what came since.

    Only the recent past is kept: a reader that stayed away too long is told to start over.
    """

    LIMIT = 16384

    def __init__(self) -> None:
        self._changed: list[Changed] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._start + len(self._changed)

    def note(self, kind: type[KubeObject], key: str) -> None:
        self._changed.append((kind, key))
        if len(self._changed) > self.LIMIT:
            half = self.LIMIT // 2
            del self._changed[:half]
            self._start += half

    def since(self, position: int) -> list[Changed] | None:
        """What changed since `position`, each object once, in order; None when that is no longer known."""
        if position < self._start:
            return None
        return list(dict.fromkeys(self._changed[position - self._start :]))
