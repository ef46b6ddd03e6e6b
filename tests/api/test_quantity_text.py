"""What the server reads as a quantity: answers of kube-apiserver v1.36.4, spelling by spelling."""

from typing import Any

import pytest

from asking import PODS, ask
from cluster_api import an_api
from mooring.api.schema.typed_values import quantity_fault
from mooring.model.quantity import BAD_FORM, BAD_SUFFIX


@pytest.mark.parametrize(
    "text", [" 1", "1 ", "+1", "1E", "1e3", "1E3", ".5", "5.", "1Ki", "1e+3", "-1", "9Ei", "12e-3", 1, 1.5]
)
def test_a_quantity(text: Any) -> None:
    assert quantity_fault(text) == ""


@pytest.mark.parametrize(
    "text", ["", " ", "1\n", "\t1", "0x1", "1_000", "\u0661", "1.2.3", "1e3k", "null", "1e 3", "1\u00a0k", True, [], {}]
)
def test_what_has_another_form(text: Any) -> None:
    assert quantity_fault(text) == BAD_FORM


@pytest.mark.parametrize(
    "text", ["1e", "--1", "1i", "1ki", "1Kii", "1e9999999999999999999999", "1e9223372036854775808", "1E+", "1kk"]
)
def test_what_has_an_unknown_suffix(text: str) -> None:
    assert quantity_fault(text) == BAD_SUFFIX


def a_pod(cpu: Any) -> Any:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
    }


CREATED = {None: "0", " 2 ": "2", "0.5": "500m"}


@pytest.mark.parametrize(("cpu", "stored"), CREATED.items(), ids=map(repr, CREATED))
def test_how_a_quantity_is_kept(cpu: Any, stored: str) -> None:
    reply = ask(an_api(), "POST", PODS, a_pod(cpu))
    assert (reply.code, reply.body["spec"]["containers"][0]["resources"]) == (201, {"requests": {"cpu": stored}})


REFUSED = {
    "1\n": (400, f'Pod in version "v1" cannot be handled as a Pod: {BAD_FORM}'),
    "1ki": (400, f'Pod in version "v1" cannot be handled as a Pod: {BAD_SUFFIX}'),
    "-1": (
        422,
        'Pod "p" is invalid: spec.containers[0].resources.requests[cpu]: Invalid value: "-1": '
        "must be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize(("cpu", "refusal"), REFUSED.items(), ids=map(repr, REFUSED))
def test_what_is_refused_and_how(cpu: Any, refusal: tuple[int, str]) -> None:
    reply = ask(an_api(), "POST", PODS, a_pod(cpu))
    assert (reply.code, reply.body["message"]) == refusal


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1\n"}}}),
        (
            "/api/v1/namespaces/default/limitranges",
            {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1\n"}}]}},
        ),
        ("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1\n"}}}),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            {"metadata": {"name": "h"}, "spec": {"behavior": {"scaleUp": {"tolerance": "1\n"}}}},
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
            {"metadata": {"name": "c"}, "storageClassName": "s", "capacity": "1\n"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_quantities_are_read_alike_wherever_they_are(path: str, body: Any) -> None:
    reply = ask(an_api(), "POST", path, body)
    assert reply.code == 400 and reply.body["message"].endswith(BAD_FORM)
