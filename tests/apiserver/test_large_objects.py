"""Work for one object is linear in its size: what took minutes, and blocked everybody meanwhile, takes a second."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from asking import APPLY_PATCH, CONFIG_MAPS, JSON_PATCH, MERGE_PATCH, PODS, STRATEGIC_PATCH, ask
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import MAX_DEPTH, MAX_OBJECT_BYTES, stored_bytes
from mooring.api.patches.apply_patch import FieldWriter, apply_configuration, record_update
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.patches.merge_keys import DEEPEST, owners_of
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch
from mooring.api.schema import strict
from mooring.apiserver.admission.pod_updates import update_faults
from mooring.apiserver.server.request import MAX_BODY_BYTES, MAX_WEIGHT
from mooring.apiserver.store import Store
from mooring.rules.pod_admission import merge_label_keys

MANY = 20_000
PATIENCE_S = 20
"""Each of these takes a second or two, and took minutes while it was quadratic."""
MAPS = "/configmaps"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
ME, OTHER = (FieldWriter(name, "v1", "2026-01-01T00:00:00Z") for name in ("me", "other"))
Json = dict[str, Any]


@contextmanager
def soon() -> Iterator[None]:
    """In time that this process itself works: others may use the machine too."""
    started_s = time.process_time()
    yield
    assert time.process_time() - started_s < PATIENCE_S


def a_pod_of_many(image: str = "x", count: int = MANY, **spec: Any) -> Json:
    containers = [{"name": f"c{i}", "image": image} for i in range(count)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def a_map_of_many(value: str, key: str = "data") -> Json:
    data = {f"k{i}": value for i in range(MANY)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, key: data}


def many_changed() -> Json:
    return {"spec": {"containers": [{"name": f"c{i}", "image": "y"} for i in range(MANY)]}}


def many_deleted() -> Json:
    return {"spec": {"containers": [{"name": f"c{i}", "$patch": "delete"} for i in range(1, MANY)]}}


def many_reordered() -> Json:
    names = [{"name": f"c{i}"} for i in reversed(range(MANY))]
    return {"spec": {"$setElementOrder/containers": names, "containers": [{**name, "image": "y"} for name in names]}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "left", "last"),
    [(many_changed(), MANY, f"c{MANY - 1}"), (many_deleted(), 1, "c0"), (many_reordered(), MANY, "c0")],
)
def test_a_strategic_merge_patch_of_many_items(patch: Json, left: int, last: str) -> None:
    with soon():
        patched = apply_strategic_merge_patch(a_pod_of_many(), patch)
    containers = patched["spec"]["containers"]
    assert (len(containers), containers[-1]["name"]) == (left, last)


@pytest.mark.slow
def test_a_strategic_merge_patch_that_retains_many_keys() -> None:
    names = [f"k{i}" for i in range(MANY)]
    with soon():
        patched = apply_strategic_merge_patch(
            a_map_of_many("x"), {"data": {"$retainKeys": names[1:], **dict.fromkeys(names[1:], "y")}}
        )
    assert patched["data"] == dict.fromkeys(names[1:], "y")


def test_items_of_one_name_are_merged_into_the_first_and_deleted_together() -> None:
    """What the index of places has to keep: a list may hold an identity twice, and a patch name it twice."""
    held = {"kind": "Pod", "spec": {"containers": [{"name": "a", "n": 1}, {"name": "b"}, {"name": "a", "n": 2}]}}

    def patched(*items: Json) -> list[Json]:
        found: list[Json] = apply_strategic_merge_patch(held, {"spec": {"containers": list(items)}})["spec"][
            "containers"
        ]
        return found

    assert {"name": "a", "n": 3} in patched({"name": "a", "n": 3}) and {"name": "a", "n": 2} in patched({"name": "a"})
    assert patched({"name": "a", "$patch": "delete"}) == [{"name": "b"}]
    again = patched({"name": "a", "$patch": "delete"}, {"name": "a", "n": 4}, {"name": "a", "m": 5})
    assert again == [{"name": "a", "n": 4, "m": 5}, {"name": "b"}]


@pytest.mark.parametrize("op", ["add", "remove", "replace", "move", "copy"])
def test_a_json_patch_of_as_many_operations_as_may_be(op: str) -> None:
    wide = {"data": {f"k{i}": "x" for i in range(5 * MANY)}}
    lines = [{"op": op, "path": f"/data/k{i}", "from": f"/data/k{i + 10_000}", "value": "y"} for i in range(10_000)]
    with soon():
        patched = apply_json_patch(wide, lines)
    assert len(patched["data"]) == 5 * MANY - 10_000 * (op in ("remove", "move"))
    assert wide == {"data": {f"k{i}": "x" for i in range(5 * MANY)}}, "the document that came in is as it was"


def test_what_a_json_patch_copies_is_not_changed_with_its_origin() -> None:
    patched = apply_json_patch(
        {"a": {"list": [1]}},
        [
            {"op": "add", "path": "/a/list/-", "value": 2},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/a/list/-", "value": 3},
            {"op": "add", "path": "/b/list/0", "value": 0},
            {"op": "move", "from": "/a/list", "path": "/list"},
            {"op": "remove", "path": "/list/0"},
        ],
    )
    assert patched == {"a": {}, "b": {"list": [0, 1, 2]}, "list": [2, 3]}


@pytest.mark.slow
def test_applying_many_items_again() -> None:
    with soon():
        made = apply_configuration(None, a_pod_of_many(count=MANY // 4), ME)
        again = apply_configuration(made, a_pod_of_many("y", MANY // 4), ME)
    assert {container["image"] for container in again["spec"]["containers"]} == {"y"}


@pytest.mark.slow
def test_a_refusal_tells_of_the_first_thousand_conflicts_and_counts_all() -> None:
    made = apply_configuration(None, a_map_of_many("x"), ME)
    with soon(), pytest.raises(Exception, match=f"Apply failed with {MANY} conflicts") as refused:
        apply_configuration(made, a_map_of_many("y"), OTHER)
    assert len(refused.value.details.causes) == 1000  # type: ignore[attr-defined]


@pytest.mark.slow
def test_many_managers_of_many_fields() -> None:
    entries = [
        {"manager": f"m{i}", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {f"f:k{i}": {}}}}
        for i in range(MANY // 2)
    ]
    held = a_map_of_many("x")
    held["metadata"] = {"name": "m", "managedFields": entries}
    with soon():
        updated = record_update(held, a_map_of_many("y"), ME)
        forced = apply_configuration(held, a_map_of_many("y"), OTHER, force=True)
    assert [owner.manager for owner in owners_of(updated)] == ["me"]
    assert [owner.manager for owner in owners_of(forced)] == ["other"]


@pytest.mark.slow
def test_long_names_cost_once_however_much_is_below_them() -> None:
    """The way to each of many fields would be a megabyte long."""
    long, fields = "k" * 1_000_000, {f"a{i}": 1 for i in range(MANY)}

    def a_revision(value: int) -> Json:
        data = {long: dict.fromkeys(fields, value)}
        return {
            "apiVersion": "v1",
            "kind": "ControllerRevision",
            "metadata": {"name": "r"},
            "revision": 1,
            "data": data,
        }

    with soon():
        made = apply_configuration(None, a_revision(1), ME)
        with pytest.raises(Exception, match="conflicts") as refused:
            apply_configuration(made, a_revision(2), OTHER)
        record_update(made, a_revision(2), OTHER)
        told = strict.duplicates(
            b'{"data":{"%s":{%s,"a1":2}}}' % (long.encode(), b",".join(b'"a%d":1' % i for i in range(MANY)))
        )
    assert len(str(refused.value)) < 1_000_000
    assert len(told) == 1


def test_data_that_is_nested_deeply_is_owned_as_a_whole_from_some_depth_on() -> None:
    """Every path is as long as it is deep, so a thousand levels with a field in each are a million keys."""
    data: Json = {"b": 1}
    for _ in range(DEEPEST * 2):
        data = {"a": data, "b": 1}
    revision = {"apiVersion": "v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "data": data}
    made = record_update(None, revision, ME)
    (owner,) = owners_of(made)
    assert max(map(len, owner.paths)) == DEEPEST
    assert owners_of(record_update(made, {**revision, "data": {}}, OTHER)) != [owner]


@pytest.mark.slow
def test_a_refused_update_of_many_containers_shows_the_beginning_of_what_differs() -> None:
    old, new = a_pod_of_many(), a_pod_of_many()
    for container in new["spec"]["containers"]:
        container["args"] = ["y"]
    with soon():
        (fault,) = update_faults(old, new)
    assert "\n+... and " in fault.message and len(fault.message) < 100_000


@pytest.mark.slow
def test_many_tolerations_may_stand_in_another_order() -> None:
    tolerations = [{"key": f"k{i}", "operator": "Exists"} for i in range(MANY)]
    with soon():
        assert update_faults({"spec": {"tolerations": tolerations}}, {"spec": {"tolerations": tolerations[::-1]}}) == []


@pytest.mark.slow
def test_many_label_keys_become_lines_of_a_selector() -> None:
    lines = [{"key": f"k{i}", "operator": "In", "values": ["v"]} for i in range(MANY)]
    constraint: Json = {"labelSelector": {"matchExpressions": lines}, "matchLabelKeys": [f"l{i}" for i in range(MANY)]}
    labels = {f"l{i}": "v" for i in range(MANY)}
    with soon():
        merge_label_keys({"metadata": {"labels": labels}, "spec": {"topologySpreadConstraints": [constraint]}})
    assert len(constraint["labelSelector"]["matchExpressions"]) == 2 * MANY


# ---- what is too deep, too large, or too much


def nested(depth: int) -> bytes:
    return b'{"metadata":{"name":"r"},"revision":1,"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH, JSON_PATCH, ""])
def test_what_is_nested_too_deeply_is_refused_whatever_it_comes_in(media: str) -> None:
    api = an_api()
    assert ask(api, "POST", REVISIONS, nested(MAX_DEPTH - 1)).code == 201
    body = nested(MAX_DEPTH) if media != JSON_PATCH else b'[{"op":"add","path":"/data","value":%s}]' % nested(MAX_DEPTH)
    reply = ask(api, *(("PATCH", f"{REVISIONS}/r") if media else ("POST", REVISIONS)), body, media, fieldManager="me")
    assert (reply.code, reply.body["message"]) == (400, "exceeded max depth")


def test_operations_that_move_a_part_into_another_again_and_again() -> None:
    api = an_api()
    ask(api, "POST", REVISIONS, nested(1))
    deeper = [
        {"op": "add", "path": "/data/b", "value": {}},
        {"op": "move", "from": "/data/a", "path": "/data/b/a"},
        {"op": "move", "from": "/data/b", "path": "/data/a"},
    ]
    reply = ask(api, "PATCH", f"{REVISIONS}/r", deeper * MAX_DEPTH, JSON_PATCH)
    assert (reply.code, reply.body["message"]) == (400, "exceeded max depth")


def test_yaml_whose_merged_maps_are_many() -> None:
    half = MAX_WEIGHT // 1000
    body = (
        "m: &m {" + ", ".join(f"k{i}: v" for i in range(half)) + "}\ndata:\n  <<: [" + ", ".join(["*m"] * 1000) + "]\n"
    )
    reply = ask(an_api(), "POST", CONFIG_MAPS, body.encode(), "application/yaml")
    assert reply.body["message"] == "error converting YAML to JSON: yaml: document contains excessive aliasing"


def env(count: int) -> list[Json]:
    return [{"name": f"E{i}", "value": "x" * 1000} for i in range(count)]


def a_large_pod(count: int, name: str = "p") -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "env": env(count)}]}}


TOO_LARGE = (500, "etcdserver: request is too large")


@pytest.mark.parametrize("dry_run", [{}, {"dryRun": "All"}], ids=["for good", "dry run"])
def test_an_object_that_etcd_would_not_take_is_refused_in_its_words(dry_run: Json) -> None:
    api = an_api()
    version = api.store.version
    reply = ask(api, "POST", PODS, a_large_pod(1560), **dry_run)
    assert (reply.code, reply.body["message"]) == TOO_LARGE
    assert "reason" not in reply.body, "kube-apiserver passes it on as it is"
    assert api.store.version == version and not api.store.all("/pods")
    assert ask(api, "POST", PODS, a_large_pod(1300), **dry_run).code == 201


def test_who_owns_what_must_fit_as_well() -> None:
    """Each of these fields takes two bytes in the configuration, and eight and more to say whose it is."""
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": str(i)} for i in range(60_000)]}}
    reply = ask(an_api(), "PATCH", f"{PODS}/p", pod, APPLY_PATCH, fieldManager="me")
    assert (reply.code, reply.body["message"]) == TOO_LARGE


def grow(media: str) -> Any:
    added: Any = {"metadata": {"finalizers": ["x.y/" + "z" * 1000] * 300}}
    if media == JSON_PATCH:
        return [{"op": "add", "path": "/metadata/finalizers", "value": added["metadata"]["finalizers"]}]
    return added | ({"apiVersion": "v1", "kind": "Pod"} if media == APPLY_PATCH else {})


@pytest.mark.parametrize("media", [MERGE_PATCH, JSON_PATCH])
def test_a_patch_cannot_make_an_object_too_large(media: str) -> None:
    api = an_api()
    held = ask(api, "POST", PODS, a_large_pod(1300)).body
    reply = ask(api, "PATCH", f"{PODS}/p", grow(media), media)
    assert (reply.code, reply.body["message"]) == TOO_LARGE
    assert ask(api, "GET", f"{PODS}/p").body["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]


def test_what_is_as_large_as_may_be_can_be_deleted() -> None:
    """The last content of an object may carry a longer version, and must not be refused for it."""
    store = Store()
    store.create(MAPS, ("", "a"), {"metadata": {"name": "a"}, "data": ""})
    frame = stored_bytes({"metadata": {"name": "a", "resourceVersion": "2"}, "data": ""})
    full = {"metadata": {"name": "a"}, "data": "x" * (MAX_OBJECT_BYTES - frame)}
    with pytest.raises(ApiError, match="request is too large"):
        store.update(MAPS, ("", "a"), {**full, "data": full["data"] + "x"})  # type: ignore[operator]
    store.update(MAPS, ("", "a"), full)
    for i in range(7):
        store.create(MAPS, ("", f"b{i}"), {"metadata": {"name": f"b{i}"}})
    store.delete(MAPS, ("", "a"))
    assert stored_bytes(json.loads(store.since(0)[-1].body)) == MAX_OBJECT_BYTES + 1
    assert store.find(MAPS, ("", "a")) is None


LIMITS: dict[str, tuple[str, Json, str]] = {
    "a ConfigMap": ("configmaps", {"data": {"a": "x" * 1_048_577}}, "[]"),
    "one of bytes": ("configmaps", {"binaryData": {"a": "QUFB" * 349_526}}, "[]"),
    "a Secret": ("secrets", {"data": {"a": "QUFB" * 349_526}}, "data"),
}


@pytest.mark.parametrize(("plural", "content", "field"), LIMITS.values(), ids=LIMITS)
def test_plain_data_has_a_limit_of_its_own(plural: str, content: Json, field: str) -> None:
    reply = ask(an_api(), "POST", f"/api/v1/namespaces/default/{plural}", {"metadata": {"name": "d"}} | content)
    assert reply.code == 422
    assert reply.body["message"].endswith(f' "d" is invalid: {field}: Too long: may not be more than 1048576 bytes')


def test_plain_data_just_below_the_limit_is_taken() -> None:
    content = {"metadata": {"name": "d"}, "data": {"a": "x" * 1_048_575, "b": "y"}}
    assert ask(an_api(), "POST", CONFIG_MAPS, content).code == 201
    assert len(str(content)) < MAX_BODY_BYTES
