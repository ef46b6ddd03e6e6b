"""Server-side apply: recorded exchanges, who owns what, conflicts word for word, and what goes with its owner."""

import copy
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.patches.apply_patch import LAST_APPLIED, FieldWriter, apply_configuration, record_update
from mooring.api.patches.json_patch import equal

DATA = Path(__file__).parent / "data"
APPLIES = json.loads((DATA / "applies.json").read_text())
WRITES = json.loads((DATA / "patches.json").read_text())
NOW = "2026-11-15T07:18:03Z"
LATER = "2026-11-15T07:19:00Z"


def a_writer(manager: str = "me", api_version: str = "v1", time: str = NOW, **others: Any) -> FieldWriter:
    return FieldWriter(manager, api_version, time, **others)


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def a_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": data}


def applied(*configurations: dict[str, Any], live: dict[str, Any] | None = None, **by: Any) -> dict[str, Any]:
    """What is left after one manager applied several configurations, one after the other."""
    for configuration in configurations:
        live = apply_configuration(live, configuration, a_writer(**by))
    assert live is not None
    return live


def owned(item: dict[str, Any]) -> dict[str, Any]:
    """FieldsV1 by manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in item["metadata"].get("managedFields", [])}


def bare(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in APPLIES])
def test_recorded_applies(row: dict[str, Any]) -> None:
    query = parse_qs(row["query"])
    by = a_writer(query["fieldManager"][0])
    if row["status"] == 409:
        with pytest.raises(ApiError) as refused:
            apply_configuration(row["live"], row["configuration"], by)
        assert json.dumps(refused.value.status()) == json.dumps(row["answer"])
        return
    result = apply_configuration(row["live"], row["configuration"], by, force="force" in query)
    assert result["data"] == row["answer"]["data"]
    assert json.dumps(result["metadata"]["managedFields"]) == json.dumps(row["answer"]["metadata"]["managedFields"])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in WRITES])
def test_recorded_writes_leave_the_recorded_owners(row: dict[str, Any]) -> None:
    after = row["after"]
    times = [entry["time"] for entry in after["metadata"]["managedFields"]]
    resets = frozenset({"spec"} if row["subresource"] else {"status"})
    by = a_writer("Python", after["apiVersion"], max(times), subresource=row["subresource"], resets=resets)
    assert equal(record_update(row["before"], bare(after), by), after)


# Who owns what

OWNED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "values at the ends",
        {"nodeName": "n", "securityContext": {"a": {"b": 1}}},
        {"f:nodeName": {}, "f:securityContext": {"f:a": {"f:b": {}}}},
    ),
    ("an empty map", {"securityContext": {}}, {"f:securityContext": {}}),
    ("a null", {"nodeName": None}, {"f:nodeName": {}}),
    (
        "items of lists, by their keys",
        {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
        {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                }
            }
        },
    ),
    (
        "constraints, by two keys",
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        {
            "f:topologySpreadConstraints": {
                'k:{"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}': {
                    ".": {},
                    "f:topologyKey": {},
                    "f:whenUnsatisfiable": {},
                }
            }
        },
    ),
    ("lists that are one value", {"tolerations": [{"key": "a"}]}, {"f:tolerations": {}}),
    ("maps that are one value", {"nodeSelector": {"a": "b"}}, {"f:nodeSelector": {}}),
    ("items that are one value", {"imagePullSecrets": [{"name": "s"}]}, {"f:imagePullSecrets": {'k:{"name":"s"}': {}}}),
]


@pytest.mark.parametrize(("spec", "fields"), [pytest.param(*row[1:], id=row[0]) for row in OWNED])
def test_an_applier_owns(spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert owned(applied(a_pod(**spec))) == {"me": {"f:spec": fields}}


def test_finalizers_are_owned_one_by_one() -> None:
    pod = a_pod()
    pod["metadata"]["finalizers"] = ["b", "a"]
    assert owned(applied(pod)) == {"me": {"f:metadata": {"f:finalizers": {'v:"a"': {}, 'v:"b"': {}}}, "f:spec": {}}}


def test_nobody_owns_names_and_versions() -> None:
    pod = a_pod()
    pod["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1"}
    del pod["spec"]
    assert "managedFields" not in applied(pod)["metadata"]


def test_nobody_owns_what_cannot_be_written_this_way() -> None:
    pod = a_pod(nodeName="n") | {"status": {"phase": "Failed"}}
    assert owned(applied(pod, resets=frozenset({"status"}))) == {"me": {"f:spec": {"f:nodeName": {}}}}


def test_an_entry_says_who_and_how_and_when() -> None:
    pod = a_pod() | {"status": {"phase": "Running"}}
    by = a_writer("kubelet", subresource="status", resets=frozenset({"spec"}))
    assert apply_configuration(None, pod, by)["metadata"]["managedFields"] == [
        {
            "manager": "kubelet",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:phase": {}}},
            "subresource": "status",
        }
    ]


def test_the_same_value_has_two_owners() -> None:
    both = applied(a_map(a="1"), live=applied(a_map(a="1", b="2")), manager="you", time=LATER)
    assert owned(both) == {"me": {"f:data": {"f:a": {}, "f:b": {}}}, "you": {"f:data": {"f:a": {}}}}
    assert both["data"] == {"a": "1", "b": "2"}


def test_applying_the_same_again_changes_nothing() -> None:
    once = applied(a_map(a="1"))
    assert equal(applied(a_map(a="1"), live=once, time=LATER), once)


def test_a_change_has_its_own_time() -> None:
    assert applied(a_map(a="1"), a_map(a="2"), time=LATER)["metadata"]["managedFields"][0]["time"] == LATER


# Merging

MERGED: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("fields are merged", {"nodeName": "n"}, {"priority": 1}, {"nodeName": "n", "priority": 1}),
    (
        "items of lists are merged by key",
        {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
        {"containers": [{"name": "b", "image": "2"}]},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
    ),
    (
        "what is new comes after what was there",
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "c"}, {"name": "d"}]},
        {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]},
    ),
    (
        "shared items come in the order that is applied",
        {"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]},
        {"containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}]},
        {"containers": [{"name": "x"}, {"name": "b"}, {"name": "n"}, {"name": "a"}]},
    ),
    (
        "one constraint for each way of being unsatisfiable",
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {
            "topologySpreadConstraints": [
                {"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
                {"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
            ]
        },
    ),
    (
        "ports of one number and two protocols",
        {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 53}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}]},
    ),
    (
        "items that are there twice stay, unless they are wanted",
        {"containers": [{"name": "a", "env": [{"name": "x"}, {"name": "x"}, {"name": "y"}, {"name": "y"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "y", "value": "1"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "x"}, {"name": "x"}, {"name": "y", "value": "1"}]}]},
    ),
    ("a null removes", {"nodeName": "n", "priority": 1}, {"nodeName": None}, {"priority": 1}),
]


@pytest.mark.parametrize(("live", "wanted", "result"), [pytest.param(*row[1:], id=row[0]) for row in MERGED])
def test_merging(live: dict[str, Any], wanted: dict[str, Any], result: dict[str, Any]) -> None:
    inputs = copy.deepcopy((live, wanted))
    pod = apply_configuration(a_pod(**live), a_pod(**wanted), a_writer(), force=True)
    assert equal(pod["spec"], result)
    assert equal([live, wanted], list(inputs))


PRUNED: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a value", {"nodeName": "n", "priority": 1}, {"priority": 1}, {"priority": 1}),
    (
        "an item",
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "b"}]},
        {"containers": [{"name": "b"}]},
    ),
    (
        "the last item, and the list with it",
        {"containers": [{"name": "a"}], "priority": 1},
        {"priority": 1},
        {"priority": 1},
    ),
    ("a list that is one value", {"tolerations": [{"key": "a"}], "priority": 1}, {"priority": 1}, {"priority": 1}),
    (
        "a field of an item",
        {"containers": [{"name": "a", "image": "i"}]},
        {"containers": [{"name": "a"}]},
        {"containers": [{"name": "a"}]},
    ),
]


@pytest.mark.parametrize(("first", "second", "result"), [pytest.param(*row[1:], id=row[0]) for row in PRUNED])
def test_what_is_no_longer_named_goes(first: dict[str, Any], second: dict[str, Any], result: dict[str, Any]) -> None:
    assert applied(a_pod(**first), a_pod(**second))["spec"] == result


def test_what_others_own_too_stays() -> None:
    live = applied(a_map(a="1"), live=applied(a_map(a="1", b="2")), manager="you")
    result = applied(a_map(b="2"), live=live)
    assert result["data"] == {"a": "1", "b": "2"}
    assert owned(result) == {"me": {"f:data": {"f:b": {}}}, "you": {"f:data": {"f:a": {}}}}


def test_an_item_stays_as_long_as_others_own_something_in_it() -> None:
    live = applied(a_pod(containers=[{"name": "a", "image": "i", "tty": True}]))
    live = applied(a_pod(containers=[{"name": "a", "image": "i"}]), live=live, manager="you")
    assert applied(a_pod(priority=1), live=live)["spec"] == {"priority": 1, "containers": [{"name": "a", "image": "i"}]}


def test_defaults_go_with_the_field_they_are_in() -> None:
    live = applied(a_pod(containers=[{"name": "a", "livenessProbe": {"exec": {}}}]))
    live["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] = 10
    assert applied(a_pod(containers=[{"name": "a"}]), live=live)["spec"] == {"containers": [{"name": "a"}]}


def test_defaults_that_stand_beside_stay() -> None:
    live = applied(a_pod(nodeName="n", containers=[{"name": "a"}]))
    live["spec"] |= {"dnsPolicy": "ClusterFirst"}
    result = applied(a_pod(containers=[{"name": "a"}]), live=live)
    assert result["spec"] == {"containers": [{"name": "a"}], "dnsPolicy": "ClusterFirst"}


def test_what_nobody_applied_stays() -> None:
    live = bare(a_map(a="1"))
    assert applied(a_map(b="2"), a_map(c="3"), live=live)["data"] == {"a": "1", "c": "3"}


# Conflicts


def deployment(replicas: int, image: str = "i") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
    }


def updated(manager: str = "kubectl-client-side-apply", **others: Any) -> dict[str, Any]:
    return record_update(None, deployment(1), a_writer(manager, "apps/v1", **others))


def refusal(live: dict[str, Any], configuration: dict[str, Any], **by: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        apply_configuration(live, configuration, a_writer(api_version=configuration["apiVersion"], **by))
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    return refused.value


def test_one_conflict() -> None:
    assert refusal(updated(), deployment(2)).message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )


def test_several_conflicts() -> None:
    refused = refusal(updated(), deployment(2, "j"))
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:\n'
        "- .spec.replicas\n"
        '- .spec.template.spec.containers[name="c"].image'
    )
    assert refused.status()["details"]["causes"][1] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-client-side-apply" using apps/v1',
        "field": '.spec.template.spec.containers[name="c"].image',
    }


def test_conflicts_with_several_managers() -> None:
    live = applied(a_map(a="1"), live=applied(a_map(b="1")), manager="you")
    assert refusal(live, a_map(a="2", b="2"), manager="them").message == (
        'Apply failed with 2 conflicts: conflicts with "me":\n- .data.b\nconflicts with "you":\n- .data.a'
    )


def test_a_conflict_through_a_subresource() -> None:
    live = updated("hpa", subresource="scale")
    assert refusal(live, deployment(2)).message == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas'
    )


def test_a_conflict_over_a_value_in_a_list_names_it() -> None:
    pod = a_pod()
    pod["metadata"]["finalizers"] = ["a"]
    live = applied(pod)
    live["metadata"] = {key: value for key, value in live["metadata"].items() if key != "finalizers"}
    assert refusal(live, pod, manager="you").message == (
        'Apply failed with 1 conflict: conflict with "me": .metadata.finalizers[="a"]'
    )


def test_force_takes_fields_away() -> None:
    result = apply_configuration(updated(), deployment(2), a_writer(api_version="apps/v1"), force=True)
    assert result["spec"]["replicas"] == 2
    assert "f:replicas" in owned(result)["me"]["f:spec"]
    assert "f:replicas" not in owned(result)["kubectl-client-side-apply"]["f:spec"]


def test_objects_that_were_never_applied_belong_to_those_before() -> None:
    assert refusal(bare(deployment(1)), deployment(2)).message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using apps/v1: .spec.replicas'
    )


def test_kubectl_takes_over_what_it_applied_itself_before() -> None:
    live = updated()
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(deployment(1))}
    result = apply_configuration(live, deployment(2), a_writer("kubectl", "apps/v1"))
    assert result["spec"]["replicas"] == 2
    assert json.loads(result["metadata"]["annotations"][LAST_APPLIED]) == deployment(2)


def test_kubectl_does_not_take_over_what_was_changed_since() -> None:
    live = updated()
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(deployment(3))}
    assert "1 conflict" in refusal(live, deployment(2), manager="kubectl").message


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=repr(text)) for text in ("", "{", "[]", '{"apiVersion":"v1"}', 3)]
)
def test_kubectl_takes_over_nothing_by_an_annotation_that_makes_no_sense(text: object) -> None:
    live = updated()
    live["metadata"]["annotations"] = {LAST_APPLIED: text}
    assert "1 conflict" in refusal(live, deployment(2), manager="kubectl").message


# Refusals

REFUSED: list[tuple[str, object, str, int, str]] = [
    (
        "no manager",
        a_map(),
        "",
        *(422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'),
    ),
    (
        "a list",
        [1],
        "me",
        *(400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ),
    ("nothing", {}, "me", 400, "invalid object type: /, Kind="),
    ("another kind", {**a_map(), "kind": "Secret"}, "me", 400, "invalid object type: /v1, Kind=Secret"),
    (
        "another version",
        {**a_map(), "apiVersion": "v2"},
        "me",
        *(400, "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1"),
    ),
    (
        "managedFields",
        {**a_map(), "metadata": {"managedFields": []}},
        "me",
        *(400, "metadata.managedFields must be nil"),
    ),
]


@pytest.mark.parametrize(
    ("configuration", "manager", "code", "message"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED]
)
def test_what_cannot_be_applied(configuration: object, manager: str, code: int, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_configuration(a_map(), configuration, a_writer(manager))
    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.parametrize(
    ("containers", "fault"),
    [
        ([{"image": "i"}], "element 0: associative list has an element that omits all key fields"),
        ([{"name": "a"}, {"name": "a"}], 'duplicate entries for key [name="a"]'),
    ],
    ids=["an item without its key", "an item twice"],
)
def test_items_that_cannot_be_told_apart(containers: list[JsonObject], fault: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_configuration(a_pod(), a_pod(containers=containers), a_writer("me"))
    message = f"failed to create typed patch object: .spec.containers: {fault}"
    assert (refused.value.code, refused.value.message) == (400, message)


def test_an_empty_list_in_an_item_says_nothing() -> None:
    made = apply_configuration(None, a_pod(containers=[{"name": "c", "env": []}]), a_writer())
    assert made["spec"]["containers"] == [{"name": "c"}]


@pytest.mark.parametrize(
    ("api_version", "expected"), [("autoscaling/v1", {}), ("autoscaling/v2", {"f:kind": {}, "f:name": {}})]
)
def test_a_reference_is_one_value_where_its_type_says_so(api_version: str, expected: JsonObject) -> None:
    """types.go marks CrossVersionObjectReference as atomic in autoscaling/v1 alone."""
    scaler = {
        "apiVersion": api_version,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "s"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}},
    }
    made = apply_configuration(None, scaler, a_writer(api_version=api_version))
    assert owned(made)["me"]["f:spec"]["f:scaleTargetRef"] == expected


# Other writes


def test_a_write_takes_what_it_changes() -> None:
    live = applied(a_map(a="1", b="1"))
    result = record_update(live, {**live, "data": {"a": "2"}}, a_writer("you", time=LATER))
    assert owned(result) == {"you": {"f:data": {"f:a": {}}}}


def test_a_write_may_bring_owners_of_its_own() -> None:
    live = applied(a_map(a="1"))
    entry = live["metadata"]["managedFields"][0] | {"manager": "kubectl"}
    given_owners = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert owned(record_update(live, given_owners, a_writer("kubectl"))) == {"kubectl": {"f:data": {"f:a": {}}}}
    assert owned(record_update(live, given_owners, a_writer("x", subresource="status"))) == owned(live)


@pytest.mark.parametrize("empty", [pytest.param([], id="no entry"), pytest.param([{}], id="an empty entry")])
def test_a_write_may_drop_all_owners(empty: list[Any]) -> None:
    live = applied(a_map(a="1"))
    dropped = {**live, "metadata": {"name": "cm", "managedFields": empty}}
    assert record_update(live, dropped, a_writer()) == bare(dropped)


def test_objects_that_were_never_applied_get_no_owners_by_writes() -> None:
    assert record_update(a_map(a="1"), a_map(a="2"), a_writer()) == a_map(a="2")


def test_creation_owns_all_but_the_outermost() -> None:
    created = record_update(None, a_map(a="1"), a_writer("you"))
    assert owned(created) == {"you": {"f:data": {".": {}, "f:a": {}}}}


ODD_ENTRIES = [
    ("no list", {"a": 1}),
    ("no entry", ["x", None]),
    (
        "fields that are none",
        [{"manager": "x", "fieldsV1": {"x": {}, "k:[": {}, 'v:{"a":1}': {}, "k:1": {}, "f:data": 1}}],
    ),
    ("names that are none", [{"manager": 1, "operation": [], "fieldsV1": []}]),
]


@pytest.mark.parametrize("entries", [pytest.param(row[1], id=row[0]) for row in ODD_ENTRIES])
def test_managed_fields_that_make_no_sense_own_nothing(entries: object) -> None:
    live = a_map(a="1")
    live["metadata"]["managedFields"] = entries
    result = apply_configuration(live, a_map(a="2"), a_writer(), force=True)
    assert owned(result)["me"] == {"f:data": {"f:a": {}}}


def test_keys_are_known_however_they_are_spelt() -> None:
    live = applied(a_pod(containers=[{"name": "c", "image": "1"}]))
    fields = live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]
    fields['k:{ "name" : "c" }'] = fields.pop('k:{"name":"c"}')
    assert "1 conflict" in refusal(live, a_pod(containers=[{"name": "c", "image": "2"}]), manager="you").message


# Random configurations

names = st.sampled_from(["a", "b", "c"])
containers = st.lists(
    st.fixed_dictionaries(
        {"name": names},
        optional={
            "image": names,
            "args": st.lists(names, max_size=2),
            "env": st.lists(names, max_size=2, unique=True).map(lambda listed: [{"name": name} for name in listed]),
        },
    ),
    max_size=3,
    unique_by=lambda item: item["name"],
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": containers,
        "nodeSelector": st.dictionaries(names, names, max_size=2),
        "securityContext": st.dictionaries(names, names, min_size=1, max_size=2),
        "nodeName": names,
    },
)


def tidy(value: Any) -> Any:
    """Without empty lists: nobody owns one, so whether it is there is nobody's business."""
    if isinstance(value, dict):
        return {key: tidy(item) for key, item in value.items() if item != []}
    return [tidy(item) for item in value] if isinstance(value, list) else value


