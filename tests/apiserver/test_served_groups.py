"""v1.37, 1.1: PodGroups, CompositePodGroups and Workloads of scheduling.k8s.io: what the server accepts, in which versions it
shows them, and how kubectl prints them."""

from typing import Any

import pytest

from asking import MERGE_PATCH, ask
from cluster_api import an_api
from mooring.api.json_objects import JsonObject

BETA, ALPHA = (f"/apis/scheduling.k8s.io/{version}/namespaces/default" for version in ("v1beta1", "v1alpha3"))
GROUPS, WORKLOADS, COMPOSITES = f"{BETA}/podgroups", f"{BETA}/workloads", f"{ALPHA}/compositepodgroups"
GATES = dict.fromkeys(
    (
        *("GenericWorkload", "TopologyAwareWorkloadScheduling", "DRAWorkloadResourceClaims"),
        *("CompositePodGroup", "PodGroupPreemptionPolicy"),
    ),
    True,
)
GANG = {"gang": {"minCount": 4}}
REF = {"workloadName": "w", "templateName": "workers"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def a_group(name: str = "g", **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": GANG, **spec}}


def a_composite(**spec: Any) -> JsonObject:
    policy = {"gang": {"minGroupCount": 2}}
    return {"metadata": {"name": "c"}, "spec": {"schedulingPolicy": policy, "workloadRef": REF, **spec}}


def a_template(name: str = "workers", **more: Any) -> JsonObject:
    return {"name": name, "schedulingPolicy": GANG, **more}


def a_tree(name: str, *children: JsonObject, **more: Any) -> JsonObject:
    held: JsonObject = {"podGroupTemplates": [], "compositePodGroupTemplates": []}
    for child in children:
        held["compositePodGroupTemplates" if "minGroupCount" in str(child) else "podGroupTemplates"].append(child)
    return {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **held, **more}


def a_workload(*templates: JsonObject, **more: Any) -> JsonObject:
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **more}}


def of_trees(*trees: JsonObject) -> JsonObject:
    return {"metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": list(trees)}}


def from_template() -> JsonObject:
    return a_group(workloadRef=REF)


POLICY = "spec.schedulingPolicy: Invalid value"
GROUP_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "no policy": (a_group(schedulingPolicy={}), f'{POLICY}: "": must specify one of: `basic`, `gang`'),
    "two policies": (
        a_group(schedulingPolicy={"basic": {}, **GANG}),
        f'{POLICY}: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`',
    ),
    "no pods": (
        a_group(schedulingPolicy={"gang": {"minCount": 0}}),
        "spec.schedulingPolicy.gang.minCount: Required value",
    ),
    "fewer than no pods": (
        a_group(schedulingPolicy={"gang": {"minCount": -1}}),
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
    ),
    "two topologies": (
        a_group(schedulingConstraints={"topology": [{"key": "rack"}, {"key": "zone"}]}),
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
    ),
    "a topology that is no label": (
        a_group(schedulingConstraints={"topology": [{"key": "no/such/key"}]}),
        "spec.schedulingConstraints.topology[0].key: Invalid value",
    ),
    "five claims": (
        a_group(resourceClaims=[{"name": f"c{i}", "resourceClaimName": "c"} for i in range(5)]),
        "spec.resourceClaims: Too many: 5: must have at most 4 items",
    ),
    "a template without a name": (
        a_group(workloadRef={"workloadName": "w", "templateName": ""}),
        "spec.workloadRef.templateName: Required value",
    ),
    "a parent that is no name": (
        a_group(parentCompositePodGroupName="No", workloadRef=REF),
        'spec.parentCompositePodGroupName: Invalid value: "No"',
    ),
    # TestPodGroupDependentRequiredValidation
    "a parent without a workload": (a_group(parentCompositePodGroupName="c"), "spec.workloadRef: Required value"),
    "an unknown preemption policy": (
        a_group(preemptionPolicy="Sometimes"),
        "the string value of PreemptionPolicy (Sometimes) must not be provided",
    ),
}


