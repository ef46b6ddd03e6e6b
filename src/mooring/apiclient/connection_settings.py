"""How to reach an API server, and as whom: what kubeconfig files and service accounts are read into, and which proxy
follows from it.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mooring.apiclient.credentials.credentials import ANONYMOUS, Credentials


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything that a client needs to know. Its repr shows no secret, because logs may contain it."""

    server: str
    """The URL without a slash at the end; it may have a path."""
    authority_pem: bytes = field(default=b"", repr=False)
    """The certificate authorities to trust; empty for those that this machine trusts."""
    skips_verification: bool = False
    server_name: str = ""
    """The name to expect in the server's certificate, if it is not the host of the URL."""
    proxy_url: str = field(default="", repr=False)
    """Empty: HTTPS_PROXY, HTTP_PROXY and NO_PROXY decide."""
    credentials: Credentials = field(default=ANONYMOUS, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers for user impersonation."""
    namespace: str = ""


# ---- proxies


def proxy_of(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the proxy by the environment, as Go's HTTP client reads it; empty for a direct connection, as to this
    machine itself."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    if not proxy or _is_local(host) or _is_exempt(host, parts.port, _variable(environment, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_local(host: str) -> bool:
    address = _address(host)
    return address.is_loopback if address else host == "localhost"


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY covers the host: `*`, an address, a network, a host with its subdomains, or
    `.subdomains-only`; a port may follow."""
    if entry == "*":
        return True
    address = _address(host)
    if address and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if entry.count(":") == 1:
        entry, _, entry_port = entry.partition(":")
        if entry_port != str(port):
            return False
    if address:
        return _address(entry.strip("[]")) == address
    suffix = entry.removeprefix("*")
    return host == entry or host.endswith(suffix if suffix.startswith(".") else f".{suffix}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
