"""From kubeconfig files, or the service account of a pod, to ConnectionSettings.

One context is chosen, and its cluster and user are checked. Errors name the field, so that a user can correct it.
"""

import base64
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import (
    V1,
    VERSIONS,
    Credentials,
    CredentialsError,
    ExecCredentials,
    ExecPlugin,
    Identity,
    RereadFile,
    Secret,
)
from mooring.apiclient.kubeconfig.files import (
    Context,
    Entry,
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigError,
    User,
    kubeconfig_paths,
    merged,
)
from mooring.kit.bounded_reading import read_file
from mooring.kit.clock import Clock, SteadyClock, WallClock
from mooring.kit.words import did_you_mean, similar

T = TypeVar("T")

_NOWHERE = "none is given, neither $KUBECONFIG nor ~/.kube/config is a file that exists, and this is not a pod"

_SHOWN_NAMES = 10
"""How many names an error lists: kubeconfigs of large companies have hundreds of contexts."""

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster whose content goes to exec plugins."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Environment and clocks, on which the settings depend beside the files; tests pass their own."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    clock: Clock = field(default_factory=SteadyClock)
    wall: Clock = field(default_factory=WallClock)


def find_connection(
    path: Path | None = None, context: str = "", around: Surroundings | None = None
) -> ConnectionSettings:
    """As kubectl finds its cluster: the given file, $KUBECONFIG, ~/.kube/config, and finally the pod's service account.

    Raises KubeconfigError, CredentialsError.
    """
    around = around or Surroundings()
    found = kubeconfig_paths(path, around.environment)
    if not found and is_in_cluster(around.environment):
        return in_cluster(around.environment, clock=around.clock)
    if not found:
        raise KubeconfigError("kubeconfig", "", _NOWHERE)
    return access_of(merged(found), context, around)


def access_of(config: Kubeconfig, context: str, around: Surroundings) -> ConnectionSettings:
    """The settings of one context; an empty name means the current context."""
    chosen = _context(config, context)
    cluster = _named(config.clusters, chosen, "cluster", chosen.value.cluster)
    user = _named(config.users, chosen, "user", chosen.value.user) if chosen.value.user else None
    _check_cluster(cluster)
    authority = _authority(cluster)
    return ConnectionSettings(
        server=_server_url(cluster.value.server),
        authority_pem=authority,
        skips_verification=cluster.value.insecure_skip_tls_verify,
        server_name=cluster.value.tls_server_name,
        proxy_url=cluster.value.proxy_url,
        credentials=_credentials(user, _cluster_info(cluster, authority), around) if user else Identity(),
        impersonation=_impersonation(user) if user else (),
        namespace=chosen.value.namespace,
    )


def _context(config: Kubeconfig, name: str) -> Entry[Context]:
    """Find the context of this name, or the current context if the name is empty. Raises KubeconfigError, which suggests
    similar names."""
    files = os.pathsep.join(map(str, config.files))
    if not (name or config.current_context):
        raise KubeconfigError(files, "current-context", f"is not set{_there_are(config.contexts)}")
    found = config.contexts.get(name or config.current_context)
    if found is None:
        where = "contexts" if name else "current-context"
        wanted = name or config.current_context
        alike = did_you_mean(similar(wanted, config.contexts))
        problem = f"no context is named {wanted!r}{alike}{_there_are(config.contexts)}"
        raise KubeconfigError(files, where, problem)
    return found


def _named(entries: Mapping[str, Entry[T]], context: Entry[Context], kind: str, name: str) -> Entry[T]:
    if not name:
        raise context.error(kind, "is not set")
    if name not in entries:
        raise context.error(kind, f"no {kind} is named {name!r}{_there_are(entries)}")
    return entries[name]


def _there_are(entries: Mapping[str, Any]) -> str:
    if not entries:
        return " (there are none)"
    shown, more = sorted(entries)[:_SHOWN_NAMES], len(entries) - _SHOWN_NAMES
    return f" (there are: {', '.join(shown)}{f' and {more} more' if more > 0 else ''})"