@pytest.mark.parametrize(("group", "message"), GROUP_FAULTS.values(), ids=GROUP_FAULTS)
def test_v137_1_1_a_group_that_breaks_a_rule_is_refused(group: JsonObject, message: str) -> None:
    reply = ask(an_api(gates=GATES), "POST", GROUPS, group)
    assert reply.code in (403, 422), reply.body
    assert message in reply.body["message"]


COMPOSITE_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "no workload": (a_composite(workloadRef=None), "spec.workloadRef: Required value"),
    "no groups": (
        a_composite(schedulingPolicy={"gang": {"minGroupCount": -2}}),
        "spec.schedulingPolicy.gang.minGroupCount: Invalid value: -2: must be greater than or equal to 1",
    ),
    "two modes": (
        a_composite(disruptionMode={"single": {}, "all": {}}),
        "must specify exactly one of: `single`, `all`",
    ),
}


@pytest.mark.parametrize(("group", "message"), COMPOSITE_FAULTS.values(), ids=COMPOSITE_FAULTS)
def test_v137_1_1_a_composite_group_that_breaks_a_rule_is_refused(group: JsonObject, message: str) -> None:
    reply = ask(an_api(gates=GATES), "POST", COMPOSITES, group)
    assert reply.code == 422, reply.body
    assert message in reply.body["message"]


LEAF = a_template("leaf")
WORKLOAD_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "no templates": (
        a_workload(),
        'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`',
    ),
    "templates of both kinds": (
        a_workload(a_template(), compositePodGroupTemplates=[a_tree("t", LEAF)]),
        "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`",
    ),
    "nine templates": (
        a_workload(*(a_template(f"t{i}") for i in range(9))),
        "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
    ),
    "a name twice": (
        a_workload(a_template(), a_template()),
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"workers"',
    ),
    "a name with dots": (a_workload(a_template("a.b")), "spec.podGroupTemplates[0].name: Invalid value"),
    "no policy": (
        a_workload(a_template(schedulingPolicy={})),
        'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
    ),
    "a name twice in a tree": (
        of_trees(a_tree("t", LEAF, a_tree("leaf", a_template("other")))),
        'spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].name: Duplicate value: "leaf"',
    ),
    "a tree that is too deep": (
        of_trees(a_tree("1", a_tree("2", a_tree("3", a_tree("4", LEAF))))),
        "maximum template hierarchy depth is 4",
    ),
    "a composite template that holds none": (
        of_trees(a_tree("t")),
        'spec.compositePodGroupTemplates[0]: Invalid value: "t": must have at least one child PodGroupTemplate or '
        "CompositePodGroupTemplate",
    ),
    "two priorities": (
        a_workload(a_template(), a_template("other", priorityClassName="high")),
        "spec: Invalid value: null: detected multiple priority configurations",
    ),
    "two priorities in a tree": (
        of_trees(a_tree("t", LEAF, priority=5)),
        "all priority and priorityClassName values must be identical, detected multiple values",
    ),
}


@pytest.mark.parametrize(("workload", "message"), WORKLOAD_FAULTS.values(), ids=WORKLOAD_FAULTS)
def test_v137_1_1_a_workload_that_breaks_a_rule_is_refused(workload: JsonObject, message: str) -> None:
    reply = ask(an_api(gates=GATES), "POST", WORKLOADS, workload)
    assert reply.code == 422, reply.body
    assert message in reply.body["message"]


def test_v137_1_1_a_workload_may_be_a_tree() -> None:
    tree = a_tree("1", a_tree("2", a_tree("3", LEAF)))
    reply = ask(an_api(gates=GATES), "POST", WORKLOADS, of_trees(tree))
    assert reply.code == 201, reply.body


def test_v137_1_1_a_tree_as_deep_as_a_body_goes_is_refused() -> None:
    tree = LEAF
    for i in range(400):
        tree = a_tree(f"t{i}") | {"compositePodGroupTemplates" if i else "podGroupTemplates": [tree]}
    assert ask(an_api(gates=GATES), "POST", WORKLOADS, of_trees(tree)).code in (400, 422)


