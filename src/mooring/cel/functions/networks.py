"""IP addresses, networks (CIDR) and URLs as values of CEL: Kubernetes' libraries, with the messages of Go's parsers.

Upstream: apiserver's cel/library/ip.go, cidr.go and urls.go.
"""

import re
import urllib.parse
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import ClassVar

from mooring.cel.functions.texts import quote
from mooring.cel.library import Overload, member, plain, succeeds
from mooring.cel.values import NO_OVERLOAD, Extension, Fault, Type

IP, CIDR = Type("net.IP"), Type("net.CIDR")


@dataclass(frozen=True, slots=True)
class Address(Extension):
    """An IP address; its size for costs is its length in bytes."""

    ip: IPv4Address | IPv6Address
    type: ClassVar[Type] = IP

    def order(self) -> tuple[int, int]:
        return self.ip.version, int(self.ip)

    def size(self) -> int:
        return self.ip.max_prefixlen // 8

    def __str__(self) -> str:
        return str(self.ip)


@dataclass(frozen=True, slots=True)
class Network(Extension):
    """A network. `ip` may have bits beyond the prefix, which `masked()` clears."""

    ip: IPv4Address | IPv6Address
    prefix: int
    type: ClassVar[Type] = CIDR

    def order(self) -> tuple[int, int, int]:
        return self.ip.version, int(self.ip), self.prefix

    def size(self) -> int:
        """The size for costs: the bytes of the prefix, rounded up."""
        return -(-self.prefix // 8)

    def range(self) -> IPv4Network | IPv6Network:
        return ip_network((self.ip, self.prefix), strict=False)

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix}"


def address_of(text: str) -> Address | Fault:
    """`ip(text)`. Parity: addresses with a zone, and IPv4 addresses mapped to IPv6, are not allowed."""
    try:
        ip = ip_address(text)
    except ValueError:
        why = _bad_address(text)
        return Fault(f"IP Address {quote(text)} parse error during conversion from string: {why}")
    if isinstance(ip, IPv6Address) and ip.scope_id is not None:
        return Fault(f"IP address {quote(text)} with zone value is not allowed")
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return Fault(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return Address(ip)


def _bad_address(text: str) -> str:
    """The most common errors of netip.ParseAddr, in Go's words."""
    told = f"ParseAddr({quote(text)})"
    first = next((letter for letter in text if letter in ".:%"), "")
    if first == ".":
        fields = text.split(".")
        if any(len(field) > 1 and field[0] == "0" for field in fields):
            return f"{told}: IPv4 field has octet with leading zero"
        if any(field.isdigit() and (len(field) > 3 or int(field) > 255) for field in fields):
            return f"{told}: IPv4 field has value >255"
        if len(fields) > 4:
            return f"{told}: IPv4 address too long"
        return f"{told}: IPv4 address too short" if len(fields) < 4 else f"{told}: unexpected character"
    return f"{told}: unable to parse IP" if not first else f"{told}: unexpected character"


def network_of(text: str) -> Network | Fault:
    """`cidr(text)`. Parity: upstream repeats the first part of some messages."""
    bad = "network address parse error during conversion from string: "
    address, slash, length = text.rpartition("/")
    if not slash:
        return Fault(f"{bad}{bad}netip.ParsePrefix({quote(text)}): no '/'")
    try:
        ip = ip_address(address)
    except ValueError:
        return Fault(f"{bad}{bad}netip.ParsePrefix({quote(text)}): {_bad_address(address)}")
    told = f"netip.ParsePrefix({quote(text)})"
    if isinstance(ip, IPv6Address) and ip.scope_id is not None:
        return Fault(f"{bad}{bad}{told}: IPv6 zones cannot be present in a prefix")
    if not (length.isascii() and length.isdigit()) or (len(length) > 1 and length[0] == "0"):
        return Fault(f"{bad}{bad}{told}: bad bits after slash: {quote(length)}")
    if len(length) > 3 or int(length) > ip.max_prefixlen:
        return Fault(f"{bad}{bad}{told}: prefix length out of range")
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return Fault(f"{bad}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return Network(ip, int(length))


def _contains_ip(network: Network, other: Address | str) -> bool | Fault:
    """`cidr.containsIP(x)`. Parity: for a text that is not an address, upstream's error is that of a missing overload."""
    address = address_of(other) if isinstance(other, str) else other
    return NO_OVERLOAD if isinstance(address, Fault) else address.ip in network.range()


def _contains_network(network: Network, other: Network | str) -> bool | Fault:
    """A network contains another of the same family that starts inside it and is not larger."""
    inner = network_of(other) if isinstance(other, str) else other
    if isinstance(inner, Fault):
        return inner
    if inner.ip.version != network.ip.version:
        return False
    return network.prefix <= inner.prefix and inner.range().network_address in network.range()


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address.ip, IPv4Address):
        return address.ip in ip_network("224.0.0.0/24")
    return address.ip.packed[0] == 0xFF and address.ip.packed[1] & 0x0F == 0x02


def _is_link_local(address: Address) -> bool:
    return address.ip in ip_network("169.254.0.0/16" if address.ip.version == 4 else "fe80::/10")


def _is_global(address: Address) -> bool:
    """Go's IsGlobalUnicast: also private addresses; not unspecified, loopback, multicast, link-local or broadcast ones."""
    ip = address.ip
    is_broadcast = ip.version == 4 and int(ip) == 0xFFFFFFFF
    return not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or is_broadcast or _is_link_local(address))


