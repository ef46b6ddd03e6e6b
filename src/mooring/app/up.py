"""The embedded cluster as a service: reached over TLS with a token, both made here, and written into a kubeconfig."""

import asyncio
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mooring.apiclient.credentials.certificates import CertificateFiles, KeyPair
from mooring.apiclient.credentials.private_files import write_private
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.writing import Login, add_context, remove_context, write_kubeconfig
from mooring.apiserver.server.http import HttpLimits, HttpServer
from mooring.embedded.cluster import EmbeddedCluster, Report
from mooring.kit.process import raise_descriptor_limit

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    port: int = 0
    """0: any free one."""
    is_plain: bool = False
    """HTTP without TLS and token, on loopback only."""
    data_dir: Path | None = None
    """Where certificates and token are kept, so that a kubeconfig stays good over a restart."""
    kubeconfig: Path | None = None
    """A file of the user's that gets a context while the cluster runs; None: there is only our own file."""


@dataclass(frozen=True, slots=True)
class EmbeddedService:
    """A cluster that can be reached."""

    cluster: EmbeddedCluster
    url: str
    kubeconfig: Path
    context: str
    """The context of this cluster in the kubeconfig."""
    own_kubeconfig: Path
    """A file that names this cluster only, whatever becomes the current context of the other."""


@asynccontextmanager
async def serving(
    cluster: EmbeddedCluster, settings: ServiceSettings, report: Report
) -> AsyncIterator[EmbeddedService]:
    """Inside, the cluster runs and answers. Raises OSError when the port cannot be had, KubeconfigError."""
    async with AsyncExitStack() as ending:
        scratch = ending.enter_context(tempfile.TemporaryDirectory(prefix="mooring-"))
        home = settings.data_dir or Path(scratch)
        files = CertificateFiles(home / "pki")
        token = "" if settings.is_plain else _token(home / "token")
        limits = HttpLimits.within(raise_descriptor_limit())
        server = HttpServer(cluster.api, token, cluster.flush, report, limits=limits)
        tls = None if settings.is_plain else _server_context(files.server(), Path(scratch))
        ending.callback(cluster.close)
        ending.push_async_callback(server.stop)
        port = await server.start(LOOPBACK, settings.port, tls)
        url = f"{'http' if settings.is_plain else 'https'}://{LOOPBACK}:{port}"
        login = Login(url, b"" if settings.is_plain else files.authority_pem, token or None)
        own = home / "kubeconfig"
        write_kubeconfig(own, login)
        kubeconfig = settings.kubeconfig or own
        if settings.kubeconfig is not None:
            login = ending.enter_context(_context(kubeconfig, login, cluster.api.cluster_id, report))
        running = asyncio.create_task(cluster.run())
        ending.push_async_callback(_end, running)
        yield EmbeddedService(cluster, url, kubeconfig.absolute(), login.context, own.absolute())


async def _end(running: "asyncio.Task[None]") -> None:
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@contextmanager
def _context(path: Path, login: Login, cluster_id: str, report: Report) -> Iterator[Login]:
    """A context in a file of the user's, as long as the cluster runs. The login then has the name of the context."""
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
    """The token of the last time, or a new one."""
    with suppress(FileNotFoundError):
        kept = path.read_text().strip()
        if kept:
            return kept
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def _server_context(pair: KeyPair, scratch: Path) -> ssl.SSLContext:
    """Python reads certificates from files only; these go with the scratch directory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    certificate = scratch / "server.pem"
    write_private(certificate, pair.key_pem + pair.certificate_pem)
    context.load_cert_chain(certificate)
    certificate.unlink()
    return context