IMMUTABLE = "field is immutable"
CHANGES: dict[str, tuple[str, JsonObject, str]] = {
    "the workload of a group": (
        f"{GROUPS}/g",
        {"workloadRef": None},
        f"spec.workloadRef: Invalid value: null: {IMMUTABLE}",
    ),
    "the mode of a group": (
        f"{GROUPS}/g",
        {"disruptionMode": {"single": None, "all": {}}},
        f"disruptionMode: Invalid value: null: {IMMUTABLE}",
    ),
    "a gang that becomes basic": (
        f"{GROUPS}/g",
        {"schedulingPolicy": {"gang": None, "basic": {}}},
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
    ),
    "a minimum of nothing": (
        f"{GROUPS}/g",
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        "minCount: Required value",
    ),
    "a template that is renamed": (
        f"{WORKLOADS}/w",
        {"podGroupTemplates": [a_template("others")]},
        "spec.podGroupTemplates[0]: Forbidden: item may not be added",
    ),
    "a template that is gone": (
        f"{WORKLOADS}/w",
        {"podGroupTemplates": [a_template("others")]},
        "spec.podGroupTemplates: Forbidden: item may not be removed",
    ),
    "a template with another mode": (
        f"{WORKLOADS}/w",
        {"podGroupTemplates": [a_template(disruptionMode={"all": {}})]},
        f"spec.podGroupTemplates[0].disruptionMode: Invalid value: null: {IMMUTABLE}",
    ),
    "the owner of a workload": (
        f"{WORKLOADS}/w",
        {"controllerRef": {"kind": "Job", "name": "j"}},
        f"spec.controllerRef: Invalid value: null: {IMMUTABLE}",
    ),
    "the minimum of a composite group": (
        f"{COMPOSITES}/c",
        {"schedulingPolicy": {"gang": {"minGroupCount": 3}}},
        f"spec.schedulingPolicy: Invalid value: null: {IMMUTABLE}",
    ),
}


@pytest.mark.parametrize(("path", "spec", "message"), CHANGES.values(), ids=CHANGES)
def test_v137_1_1_what_may_not_change(path: str, spec: JsonObject, message: str) -> None:
    api = an_api(gates=GATES)
    assert ask(api, "POST", WORKLOADS, a_workload(a_template())).code == 201
    assert ask(api, "POST", GROUPS, from_template()).code == 201
    assert ask(api, "POST", COMPOSITES, a_composite()).code == 201
    reply = ask(api, "PATCH", path, {"spec": spec}, MERGE_PATCH)
    assert reply.code == 422 and message in reply.body["message"], reply.body


def test_v137_1_1_the_minimum_of_a_gang_may_change() -> None:
    api = an_api(gates=GATES)
    ask(api, "POST", WORKLOADS, a_workload(a_template()))
    ask(api, "POST", GROUPS, from_template())
    more: JsonObject = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    assert ask(api, "PATCH", f"{GROUPS}/g", {"spec": more}, MERGE_PATCH).body["spec"]["schedulingPolicy"] == {
        "gang": {"minCount": 5}
    }
    templates = {"podGroupTemplates": [a_template(**more)]}
    assert ask(api, "PATCH", f"{WORKLOADS}/w", {"spec": templates}, MERGE_PATCH).code == 200


def test_v137_22_a_group_may_name_a_workload_that_does_not_exist() -> None:
    """v1.36 refused it (admission plugin PodGroupWorkloadExists)."""
    assert ask(an_api(gates=GATES), "POST", GROUPS, from_template()).code == 201