def _is_canonical(text: str) -> bool | Fault:
    """Whether the text is the canonical form of its address, as `::1` is and `0::1` is not."""
    address = address_of(text)
    return address if isinstance(address, Fault) else str(address) == text


_I, _C = IP.name, CIDR.name

NETWORKS: tuple[Overload, ...] = (
    plain("string_to_ip", "ip", "string", _I, address_of),
    member("ip_family", "family", _I, "int", lambda a: a.ip.version),
    plain("ip_is_canonical", "ip.isCanonical", "string", "bool", _is_canonical),
    member("ip_is_unspecified", "isUnspecified", _I, "bool", lambda a: a.ip.is_unspecified),
    member("ip_is_loopback", "isLoopback", _I, "bool", lambda a: a.ip.is_loopback),
    member("ip_is_link_local_multicast", "isLinkLocalMulticast", _I, "bool", _is_link_local_multicast),
    member("ip_is_link_local_unicast", "isLinkLocalUnicast", _I, "bool", _is_link_local),
    member("ip_is_global_unicast", "isGlobalUnicast", _I, "bool", _is_global),
    plain("is_ip", "isIP", "string", "bool", succeeds(address_of)),
    plain("ip_to_string", "string", _I, "string", str),
    plain("string_to_cidr", "cidr", "string", _C, network_of),
    member("cidr_contains_ip_string", "containsIP", f"{_C}, string", "bool", _contains_ip),
    member("cidr_contains_ip_ip", "containsIP", f"{_C}, {_I}", "bool", _contains_ip),
    member("cidr_contains_cidr_string", "containsCIDR", f"{_C}, string", "bool", _contains_network),
    member("cidr_contains_cidr", "containsCIDR", f"{_C}, {_C}", "bool", _contains_network),
    member("cidr_ip", "ip", _C, _I, lambda a: Address(a.ip)),
    member("cidr_prefix_length", "prefixLength", _C, "int", lambda a: a.prefix),
    member("cidr_masked", "masked", _C, _C, lambda a: Network(a.range().network_address, a.prefix)),
    plain("is_cidr", "isCIDR", "string", "bool", succeeds(network_of)),
    plain("cidr_to_string", "string", _C, "string", str),
)


# ---- URLs


URL_TYPE = Type("kubernetes.URL")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_PATH_SAFE = "$&+,/:;=@!'()*~"


