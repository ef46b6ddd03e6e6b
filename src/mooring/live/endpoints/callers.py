"""Who calls: what is known of a connection, and the user that it turns out to be."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"


@dataclass(frozen=True, slots=True)
class CallingUser:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def known(self) -> "CallingUser":
        """With the group that everybody has who said who they are."""
        return self if AUTHENTICATED in self.groups else replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS = CallingUser("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request shows of itself."""

    authorization: str = field(default="", repr=False)
    certified: CallingUser | None = None
    """By a client certificate, which TLS has verified."""
    is_local: bool = False
    """From this very machine."""

    @property
    def token(self) -> str:
        """Empty unless there is a bearer token; other schemes say nothing to us."""
        scheme, _, token = self.authorization.strip().partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


def certified_user(certificate: Mapping[str, Any] | None) -> CallingUser | None:
    """As Kubernetes reads a certificate: CN is the user, each O is a group. `ssl` hands out the subject like this."""
    subject = (certificate or {}).get("subject", ())
    parts = [pair for relative_name in subject for pair in relative_name]
    names = [value for key, value in parts if key == "commonName"]
    groups = tuple(value for key, value in parts if key == "organizationName")
    return CallingUser(names[-1], groups) if names and names[-1] else None


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (inner or found).is_loopback
