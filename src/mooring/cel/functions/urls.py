"""URLs as values of CEL, as Go parses them."""

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote

from mooring.cel.functions.texts import quote as quoted
from mooring.cel.library import Overload, member, plain
from mooring.cel.types import Type
from mooring.cel.values import Extension, Fault

URL_TYPE = Type("kubernetes.URL")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_PATH_SAFE = "$&+,/:;=@!'()*~"


@dataclass(frozen=True, slots=True)
class Url(Extension):
    text: str
    scheme: str
    host: str
    path: str
    """As it was written, with its escapes."""
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
        """As it was written where that is a way to write the path, or else as Go writes it."""
        is_valid = re.fullmatch(r"(?:[A-Za-z0-9_.~$&+,/:;=@!'()*\[\]-]|%[0-9A-Fa-f]{2})*", self.path)
        return self.path if is_valid else quote(unquote(self.path), safe=_PATH_SAFE)

    def queries(self) -> dict[str, list[str]]:
        return parse_qs(self.query, keep_blank_values=True, errors="replace")


class _UrlFault(Exception):
    pass


def url_of(text: str) -> Url | Fault:
    try:
        return _parse(text)
    except _UrlFault as fault:
        return Fault(f"URL parse error during conversion from string: parse {quoted(text)}: {fault}")


def why_not_uri(text: str) -> str | None:
    """What is wrong with a URI, as Go says it; None: nothing."""
    try:
        _parse(text)
    except _UrlFault as fault:
        return f"parse {quoted(text)}: {fault}"
    return None


def _parse(text: str) -> Url:
    """Only absolute URLs and absolute paths."""
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
        raise _UrlFault(f"invalid URL escape {quoted(bad.group())}")
    return Url(text, scheme, host, rest, query)


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2]
    if " " in host:
        raise _UrlFault('invalid character " " in host name')
    if host.startswith("[") and "]" not in host:
        raise _UrlFault("missing ']' in host")
    if _HOST.fullmatch(host) is None:
        port = host.rpartition("]")[2]
        raise _UrlFault(f"invalid port {quoted(port[port.find(':') :])} after host")
    return unquote(host)


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