@given(specs, specs)
def test_the_only_manager_gets_what_it_applied_last(first: dict[str, Any], second: dict[str, Any]) -> None:
    result = applied(a_pod(**first), a_pod(**second))
    assert equal(tidy(bare(result)), tidy(a_pod(**second)))
    assert equal(applied(a_pod(**second), live=result, time=LATER), result), "the same again changes nothing"


@given(specs, specs)
def test_whoever_forces_gets_what_is_applied_and_owns_it(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(a_pod(**first))
    result = apply_configuration(live, a_pod(**second), a_writer("you"), force=True)
    assert owned(result).get("you") == owned(applied(a_pod(**second))).get("me")
    assert equal(applied(a_pod(**second), live=result, manager="you", time=LATER), result)


keys = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "containers", "name", "finalizers", "env", "managedFields"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "v1", "Pod"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)
shaped = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod")},
    optional={"metadata": json_values, "spec": st.dictionaries(keys, json_values, max_size=3)},
)


@given(st.none() | shaped, shaped | json_values, shaped)
def test_any_json_is_applied_or_refused(
    live: dict[str, Any] | None, configuration: object, new: dict[str, Any]
) -> None:
    inputs = copy.deepcopy((live, configuration, new))
    record_update(live, new, a_writer())
    try:
        result = apply_configuration(live, configuration, a_writer(), force=True)
        record_update(result, new, a_writer("you"))
    except ApiError as refused:
        assert refused.code == 400
    assert equal([live, configuration, new], list(inputs))
