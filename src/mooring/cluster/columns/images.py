"""Container images on nodes: how large they are, and on how many nodes each row believes they are."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import grown

_NOTHING: Mapping[str, int] = {}
"""Image counts of a row whose node has no images."""


class Image:
    """One image name. `size_bytes` is what the first node that reported it said, until it is gone from all nodes."""

    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: set[int] = set()


class Images:
    """Image name -> where it is.

    Parity: the number of nodes that have an image is seen by a row as of the last time that the row changed, as in
    upstream's snapshot; `capture` is that moment.
    """

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, frozenset[str]] = {}
        """By row: the images of its node."""
        self._overruled: set[int] = set()
        """Rows whose node reports another size of an image than the first node did."""
        self._counts: dict[str, NDArray[np.int32]] = {}
        """Image -> column, made when first asked for: a node reports up to 50 images, and pods use few of them."""
        self.epoch = 0
        """Grows when any image comes to a node or leaves it: counts seen before may be old."""
        self._captured: dict[int, int] = {}
        """By row: the epoch whose counts it sees."""
        self._seen: dict[int, Mapping[str, int]] = {}
        """By row: image -> on how many nodes the row believes it to be."""
        self.views_version = 0
        """Grows when a row sees other counts."""
        self._capacity = 0

    def put(self, row: int, sizes: Mapping[str, int]) -> None:
        """The node of `row` now has these images."""
        names = frozenset(sizes)
        before = self._names.get(row, frozenset())
        for name in before:
            self._take_away(row, name)
        self._overruled.discard(row)
        for name, size_bytes in sizes.items():
            image = self._images.setdefault(name, Image(size_bytes))
            image.rows.add(row)
            if image.size_bytes != size_bytes:
                self._overruled.add(row)
        if names:
            self._names[row] = names
        else:
            self._names.pop(row, None)
        if names != before:
            self.epoch += 1

    @property
    def are_on_nodes(self) -> bool:
        """Whether a node has an image, or had one when its row changed last."""
        return bool(self._images or self._seen)

    def capture(self, rows: Iterable[int]) -> None:
        """These rows changed: they now see the counts of this moment."""
        if not self.are_on_nodes:
            return
        for row in rows:
            if self._captured.get(row) != self.epoch:
                self._captured[row] = self.epoch
                self.see(row, {name: len(self._images[name].rows) for name in self._names.get(row, ())})

    def lags(self, row: int) -> bool:
        """Whether the row has images and would see other counts if it changed now."""
        return row in self._names and self._captured.get(row) != self.epoch

    def would_resize(self, row: int) -> bool:
        """Whether an image would get another size if the node of the row, the only one that has it, reported it again."""
        return row in self._overruled and any(len(self._images[name].rows) == 1 for name in self._names.get(row, ()))

    def lagging(self) -> dict[int, dict[str, int]]:
        """Row -> what it sees, where that is not how it is."""
        return {row: dict(self._seen.get(row, {})) for row in self._names if self.lags(row)}

    def lag(self, seen: Mapping[int, Mapping[str, int]]) -> None:
        """Let rows see what they saw in another table (`lagging`)."""
        for row, counts in seen.items():
            self._captured[row] = -1
            self.see(row, dict(counts))

    def sizes(self) -> dict[str, int]:
        return {name: image.size_bytes for name, image in self._images.items()}

    def put_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Take over sizes as another table knows them: they depend on which node was first. Returns whether one changed."""
        changed = {name: size_bytes for name, size_bytes in sizes.items() if self.size_bytes(name) != size_bytes}
        there = changed.keys() & self._images.keys()
        for name in there:
            self._images[name].size_bytes = changed[name]
        return bool(there)

    def names_on(self, row: int) -> frozenset[str]:
        """The images of the node of a row."""
        return self._names.get(row, frozenset())

    def seen_by(self, row: int) -> Mapping[str, int]:
        """Image -> on how many nodes the row believes it to be. It is the same mapping until the row sees other counts."""
        return self._seen.get(row, _NOTHING)

    def node_count(self, name: str) -> int:
        """On how many nodes the image is."""
        image = self._images.get(name)
        return 0 if image is None else len(image.rows)

    def size_bytes(self, name: str) -> int:
        """0 for an image that no node has."""
        image = self._images.get(name)
        return image.size_bytes if image else 0

    def counts(self, name: str) -> NDArray[np.int32] | None:
        """For each row on how many nodes it believes the image to be, 0 where it does not have it; None: nowhere."""
        if name not in self._images:
            self._counts.pop(name, None)
            return None
        column = self._counts.get(name)
        if column is None:
            column = self._counts[name] = np.zeros(self._capacity, np.int32)
            for row, seen in self._seen.items():
                column[row] = seen.get(name, 0)
        return column

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts = {name: grown(column, capacity) for name, column in self._counts.items()}

    def fork(self) -> "Images":
        """A copy that can capture for itself; which node has which image it shares with the original."""
        other = Images()
        other.__dict__.update(self.__dict__)
        other._captured, other._seen = dict(self._captured), dict(self._seen)
        other._counts = {name: column.copy() for name, column in self._counts.items()}
        return other

    def see(self, row: int, seen: Mapping[str, int]) -> None:
        """Replace what a row sees, in the columns that exist as well."""
        self.views_version += 1
        for name in self._seen.pop(row, {}).keys() - seen.keys():
            if name in self._counts:
                self._counts[name][row] = 0
        if seen:
            self._seen[row] = seen
        for name, count in seen.items():
            if name in self._counts:
                self._counts[name][row] = count

    def _take_away(self, row: int, name: str) -> None:
        image = self._images[name]
        image.rows.discard(row)
        if not image.rows:
            del self._images[name]
