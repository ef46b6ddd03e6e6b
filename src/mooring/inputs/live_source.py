"""A live cluster as the source of answers: the cluster that kubectl would use, read-only, as manifests like any others."""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.kubeconfig.files import KubeconfigError, kubeconfig_paths
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiclient.request_errors import Unanswered
from mooring.inputs.documents import ManifestFile
from mooring.inputs.dump_header import DumpHeader
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.live_kinds import resource_name
from mooring.inputs.live_lists import LiveLists, has_items, list_cluster, path_of
from mooring.inputs.loaded_cluster import Config, Gates, LoadedCluster, Plugins, loaded_from
from mooring.inputs.manifests import Manifests, OnProgress, read_files
from mooring.inputs.pod_events import PodEvent
from mooring.kit.words import LISTED_FAULTS
from mooring.model.node import Node
from mooring.model.pod import Pod

T = TypeVar("T")


def load_live(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str = "",
    config: Config | None = None,
    plugins: Plugins = (),
    feature_gates: Gates | None = None,
) -> LoadedCluster:
    """The live cluster that kubectl would use, for Python programs; nothing is written to it. Raises LiveSourceError."""
    manifests, notes = read_live(None if kubeconfig is None else os.fspath(kubeconfig), context)
    loaded = loaded_from(manifests, config, plugins, feature_gates)
    return replace(loaded, notes=[*notes, *loaded.notes])


def read_live(
    kubeconfig: str | None = None, context: str = "", on_progress: OnProgress | None = None
) -> tuple[Manifests, list[str]]:
    """The objects of a live cluster, and notes for the user. Raises LiveSourceError."""
    connection = connection_to(kubeconfig, context)
    lists = _run(_list_all(connection, on_progress))
    header = DumpHeader(
        has_all_pods=True,
        taken_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        missing=[resource_name(spec) for spec in lists.refused] or None,
    )
    files = [*_files(connection.server, lists)]
    # The server has validated the objects; fields that Mooring does not know come from a newer Kubernetes.
    manifests = read_files(files, validation=Validation.IGNORE, header=header)
    manifests.events = _of_pending(manifests)
    notes = [*lists.notes(), *_homeless(manifests), *_left_out(manifests)]
    manifests.problems = []
    return manifests, notes


def _files(server: str, lists: LiveLists) -> Iterator[ManifestFile]:
    """The pages as files; their names are the URLs, which messages show."""
    for spec, pages in lists.pages.items():
        yield from (ManifestFile(f"{server}{path_of(spec)}", page) for page in pages if has_items(page))


def connection_to(kubeconfig: str | None, context: str) -> ConnectionSettings:
    """The cluster that kubectl would use. Raises LiveSourceError."""
    try:
        return find_connection(None if kubeconfig is None else Path(kubeconfig), context)
    except (KubeconfigError, CredentialsError) as fault:
        is_unnamed = kubeconfig is None and not kubeconfig_paths(None)
        raise (NoKubeconfig if is_unnamed else LiveSourceError)(str(fault)) from fault


def _left_out(manifests: Manifests) -> list[str]:
    """Notes about objects that cannot be read: one strange object must not keep answers about all others away."""
    told = [f"left out, because it cannot be read: {problem}" for problem in manifests.problems]
    return (
        told
        if len(told) <= LISTED_FAULTS
        else [*told[:LISTED_FAULTS], f"... and {len(told) - LISTED_FAULTS} more objects are left out"]
    )


def _of_pending(manifests: Manifests) -> list[PodEvent]:
    """The events about pods that are pending: nobody asks for the history of the others, which are most."""
    objects = [manifest.object for manifest in manifests.objects]
    pending = {item.key: item.uid for item in objects if isinstance(item, Pod) and not item.spec.node_name}
    return [event for event in manifests.events if event.involved_object.uid == pending.get(event.pod_key)]


def _homeless(manifests: Manifests) -> list[str]:
    """A note about pods on nodes that are not listed: the node was just deleted."""
    objects = [manifest.object for manifest in manifests.objects]
    nodes = {item.name for item in objects if isinstance(item, Node)}
    hosts = [item.spec.node_name for item in objects if isinstance(item, Pod)]
    gone = sum(bool(host) and host not in nodes for host in hosts)
    return [f"{gone} pods are bound to nodes that do not exist; they take no room"] if gone else []


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in a thread of its own if this one has an event loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _list_all(connection: ConnectionSettings, on_progress: OnProgress | None) -> LiveLists:
    """Every resource. Raises LiveSourceError."""
    try:
        async with ApiClient(connection, "mooring-answers") as client:
            return await list_cluster(client, connection.server, on_progress)
    except ApiError as fault:
        raise LiveSourceError(_refusal(connection.server, fault)) from fault
    except (Unanswered, CredentialsError) as fault:
        raise LiveSourceError(f"{connection.server}: {fault}") from fault


def _refusal(server: str, fault: ApiError) -> str:
    if fault.code == 401:
        return f"{server}: the server does not accept the credentials (401); check the user of the context"
    return f"{server}: {fault.message} ({fault.code})"
