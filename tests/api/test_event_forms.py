"""One event, two forms: what is written through either group is read through both."""

from typing import Any

import pytest

from asking import MERGE_PATCH, STRATEGIC_PATCH, a_body, ask, begin, heard, path_of, the
from cluster_api import an_api
from mooring.api.kinds.events import shown_form, stored_form
from mooring.apiserver.resource_api import ResourceApi

CORE, NEW = the("events", ""), the("events", "events.k8s.io")
PAIRS = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("reason", "reason"),
    ("eventTime", "eventTime"),
    ("series", "series"),
]


def both(api: ResourceApi, name: str = "x") -> tuple[dict[str, Any], dict[str, Any]]:
    core, new = (ask(api, "GET", path_of(resource, name)) for resource in (CORE, NEW))
    assert (core.code, new.code) == (200, 200)
    return core.body, new.body


@pytest.mark.parametrize("written", [CORE, NEW], ids=["core", "events.k8s.io"])
def test_what_one_group_writes_both_can_read(written: Any) -> None:
    api = an_api()
    assert ask(api, "POST", path_of(written), a_body(written)).code == 201
    core, new = both(api)
    assert (core["apiVersion"], new["apiVersion"]) == ("v1", "events.k8s.io/v1")
    for in_core, in_new in PAIRS:
        assert core.get(in_core) == new.get(in_new)
    assert core["message"] == "It was tested"
    assert not core.keys() & {"note", "regarding", "reportingController"}
    assert not new.keys() & {"message", "involvedObject", "reportingComponent", "source"}
    assert core["metadata"] == new["metadata"]


def test_a_series_is_patched_through_one_and_seen_through_the_other() -> None:
    api = an_api()
    ask(api, "POST", path_of(NEW), a_body(NEW))
    series = {"count": 2, "lastObservedTime": "2026-11-15T07:18:46.000123Z"}
    assert ask(api, "PATCH", path_of(NEW, "x"), {"series": series}, STRATEGIC_PATCH).code == 200
    core, new = both(api)
    assert core["series"] == new["series"] == series
    assert core["message"] == "It was tested"


def test_the_older_count_is_shown_under_its_newer_name() -> None:
    api = an_api()
    body = {
        "metadata": {"name": "x"},
        "involvedObject": {"namespace": "default"},
        "count": 3,
        "firstTimestamp": "2026-11-15T07:17:46Z",
        "lastTimestamp": "2026-11-15T07:18:46Z",
        "source": {"component": "kubelet"},
    }
    assert ask(api, "POST", path_of(CORE), body).code == 201
    _, new = both(api)
    assert (new["deprecatedCount"], new["deprecatedSource"]) == (3, {"component": "kubelet"})
    assert new["deprecatedFirstTimestamp"] == "2026-11-15T07:17:46Z"
    patched = ask(api, "PATCH", path_of(CORE, "x"), {"count": 4}, MERGE_PATCH).body
    assert patched["count"] == 4


def test_watchers_of_either_group_hear_of_it_in_their_form() -> None:
    api = an_api()
    core = begin(api, path_of(CORE), fieldSelector="involvedObject.name=p,reason=Tested")
    new = begin(api, path_of(NEW), fieldSelector="involvedObject.name=p,reason=Tested")
    others = begin(api, path_of(NEW), fieldSelector="involvedObject.name=other")
    ask(api, "POST", path_of(NEW), a_body(NEW))
    ask(api, "DELETE", path_of(CORE, "x"))
    assert [(e["type"], e["object"]["message"], e["object"]["apiVersion"]) for e in heard(core)] == [
        ("ADDED", "It was tested", "v1"),
        ("DELETED", "It was tested", "v1"),
    ]
    assert [(e["type"], e["object"]["note"], e["object"]["apiVersion"]) for e in heard(new)] == [
        ("ADDED", "It was tested", "events.k8s.io/v1"),
        ("DELETED", "It was tested", "events.k8s.io/v1"),
    ]
    assert heard(others) == []


@pytest.mark.parametrize(
    ("without", "field"),
    [
        ("eventTime", "eventTime"),
        ("reportingController", "reportingController"),
        ("action", "action"),
        ("reason", "reason"),
    ],
)
def test_the_newer_group_asks_for_more(without: str, field: str) -> None:
    body = {key: value for key, value in a_body(NEW).items() if key != without}
    reply = ask(an_api(), "POST", path_of(NEW), body)
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")
    assert field in [cause["field"] for cause in reply.body["details"]["causes"]]


@pytest.mark.parametrize(
    "odd", [{"series": {"count": 1}}, {"type": "Odd"}, {"note": "x" * 1025}, {"deprecatedCount": 2}]
)
def test_the_newer_group_refuses_more(odd: dict[str, Any]) -> None:
    assert ask(an_api(), "POST", path_of(NEW), {**a_body(NEW), **odd}).code == 422


def test_the_forms_are_each_others_inverse() -> None:
    stored = stored_form(NEW, a_body(NEW))
    assert stored_form(NEW, shown_form(NEW, stored)) == stored
    assert shown_form(CORE, stored) is stored
