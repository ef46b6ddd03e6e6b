"""v1.37, 22: priority, preemption policy and disruption mode of pod groups, as the API server admits them with and without
GenericWorkload and PodGroupPreemptionPolicy."""

from dataclasses import replace
from typing import Any

import pytest

from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.scheduling import COMPOSITE_POD_GROUP, POD_GROUP, PRIORITY_CLASS
from mooring.apiserver.resource_api import ResourceApi

GATES = {"GenericWorkload": True, "CompositePodGroup": True}
POLICIES = {**GATES, "PodGroupPreemptionPolicy": True}
SINGLE: JsonObject = {"single": {}}
ALL: JsonObject = {"all": {}}
LOWER = "PreemptLowerPriority"


def a_group(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


def a_composite(**spec: Any) -> JsonObject:
    named = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, **named, **spec}}


def a_class(name: str, value: int, **more: Any) -> JsonObject:
    return {"metadata": {"name": name}, "value": value, **more}


def an_api_with_classes(gates: dict[str, bool] = GATES, default: bool = False) -> ResourceApi:
    api = an_api(gates=gates)
    api.create(PRIORITY_CLASS, "", a_class("high", 100))
    api.create(PRIORITY_CLASS, "", a_class("polite", 50, preemptionPolicy="Never"))
    if default:
        api.create(PRIORITY_CLASS, "", a_class("usual", 7, globalDefault=True))
    return api


def created(api: ResourceApi, group: JsonObject) -> JsonObject:
    """What became of the fields."""
    spec = api.create(POD_GROUP, "default", group)["spec"]
    return {key: value for key, value in spec.items() if key != "schedulingPolicy"}


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [
        (False, {}, {"disruptionMode": SINGLE, "priority": 0}),
        (True, {}, {"disruptionMode": SINGLE, "priority": 7, "priorityClassName": "usual"}),
        (
            False,
            {"priorityClassName": "high", "disruptionMode": ALL},
            {"disruptionMode": ALL, "priority": 100, "priorityClassName": "high"},
        ),
        (
            False,
            {"priorityClassName": "high", "priority": 100},
            {"disruptionMode": SINGLE, "priority": 100, "priorityClassName": "high"},
        ),
        (False, {"preemptionPolicy": "Never"}, {"disruptionMode": SINGLE, "priority": 0}),
    ],
    ids=["no class", "the global default", "a class", "a class and its value", "a policy without its gate"],
)
def test_v137_22_a_group_gets_the_priority_of_its_class(default: bool, given: JsonObject, expected: JsonObject) -> None:
    assert created(an_api_with_classes(default=default), a_group(**given)) == expected


@pytest.mark.parametrize(
    ("given", "policy"),
    [({}, LOWER), ({"priorityClassName": "polite", "preemptionPolicy": "Never"}, "Never")],
    ids=["no class", "a class that does not preempt"],
)
def test_v137_22_a_group_gets_the_preemption_policy_of_its_class(given: JsonObject, policy: str) -> None:
    assert created(an_api_with_classes(POLICIES), a_group(**given))["preemptionPolicy"] == policy


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"priorityClassName": "none"}, 403, "no PriorityClass with name none was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            403,
            "priority set in the pod group (5) must match the priority computed (100) based on the priority class set in the "
            "spec",
        ),
        (
            {"disruptionMode": {**SINGLE, **ALL}},
            422,
            'spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`',
        ),
        ({"disruptionMode": {}}, 422, 'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'),
        ({"priorityClassName": "system-node-critical"}, 422, "must be less than or equal to 1000000000"),
        (
            {"preemptionPolicy": "Never"},
            403,
            "the string value of PreemptionPolicy (Never) must not be provided in pod group spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
        # Parity: a missing policy is defaulted before the class is looked at.
        (
            {"priorityClassName": "polite"},
            403,
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be",
        ),
    ],
    ids=["missing class", "another priority", "two modes", "no mode", "system class", "another policy", "no policy"],
)
def test_v137_22_what_the_server_refuses(given: JsonObject, code: int, said: str) -> None:
    with pytest.raises(ApiError) as refused:
        an_api_with_classes(POLICIES).create(POD_GROUP, "default", a_group(**given))
    assert refused.value.status()["code"] == code
    assert said in refused.value.status()["message"]


def test_v137_22_a_composite_group_gets_priority_mode_and_policy_too() -> None:
    api = an_api_with_classes(POLICIES)
    spec = api.create(COMPOSITE_POD_GROUP, "default", a_composite(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (100, LOWER)
    with pytest.raises(ApiError, match="priority set in the composite pod group .5. must match"):
        api.create(COMPOSITE_POD_GROUP, "default", a_composite(priority=5))


def test_v137_22_without_the_gate_nothing_is_computed_and_nothing_is_dropped() -> None:
    """v1.36 dropped priority and mode without WorkloadAwarePreemption, which v1.37 does not have."""
    given = {"priorityClassName": "none", "priority": 3, "disruptionMode": ALL}
    assert created(an_api_with_classes({}), a_group(**given)) == given


def test_a_group_keeps_what_it_has_when_the_gate_goes_off() -> None:
    api = an_api_with_classes(POLICIES)
    group = api.create(POD_GROUP, "default", a_group(priorityClassName="high"))
    api.lookups = replace(api.lookups, gates={})
    labels = {**group["metadata"], "labels": {"a": "b"}}
    changed = api.change(POD_GROUP, "default", "g", lambda held: {**held, "metadata": labels})
    assert changed["spec"] == group["spec"]


def test_a_writer_that_leaves_the_priority_out_is_refused() -> None:
    api = an_api_with_classes()
    api.create(POD_GROUP, "default", a_group(priorityClassName="high"))
    spec = a_group(priorityClassName="high")["spec"]
    with pytest.raises(ApiError, match="spec.priority: Invalid value: null: field is immutable"):
        api.change(POD_GROUP, "default", "g", lambda held: {**held, "spec": spec})
