"""`kubectl create token`: a token stands for its service account, for a while, on this server only."""

from typing import Any

import pytest

from asking import ask
from cluster_api import START_NS, an_api
from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.dispatch import answer
from mooring.apiserver.server.request import Answer, Request
from mooring.apiserver.service_tokens import ADMIN, ISSUER, ServiceTokens
from mooring.kit.clock import NS_PER_S, VirtualClock

TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
REVIEWS = "/apis/authentication.k8s.io/v1"
SECRET = "secret-of-the-administrator"


def request(api: ResourceApi, **spec: Any) -> JsonObject:
    """A TokenRequest, answered."""
    return ServiceTokens(api, SECRET).issue("default", "default", {"spec": spec})


def test_a_token_has_an_hour_and_the_audience_of_the_server() -> None:
    reply = ask(an_api(VirtualClock(START_NS)), "POST", TOKEN, {"spec": {}})
    assert reply.code == 201
    assert reply.body["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}
    assert reply.body["status"]["expirationTimestamp"] == "2027-01-15T09:00:00Z"
    assert ask(an_api(), "GET", TOKEN).code == 405
    assert ask(an_api(), "POST", TOKEN.replace("/default/token", "/none/token"), {}).code == 404


def test_a_token_stands_for_its_account_until_it_expires() -> None:
    clock = VirtualClock(START_NS)
    api = an_api(clock)
    tokens, token = ServiceTokens(api, SECRET), request(api, expirationSeconds=600)["status"]["token"]
    user = tokens.user_of(token)
    assert user is not None
    assert user.info["username"] == "system:serviceaccount:default:default"
    assert user.info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    clock.advance_ns(601 * NS_PER_S)
    assert tokens.user_of(token) is None


def test_a_token_of_another_server_or_of_an_account_that_is_gone_is_not_good() -> None:
    api = an_api()
    token = request(api)["status"]["token"]
    head, payload, signature = token.split(".")
    for other in (f"{head}.{payload}.", f"{head}.{payload[:-2]}AA.{signature}", "", "x", "\N{SNOWMAN}", "." * 9):
        assert ServiceTokens(api, SECRET).user_of(other) is None
    assert ServiceTokens(api, "another").user_of(token) is None
    ask(api, "DELETE", "/api/v1/namespaces/default/serviceaccounts/default")
    assert ServiceTokens(api, SECRET).user_of(token) is None


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"expirationSeconds": 599},
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        ({"expirationSeconds": 2**33}, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Deployment", "name": "x"}}, "must be a Pod, Secret or Node of v1"),
    ],
)
def test_what_cannot_be_asked_for(spec: JsonObject, fault: str) -> None:
    reply = ask(an_api(), "POST", TOKEN, {"spec": spec})
    assert (reply.code, fault in reply.body["message"]) == (422, True)


def test_a_token_ends_with_the_object_that_it_is_bound_to() -> None:
    api = an_api()
    ask(api, "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    token = request(api, boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s"})["status"]["token"]
    assert ServiceTokens(api, SECRET).user_of(token) is not None
    ask(api, "DELETE", "/api/v1/namespaces/default/secrets/s")
    assert ServiceTokens(api, SECRET).user_of(token) is None


def test_reviews_say_whose_token_it_is() -> None:
    api = an_api()
    token = request(api, audiences=["vault"])["status"]["token"]

    def review(kind: str, body: bytes, bearer: str) -> JsonObject:
        reply = answer(api, Request("POST", f"{REVIEWS}/{kind}", body=body, bearer=bearer), token=SECRET)
        assert isinstance(reply, Answer)
        return reply.body["status"]  # type: ignore[no-any-return]

    assert review("selfsubjectreviews", b"{}", SECRET)["userInfo"] == ADMIN
    assert review("selfsubjectreviews", b"{}", token)["userInfo"]["username"] == "system:serviceaccount:default:default"
    asked = f'{{"spec": {{"token": "{token}", "audiences": ["vault", "x"]}}}}'.encode()
    status = review("tokenreviews", asked, SECRET)
    assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
    asked = f'{{"spec": {{"token": "{token}"}}}}'.encode()
    assert review("tokenreviews", asked, SECRET) == {"error": "invalid bearer token"}, "it is not for this server"
