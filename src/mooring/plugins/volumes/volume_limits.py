"""How many volumes each CSI driver can attach to each node: columns made of the CSINode objects."""

import numpy as np
from numpy.typing import NDArray

from mooring.framework.context import SchedulingContext
from mooring.model.meta import int32

NO_LIMIT = -1


class NodeLimits:
    """Columns over all rows, made anew when a CSINode changed or nodes came or went. Call `refresh` before reading."""

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] = ()
        self.by_driver: dict[str, NDArray[np.int64]] = {}
        """Driver -> limit of each row; NO_LIMIT where there is none."""
        self.is_limited: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Rows on which some driver has a limit."""
        self._installed: dict[str, NDArray[np.bool_]] = {}

    def has_driver(self, driver: str) -> NDArray[np.bool_]:
        """Rows on whose node the driver runs."""
        found = self._installed.get(driver)
        return np.zeros(len(self.is_limited), np.bool_) if found is None else found

    def refresh(self, context: SchedulingContext) -> None:
        nodes, storage = context.cluster.nodes, context.cluster.storage
        made_of = (nodes.node_set_version, nodes.capacity, storage, storage.node_version)
        if made_of == self._made_of:
            return
        self._made_of, capacity = made_of, nodes.capacity
        self.by_driver, self._installed = {}, {}
        self.is_limited = np.zeros(capacity, np.bool_)
        for csi_node in storage.nodes.values():
            row = nodes.row_book.get(csi_node.name)
            for driver in (csi_node.spec.drivers or ()) if row is not None else ():
                self._installed.setdefault(driver.name, np.zeros(capacity, np.bool_))[row] = True
                count = driver.allocatable.count if driver.allocatable is not None else None
                if count is not None:
                    self.by_driver.setdefault(driver.name, np.full(capacity, NO_LIMIT, np.int64))[row] = int32(count)
                    self.is_limited[row] = True
