"""Serves an embedded cluster on loopback: TLS certificate, token, kubeconfig, HTTP server, and an orderly end. Its
objects are those of `mooring up`, or those of a recording at a moment, so that kubectl can look at them.

With a data directory, certificate and token are kept, so that a kubeconfig works after a restart.
"""

import asyncio
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT
from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.connection_settings import server_context, show_pair
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.kubeconfig.editing import Login, add_context, remove_context, write_kubeconfig
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiserver.server.http import HttpLimits, HttpServer
from mooring.app.cluster_doings import ClusterDoings
from mooring.app.dashboards import DashboardPlan, serve_dashboard
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.embedded.seeding import seed
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.bounded_reading import read_file
from mooring.kit.callbacks import ReportFault
from mooring.kit.listener import LOOPBACK
from mooring.kit.private_files import write_private
from mooring.kit.process import raise_descriptor_limit
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet, ReplicationController, StatefulSet
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.replay.run_reader import RunReader
from mooring.state.scheduler_state import SchedulerState


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How the cluster is reached."""

    port: int = 0
    """0 takes a free one."""
    is_plain: bool = False
    """HTTP without TLS and token, on loopback only."""
    data_dir: Path | None = None
    """Where certificate and token are kept; None keeps them for this run."""
    kubeconfig: Path | None = None
    """The user's kubeconfig that gets a context while the cluster runs; None changes no file of the user."""
    dashboard: DashboardPlan | None = None
    """None serves no dashboard."""


@dataclass(frozen=True, slots=True)
class EmbeddedService:
    """A cluster that is being served."""

    cluster: EmbeddedCluster
    url: str
    kubeconfig: Path
    context: str
    """The context of this cluster in the kubeconfig."""
    own_kubeconfig: Path
    """A kubeconfig that has only this cluster."""
    dashboard: str = ""
    """The link to the dashboard, with its token; empty if there is none."""


@asynccontextmanager
async def serving(
    cluster: EmbeddedCluster, settings: ServiceSettings, report: ReportFault
) -> AsyncIterator[EmbeddedService]:
    """A context in which the cluster runs and is served. Raises OSError if the port is not available, DashboardPortError if
    that of the dashboard is not, and KubeconfigError.

    The end is in reverse order: the cluster stops, the context is removed, the server stops, the journal is closed.
    """
    async with AsyncExitStack() as ending:
        scratch = ending.enter_context(tempfile.TemporaryDirectory(prefix="mooring-"))
        home = settings.data_dir or Path(scratch)
        files = CertificateFiles(home / "pki")
        token = "" if settings.is_plain else _token(home / "token")
        limits = HttpLimits.within(raise_descriptor_limit())
        shown = cluster.settings.metrics
        metrics = None if shown is None else shown.metrics
        server = HttpServer(cluster.api, token, report, limits=limits, metrics=metrics)
        tls = None
        if not settings.is_plain:
            tls = server_context()
            unusable = CredentialsError("the certificate of the server cannot be used")
            show_pair(tls, files.server(), unusable, unusable)
        ending.callback(cluster.close)
        ending.push_async_callback(server.stop)
        port = await server.start(LOOPBACK, settings.port, tls)
        url = f"{'http' if settings.is_plain else 'https'}://{LOOPBACK}:{port}"
        login = Login(url, b"" if settings.is_plain else files.authority_pem, token)
        own = home / "kubeconfig"
        write_kubeconfig(own, login)
        kubeconfig = settings.kubeconfig or own
        if settings.kubeconfig is not None:
            login = ending.enter_context(_context(kubeconfig, login, cluster.api.cluster_id, report))
        running = asyncio.create_task(cluster.run())
        ending.push_async_callback(_end, running)
        dashboard = ""
        if settings.dashboard is not None:
            # The cluster of a recording is one moment of it, and the dashboard shows any.
            doings = ClusterDoings(find_connection(own)) if settings.dashboard.timeline is None else None
            dashboard = await serve_dashboard(ending, settings.dashboard, token, doings, report)
        yield EmbeddedService(cluster, url, kubeconfig.absolute(), login.context, own.absolute(), dashboard)


