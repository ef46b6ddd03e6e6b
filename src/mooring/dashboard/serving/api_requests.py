"""A request to the dashboard and its reply, without HTTP, so that paths can be tested as functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from mooring.dashboard.interfaces import Refused
from mooring.kit.shown_text import json_bytes

JSON = "application/json"
MAX_BODY_BYTES = 1 << 20


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    """Base of replies: fields in the manner of JSON."""


class SessionReply(_Camel, frozen=True):
    """`GET api/session`: what this dashboard shows and can do."""

    program: str
    version: str
    read_only: bool
    can_ask: bool
    can_do: bool
    profiles: Sequence[str]
    replay: bool
    is_leader: bool
    now: str


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What a path may look at."""

    method: str
    path: str
    """Below /dashboard/, as sent: `api/nodes/n%2F1`."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, decoded one by one: a name cannot add parts."""
        return tuple(unquote(part) for part in self.path.split("/"))

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A parameter of the query, held within its limits. Raises Refused (400) if it is not a number."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19):
            raise Refused(400, f"the parameter {name} must be a whole number")
        return min(max(int(text), least), most)


def query_of(raw: str) -> dict[str, str]:
    """The parameters of a query; the first of each name counts."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(raw, keep_blank_values=True, max_num_fields=100):
        found.setdefault(name, value)
    return found


@dataclass(frozen=True, slots=True)
class ApiReply:
    """What is sent; the server adds the headers that all replies have."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()


def json_reply(document: Any, status: int = 200) -> ApiReply:
    return ApiReply(json_bytes(document), status)


def refusal_reply(refused: Refused) -> ApiReply:
    headers = () if refused.retry_s is None else (("Retry-After", str(refused.retry_s)),)
    return ApiReply(json_bytes({"message": refused.message}), refused.status, headers=headers)
