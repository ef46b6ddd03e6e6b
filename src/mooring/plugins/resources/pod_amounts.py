"""Several resources of a pod with their amounts, in the forms that kernels and plain numbers need."""

from collections.abc import Mapping, Sequence

import numpy as np

from mooring.cluster.columns.kernels import MAX_SCORE, Floats, Ints
from mooring.cluster.columns.resource_amounts import ResourceAmounts, Resources

FIRST_CLASS = ("cpu", "memory", "ephemeral-storage")
"""The filter checks these first and in this order, as upstream; they are never ignored and never served by devices."""
_FIRST_CLASS = frozenset(FIRST_CLASS)


class PodAmounts:
    """Resources in a given order. Columns are resources x 1, so that they broadcast against `cells` (resources x rows).

    Hot: a pod with requests that no pod had before needs only some of the columns, and each takes 1 µs, so they are made when
    they are asked for.
    """

    # Hot: what was not asked for yet stands in the class.
    _column: Ints | None = None
    _floats: Floats | None = None
    _minus_percent: Floats | None = None
    _room: Floats | None = None

    def __init__(self, places: ResourceAmounts, by_name: Mapping[str, int], weights: Sequence[int] = ()) -> None:
        """`by_name` are the amounts in units of the node table; `weights` are for scores."""
        self.names = tuple(by_name)
        self.resources: Resources = places.resources(self.names) if by_name else slice(0, 0)
        self.has_scalars = not by_name.keys() <= _FIRST_CLASS
        """Whether devices may serve one of the resources. Hot: nearly always not, and then a score needs no more look."""
        self.plain = tuple(by_name.values())
        self.weights = weights

    @property
    def column(self) -> Ints:
        if self._column is None:
            self._column = np.array(self.plain, np.int64)[:, None]
        return self._column

    @property
    def floats(self) -> Floats:
        if self._floats is None:
            self._floats = np.array(self.plain, np.float64)[:, None]
        return self._floats

    @property
    def minus_percent(self) -> Floats:
        """The amounts times -100: what the pod changes in `FloatColumns.free_percent`."""
        if self._minus_percent is None:
            self._minus_percent = np.array([amount * -MAX_SCORE for amount in self.plain], np.float64)[:, None]
        return self._minus_percent

    @property
    def room(self) -> Floats:
        """What `FloatColumns.free` must have: room for one more pod, and the amounts."""
        if self._room is None:
            self._room = np.array([1, *self.plain], np.float64)[:, None]
        return self._room
