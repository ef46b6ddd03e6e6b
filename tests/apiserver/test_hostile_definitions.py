"""Whatever stands in a definition or in a custom object, a client gets an answer: an object, or a Status."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from test_dispatch import JUNK, check_answer

from asking import APPLY_PATCH, MERGE_PATCH, TABLE, ask
from cluster_api import an_api
from custom_definitions import DEFINITIONS, SPEC, WIDGETS, a_definition, a_version, a_widget
from how_many import some_of
from mooring.apiserver.resource_api import ResourceApi

W = f"{WIDGETS}/w"
OWN = f"{DEFINITIONS}/widgets.example.com"
RULES = [
    {"rule": "self.color != 'red' || self.replicas < 5", "messageExpression": "'no ' + self.color"},
    {"rule": "oldSelf.hasValue() ? self.replicas >= oldSelf.value().replicas : true", "optionalOldSelf": True},
    {"rule": "!has(self.parts) || self.parts.all(p, p.size < 9)", "fieldPath": ".parts"},
]
DEFINITION = a_definition(versions=[a_version(spec=SPEC | {"x-kubernetes-validations": RULES})])
WIDGET = a_widget(
    parts=[{"name": "a"}],
    labels={"a": "b"},
    tags=["x"],
    port=1,
    weight=2,
    owner="abc",
    since="2024-01-01T00:00:00Z",
    free={"a": [{}]},
    template={"apiVersion": "v1", "kind": "Pod", "metadata": {}},
)
WAYS = (
    ("POST", WIDGETS, ""),
    ("PATCH", W, APPLY_PATCH),
    ("PATCH", W, MERGE_PATCH),
    ("PUT", W, ""),
    ("PUT", f"{W}/status", ""),
    ("PUT", f"{W}/scale", ""),
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a value."""
    if way:
        yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inner:
        yield from places(part, (*way, step))


def spoilt(by: random.Random, item: Any) -> Any:
    """The value with one part replaced by something else, by another part of it, or left out."""
    made = copy.deepcopy(item)
    *way, last = by.choice(list(places(made)))
    outer = made
    for step in way:
        outer = outer[step]
    if by.random() < 0.2:
        del outer[last]
    else:
        outer[last] = copy.deepcopy(by.choice((*JUNK, *made.values())))
    return made


def send(api: ResourceApi, method: str, path: str, body: Any, content_type: str = "") -> int:
    query = {"fieldManager": "m"} if content_type == APPLY_PATCH else {}
    reply = ask(api, method, path, body, content_type, **query)
    check_answer(reply)
    return reply.code


@pytest.mark.parametrize("seed", some_of(range(20)))
def test_spoilt_definitions_and_objects_are_answered(seed: int) -> None:
    by = random.Random(seed)
    for definition in (DEFINITION, *(spoilt(by, DEFINITION) for _ in range(4))):
        api = an_api()
        if send(api, "POST", DEFINITIONS, definition) != 201:
            continue
        send(api, "POST", WIDGETS, WIDGET)
        for method, path, content_type in WAYS:
            send(api, method, path, spoilt(by, WIDGET), content_type)
        status = ask(api, "GET", OWN).body["status"]
        send(api, "PATCH", f"{OWN}/status", {"status": spoilt(by, status)}, MERGE_PATCH)
        send(api, "PUT", OWN, spoilt(by, definition))
        for path in ("/apis", "/openapi/v3", "/openapi/v3/apis/example.com/v1", WIDGETS):
            ask(api, "GET", path, accept=TABLE if path == WIDGETS else "")
