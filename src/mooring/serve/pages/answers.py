"""A request to a page and its reply, without HTTP, so that pages can be tested as functions."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.kit.shown_text import json_bytes

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class PageRequest(msgspec.Struct, frozen=True):
    """A request, as pages see it. `body` is empty unless the page reads one."""

    method: str = "GET"
    path: str = "/"
    query: tuple[tuple[str, str], ...] = ()
    accept: str = ""
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


class PageReply(msgspec.Struct, frozen=True):
    """The reply of a page. The server adds the headers that all replies have."""

    body: bytes
    status: int = 200
    content_type: str = PLAIN
    headers: Sequence[tuple[str, str]] = ()


def plain(text: str, status: int = 200) -> PageReply:
    return PageReply(text.encode(errors="replace"), status)


def failure(text: str, status: int) -> PageReply:
    """Go's http.Error: the text and a line end."""
    return plain(f"{text}\n", status)


def not_found_page() -> PageReply:
    return failure("404 page not found", 404)


def json_document(document: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> PageReply:
    return PageReply(json_bytes(document) + b"\n", status, JSON, headers)


def refusal(error: ApiError) -> PageReply:
    """A Status object, as API servers refuse."""
    return json_document(error.status(), error.code)
