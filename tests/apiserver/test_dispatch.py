"""Whatever a client sends, it gets an answer: an object, or a Status that says what is wrong. Never a fault of ours."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asking import (
    APPLY_PATCH,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    a_body,
    a_manifest,
    ask,
    path_of,
)
from cluster_api import an_api
from how_many import examples
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES, SPECS
from mooring.apiserver.admission.object_meta import Lookups
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.request import Answer
from mooring.apiserver.store import Store, TooOld, key_of, version_of

ALL = sorted(RESOURCES.values(), key=lambda r: (r.group, r.plural))
STORAGES = {resource.storage for resource in ALL}


def check(api: ResourceApi) -> None:
    """The invariants of a store."""
    with pytest.raises(TooOld) as told:
        api.store.since(-1)
    start = told.value.oldest
    assert api.store.check() == []
    assert [write.version for write in api.store.since(start)] == list(range(start + 1, api.store.version + 1))
    newest: dict[tuple[str, str, str], int] = {}
    for write in (past.write() for past in api.store.since(start)):
        place = (write.storage, *write.key)
        assert version_of(write.object) == write.version
        assert (write.before is None) == (write.type == "ADDED")
        if write.before is not None:
            assert version_of(write.before) == newest.get(place, version_of(write.before))
        newest[place] = write.version
    for storage in STORAGES:
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
def bodies(draw: st.DrawFn, resource: KindSpec) -> Any:
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
def patches(draw: st.DrawFn, resource: KindSpec) -> tuple[str, Any]:
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


def a_furnished_api() -> ResourceApi:
    """One object of every kind, called x."""
    api = an_api()
    version, objects = furniture()
    api.store = Store.restored(version, objects)
    api.lookups = Lookups(api.store)
    return api


@cache
def furniture() -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """A version, and the objects that there are then by their storage."""
    api = an_api()
    for resource in ALL:
        # Other versions, and events.k8s.io, show the same objects.
        if resource in SPECS and resource.group != "events.k8s.io" and resource.schema is None:
            assert ask(api, "POST", path_of(resource), a_body(resource)).code == 201, resource
    return api.store.version, [(storage, item) for storage in sorted(STORAGES) for item in api.store.all(storage)]


PARTS = [(resource, part) for resource in ALL for part in ("", *resource.subresources)]


@pytest.mark.slow
@settings(max_examples=examples(400))
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
@settings(max_examples=examples(400))
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


# ---- wrong types, one by one

POD_FAULT = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal '


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"metadata": []}, "array into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ({"spec": "x"}, "string into Go struct field Pod.spec of type v1.PodSpec"),
        ({"metadata": {"labels": {"a": 1}}}, "number into Go struct field Pod.metadata.labels of type string"),
        ({"metadata": {"labels": ["a"]}}, "array into Go struct field Pod.metadata.labels of type map[string]string"),
        ({"metadata": {"name": 5}}, "number into Go struct field Pod.metadata.name of type string"),
        ({"kind": ["Pod"]}, "array into Go struct field Pod.kind of type string"),
        ({"apiVersion": 1}, "number into Go struct field Pod.apiVersion of type string"),
        ({"spec": {"containers": {}}}, "object into Go struct field Pod.spec.containers of type []v1.Container"),
        (
            {"spec": {"containers": [{"args": [None]}]}},
            "array into Go struct field Pod.spec.containers.args of type []string",
        ),
        (
            {"spec": {"activeDeadlineSeconds": 1.5}},
            "number into Go struct field Pod.spec.activeDeadlineSeconds of type int64",
        ),
        (
            {"spec": {"activeDeadlineSeconds": 2**63}},
            "number into Go struct field Pod.spec.activeDeadlineSeconds of type int64",
        ),
        ({"spec": {"hostNetwork": "yes"}}, "string into Go struct field Pod.spec.hostNetwork of type bool"),
        ({"status": [1]}, "array into Go struct field Pod.status of type v1.PodStatus"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_wherever_it_is(body: dict[str, Any], why: str) -> None:
    reply = ask(an_api(), "POST", PODS, a_manifest() | body)
    assert (reply.code, reply.body["message"]) == (400, POD_FAULT + why)


@pytest.mark.parametrize(
    "time", ["", "yesterday", "2026-11-15", "2026-13-01T00:00:00Z", "2026-11-15T07:17:46", "2026-11-15 07:17:46Z"]
)
def test_a_time_that_is_none_is_refused(time: str) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"renewTime": time}}
    reply = ask(an_api(), "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    assert reply.code == 400
    assert reply.body["message"].startswith(
        f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}" as "2006-01-02T15:04:05Z07:00"'
    )


@pytest.mark.parametrize("time", ["2026-11-15T07:17:46Z", "2026-11-15T07:17:46.123456Z", "2026-11-15T07:17:46+01:00"])
def test_times_as_clients_write_them_are_taken(time: str) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"renewTime": time}}
    assert ask(an_api(), "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body).code == 201


def test_null_stands_for_nothing() -> None:
    body = a_manifest(status=None)
    body["metadata"] |= {"labels": None, "annotations": None, "finalizers": None, "creationTimestamp": None}
    body["spec"]["nodeSelector"] = None
    assert ask(an_api(), "POST", PODS, body).code == 201


def test_a_list_is_no_object_to_create() -> None:
    reply = ask(an_api(), "POST", PODS, {"kind": "PodList", "apiVersion": "v1", "items": None})
    assert (reply.code, reply.body["reason"]) == (400, "BadRequest")


def test_an_object_of_another_kind_is_refused() -> None:
    reply = ask(an_api(), "POST", PODS, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": 5})
    assert reply.body["message"] == (
        'Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion'
    )


@pytest.mark.parametrize("name", ["a/b", "A", "", ".", "a" * 254, "a\0b", "\N{SNOWMAN}", "-a"])
def test_names_that_no_url_could_say_are_refused(name: str) -> None:
    api = an_api()
    reply = ask(api, "POST", PODS, a_manifest(name))
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")
    assert not api.store.all("/pods")


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("resize", {"spec": {"containers": "x"}}),
        ("resize", {"spec": {"containers": [{"name": ["main"]}]}}),
        ("ephemeralcontainers", {"spec": {"ephemeralContainers": 5}}),
        ("binding", {"metadata": [], "target": {"name": "n"}}),
        ("binding", {"metadata": {"name": "p"}, "target": "n"}),
        ("binding", {"metadata": {"name": "p", "labels": []}, "target": {"name": "n"}}),
        ("eviction", {"metadata": 1.5}),
        ("eviction", {"metadata": {"name": "p"}, "deleteOptions": []}),
        ("eviction", {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "5"}}),
    ],
)
def test_parts_of_a_pod_are_checked_like_the_whole(part: str, body: dict[str, Any]) -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    version = api.store.version
    method = "POST" if part in ("binding", "eviction") else "PUT"
    reply = ask(api, method, f"{PODS}/p/{part}", body)
    assert (reply.code, reply.body["reason"], api.store.version) == (400, "BadRequest", version)


@pytest.mark.parametrize("path", ["/apis/authentication.k8s.io/v1/tokenreviews"])
@pytest.mark.parametrize("body", [{"spec": "x"}, {"spec": ["x"]}, {"spec": {"token": 5}}, {"metadata": "x"}])
def test_questions_are_checked_too(path: str, body: dict[str, Any]) -> None:
    assert ask(an_api(), "POST", path, body).code == 400


# ---- absurd parameters

LISTS = [
    ({"limit": "abc"}, 400, "BadRequest"),
    ({"limit": "1_0"}, 400, "BadRequest"),
    ({"limit": "9" * 5000}, 400, "BadRequest"),
    ({"limit": "\N{ARABIC-INDIC DIGIT THREE}"}, 400, "BadRequest"),
    ({"resourceVersion": "abc"}, 422, "Invalid"),
    ({"resourceVersion": "-1"}, 422, "Invalid"),
    ({"resourceVersion": "99999999999999999999"}, 422, "Invalid"),
    ({"resourceVersion": "9" * 5000}, 422, "Invalid"),
    ({"resourceVersion": "\N{ARABIC-INDIC DIGIT THREE}"}, 422, "Invalid"),
    ({"resourceVersion": "999999999999999999"}, 504, "Timeout"),
    ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
    ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, "Invalid"),
    ({"resourceVersion": "1", "resourceVersionMatch": "Newest"}, 422, "Invalid"),
    ({"continue": "garbage"}, 400, "BadRequest"),
    ({"continue": "\N{SNOWMAN}"}, 400, "BadRequest"),
    ({"continue": "e30"}, 400, "BadRequest"),
    ({"continue": "bnVsbA"}, 400, "BadRequest"),
    ({"labelSelector": "a in (b"}, 400, "BadRequest"),
    ({"labelSelector": "=,=!(("}, 400, "BadRequest"),
    ({"labelSelector": "\0"}, 400, "BadRequest"),
    ({"fieldSelector": "spec.foo=1"}, 400, "BadRequest"),
    ({"fieldSelector": "no-operator"}, 400, "BadRequest"),
    ({"includeObject": "Everything"}, 400, "BadRequest"),
    ({"watch": "perhaps"}, 400, "BadRequest"),
]


@pytest.mark.parametrize(("query", "code", "reason"), LISTS, ids=lambda value: str(value)[:60])
def test_absurd_parameters_of_a_list_are_refused(query: dict[str, str], code: int, reason: str) -> None:
    reply = ask(an_api(), "GET", PODS, **query)
    assert (reply.code, reply.body["reason"]) == (code, reason)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "-1"},
        {"limit": ""},
        {"timeoutSeconds": "-5"},
        {"resourceVersion": ""},
        {"resourceVersion": "0"},
        {"labelSelector": ""},
        {"labelSelector": "a!=b"},
        {"watch": "false"},
        {"pretty": "true"},
        {"unheard": "of"},
    ],
)
def test_odd_parameters_of_a_list_are_taken(query: dict[str, str]) -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    reply = ask(api, "GET", PODS, **query)
    assert (reply.code, len(reply.body["items"])) == (200, 1)


WRITES = [
    ({"dryRun": "Bogus"}, 'dryRun: Unsupported value: "Bogus": supported values: "All"'),
    (
        {"fieldManager": "x" * 1000},
        f'fieldManager: Invalid value: "{"x" * 1000}": may not be more than 128 printable characters',
    ),
    ({"fieldManager": "a\0b"}, "fieldManager: Invalid value: "),
]


@pytest.mark.parametrize(("query", "why"), WRITES, ids=["dryRun", "long manager", "manager with NUL"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_absurd_parameters_of_a_write_are_refused(query: dict[str, str], why: str, method: str) -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    version = api.store.version
    path = PODS if method == "POST" else f"{PODS}/p"
    body = None if method == "DELETE" else a_manifest("q" if method == "POST" else "p")
    reply = ask(api, method, path, body, MERGE_PATCH if method == "PATCH" else "", **query)
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")
    assert why in reply.body["message"]
    assert api.store.version == version


def test_a_dry_run_asked_for_in_a_body_must_be_one() -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    assert ask(api, "DELETE", f"{PODS}/p", {"dryRun": ["Bogus"]}).code == 422
    assert ask(api, "DELETE", f"{PODS}/p", {"dryRun": ["All"]}).code == 200
    assert ask(api, "GET", f"{PODS}/p").code == 200


@pytest.mark.parametrize("media", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH])
def test_only_who_applies_can_force(media: str) -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    reply = ask(api, "PATCH", f"{PODS}/p", [] if media == JSON_PATCH else {}, media, force="true")
    assert (reply.code, reply.body["message"]) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


def test_who_applies_must_say_who_it_is() -> None:
    api = an_api()
    body = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert ask(api, "PATCH", f"{CONFIG_MAPS}/c", body, APPLY_PATCH).code in (400, 422)
    assert ask(api, "PATCH", f"{CONFIG_MAPS}/c", body, APPLY_PATCH, fieldManager="me").code == 201


# ---- methods and forms

UNSUPPORTED = [
    ("PUT", PODS),
    ("PATCH", PODS),
    ("POST", f"{PODS}/p"),
    ("POST", "/api/v1/pods"),
    ("DELETE", "/api/v1/namespaces"),
    ("DELETE", f"{PODS}/p/status"),
    ("GET", f"{PODS}/p/binding"),
    ("GET", f"{PODS}/p/eviction"),
    ("POST", f"{PODS}/p/log"),
    ("HEAD", PODS),
    ("BREW", PODS),
    ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
]


@pytest.mark.parametrize(("method", "path"), UNSUPPORTED, ids=lambda value: str(value))
def test_a_method_that_is_not_for_this_is_refused(method: str, path: str) -> None:
    reply = ask(an_api(), method, path)
    assert (reply.code, reply.body["reason"], reply.body["details"]) == (405, "MethodNotAllowed", {})
    assert reply.body["message"] == "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2/pods",
        "/api/v1/gadgets",
        "/apis/apps/v9/pods",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/p",
        f"{PODS}/p/nothing",
        f"{PODS}/p/status/more",
        f"{PODS}//p",
        "/api/v1/namespaces//pods",
    ],
)
def test_a_resource_that_is_not_there(path: str) -> None:
    reply = ask(an_api(), "GET", path)
    assert (reply.code, reply.body["reason"], reply.body["details"]) == (404, "NotFound", {})
    assert reply.body["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/nowhere", "/apis/nowhere/v1/pods"])
def test_a_path_that_leads_nowhere(path: str) -> None:
    reply = ask(an_api(), "GET", path)
    assert (reply.code, reply.body) == (404, "404 page not found\n")


def test_what_cannot_be_answered_is_not_done() -> None:
    """A write whose answer nobody could read would be made and then refused."""
    api = an_api()
    version = api.store.version
    assert ask(api, "POST", PODS, a_manifest(), accept="text/html").code == 406
    assert ask(api, "POST", PODS, a_manifest(), includeObject="Everything").code == 400
    assert api.store.version == version
    ask(api, "POST", PODS, a_manifest())
    assert ask(api, "DELETE", f"{PODS}/p", accept="text/html").code == 406
    assert ask(api, "DELETE", PODS, accept="text/html").code == 406
    assert ask(api, "GET", f"{PODS}/p").code == 200


def test_logs_are_text_whatever_is_asked_for() -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    reply = ask(api, "GET", f"{PODS}/p/log", accept="text/plain")
    said = "this pod is simulated by `mooring up` and no container runs: there is no log\n"
    assert (reply.code, reply.body, reply.content_type) == (200, said, "text/plain")


@pytest.mark.parametrize("part", ["exec", "attach", "portforward", "proxy/some/path"])
def test_streams_are_refused_in_words(part: str) -> None:
    reply = ask(an_api(), "GET", f"{PODS}/p/{part}")
    word = part.partition("/")[0]
    assert reply.code == 400
    assert reply.body["message"] == (
        f"this pod is simulated by `mooring up` and no container runs: {word} is not possible"
    )


def test_a_secret_is_opaque_unless_it_says() -> None:
    api = an_api()
    path = "/api/v1/namespaces/default/secrets"
    assert ask(api, "POST", path, {"metadata": {"name": "a"}}).body["type"] == "Opaque"
    assert ask(api, "POST", path, {"metadata": {"name": "b"}, "type": "x/y"}).body["type"] == "x/y"


def test_services_get_ports_of_the_nodes_each_its_own() -> None:
    api = an_api()
    path = "/api/v1/namespaces/default/services"

    def ports(name: str, *numbers: int, **spec: Any) -> list[Any]:
        written = [{"name": f"p{i}", "port": 80 + i, "nodePort": number} for i, number in enumerate(numbers)]
        made = ask(api, "POST", path, {"metadata": {"name": name}, "spec": {"ports": written, **spec}}).body
        return [port.get("nodePort") or None for port in made["spec"]["ports"]]

    assert ports("inside", 0) == [None]
    assert ports("chosen", 30_001, type="NodePort") == [30_001]
    assert ports("two", 0, 0, type="NodePort") == [30_000, 30_002]
    assert ports("balanced", 0, type="LoadBalancer") == [30_003]
    assert ports("none", 0, type="LoadBalancer", allocateLoadBalancerNodePorts=False) == [None]


def test_every_kind_can_be_made_read_listed_and_deleted() -> None:
    api = a_furnished_api()
    usual = [resource for resource in ALL if resource.schema is None]  # the name of a definition is not free
    for resource in usual:
        found = ask(api, "GET", path_of(resource, "x")).body
        assert (found["kind"], found["apiVersion"]) == (resource.kind, resource.api_version)
        listed = ask(api, "GET", path_of(resource)).body
        assert listed["kind"] == f"{resource.kind}List"
        assert "x" in [item["metadata"]["name"] for item in listed["items"]]
    for resource in usual:
        if resource in SPECS and resource.group != "events.k8s.io":
            assert ask(api, "DELETE", path_of(resource, "x")).code == 200, resource
    check(api)


@pytest.mark.parametrize("resource", ALL, ids=lambda r: f"{r.group}/{r.plural}")
def test_every_kind_is_checked_in_what_all_kinds_share(resource: KindSpec) -> None:
    for odd in ({"kind": [1]}, {"apiVersion": 1}, {"metadata": "x"}, {"metadata": {"name": "y", "labels": {"a": 1}}}):
        assert ask(an_api(), "POST", path_of(resource), a_body(resource) | odd).code == 400


@pytest.mark.parametrize(
    ("memory", "warnings"),
    [
        pytest.param(
            "512m",
            [
                'spec.containers[0].resources.requests[memory]: fractional byte value "512m" is invalid, must be an integer',
            ],
            id="half a byte",
        ),
        pytest.param("512Mi", [], id="an amount that people mean"),
    ],
)
def test_an_amount_that_hardly_anybody_means_is_accepted_with_a_warning(memory: str, warnings: list[str]) -> None:
    api, pod = an_api(), a_manifest()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"memory": memory, "cpu": "500m"}}
    reply = ask(api, "POST", PODS, pod)
    assert reply.code == 201
    told = [value for name, value in reply.headers if name == "Warning"]
    assert told == ['299 - "' + text.replace('"', '\\"') + '"' for text in warnings]