@dataclass(frozen=True, slots=True)
class Url(Extension):
    """A URL in the parts of Go's net/url.URL."""

    text: str
    scheme: str
    host: str
    path: str
    """With its escapes, as in the text."""
    query: str
    type: ClassVar[Type] = URL_TYPE

    def order(self) -> str:
        return self.text

    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1 : self.host.index("]")]
        return self.host.partition(":")[0]

    def port(self) -> str:
        return self.host.rpartition("]")[2].partition(":")[2]

    def escaped_path(self) -> str:
        """The path as in the text if that is a valid encoding, otherwise as Go encodes it."""
        is_valid = re.fullmatch(r"(?:[A-Za-z0-9_.~$&+,/:;=@!'()*\[\]-]|%[0-9A-Fa-f]{2})*", self.path)
        return self.path if is_valid else urllib.parse.quote(urllib.parse.unquote(self.path), safe=_PATH_SAFE)

    def queries(self) -> dict[str, list[str]]:
        return urllib.parse.parse_qs(self.query, keep_blank_values=True, errors="replace")


class _UrlFault(Exception):
    """A text that Go's url.ParseRequestURI rejects, with its message."""


def url_of(text: str) -> Url | Fault:
    """`url(text)`; the message of a Fault is Go's."""
    try:
        return _parse(text)
    except _UrlFault as fault:
        return Fault(f"URL parse error during conversion from string: parse {quote(text)}: {fault}")


def why_not_uri(text: str) -> str | None:
    """The fault of a URI in Go's words, or None."""
    try:
        _parse(text)
    except _UrlFault as fault:
        return f"parse {quote(text)}: {fault}"
    return None


def _parse(text: str) -> Url:
    """Go's url.ParseRequestURI: absolute URLs and absolute paths only. Raises _UrlFault."""
    if any(letter < " " or letter == "\x7f" for letter in text):
        raise _UrlFault("net/url: invalid control character in URL")
    if not text:
        raise _UrlFault("empty url")
    whole, _, _ = text.partition("#")
    found = _SCHEME.match(whole)
    if found is None and whole[:1] == ":":
        raise _UrlFault("missing protocol scheme")
    scheme, rest = (found[1].lower(), whole[found.end() :]) if found is not None else ("", whole)
    if not rest.startswith("/"):
        if scheme:  # such as mailto:a@b
            return Url(text, scheme, "", "", rest.partition("?")[2])
        raise _UrlFault("invalid URI for request")
    rest, _, query = rest.partition("?")
    authority = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    host = _host(authority)
    bad = _BAD_ESCAPE.search(rest)
    if bad is not None:
        raise _UrlFault(f"invalid URL escape {quote(bad.group())}")
    return Url(text, scheme, host, rest, query)


def _host(authority: str) -> str:
    """The host of an authority, unescaped, without user information. Raises _UrlFault."""
    host = authority.rpartition("@")[2]
    if " " in host:
        raise _UrlFault('invalid character " " in host name')
    if host.startswith("[") and "]" not in host:
        raise _UrlFault("missing ']' in host")
    if _HOST.fullmatch(host) is None:
        port = host.rpartition("]")[2]
        raise _UrlFault(f"invalid port {quote(port[port.find(':') :])} after host")
    return urllib.parse.unquote(host)


URLS: tuple[Overload, ...] = (
    plain("string_to_url", "url", "string", URL_TYPE.name, url_of),
    plain("is_url_string", "isURL", "string", "bool", lambda text: why_not_uri(text) is None),
    member("url_get_scheme", "getScheme", URL_TYPE.name, "string", lambda url: url.scheme),
    member("url_get_host", "getHost", URL_TYPE.name, "string", lambda url: url.host),
    member("url_get_hostname", "getHostname", URL_TYPE.name, "string", Url.hostname),
    member("url_get_port", "getPort", URL_TYPE.name, "string", Url.port),
    member("url_get_escaped_path", "getEscapedPath", URL_TYPE.name, "string", Url.escaped_path),
    member("url_get_query", "getQuery", URL_TYPE.name, "map(string, list(string))", Url.queries),
)