# ---- the cluster


def _check_cluster(cluster: Entry[KubeconfigCluster]) -> None:
    """Refuse a cluster without a usable server URL, with a password in the URL, or with TLS settings that contradict each
    other."""
    value = cluster.value
    if not value.server:
        raise cluster.error("server", "is not set")
    _check_url(cluster, "server", _server_url(value.server), ("http", "https"))
    if "@" in urlsplit(_server_url(value.server)).netloc:
        raise cluster.error("server", "must not hold a user name and password; write them under users")
    if value.proxy_url:
        _check_url(cluster, "proxy-url", value.proxy_url, ("http", "https"))
    if value.insecure_skip_tls_verify and (value.certificate_authority or value.certificate_authority_data):
        problem = "cannot be true with a certificate authority, which would have no effect"
        raise cluster.error("insecure-skip-tls-verify", problem)


def _check_url(cluster: Entry[KubeconfigCluster], name: str, url: str, schemes: tuple[str, ...]) -> None:
    """Check a URL without showing it: the URL of a proxy may contain a password."""
    try:
        parts = urlsplit(url)
        is_url = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise cluster.error(name, "is not a URL")
    if parts.scheme not in schemes:
        raise cluster.error(name, f"has the scheme {parts.scheme!r}, and only {' and '.join(schemes)} are supported")


def _server_url(written: str) -> str:
    """The URL of the server; without a scheme it is http, as for kubectl."""
    return (written if "://" in written else f"http://{written}").rstrip("/")


def _authority(cluster: Entry[KubeconfigCluster]) -> bytes:
    data, path = cluster.value.certificate_authority_data, cluster.value.certificate_authority
    if data or not path:
        return data
    try:
        return read_file(cluster.path(path))
    except OSError as error:
        problem = f"{cluster.path(path)} cannot be read: {error.strerror}"
        raise cluster.error("certificate-authority", problem) from None


def _cluster_info(cluster: Entry[KubeconfigCluster], authority: bytes) -> dict[str, Any]:
    """The cluster as a plugin with provideClusterInfo gets it."""
    value = cluster.value
    told: dict[str, Any] = {
        "server": _server_url(value.server),
        "tls-server-name": value.tls_server_name,
        "insecure-skip-tls-verify": value.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": value.proxy_url,
        "disable-compression": value.disable_compression,
        "config": next((item.extension for item in value.extensions if item.name == _EXEC_EXTENSION), None),
    }
    return {name: content for name, content in told.items() if content}


# ---- the user


def _credentials(user: Entry[User], cluster: Mapping[str, Any], around: Surroundings) -> Credentials:
    """Build the credentials of a user from its kubeconfig entry: an exec plugin, or a token, a client certificate with its
    key, and a user name with password."""
    value = user.value
    if value.auth_provider is not None:
        named = value.auth_provider.get("name", "")
        problem = f"{named!r} was removed in Kubernetes 1.26; use an exec plugin (kubelogin, gke-gcloud-auth-plugin)"
        raise user.error("auth-provider", problem)
    _check_methods(user)
    if value.exec is not None:
        return ExecCredentials(_plugin(user, cluster), around.clock, around.wall)
    certificate = _secret(user, "client-certificate", value.client_certificate_data, value.client_certificate, around)
    key = _secret(user, "client-key", value.client_key_data, value.client_key, around)
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.error(missing, f"neither {missing} nor {missing}-data is set, but its counterpart is")
    # Parity: a token file wins over a token, unlike the -data fields, which win over their files.
    token = _secret(user, "tokenFile", b"" if value.token_file else value.token.encode(), value.token_file, around)
    return Identity(token, certificate, key, (value.username, value.password) if value.username else None)


def _check_methods(user: Entry[User]) -> None:
    value = user.value
    methods = {"token": value.token or value.token_file, "username": value.username, "exec": value.exec}
    used = [name for name, is_used in methods.items() if is_used]
    if len(used) > 1:
        raise user.error("", f"has more than one way to log in: {', '.join(used)}")
    if value.password and not value.username:
        raise user.error("username", "is not set, but password is")