async def _end(running: "asyncio.Task[None]") -> None:
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@contextmanager
def _context(path: Path, login: Login, cluster_id: str, report: ReportFault) -> Iterator[Login]:
    """Add a context to the user's kubeconfig, and remove it at the end. Yields the login with the name of the context."""
    is_new = not path.exists()
    name = add_context(path, login, cluster_id)
    try:
        yield replace(login, context=name)
    finally:
        try:
            remove_context(path, name, cluster_id, removes_empty=is_new)
        except KubeconfigError as fault:
            report(f"the context {name} stays in the kubeconfig", fault)


def _token(path: Path) -> str:
    """The token of the last run, or a new one."""
    with suppress(FileNotFoundError):
        kept = read_file(path).decode(errors="replace").strip()
        if kept:
            return kept
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


OWNERS = (ReplicaSet, ReplicationController, StatefulSet)
"""A recording has their selectors only: without templates their controllers would make pods of nothing."""


@dataclass(frozen=True, slots=True)
class RecordedMoment:
    """The objects of a recording after the last step before a moment."""

    now_ns: int
    objects: Sequence[KubeObject]
    problems: Sequence[str]


def moment_in(runs: Sequence[RecordedRun], until_ns: int | None = None) -> RecordedMoment:
    """The cluster at a moment, or at the end of the recording, as the run that saw it last saw it."""
    found = RecordedMoment(0, (), ())
    problems: list[str] = []
    for run in runs:
        history = RunReader(run, _nothing)
        for _ in history.steps(sys.maxsize if until_ns is None else until_ns, until_ns):
            pass  # the reader follows the objects
        problems += history.problems
        if history.reader.objects and history.reader.now_ns >= found.now_ns:
            found = RecordedMoment(history.reader.now_ns, tuple(history.reader.objects.values()), ())
    return RecordedMoment(found.now_ns, found.objects, problems)


def _nothing(header: SegmentHeader, state: SchedulerState | None) -> None:
    """Only the objects are wanted, and no scheduler."""


@dataclass(frozen=True, slots=True)
class RecordedClusterSettings:
    """How the embedded cluster is scheduled, if at all."""

    config: KubeSchedulerConfiguration
    registry: Registry | None
    gates: Mapping[str, bool] | None
    schedules: bool = False


def open_recorded(
    moment: RecordedMoment, settings: RecordedClusterSettings, report: ReportFault
) -> tuple[EmbeddedCluster, list[str]]:
    """An embedded cluster with the objects of a moment, and what could not be put into it. Raises ConfigError."""
    cluster = EmbeddedCluster(
        EmbeddedSettings(settings.config, settings.registry, gates=settings.gates, schedules=settings.schedules),
        report=report,
    )
    return cluster, seed(cluster.api, served_forms(moment.objects))


def served_forms(objects: Iterable[KubeObject]) -> list[JsonObject]:
    """The objects as an API server shows them, without workloads, and the priority classes of their pods."""
    found: list[JsonObject] = []
    classes = RecordedPriorities()
    for item in objects:
        spec = BY_STRUCT.get(type(item))
        if spec is None or isinstance(item, OWNERS):
            continue
        written = {"apiVersion": spec.api_version, "kind": spec.kind, **msgspec.to_builtins(item)}
        found.append(classes.with_class(written) if isinstance(item, Pod) else written)
    return [*classes.objects(), *found]


class RecordedPriorities:
    """Schedulers do not watch priority classes, but a pod can have its priority only by a class."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], str] = {}
        """(priority, preemption policy) -> the class."""

    def with_class(self, pod: JsonObject) -> JsonObject:
        """The pod with a class of its priority."""
        spec = pod["spec"]
        priority, policy = spec.get("priority") or 0, spec.get("preemptionPolicy") or "PreemptLowerPriority"
        if (priority, policy) == (0, "PreemptLowerPriority"):
            return pod
        wanted = spec.get("priorityClassName") or f"recorded-{priority}".replace("--", "-minus-")
        name = self._names.get((priority, policy)) or self._unused(wanted)
        self._names[priority, policy] = name
        return {**pod, "spec": {**spec, "priorityClassName": name}}

    def _unused(self, wanted: str) -> str:
        """The name, with a number if a class of another priority has it."""
        taken = set(self._names.values())
        return next(name for i in count(1) if (name := wanted if i == 1 else f"{wanted}-{i}") not in taken)

    def objects(self) -> list[JsonObject]:
        """PriorityClass objects for the priorities and preemption policies that recorded pods have."""
        return [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": priority,
                "preemptionPolicy": policy,
            }
            for (priority, policy), name in self._names.items()
            if not name.startswith("system-")  # every cluster has these
        ]
