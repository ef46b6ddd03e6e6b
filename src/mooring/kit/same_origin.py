"""Tells requests of web pages from elsewhere: a browser reaches every listener of its machine, and sends what any page asks
it to send.

A page can point a name of its own at 127.0.0.1 and then read the answers (DNS rebinding), or send a form to this address and
not see the answer (CSRF). The first shows in `Host`, which then has the name; the second in `Origin`, which browsers add
to all requests that change something. Clients such as kubectl send no `Origin`, and as `Host` the address that they
connect to.

A server that asks for a token, or speaks TLS, is safe from rebinding already: a page has neither the token nor a certificate
for its name.
"""

import ipaddress
from collections.abc import Mapping

LOCAL_NAMES = frozenset(("localhost",))
"""Names that always mean this machine. No page can have one as its own."""


def is_own_host(headers: Mapping[str, str], port: int | None = None) -> bool:
    """Whether the request names this machine: as localhost, or by an IP address, which no page can point elsewhere.

    `port` must be named too; None accepts any, because a forwarded one differs. Browsers always send `Host`: a request
    without it is not from one.
    """
    host = headers.get("Host")
    if host is None:
        return True
    name, _, written = _split(host.strip().lower())
    return (_is_address(name) or name in LOCAL_NAMES) and (port is None or written == str(port))


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether the request comes from a page of this server, or from no page."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and host.lower() == headers.get("Host", "").lower()


def _split(host: str) -> tuple[str, str, str]:
    """`[::1]:80` -> `::1` and `80`; the port is empty if there is none."""
    if host.startswith("["):
        return host[1:].partition("]:") if "]:" in host else (host[1:].removesuffix("]"), "", "")
    return host.partition(":") if host.count(":") == 1 else (host, "", "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
