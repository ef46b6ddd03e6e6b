"""The embedded cluster as a service: reached over TLS with a token, both made here, and written into a kubeconfig."""

import asyncio
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mooring.api.client.certificate_files import CertificateFiles
from mooring.api.client.certificates import KeyPair
from mooring.api.client.kubeconfig_writing import Login, write_kubeconfig
from mooring.api.client.private_files import write_private
from mooring.api.server.http import HttpLimits, HttpServer
from mooring.app.embedded import EmbeddedCluster, Report
from mooring.kit.descriptors import raise_limit

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
    """Where to write it; None: into the data directory, or a temporary one."""


@dataclass(frozen=True, slots=True)
class Service:
    """A cluster that can be reached."""

    cluster: EmbeddedCluster
    url: str
    kubeconfig: Path


@asynccontextmanager
async def serving(cluster: EmbeddedCluster, settings: ServiceSettings, report: Report) -> AsyncIterator[Service]:
    """Inside, the cluster runs and answers. Raises OSError when the port cannot be had."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as scratch:
        home = settings.data_dir or Path(scratch)
        files = CertificateFiles(home / "pki")
        token = "" if settings.is_plain else _token(home / "token")
        limits = HttpLimits.within(raise_limit())
        server = HttpServer(cluster.api, token, cluster.flush, report, limits=limits)
        tls = None if settings.is_plain else _server_context(files.server(), Path(scratch))
        port = await server.start(LOOPBACK, settings.port, tls)
        url = f"{'http' if settings.is_plain else 'https'}://{LOOPBACK}:{port}"
        kubeconfig = settings.kubeconfig or home / "kubeconfig"
        write_kubeconfig(kubeconfig, Login(url, b"" if settings.is_plain else files.authority_pem, token or None))
        running = asyncio.create_task(cluster.run())
        try:
            yield Service(cluster, url, kubeconfig.absolute())
        finally:
            await server.stop()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            cluster.close()


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
