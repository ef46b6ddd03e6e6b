"""What kube-apiserver v1.36.4 answered, exchange by exchange, and what the embedded server answers to the same."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from cluster_api import an_api
from mooring.apiserver.server.dispatch import answer
from mooring.apiserver.server.request import Request
from mooring.apiserver.server.watching import WatchResponse
from mooring.apiserver.store import Store

RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data/recordings/api.jsonl").read_text().splitlines()
]
FIRST_VERSION = 201
"""Of the recorded cluster, when the first object was created: from there on each write counts the same in both."""

GENERATED_SUFFIX = "2kl5c"

APART = {
    "discovery /api": "names the recorded server's own address",
    "version": "tells of the real server's build",
    "discovery /apis": "we serve fewer groups; tests/api/test_discovery.py compares those that we have",
    "openapi v3 index": "we serve fewer groups; the hashes are of other documents",
    "rbac forbidden": "whoever gets in may do everything",
    "watch too old": "the recorded server remembered everything; tests/apiserver/test_watch.py has a history that ends",
    "unauthorized": "needs a wrong token: tests/apiserver/test_http.py",
}
"""Exchanges that are not compared here, and why."""

ASIDE = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "lastTransitionTime",
    "description",
)


@cache
def answered() -> dict[str, tuple[int, Any, dict[str, str]]]:
    """All answers, by the name of the exchange: they depend on what came before."""
    furnished = an_api()
    objects = [(past.storage, past.write().object) for past in furnished.store.since(0)]
    api = replace(furnished, store=Store.restored(FIRST_VERSION, objects), random_suffix=lambda: GENERATED_SUFFIX)
    replies: dict[str, tuple[int, Any, dict[str, str]]] = {}
    names: dict[str, str] = {}
    for exchange in RECORDED:
        if exchange["name"] in APART:
            continue
        reply = answer(api, _request(exchange["request"], names))
        if isinstance(reply, WatchResponse):
            replies[exchange["name"]] = 200, [json.loads(line) for line in reply.take().splitlines()], {}
            reply.close()
            continue
        _learn(exchange["response"].get("body"), reply.body, names)
        replies[exchange["name"]] = reply.code, reply.body, dict(reply.headers)
    return replies


def _request(written: dict[str, Any], names: dict[str, str]) -> Request:
    url, headers, body = urlsplit(written["path"]), written.get("headers") or {}, written.get("body")
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    return Request(
        written["method"],
        unquote(url.path),
        dict(parse_qsl(url.query, keep_blank_values=True)),
        text.encode(),
        headers.get("Content-Type", ""),
        headers.get("Accept", ""),
        "Python/3",
    )


def _learn(theirs: Any, ours: Any, names: dict[str, str]) -> None:
    """What the recorded client got from the recorded server, it now gets from us: uids and versions."""
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return
    for key in ("uid", "resourceVersion"):
        if key in theirs.get("metadata", {}) and key in ours.get("metadata", {}):
            names[f'"{theirs["metadata"][key]}"'] = f'"{ours["metadata"][key]}"'


def _told(event: dict[str, Any]) -> dict[str, Any]:
    """Of a bookmark, what it is for; kube-apiserver also sends the empty fields of the kind."""
    if event["type"] != "BOOKMARK":
        return event
    return {**event, "object": {key: event["object"][key] for key in ("kind", "apiVersion", "metadata")}}


_GO_WORDS = re.compile(r"\n@@.*|(?<=continue key is not valid: ).*", re.DOTALL)
"""How Go prints structs, and what its decoder says of junk: nobody reads that."""


def _plain(value: Any) -> Any:
    """Without what two clusters never have in common."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in ASIDE}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        value = _GO_WORDS.sub("", value)
        return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>", value)
    return value


APART |= {
    e["name"]: "we serve fewer kinds; tests/api/test_discovery.py compares those that we have"
    for e in RECORDED
    if e["name"].startswith(("discovery /api/", "discovery /apis/", "aggregated"))
}


@pytest.mark.parametrize("exchange", [e for e in RECORDED if e["name"] not in APART], ids=lambda e: e["name"])
def test_exchange(exchange: dict[str, Any]) -> None:
    code, body, headers = answered()[exchange["name"]]
    expected = exchange["response"]
    assert code == expected["status"], body
    if "events" in expected:
        assert [e["type"] for e in body] == [e["type"] for e in expected["events"]]
        assert _plain(body) == _plain([_told(event) for event in expected["events"]])
    else:
        assert _plain(body) == _plain(expected["body"])
    for name in ("Warning", "Retry-After"):
        assert headers.get(name) == (expected.get("headers") or {}).get(name)
