"""The way into a cluster from one of its pods: the service account that the kubelet mounts."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials.credentials import CredentialsError, Identity, RereadFile
from mooring.kit.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def names_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the kubelet has told this process where the API server is; there may be no service account all the same."""
    return bool(environment.get(_HOST) and environment.get(_PORT))


def is_in_cluster(environment: Mapping[str, str] = os.environ, mounted: Path = SERVICE_ACCOUNT) -> bool:
    return names_cluster(environment) and (mounted / "token").is_file()


def in_cluster(
    environment: Mapping[str, str] = os.environ, mounted: Path = SERVICE_ACCOUNT, clock: Clock | None = None
) -> ConnectionSettings:
    """The token is read again as it is rotated. Parity: without ca.crt the certificates of the machine count."""
    host, port = environment.get(_HOST), environment.get(_PORT)
    if not host or not port:
        raise CredentialsError(f"this is no pod of a cluster: {_HOST} and {_PORT} are not both set")
    token = RereadFile(mounted / "token", "service account", clock)
    token.content()  # so that a missing mount is told at once
    return ConnectionSettings(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority_pem=_content(mounted / "ca.crt"),
        credentials=Identity(token),
        namespace=_content(mounted / "namespace").decode().strip(),
    )


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
