"""Whatever a client sends, it gets an answer: an object, or a Status that says what is wrong. Never a fault of ours."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asking import (
    APPLY_PATCH,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    NODES,
    PODS,
    STRATEGIC_PATCH,
    a_body,
    a_manifest,
    ask,
    path_of,
    the,
)
from cluster_api import an_api
from mooring.api.access import Api
from mooring.api.resources import RESOURCES, Resource
from mooring.api.server.request import Answer
from mooring.api.store import key_of, version_of

ALL = sorted(RESOURCES.values(), key=lambda r: (r.group, r.plural))


def check(api: Api) -> None:
    """The invariants of a store."""
    versions = [write.version for write in api.store.since(0)]
    assert versions == list(range(1, api.store.version + 1))
    newest: dict[tuple[str, str, str], int] = {}
    for write in api.store.since(0):
        place = (write.storage, *write.key)
        assert version_of(write.object) == write.version
        assert (write.before is None) == (write.type == "ADDED")
        if write.before is not None:
            assert version_of(write.before) == newest[place]
        newest[place] = write.version
    for storage in {r.storage for r in ALL}:
        for item in api.store.all(storage):
            assert api.store.find(storage, key_of(item)) is item
            assert item["metadata"]["uid"]


def check_answer(reply: Answer) -> None:
    """A Status or an object; 5xx only where kube-apiserver gives one as well: without a reason."""
    assert isinstance(reply.body, dict | str)
    if reply.code >= 400:
        assert isinstance(reply.body, dict), reply.body
        assert (reply.body["kind"], reply.body["status"], reply.body["code"]) == ("Status", "Failure", reply.code)
        assert reply.code < 500 or "reason" not in reply.body, reply.body
    elif isinstance(reply.body, dict):
        assert reply.body["kind"]
        assert reply.body["apiVersion"]


# ---- arbitrary bodies

JUNK: list[Any] = [
    None,
    *(True, 0, -1, 1, 2**31, 2**63, 2**70, 1.5, 1e300),
    *("", "x", "1", "a/b", "\0", "\N{SNOWMAN}", "x" * 300, "2026-11-15T07:17:46Z", "None", "All"),
    *([], [None], [{}], ["x"], [[]], {}, {"": ""}, {"name": None}, {"x": 1}, {"a": {"b": []}}),
    [{"name": "a"}, {"name": "a"}],
    {"$patch": "delete"},
    {"$patch": "replace", "a": "b"},
    {"$retainKeys": ["x"]},
    [{"$patch": "replace"}],
    {"matchLabels": []},
]
KEYS = [
    *("metadata", "spec", "status", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"),
    *("containers", "resources", "requests", "conditions", "type", "replicas", "selector", "template", "target"),
    *("deletionTimestamp", "managedFields", "generation", "uid", "resourceVersion", "$setElementOrder/containers"),
    *("kind", "apiVersion", "$patch", "items", "taints", "tolerations", "affinity", "series", "deleteOptions"),
]
SIMPLE = st.sampled_from(JUNK)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=8,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*at, key))


def replaced(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The document with another value in one place."""
    if not at:
        return value
    made = copy.deepcopy(body)
    holder = made
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return made


def nested(at: tuple[Any, ...], value: Any) -> Any:
    """A merge patch that puts a value there."""
    for key in reversed(at):
        value = {key: value} if isinstance(key, str) else [value]
    return value


def pointer(at: tuple[Any, ...]) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in at)


@st.composite
def bodies(draw: st.DrawFn, resource: Resource) -> Any:
    """Mostly a manifest that is wrong in one or two places, sometimes anything."""
    if draw(st.integers(0, 4)) == 0:
        return draw(VALUES)
    body: Any = a_body(resource)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.sampled_from([*places(body), ("metadata", "labels"), ("spec",), ("status",), ("metadata", "uid")]))
        if isinstance(body, dict) and all(isinstance(body.get(key), dict) for key in at[:1] if len(at) > 1):
            body = replaced(body, at, draw(VALUES))
    return body


OPERATIONS = ["add", "remove", "replace", "move", "copy", "test", "bogus", None]


@st.composite
def patches(draw: st.DrawFn, resource: Resource) -> tuple[str, Any]:
    media = draw(st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]))
    if draw(st.integers(0, 5)) == 0:
        return media, draw(VALUES)
    held = a_body(resource) | {"status": {"conditions": [{"type": "Ready"}]}}
    at = draw(st.sampled_from([*places(held), ("metadata", "finalizers"), ("spec", "nodeName"), ("metadata", "uid")]))
    if media == JSON_PATCH:
        operation = {"op": draw(st.sampled_from(OPERATIONS)), "path": pointer(at), "value": draw(VALUES)}
        if draw(st.booleans()):
            operation["from"] = pointer(draw(st.sampled_from([*places(held)])))
        return media, [operation]
    patch = nested(at, draw(VALUES))
    if media == APPLY_PATCH and isinstance(patch, dict):
        patch = {"apiVersion": resource.api_version, "kind": resource.kind} | patch
    return media, patch


def a_furnished_api() -> Api:
    """One object of every kind, called x."""
    api = an_api()
    for resource in ALL:
        if (resource.group, resource.plural) != ("events.k8s.io", "events"):  # the same objects as the core group's
            assert ask(api, "POST", path_of(resource), a_body(resource)).code == 201, resource
    return api


PARTS = [(resource, part) for resource in ALL for part in ("", *resource.subresources)]


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_no_body_is_a_fault_of_ours(data: st.DataObject) -> None:
    api = a_furnished_api()
    for _ in range(4):
        resource, part = data.draw(st.sampled_from(PARTS))
        method = data.draw(st.sampled_from(["POST", "PUT", "DELETE"]))
        name = data.draw(st.sampled_from(["x", ""])) if not part else "x"
        body = data.draw(bodies(resource))
        query = data.draw(st.sampled_from([{}, {"dryRun": "All"}, {"fieldValidation": "Strict"}]))
        check_answer(ask(api, method, path_of(resource, name, part), body, **query))
        check_answer(ask(api, "GET", path_of(resource), accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
    check(api)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_no_patch_is_a_fault_of_ours(data: st.DataObject) -> None:
    api = a_furnished_api()
    for _ in range(4):
        resource, part = data.draw(st.sampled_from(PARTS))
        media, patch = data.draw(patches(resource))
        query = {"fieldManager": "me", "force": "true"} if media == APPLY_PATCH else {}
        check_answer(ask(api, "PATCH", path_of(resource, "x", part), patch, media, **query))
        check_answer(ask(api, "GET", path_of(resource), accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
    check(api)
