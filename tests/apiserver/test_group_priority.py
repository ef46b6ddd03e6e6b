"""Priority and disruption mode of pod groups, as the API server admits them with and without WorkloadAwarePreemption."""

from dataclasses import replace
from typing import Any

import pytest

from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.scheduling import POD_GROUP, PRIORITY_CLASS
from mooring.apiserver.resource_api import ResourceApi

GATES = {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}
WITHOUT = {"GenericWorkload": True, "GangScheduling": True}


def a_group(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


def a_class(name: str, value: int, **more: Any) -> JsonObject:
    return {"metadata": {"name": name}, "value": value, **more}


def an_api_with_classes(gates: dict[str, bool] = GATES, default: bool = False) -> ResourceApi:
    api = an_api(gates=gates)
    api.create(PRIORITY_CLASS, "", a_class("high", 100))
    if default:
        api.create(PRIORITY_CLASS, "", a_class("usual", 7, globalDefault=True))
    return api


def created(api: ResourceApi, group: JsonObject) -> JsonObject:
    """What became of the three fields."""
    spec = api.create(POD_GROUP, "default", group)["spec"]
    return {key: value for key, value in spec.items() if key != "schedulingPolicy"}


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [
        (False, {}, {"disruptionMode": "Pod", "priority": 0}),
        (True, {}, {"disruptionMode": "Pod", "priority": 7, "priorityClassName": "usual"}),
        (
            False,
            {"priorityClassName": "high", "disruptionMode": "PodGroup"},
            {"disruptionMode": "PodGroup", "priority": 100, "priorityClassName": "high"},
        ),
        (
            False,
            {"priorityClassName": "high", "priority": 100},
            {"disruptionMode": "Pod", "priority": 100, "priorityClassName": "high"},
        ),
    ],
    ids=["no class", "the global default", "a class", "a class and its value"],
)
def test_a_group_gets_the_priority_of_its_class(default: bool, given: JsonObject, expected: JsonObject) -> None:
    assert created(an_api_with_classes(default=default), a_group(**given)) == expected


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
        ({"disruptionMode": "Node"}, 422, 'Unsupported value: "Node": supported values: "Pod", "PodGroup"'),
        ({"priorityClassName": "system-node-critical"}, 422, "must be less than or equal to 1000000000"),
    ],
    ids=["missing class", "another priority", "unknown mode", "system class"],
)
def test_what_the_server_refuses(given: JsonObject, code: int, said: str) -> None:
    with pytest.raises(ApiError) as refused:
        an_api_with_classes().create(POD_GROUP, "default", a_group(**given))
    assert refused.value.status()["code"] == code
    assert said in refused.value.status()["message"]


def test_without_the_gate_the_fields_are_dropped() -> None:
    given = {"priorityClassName": "none", "priority": 3, "disruptionMode": "PodGroup"}
    assert created(an_api_with_classes(WITHOUT), a_group(**given)) == {}


def test_a_group_keeps_what_it_has_when_the_gate_goes_off() -> None:
    api = an_api_with_classes()
    group = api.create(POD_GROUP, "default", a_group(priorityClassName="high"))
    api.lookups = replace(api.lookups, gates=WITHOUT)
    labels = {**group["metadata"], "labels": {"a": "b"}}
    changed = api.change(POD_GROUP, "default", "g", lambda held: {**held, "metadata": labels})
    assert changed["spec"]["priority"] == 100
    assert changed["spec"]["priorityClassName"] == "high"
    assert changed["spec"]["disruptionMode"] == "Pod"


def test_a_group_that_changes_without_the_gate_gets_no_new_fields() -> None:
    api = an_api_with_classes(WITHOUT)
    api.create(POD_GROUP, "default", a_group())
    spec = a_group(disruptionMode="PodGroup", priority=5)["spec"]
    assert "priority" not in api.change(POD_GROUP, "default", "g", lambda held: {**held, "spec": spec})["spec"]