def _secret(user: Entry[User], name: str, data: bytes, path: str, around: Surroundings) -> Secret | None:
    if data:
        return data
    if not path:
        return None
    file = RereadFile(user.path(path), f"{user.file}: {user.place}.{name}", around.clock)
    file.content()  # so that a wrong path is an error now, not at the first request
    return file


def _plugin(user: Entry[User], cluster: Mapping[str, Any]) -> ExecPlugin:
    """Check the `exec` section of a user and convert it. A command with a directory is relative to the kubeconfig file; other
    commands are found on PATH."""
    settings = user.value.exec
    assert settings is not None
    if not settings.command:
        raise user.error("exec.command", "is not set")
    if settings.api_version not in VERSIONS:
        raise user.error("exec.apiVersion", f"must be {' or '.join(VERSIONS)}, not {settings.api_version!r}")
    if settings.interactive_mode not in ("Never", "IfAvailable", "Always", ""):
        raise user.error("exec.interactiveMode", "must be Never, IfAvailable or Always")
    if not settings.interactive_mode and settings.api_version == V1:
        raise user.error("exec.interactiveMode", "is not set, and v1 requires it: Never, IfAvailable or Always")
    if settings.interactive_mode == "Always":
        raise user.error("exec.interactiveMode", "is Always, but a scheduler has no terminal")
    if not all(variable.name for variable in settings.env):
        raise user.error("exec.env", "has a variable without a name")
    has_directory = os.sep in settings.command
    return ExecPlugin(
        place=f"{user.file}: {user.place}.exec",
        command=str(user.path(settings.command)) if has_directory else settings.command,
        arguments=tuple(settings.args),
        environment={variable.name: variable.value for variable in settings.env},
        api_version=settings.api_version,
        install_hint=settings.install_hint,
        cluster=cluster if settings.provide_cluster_info else None,
    )


def _impersonation(user: Entry[User]) -> tuple[tuple[str, str], ...]:
    """HTTP headers with which the client impersonates another user. A uid, groups or extra values without a user name are an
    error."""
    value = user.value
    headers = [("Impersonate-User", value.as_user)] if value.as_user else []
    if value.as_uid:
        headers.append(("Impersonate-Uid", value.as_uid))
    headers += [("Impersonate-Group", group) for group in value.as_groups]
    headers += [(f"Impersonate-Extra-{key}", item) for key, items in value.as_user_extra.items() for item in items]
    if headers and not value.as_user:
        raise user.error("as", "is not set, but as-uid, as-groups or as-user-extra is")
    return tuple(headers)


# ---- the service account of a pod


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def names_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment names an API server, as in every pod. A pod may still have no service account."""
    return bool(environment.get(_HOST) and environment.get(_PORT))


def is_in_cluster(environment: Mapping[str, str] = os.environ, mounted: Path = SERVICE_ACCOUNT) -> bool:
    return names_cluster(environment) and (mounted / "token").is_file()


def in_cluster(
    environment: Mapping[str, str] = os.environ, mounted: Path = SERVICE_ACCOUNT, clock: Clock | None = None
) -> ConnectionSettings:
    """The settings of a pod. The token file is read again, because the kubelet rotates it.

    Parity: without ca.crt the authorities of the machine count. Raises CredentialsError.
    """
    host, port = environment.get(_HOST), environment.get(_PORT)
    if not host or not port:
        raise CredentialsError(f"this is not a pod: {_HOST} and {_PORT} are not both set")
    token = RereadFile(mounted / "token", "service account", clock)
    token.content()  # so that a missing mount is an error now, not at the first request
    return ConnectionSettings(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority_pem=_content(mounted / "ca.crt"),
        credentials=Identity(token),
        namespace=_content(mounted / "namespace").decode().strip(),
    )


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return read_file(path)
    return b""
