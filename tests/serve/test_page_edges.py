"""Replies, limits of numbers, and forms of the z-pages that test_pages.py does not ask for."""

import pytest

from mooring.kit.clock import NS_PER_S, VirtualClock, WallClock
from mooring.serve.pages.pages import (
    Build,
    DocumentForm,
    PageReply,
    PageRequest,
    Pages,
    Sources,
    failure,
    flags_page,
    json_document,
    plain,
    status_page,
    verbosity_page,
    wanted_form,
)

TEXT = DocumentForm("text/plain")
FULL = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"


# ---- replies


def test_texts_and_documents_have_their_types() -> None:
    assert plain("a") == PageReply(b"a", 200, "text/plain; charset=utf-8", ())
    assert failure("a", 500) == PageReply(b"a\n", 500, "text/plain; charset=utf-8", ())
    assert json_document({"ü": 1, "b": []}) == PageReply('{"ü":1,"b":[]}\n'.encode(), 200, "application/json", ())
    assert PageReply(b"") == PageReply(b"", 200, "text/plain; charset=utf-8", ())
    assert PageRequest() == PageRequest("GET", "/", (), "", b"")


def test_pages_that_upstream_does_not_have_are_found_by_their_path() -> None:
    sources = Sources(lambda: b"", lambda: b"", lambda: b"", lambda: None, dict, dict, lambda verbosity: None)
    more = {"/more": lambda question: plain("more")}
    pages = Pages(sources, [], WallClock(), 0, more=more)
    assert pages.answer(PageRequest(path="/more")).body == b"more"
    refused = pages.answer(PageRequest("GET", "/debug/flags/v"))
    assert (refused.content_type, refused.headers) == ("text/plain", ())
    found = pages.answer(PageRequest(path="/debug/flags"))
    assert (found.status, found.content_type) == (200, "text/html; charset=utf-8")


def test_only_the_page_of_the_verbosity_reads_a_body() -> None:
    for profiling, expected in ((lambda verbosity: None, True), (None, False)):
        sources = Sources(lambda: b"", lambda: b"", lambda: b"", lambda: None, dict, dict, profiling)
        pages = Pages(sources, [], WallClock(), 0)
        assert pages.reads_body(PageRequest("PUT", "/debug/flags/v")) is expected
        assert not pages.reads_body(PageRequest("GET", "/debug/flags/v"))
        assert not pages.reads_body(PageRequest("PUT", "/metrics"))


@pytest.mark.parametrize(("written", "status"), [(b"2147483647", 200), (b"2147483648", 400), (b"00000000001", 400)])
def test_the_largest_verbosity_is_that_of_an_int32(written: bytes, status: int) -> None:
    levels: list[int] = []
    assert verbosity_page(levels.append)(PageRequest("PUT", body=written)).status == status
    assert levels == ([2147483647] if status == 200 else [])


# ---- z-pages


FORMS: dict[str, tuple[str, DocumentForm | None]] = {
    "spaces only": ("  ", TEXT),
    "a weight that is no number counts as 1": (f"{FULL};q=0.9,text/plain;q=much", TEXT),
    "no weight counts as 1": (f"{FULL};q=0.9,text/plain", TEXT),
    "equal weights: the first": (f"text/plain,{FULL}", TEXT),
    "media types in capitals": ("TEXT/PLAIN", TEXT),
    "any application, with its name": (FULL.replace("json", "*"), DocumentForm("application/json", "v1beta1")),
    "text does not have a version": ("text/plain;v=v1beta1", None),
    "text does not have a kind": ("text/plain;as=Statusz", None),
    "spaces around the sign": (FULL.replace("=", " = "), DocumentForm("application/json", "v1beta1")),
}


@pytest.mark.parametrize(("accept", "form"), FORMS.values(), ids=FORMS.keys())
def test_more_forms(accept: str, form: DocumentForm | None) -> None:
    assert wanted_form(accept, "Statusz") == form


def test_a_clock_that_went_back_is_an_uptime_of_zero() -> None:
    page = status_page(Build(), VirtualClock(5 * NS_PER_S), 9 * NS_PER_S, ())
    assert "Up: 0 hr 00 min 00 sec\n" in page.answer(PageRequest()).body.decode()


def test_a_start_on_the_first_days_of_a_month_has_a_space() -> None:
    page = status_page(Build(), VirtualClock(90_061 * NS_PER_S), 0, ())
    text = page.answer(PageRequest()).body.decode()
    assert "Started: Thu Jan  1 00:00:00 UTC 1970\nUp: 25 hr 01 min 01 sec\nGo version: \n" in text


def test_the_old_version_of_the_flags_warns_in_yaml_too() -> None:
    accept = "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz"
    answer = flags_page(Build(), lambda: {"v": "2"}).answer(PageRequest(accept=accept))
    assert answer.content_type == "application/yaml"
    assert [*answer.headers] == [
        ("Warning", '299 - "This version of the flagz endpoint is deprecated. Please use a newer version."')
    ]
