"""Refusals: Status bodies as a real kube-apiserver writes them, byte for byte."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.api import api_errors as errors
from mooring.api.api_errors import ApiError, Cause, StatusDetails

RECORDED = {
    row["name"]: row["status"] for row in json.loads((Path(__file__).parent / "data/refusals.json").read_text())
}

NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
TWO_BOUNDS = {
    "MinAvailable": 1,
    "Selector": {"matchLabels": {"app": "p1"}},
    "MaxUnavailable": 1,
    "UnhealthyPodEvictionPolicy": None,
}
REFUSALS: dict[str, ApiError] = {
    "create node again": errors.already_exists("nodes", "n1"),
    "create pod bad priority class": errors.forbidden("pods", "badprio", "no PriorityClass with name nope was found"),
    "create priority class too high": errors.invalid(
        "PriorityClass",
        "toohigh",
        [errors.field_forbidden("value", "maximum allowed value of a user defined priority is 1000000000")],
        "scheduling.k8s.io",
    ),
    "create pod no containers": errors.invalid("Pod", "empty", [errors.field_required("spec.containers")]),
    "create pod bad name": errors.invalid(
        "Pod", "Bad_Name", [errors.field_invalid("metadata.name", "Bad_Name", NAME_RULE)]
    ),
    "create pod bad toleration": errors.invalid(
        "Pod", "badtol", [errors.field_unsupported("spec.tolerations[0].operator", "Nope", ["Equal", "Exists"])]
    ),
    "create pod bad spread": errors.invalid(
        "Pod",
        "badspread",
        [errors.field_invalid("spec.topologySpreadConstraints[0].maxSkew", 0, "must be greater than zero")],
    ),
    "create pod in absent namespace": errors.not_found("namespaces", "absent"),
    "create pod wrong kind": errors.bad_request(
        'Service in version "v1" cannot be handled as a Pod: converting (v1.Service) to (core.Pod): unknown conversion'
    ),
    "create pod unsupported media": errors.unsupported_media_type(
        ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
    ),
    "get pod absent": errors.not_found("pods", "absent"),
    "list future version": errors.version_too_large(99999999, 216),
    "pod put stale version": errors.conflict("pods", "p1"),
    "bind again": errors.conflict("pods/binding", "p1", 'pod p1 is already assigned to node "n1"'),
    "bind gated pod": errors.unexplained("target.name: Required value"),
    "watch sendInitialEvents without match": errors.invalid(
        "ListOptions",
        "",
        [
            errors.field_forbidden(
                "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        ],
        "meta.k8s.io",
    ),
    "event missing fields": errors.invalid(
        "Event",
        "x.1",
        [errors.field_required("eventTime"), errors.field_invalid("type", "", "has invalid value: ")],
    ),
    "renew lease stale": errors.conflict("leases", "t", group="coordination.k8s.io"),
    "create pdb both": errors.invalid(
        "PodDisruptionBudget",
        "pdb2",
        [errors.field_invalid("spec", TWO_BOUNDS, "minAvailable and maxUnavailable cannot be both set")],
        "policy",
    ),
    "rbac forbidden": errors.forbidden(
        "secrets",
        "",
        'User "system:kube-scheduler" cannot list resource "secrets" in API group "" at the cluster scope',
    ),
    "unauthorized": errors.unauthorized(),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bodies_are_those_that_were_recorded(name: str) -> None:
    assert json.dumps(REFUSALS[name].status()) == json.dumps(RECORDED[name])


OTHERS: list[tuple[str, ApiError, int, str, str]] = [
    ("forbidden without a resource", errors.forbidden("", "", "no"), 403, "Forbidden", "forbidden: no"),
    (
        "forbidden in a group",
        errors.forbidden("leases", "t", "no", "coordination.k8s.io"),
        *(403, "Forbidden", 'leases.coordination.k8s.io "t" is forbidden: no'),
    ),
    (
        "a watch from too long ago",
        errors.version_too_old(1, 213),
        *(410, "Expired", "too old resource version: 1 (213)"),
    ),
    (
        "a method that the resource does not have",
        errors.method_not_allowed(),
        *(405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ),
    (
        "no media type that the client takes",
        errors.not_acceptable(["application/json", "application/yaml"]),
        *(406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml"),
    ),
    (
        "a body that is too long",
        errors.request_entity_too_large("limit is 3145728"),
        *(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    ),
    (
        "an internal error",
        errors.internal_error("boom"),
        *(500, "InternalError", "Internal error occurred: boom"),
    ),
    ("an object without faults", errors.invalid("Pod", "p", []), 422, "Invalid", 'Pod "p" is invalid'),
    (
        "the same fault twice is told once",
        errors.invalid("Pod", "p", [errors.field_duplicate("spec.x", "a")] * 2),
        *(422, "Invalid", 'Pod "p" is invalid: spec.x: Duplicate value: "a"'),
    ),
    (
        "what is there twice, and what is too long",
        errors.invalid("Pod", "p", [errors.field_duplicate("spec.x", "a"), errors.field_too_long("spec.y", 63)]),
        *(
            422,
            "Invalid",
            'Pod "p" is invalid: [spec.x: Duplicate value: "a", spec.y: Too long: may not be more than 63 bytes]',
        ),
    ),
    (
        "a value of which nothing is supported",
        errors.invalid("Pod", "p", [errors.field_unsupported("spec.x", 1, [])]),
        *(422, "Invalid", 'Pod "p" is invalid: spec.x: Unsupported value: 1'),
    ),
    (
        "a fault with letters that are not ASCII",
        errors.invalid("Pod", "p", [errors.field_required("spec.x", "dépôt")]),
        *(422, "Invalid", 'Pod "p" is invalid: spec.x: Required value: dépôt'),
    ),
]


@pytest.mark.parametrize(("error", "code", "reason", "message"), [pytest.param(*row[1:], id=row[0]) for row in OTHERS])
def test_codes_reasons_and_messages(error: ApiError, code: int, reason: str, message: str) -> None:
    status = error.status()
    assert (status["code"], status["reason"], status["message"]) == (code, reason, message)
    assert str(error) == message


def test_an_exhausted_budget_names_itself_as_the_cause() -> None:
    assert errors.budget_exhausted("web", 2, 1).status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget web needs 2 healthy pods and has 1 currently",
                }
            ]
        },
        "code": 429,
    }


def test_a_list_that_lost_its_snapshot_can_go_on() -> None:
    status = errors.expired(errors.CONTINUE_EXPIRED, "token").status()
    assert status["metadata"] == {"continue": "token"}
    assert status["reason"] == "Expired"


def test_empty_details_are_written_and_missing_ones_are_not() -> None:
    assert errors.unprocessable().status()["details"] == {}
    assert "details" not in errors.bad_request("x").status()


def test_the_delay_before_the_next_try() -> None:
    assert errors.version_too_large(2, 1).retry_after_s == 1
    assert errors.too_many_requests("later", 10).status()["details"] == {"retryAfterSeconds": 10}
    assert errors.bad_request("x").retry_after_s == 0


def test_a_cause_without_a_reason_is_only_a_message() -> None:
    assert StatusDetails(causes=(Cause(message="boom"),)).body() == {"causes": [{"message": "boom"}]}


GO_NAMES = [
    ({}, "object"),
    ([], "array"),
    ("", "string"),
    (True, "bool"),
    (1, "number"),
    (1.5, "number"),
    (None, "null"),
]


@pytest.mark.parametrize(("value", "name"), [pytest.param(*row, id=f"{row[1]}: {row[0]!r}") for row in GO_NAMES])
def test_wrong_types_are_named_as_go_names_them(value: object, name: str) -> None:
    assert (
        errors.undecodable(value, "value of type X").message == f"json: cannot unmarshal {name} into Go value of type X"
    )


def test_what_is_nested_too_deep_is_refused() -> None:
    def endless(recurse: Callable[..., None]) -> None:
        recurse(recurse)

    with pytest.raises(ApiError, match="exceeded max depth") as refused, errors.shallow_enough():
        endless(endless)
    assert refused.value.code == 400
