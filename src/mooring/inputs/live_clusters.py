"""Several live clusters, read one beside the other: a cluster that does not answer delays none of the others."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths, merged
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.live_source import connection_to, read_live
from mooring.inputs.manifests import Manifests

READ_AT_ONCE = 4
"""How many clusters are read at the same time. Their objects are in memory until their turn comes."""

ReadCluster = tuple[Manifests, list[str]]
"""The objects of a cluster, and notes for the user."""


def contexts_of(kubeconfig: str | None, named: Sequence[str]) -> list[str]:
    """The contexts to ask: those that are named, or all of the kubeconfig. Raises LiveSourceError if a name is unknown, or if
    there is no kubeconfig."""
    try:
        known = merged(kubeconfig_paths(None if kubeconfig is None else Path(kubeconfig))).contexts
    except KubeconfigError as fault:
        raise LiveSourceError(str(fault)) from fault
    for name in named:
        if name not in known:
            connection_to(kubeconfig, name)  # raises, with similar names
    if not named and not known:
        raise NoKubeconfig("the kubeconfig has no contexts")
    return [*named] or sorted(known)


def read_each(
    kubeconfig: str | None, contexts: Sequence[str], time_limit_s: float
) -> Iterator[tuple[str, ReadCluster | LiveSourceError]]:
    """The clusters in the order of their contexts, each with its objects, or with the error why it has none."""
    left = iter(contexts)
    with ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="reading") as threads:

        def begin(context: str) -> tuple[str, "Future[ReadCluster]"]:
            return context, threads.submit(read_live, kubeconfig, context, None, time_limit_s)

        under_way = deque(map(begin, islice(left, READ_AT_ONCE)))
        while under_way:
            context, reading = under_way.popleft()
            try:
                found: ReadCluster | LiveSourceError = reading.result()
            except LiveSourceError as fault:
                found = fault
            yield context, found
            under_way.extend(map(begin, islice(left, 1)))
