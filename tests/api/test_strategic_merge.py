"""Strategic merge patches: recorded exchanges, every directive, every refusal, and patches made from differences."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.patches.json_patch import equal
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch

RECORDED = [
    row for row in json.loads((Path(__file__).parent / "data/patches.json").read_text()) if row["type"] == "strategic"
]
ADMITTED = [
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
"""Tolerations that the recorded server adds after the patch."""


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def named(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RECORDED])
def test_recorded_patches(row: dict[str, Any]) -> None:
    """Nulls are the recorded server's: its types write some fields even if they are not set."""
    result = apply_strategic_merge_patch(row["before"], row["patch"])
    after = without_nulls(row["after"])
    tolerations = after.get("spec", {}).get("tolerations")
    if "tolerations" in row["patch"].get("spec", {}):
        after["spec"]["tolerations"] = [line for line in tolerations if line not in ADMITTED]
    for part in ("spec", "status", "series"):
        assert without_nulls(result.get(part)) == after.get(part)


SPECS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "containers are merged by name, and what the patch names comes in its order",
        {"containers": named("a", image="1") + named("b", image="1")},
        {"containers": named("b", image="2") + named("c", image="1")},
        {"containers": named("a", image="1") + named("b", image="2") + named("c", image="1")},
    ),
    (
        "the order of the patch wins over the one before",
        {"containers": named("a", "b", "c")},
        {"containers": named("c", "a")},
        {"containers": named("b", "c", "a")},
    ),
    (
        "tolerations are replaced whole",
        {"tolerations": [{"key": "a"}, {"key": "b"}]},
        {"tolerations": [{"key": "c"}]},
        {"tolerations": [{"key": "c"}]},
    ),
    (
        "ports of containers are merged by their number",
        {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 81, "name": "x"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "x"}]}]},
    ),
    (
        "of two ports with one number the first is meant",
        {"containers": [{"name": "a", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 53, "name": "x"}]}]},
        {
            "containers": [
                {"name": "a", "ports": [{"containerPort": 53, "name": "x"}, {"containerPort": 53, "protocol": "UDP"}]}
            ]
        },
    ),
    (
        "keys of another type are other keys",
        {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": True}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": True}, {"containerPort": 1}]}]},
    ),
    (
        "what is new comes before what the patch does not name",
        {"containers": named("a")},
        {"containers": named("b")},
        {"containers": named("b", "a")},
    ),
    (
        "env and mounts have keys of their own",
        {
            "containers": [
                {"name": "a", "env": named("x", value="1"), "volumeMounts": [{"mountPath": "/a", "name": "v"}]}
            ]
        },
        {
            "containers": [
                {"name": "a", "env": named("x", value="2"), "volumeMounts": [{"mountPath": "/b", "name": "v"}]}
            ]
        },
        {
            "containers": [
                {
                    "name": "a",
                    "env": named("x", value="2"),
                    "volumeMounts": [{"mountPath": "/b", "name": "v"}, {"mountPath": "/a", "name": "v"}],
                }
            ]
        },
    ),
    (
        "a constraint is known by its topology key alone",
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}]},
    ),
    ("null removes a field", {"nodeName": "n", "priority": 1}, {"nodeName": None}, {"priority": 1}),
    ("null removes nothing where nothing is", {"priority": 1}, {"nodeName": None}, {"priority": 1}),
    (
        "nulls in what is new are left out",
        {},
        {"securityContext": {"a": None, "b": {"c": None, "d": 1}}, "tolerations": [{"key": "a", "value": None}]},
        {"securityContext": {"b": {"d": 1}}, "tolerations": [{"key": "a"}]},
    ),
    (
        "maps are merged",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    ("what changes its type is replaced", {"x": {"a": 1}}, {"x": [1]}, {"x": [1]}),
    ("a scalar takes the place of a map", {"x": {"a": 1}}, {"x": "b"}, {"x": "b"}),
    ("nothing is merged into nothing", {"containers": []}, {"containers": []}, {"containers": []}),
    # $patch
    (
        "an item is deleted",
        {"containers": named("a", "b", "c")},
        {"containers": [{"$patch": "delete", "name": "b"}]},
        {"containers": named("a", "c")},
    ),
    (
        "an item that is not there is deleted in vain",
        {"containers": named("a")},
        {"containers": [{"$patch": "delete", "name": "b"}]},
        {"containers": named("a")},
    ),
    (
        "an item is deleted and another is added",
        {"containers": named("a", "b")},
        {"containers": [{"$patch": "delete", "name": "a"}, {"name": "c"}]},
        {"containers": named("c", "b")},
    ),
    (
        "a list is replaced",
        {"containers": named("a", "b")},
        {"containers": [{"$patch": "replace"}, {"name": "c"}]},
        {"containers": named("c")},
    ),
    (
        "a list is emptied",
        {"containers": named("a", "b")},
        {"containers": [{"$patch": "replace"}]},
        {"containers": []},
    ),
    (
        "a map is replaced",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "replace", "b": "2"}},
        {"nodeSelector": {"b": "2"}},
    ),
    ("a map is emptied", {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"$patch": "delete"}}, {"nodeSelector": {}}),
    (
        "to merge a map is what happens anyway",
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"$patch": "merge", "b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    (
        "directives about what is not there leave nothing",
        {},
        {"nodeSelector": {"$patch": "delete"}, "containers": [{"$patch": "delete", "name": "a"}, {"name": "b"}]},
        {"containers": named("b")},
    ),
    # $retainKeys
    (
        "other keys go",
        {"volumes": [{"name": "v", "emptyDir": {}, "x": 1}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ),
    (
        "in a new item there is nothing to go",
        {"volumes": []},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ),
    (
        "a null need not be retained",
        {"strategy": {"type": "x", "rollingUpdate": {}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": None}},
        {"strategy": {"type": "Recreate"}},
    ),
    # $setElementOrder
    (
        "the order alone",
        {"containers": named("a", "b", "c")},
        {"$setElementOrder/containers": named("c", "a")},
        {"containers": named("b", "c", "a")},
    ),
    (
        "the order with changes and deletions",
        {"containers": named("a", "b", "c")},
        {
            "$setElementOrder/containers": named("d", "c", "a"),
            "containers": [{"name": "d"}, {"name": "c", "image": "1"}, {"$patch": "delete", "name": "b"}],
        },
        {"containers": [{"name": "d"}, {"name": "c", "image": "1"}, {"name": "a"}]},
    ),
    (
        "the order of a list that is new",
        {},
        {"$setElementOrder/containers": named("a", "b"), "containers": named("a", "b")},
        {"containers": named("a", "b")},
    ),
    ("the order of nothing", {}, {"$setElementOrder/containers": named("a")}, {}),
    (
        "the order of a list that is replaced whole says nothing",
        {"tolerations": [{"key": "a"}]},
        {"$setElementOrder/tolerations": [{"key": "a"}], "tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
]


@pytest.mark.parametrize(("before", "patch", "after"), [pytest.param(*row[1:], id=row[0]) for row in SPECS])
def test_specs(before: dict[str, Any], patch: dict[str, Any], after: dict[str, Any]) -> None:
    inputs = copy.deepcopy((before, patch))
    assert equal(apply_strategic_merge_patch(a_pod(**before), {"spec": patch}), a_pod(**after))
    assert equal([before, patch], list(inputs))


OBJECTS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "ports of services are merged by their port",
        {"kind": "Service", "spec": {"ports": [{"port": 80}, {"port": 81}]}},
        {"spec": {"ports": [{"port": 81, "targetPort": 1}]}},
        {"kind": "Service", "spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": 1}]}},
    ),
    (
        "the addresses of a node are merged by type",
        {"kind": "Node", "status": {"addresses": [{"type": "InternalIP", "address": "1"}]}},
        {"status": {"addresses": [{"type": "Hostname", "address": "n"}]}},
        {
            "kind": "Node",
            "status": {"addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "1"}]},
        },
    ),
    (
        "templates of pods are merged like pods",
        {"kind": "Deployment", "spec": {"template": {"spec": {"containers": named("a", image="1")}}}},
        {"spec": {"template": {"spec": {"containers": named("a", image="2")}}}},
        {"kind": "Deployment", "spec": {"template": {"spec": {"containers": named("a", image="2")}}}},
    ),
    (
        "the selector of a budget is replaced",
        {"kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "1"}}}},
        {"kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"b": "1"}}}},
    ),
    (
        "the selector of a deployment is merged",
        {"kind": "Deployment", "spec": {"selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "1"}}}},
        {"kind": "Deployment", "spec": {"selector": {"matchLabels": {"a": "1", "b": "1"}}}},
    ),
    (
        "finalizers are a set",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    (
        "finalizers are deleted by name, and added in order",
        {"metadata": {"finalizers": ["a", "b"]}},
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["c", "b"],
                "finalizers": ["c"],
            }
        },
        {"metadata": {"finalizers": ["c", "b"]}},
    ),
    (
        "what is deleted from nothing leaves nothing",
        {"metadata": {}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {}},
    ),
    (
        "a reservation is deleted by the uid of its pod",
        {"kind": "ResourceClaim", "status": {"reservedFor": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}},
        {"metadata": {"uid": "u"}, "status": {"reservedFor": [{"$patch": "delete", "uid": "1"}]}},
        {"kind": "ResourceClaim", "metadata": {"uid": "u"}, "status": {"reservedFor": [{"uid": "2", "name": "b"}]}},
    ),
    ("null for a patch changes nothing", {"kind": "Pod", "x": 1}, None, {"kind": "Pod", "x": 1}),  # type: ignore[list-item]
    ("an object is emptied", {"kind": "Pod", "x": 1}, {"$patch": "delete"}, {}),
    ("an object is replaced", {"kind": "Pod", "x": 1}, {"$patch": "replace", "y": 1}, {"y": 1}),
]


@pytest.mark.parametrize(("before", "patch", "after"), [pytest.param(*row[1:], id=row[0]) for row in OBJECTS])
def test_objects(before: dict[str, Any], patch: object, after: dict[str, Any]) -> None:
    assert equal(apply_strategic_merge_patch(before, patch), after)


BAD_ORDER = "invalid patch format of setElementOrder list"
REFUSED: list[tuple[str, object, int, str]] = [
    ("a list", [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    (
        "an unknown directive",
        {"spec": {"$patch": "drop", "a": [1, True, None]}},
        *(400, "unknown patch type: drop in map: map[$patch:drop a:[1 true <nil>]]"),
    ),
    (
        "an unknown directive in an item",
        {"spec": {"containers": [{"$patch": "drop", "name": "a"}]}},
        *(400, "unknown patch type: drop in map: map[$patch:drop name:a]"),
    ),
    (
        "the directive to merge a list",
        {"spec": {"containers": [{"$patch": "merge", "name": "a"}]}},
        *(400, "merging lists cannot yet be specified in the patch"),
    ),
    (
        "an item without its key",
        {"spec": {"containers": [{"image": "x"}]}},
        *(400, "map: map[image:x] does not contain declared merge key: name"),
    ),
    (
        "a deletion without its key",
        {"spec": {"containers": [{"$patch": "delete"}]}},
        *(400, "map: map[$patch:delete] does not contain declared merge key: name"),
    ),
    (
        "items of several types",
        {"spec": {"containers": [1]}},
        *(400, "list element types are not identical: [map[name:a] 1]"),
    ),
    (
        "nulls among items",
        {"metadata": {"finalizers": [None]}},
        *(400, "list element types are not identical: [<nil>]"),
    ),
    (
        "lists of lists",
        {"spec": {"containers": [[]]}},
        *(422, "the server rejected our request due to an error in our request"),
    ),
    ("an order that is no list", {"spec": {"$setElementOrder/containers": {}}}, 400, BAD_ORDER),
    ("an order of nothing in particular", {"spec": {"$setElementOrder": []}}, 400, BAD_ORDER),
    (
        "an order that the items do not keep",
        {"spec": {"$setElementOrder/containers": named("b", "a"), "containers": named("a", "b")}},
        400,
        "The order in patch list:\n[map[name:a] map[name:b]]\n doesn't match $setElementOrder list:\n"
        "[map[name:b] map[name:a]]\n",
    ),
    (
        "an order without keys",
        {"spec": {"$setElementOrder/containers": [{}]}},
        *(400, "map: map[] does not contain declared merge key: name"),
    ),
    (
        "deletions that are no list",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
        *(400, "invalid patch format of primitive list"),
    ),
    (
        "deletions from nothing in particular",
        {"metadata": {"$deleteFromPrimitiveListX/finalizers": ["a"]}},
        *(400, "invalid patch format of primitive list"),
    ),
    ("retained keys that are no list", {"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
    (
        "keys that are set and not retained",
        {"spec": {"$retainKeys": ["x"], "y": 1}},
        *(400, "invalid patch format of retainKeys"),
    ),
]


@pytest.mark.parametrize(("patch", "code", "message"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_patches_that_make_no_sense(patch: object, code: int, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_strategic_merge_patch(a_pod(containers=named("a")), patch)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_patches_nested_too_deep_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ApiError, match="exceeded max depth"):
        apply_strategic_merge_patch({}, deep)


def test_what_is_not_touched_is_shared() -> None:
    before = a_pod(containers=named("a"), tolerations=[{"key": "x"}])
    after = apply_strategic_merge_patch(before, {"spec": {"containers": named("b")}})
    assert after["metadata"] is before["metadata"]
    assert after["spec"]["tolerations"] is before["spec"]["tolerations"]
    assert after["spec"]["containers"][1] is before["spec"]["containers"][0]


# Random patches

names = st.sampled_from(["a", "b", "c", "d"])
env = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"value": names}), max_size=3, unique_by=lambda e: e["name"]
)
containers = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"image": names, "env": env, "args": st.lists(names, max_size=2)}),
    max_size=4,
    unique_by=lambda item: item["name"],
)
specs = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "nodeSelector": st.dictionaries(names, names, max_size=3),
        "tolerations": st.lists(st.fixed_dictionaries({"key": names}), max_size=2),
        "nodeName": names,
    },
)
pods = st.builds(
    lambda spec, finalizers: {**a_pod(**spec), "metadata": {"name": "p", "finalizers": finalizers}},
    specs,
    st.lists(names, unique=True, max_size=4),
)


def diff(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A patch as clients make it: orders and deletions for every list that is merged."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key in ("containers", "env") and isinstance(old.get(key), list):
            patch |= diff_items(key, old[key], value)
        elif key == "finalizers":
            patch |= diff_values(key, old[key], value)
        elif isinstance(value, dict) and isinstance(old.get(key), dict):
            patch[key] = diff(old[key], value)
        elif old.get(key) != value:
            patch[key] = value
    return patch


def diff_items(key: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> dict[str, Any]:
    known = {item["name"]: item for item in old}
    wanted = {item["name"] for item in new}
    changes = [diff(known.get(item["name"], {}), item) | {"name": item["name"]} for item in new]
    gone = [{"$patch": "delete", "name": name} for name in known if name not in wanted]
    return {f"$setElementOrder/{key}": [{"name": item["name"]} for item in new], key: changes + gone}


def diff_values(key: str, old: list[str], new: list[str]) -> dict[str, Any]:
    gone = [value for value in old if value not in new]
    return {f"$setElementOrder/{key}": new, f"$deleteFromPrimitiveList/{key}": gone, key: new}


@given(pods, pods)
def test_a_diff_leads_from_one_pod_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = diff(old, new)
    inputs = copy.deepcopy((old, patch))
    result = apply_strategic_merge_patch(old, patch)
    assert equal(result, new)
    assert equal([old, patch], list(inputs))
    assert equal(apply_strategic_merge_patch(result, patch), new), "the same patch again changes nothing"


@given(pods, specs)
def test_a_patch_without_directives_changes_nothing_the_second_time(pod: dict[str, Any], spec: dict[str, Any]) -> None:
    once = apply_strategic_merge_patch(pod, {"spec": spec})
    assert equal(apply_strategic_merge_patch(once, {"spec": spec}), once)


keys = st.sampled_from(
    [
        *(
            "kind",
            "metadata",
            "finalizers",
            "spec",
            "containers",
            "env",
            "name",
            "status",
            "conditions",
            "type",
            "$patch",
        ),
        *("$retainKeys", "$setElementOrder/containers", "$setElementOrder/finalizers", "$setElementOrder", "ports"),
        *("$deleteFromPrimitiveList/finalizers", "$deleteFromPrimitiveList/containers", "containerPort"),
    ]
)
scalars = (
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b", "delete", "replace", "merge", "Pod"])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
shaped = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(keys, st.lists(scalars, max_size=3) | json_values, max_size=3),
        "spec": st.dictionaries(
            keys, st.lists(st.dictionaries(keys, json_values, max_size=3), max_size=3) | json_values, max_size=3
        ),
    },
)


@given(pods | shaped, shaped | json_values)
def test_any_json_is_a_patch_or_is_refused(document: dict[str, Any], patch: object) -> None:
    inputs = copy.deepcopy((document, patch))
    try:
        assert isinstance(apply_strategic_merge_patch(document, patch), dict)
    except ApiError as refused:
        assert refused.code in (400, 422)
    assert equal([document, patch], list(inputs))
