"""PodGroups and Workloads of scheduling.k8s.io: what the server accepts, how kubectl shows them, and their templates."""

from typing import Any

import pytest

from asking import ask
from cluster_api import an_api
from mooring.api.json_objects import JsonObject

HOME = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
GROUPS, WORKLOADS = f"{HOME}/podgroups", f"{HOME}/workloads"
GANG = {"gang": {"minCount": 4}}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def a_group(name: str = "g", **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": GANG, **spec}}


def a_template(name: str = "workers", **more: Any) -> JsonObject:
    return {"name": name, "schedulingPolicy": GANG, **more}


def a_workload(*templates: JsonObject, name: str = "w", **more: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"podGroupTemplates": list(templates), **more}}


def from_template(workload: str = "w", template: str = "workers") -> JsonObject:
    named = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
    return a_group(podGroupTemplateRef=named)


POLICY = "spec.schedulingPolicy: Invalid value"
GROUP_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "no policy": (a_group(schedulingPolicy={}), f'{POLICY}: "": must specify one of: `basic`, `gang`'),
    "two policies": (
        a_group(schedulingPolicy={"basic": {}, **GANG}),
        f'{POLICY}: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`',
    ),
    "no pods": (
        a_group(schedulingPolicy={"gang": {"minCount": 0}}),
        "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1",
    ),
    "two topologies": (
        a_group(schedulingConstraints={"topology": [{"key": "rack"}, {"key": "zone"}]}),
        "spec.schedulingConstraints.topology: Invalid value: 2: must have at most 1 items",
    ),
    "a topology that is no label": (
        a_group(schedulingConstraints={"topology": [{"key": "no/such/key"}]}),
        "spec.schedulingConstraints.topology[0].key: Invalid value",
    ),
    "five claims": (
        a_group(resourceClaims=[{"name": f"c{i}", "resourceClaimName": "c"} for i in range(5)]),
        "spec.resourceClaims: Invalid value: 5: must have at most 4 items",
    ),
}


@pytest.mark.parametrize(("group", "message"), GROUP_FAULTS.values(), ids=GROUP_FAULTS)
def test_a_group_that_breaks_a_rule_is_refused(group: JsonObject, message: str) -> None:
    reply = ask(an_api(gates={"DRAWorkloadResourceClaims": True}), "POST", GROUPS, group)
    assert reply.code == 422, reply.body
    assert message in reply.body["message"]


WORKLOAD_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "no templates": (a_workload(), "spec.podGroupTemplates: Required value"),
    "nine templates": (
        a_workload(*(a_template(f"t{i}") for i in range(9))),
        "spec.podGroupTemplates: Invalid value: 9: must have at most 8 items",
    ),
    "a name twice": (
        a_workload(a_template(), a_template()),
        'spec.podGroupTemplates[1].name: Duplicate value: "workers"',
    ),
    "a name with dots": (a_workload(a_template("a.b")), "spec.podGroupTemplates[0].name: Invalid value"),
    "no policy": (
        a_workload(a_template(schedulingPolicy={})),
        'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
    ),
}


@pytest.mark.parametrize(("workload", "message"), WORKLOAD_FAULTS.values(), ids=WORKLOAD_FAULTS)
def test_a_workload_that_breaks_a_rule_is_refused(workload: JsonObject, message: str) -> None:
    reply = ask(an_api(), "POST", WORKLOADS, workload)
    assert reply.code == 422, reply.body
    assert message in reply.body["message"]


def test_what_groups_and_workloads_say_is_fixed() -> None:
    api = an_api()
    assert ask(api, "POST", WORKLOADS, a_workload(a_template())).code == 201
    assert ask(api, "POST", GROUPS, from_template()).code == 201
    for path, spec in (
        (f"{GROUPS}/g", {"schedulingPolicy": {"gang": {"minCount": 5}}}),
        (f"{GROUPS}/g", {"podGroupTemplateRef": None}),
        (f"{WORKLOADS}/w", {"podGroupTemplates": [a_template("others")]}),
        (f"{WORKLOADS}/w", {"controllerRef": {"kind": "Job", "name": "j"}}),
    ):
        reply = ask(api, "PATCH", path, {"spec": spec}, "application/merge-patch+json")
        assert reply.code == 422 and "field is immutable" in reply.body["message"], reply.body
    relabelled = ask(api, "PATCH", f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    assert relabelled.code == 200


def test_a_group_needs_the_template_that_it_names() -> None:
    api = an_api()
    reply = ask(api, "POST", GROUPS, from_template())
    refused = 'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: '
    assert (reply.code, reply.body["message"]) == (403, f'{refused}Workload "w" not found')
    ask(api, "POST", WORKLOADS, a_workload(a_template()))
    reply = ask(api, "POST", GROUPS, from_template(template="drivers"))
    message = f'{refused}PodGroupTemplate "drivers" not found in Workload "w"'
    assert (reply.code, reply.body["message"]) == (403, message)
    assert ask(api, "POST", GROUPS, from_template()).code == 201


def test_a_workload_that_is_being_deleted_makes_no_groups() -> None:
    api = an_api()
    workload = a_workload(a_template())
    workload["metadata"]["finalizers"] = ["example.com/kept"]
    ask(api, "POST", WORKLOADS, workload)
    ask(api, "DELETE", f"{WORKLOADS}/w")
    reply = ask(api, "POST", GROUPS, from_template())
    assert reply.code == 403 and 'Workload "w" is being deleted' in reply.body["message"]


STATES: dict[str, tuple[list[JsonObject], str]] = {
    "new": ([], "Pending"),
    "scheduled": ([{"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}], "Scheduled"),
    "does not fit": ([{"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable"}], "Unschedulable"),
    "preempted": (
        [
            {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        ],
        "PreemptionByScheduler",
    ),
}


@pytest.mark.parametrize(("conditions", "shown"), STATES.values(), ids=STATES)
def test_kubectl_shows_policy_workload_and_state(conditions: list[JsonObject], shown: str) -> None:
    api = an_api()
    ask(api, "POST", WORKLOADS, a_workload(a_template()))
    ask(api, "POST", GROUPS, from_template())
    timed = [{"message": "", "lastTransitionTime": "2026-02-01T00:00:00Z", **each} for each in conditions]
    patch = {"status": {"conditions": timed}}
    assert ask(api, "PATCH", f"{GROUPS}/g/status", patch, "application/merge-patch+json").code == 200
    table = ask(api, "GET", GROUPS, accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:4] == ["g", "Gang", "w", shown]


def test_kubectl_shows_a_basic_group_without_workload() -> None:
    api = an_api()
    ask(api, "POST", GROUPS, a_group(schedulingPolicy={"basic": {}}))
    assert ask(api, "GET", GROUPS, accept=TABLE).body["rows"][0]["cells"][:4] == ["g", "Basic", "<none>", "Pending"]
    columns = ask(api, "GET", WORKLOADS, accept=TABLE).body["columnDefinitions"]
    assert [column["name"] for column in columns] == ["Name", "Age"]