def test_v137_1_1_both_versions_show_the_same_objects() -> None:
    api = an_api(gates=GATES)
    made = ask(api, "POST", f"{ALPHA}/podgroups", a_group(disruptionMode={"all": {}})).body
    assert made["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"] and made["spec"]["priority"] == 0
    seen = ask(api, "GET", f"{GROUPS}/g").body
    assert seen == {**made, "apiVersion": "scheduling.k8s.io/v1beta1"}
    listed = ask(api, "GET", GROUPS).body
    assert (listed["apiVersion"], [item["metadata"]["name"] for item in listed["items"]]) == (seen["apiVersion"], ["g"])
    changed = ask(api, "PATCH", f"{ALPHA}/podgroups/g", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH).body
    assert ask(api, "GET", f"{GROUPS}/g").body == {**changed, "apiVersion": "scheduling.k8s.io/v1beta1"}
    relabelled = {"metadata": {"labels": {"a": "c"}}}
    for path in (GROUPS, f"{ALPHA}/podgroups"):
        assert ask(api, "PATCH", f"{path}/g", relabelled, MERGE_PATCH).code == 200
        assert ask(api, "PATCH", f"{path}/g/status", {"status": {}}, MERGE_PATCH).code == 200
    assert {item["apiVersion"] for item in api.store.all("scheduling.k8s.io/podgroups")} == {
        "scheduling.k8s.io/v1beta1"
    }
    row = ask(api, "GET", f"{GROUPS}/g", accept=TABLE, includeObject="Object").body["rows"][0]["object"]
    assert row["apiVersion"] == "scheduling.k8s.io/v1beta1"
    wrong = {**a_group("h"), "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup"}
    assert ask(api, "POST", GROUPS, wrong).code == 400
    assert ask(api, "DELETE", f"{ALPHA}/podgroups/g").code == 200


def test_v137_1_1_composite_groups_are_alpha_and_v1alpha2_is_gone() -> None:
    api = an_api(gates=GATES)
    assert ask(api, "GET", f"{BETA}/compositepodgroups").code == 404
    assert ask(api, "GET", "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups").code == 404


STATES: dict[str, tuple[list[JsonObject], str]] = {
    "new": ([], "Pending"),
    "scheduled": ([{"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}], "Scheduled"),
    "does not fit": (
        [{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}],
        "Unschedulable",
    ),
    "preempted": (
        [
            {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        ],
        "PreemptionByScheduler",
    ),
}


@pytest.mark.parametrize(("conditions", "shown"), STATES.values(), ids=STATES)
def test_kubectl_shows_policy_workload_and_state(conditions: list[JsonObject], shown: str) -> None:
    api = an_api()
    ask(api, "POST", GROUPS, from_template())
    timed = [{"message": "", "lastTransitionTime": "2026-02-01T00:00:00Z", **each} for each in conditions]
    patch = {"status": {"conditions": timed}}
    assert ask(api, "PATCH", f"{GROUPS}/g/status", patch, MERGE_PATCH).code == 200
    table = ask(api, "GET", GROUPS, accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:4] == ["g", "Gang", "w", shown]


def test_kubectl_shows_a_basic_group_without_workload() -> None:
    api = an_api()
    ask(api, "POST", GROUPS, a_group(schedulingPolicy={"basic": {}}))
    assert ask(api, "GET", GROUPS, accept=TABLE).body["rows"][0]["cells"][:4] == ["g", "Basic", "<none>", "Pending"]
    columns = ask(api, "GET", WORKLOADS, accept=TABLE).body["columnDefinitions"]
    assert [column["name"] for column in columns] == ["Name", "Age"]


def test_v137_1_1_kubectl_shows_composite_groups_and_taint_rules() -> None:
    api = an_api(gates=GATES)
    ask(api, "POST", COMPOSITES, a_composite())
    table = ask(api, "GET", COMPOSITES, accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Workload", "Age"]
    assert table["rows"][0]["cells"][:3] == ["c", "Gang", "w"]
    rules = "/apis/resource.k8s.io/v1/devicetaintrules"
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert ask(api, "POST", rules, {"metadata": {"name": "r"}, "spec": {"taint": taint}}).code == 201
    table = ask(api, "GET", rules, accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Key",
        "Value",
        "Effect",
        "TimeAdded",
        "Age",
    ]
    assert table["rows"][0]["cells"][:4] == ["r", "k", "v", "NoSchedule"]
