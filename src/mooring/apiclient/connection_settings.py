"""How to reach a cluster, and as whom: what kubeconfig files and service accounts are read into."""

from dataclasses import dataclass, field

from mooring.apiclient.credentials.credentials import ANONYMOUS, Credentials


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything a client needs to know. No secret shows in its repr."""

    server: str
    """The URL without a slash at its end; it may have a path of its own."""
    authority_pem: bytes = field(default=b"", repr=False)
    """Who signs the server's certificate; empty: whoever this machine trusts."""
    skips_verification: bool = False
    server_name: str = ""
    """What the server's certificate must say, when that is not the host of the URL."""
    proxy_url: str = field(default="", repr=False)
    """Empty: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    credentials: Credentials = field(default=ANONYMOUS, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers by which one user acts as another."""
    namespace: str = ""
