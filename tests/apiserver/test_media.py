"""Which form of an answer a client gets, by what it says it would take."""

from typing import Any

import pytest

from asking import PODS, TABLE, a_manifest, ask
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JSON, YAML
from mooring.apiserver.server.forms import wanted

META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
META_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "form", "media"),
    [
        ("", "object", JSON),
        ("*/*", "object", JSON),
        ("application/*", "object", JSON),
        ("application/json", "object", JSON),
        ("Application/JSON; charset=utf-8", "object", JSON),
        ("application/yaml", "object", YAML),
        ("application/yaml, application/json", "object", YAML),
        ("text/html, */*", "object", JSON),
        ("application/vnd.kubernetes.protobuf,application/json", "object", JSON),
        ("application/vnd.kubernetes.protobuf, */*", "object", JSON),
        (TABLE, "table", JSON),
        (f"{TABLE},application/json", "table", JSON),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "object", JSON),
        ("application/json;as=Table;v=v1;g=elsewhere,application/json", "object", JSON),
        ("application/json;as=Chair;v=v1;g=meta.k8s.io,application/json", "object", JSON),
        (META, "metadata", JSON),
        (META_LIST, "metadata", JSON),
        (" application/json ; as = Table ; v = v1 ; g = meta.k8s.io ", "table", JSON),
    ],
)
def test_the_first_wish_that_can_be_fulfilled_is(accept: str, form: str, media: str) -> None:
    assert (wanted(accept).form, wanted(accept).media) == (form, media)


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain", "nonsense", "application/json;as=Chair"])
def test_what_nobody_can_fulfil_is_refused(accept: str) -> None:
    with pytest.raises(ApiError) as refused:
        wanted(accept)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")
    assert refused.value.message.startswith(
        "only the following media types are accepted: application/json, application/yaml"
    )


def test_a_client_that_takes_only_protobuf_gets_nothing() -> None:
    reply = ask(an_api(), "GET", PODS, accept="application/vnd.kubernetes.protobuf")
    assert (reply.code, reply.body["reason"]) == (406, "NotAcceptable")


def test_discovery_in_one_document_only_for_who_asks() -> None:
    assert wanted(DISCOVERY).is_aggregated
    assert not wanted(DISCOVERY.replace("v2", "v2beta1") + ",application/json").is_aggregated
    api = an_api()
    assert ask(api, "GET", "/apis", accept=DISCOVERY).body["kind"] == "APIGroupDiscoveryList"
    assert ask(api, "GET", "/apis", accept="application/json").body["kind"] == "APIGroupList"


@pytest.mark.parametrize(
    ("accept", "one", "many"),
    [
        ("", "Pod", "PodList"),
        (TABLE, "Table", "Table"),
        (META, "PartialObjectMetadata", "PartialObjectMetadataList"),
        (YAML, "Pod", "PodList"),
    ],
)
def test_reads_and_writes_are_answered_in_that_form(accept: str, one: str, many: str) -> None:
    api = an_api()
    replies: list[tuple[Any, str]] = [
        (ask(api, "POST", PODS, a_manifest(), accept=accept), one),
        (ask(api, "GET", f"{PODS}/p", accept=accept), one),
        (ask(api, "PUT", f"{PODS}/p", a_manifest(), accept=accept), one),
        (ask(api, "GET", PODS, accept=accept), many),
        (ask(api, "DELETE", f"{PODS}/p", accept=accept), one),
        (ask(api, "DELETE", PODS, accept=accept), many),
    ]
    assert [reply.body["kind"] for reply, _ in replies] == [kind for _, kind in replies]
    assert {reply.content_type for reply, _ in replies} == {YAML if accept == YAML else JSON}


def test_refusals_are_json_whatever_was_asked_for() -> None:
    reply = ask(an_api(), "GET", f"{PODS}/none", accept=TABLE)
    assert (reply.body["kind"], reply.content_type) == ("Status", JSON)


@pytest.mark.parametrize(
    ("include", "kind"),
    [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")],
)
def test_how_much_a_row_brings_along(include: str, kind: str) -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    (row,) = ask(api, "GET", PODS, accept=TABLE, includeObject=include).body["rows"]
    assert row["object"]["kind"] == kind
    assert row["object"]["metadata"]["name"] == "p"
