"""Serves an embedded cluster on loopback: TLS certificate, token, kubeconfig, HTTP server, and an orderly end.

With a data directory, certificate and token are kept, so that a kubeconfig works after a restart.
"""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.connection_settings import server_context, show_pair
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.kubeconfig.editing import Login, add_context, remove_context, write_kubeconfig
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiserver.server.http import HttpLimits, HttpServer
from mooring.app.cluster_doings import ClusterDoings
from mooring.app.dashboards import DashboardPlan, serve_dashboard
from mooring.embedded.embedded_cluster import EmbeddedCluster
from mooring.kit.bounded_reading import read_file
from mooring.kit.callbacks import ReportFault
from mooring.kit.listener import LOOPBACK
from mooring.kit.private_files import write_private
from mooring.kit.process import raise_descriptor_limit


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
