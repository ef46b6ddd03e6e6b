"""An API in process, with a clock that tests move: namespaces and priority classes are there, nothing else."""

from collections.abc import Mapping
from itertools import count

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Store
from mooring.embedded.seeding import create_initial_objects
from mooring.kit.clock import NS_PER_S, VirtualClock

START_NS = 1_800_000_000 * NS_PER_S


def an_api(
    clock: VirtualClock | None = None, taints_new_nodes: bool = False, gates: Mapping[str, bool] | None = None
) -> ResourceApi:
    """Uids and suffixes are counted, so that answers can be compared."""
    uids, suffixes = count(1), count(1)
    api = ResourceApi(
        Store(),
        clock or VirtualClock(START_NS),
        new_uid=lambda: f"00000000-0000-4000-8000-{next(uids):012d}",
        random_suffix=lambda: f"{next(suffixes):05d}",
        taints_new_nodes=taints_new_nodes,
        gates=gates or {},
    )
    create_initial_objects(api)
    return api
