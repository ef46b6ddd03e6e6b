"""Pod affinity terms: whom they speak of, and how they fail."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.affinity import AffinityTerm, PodPredicate, PodTerms, all_of, compile_terms, predicate_of
from mooring.model.pod_spec import Affinity
from some_selectors import LABELS, PREDICATES
from some_selectors import NAMESPACES as NAMES

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
BROKEN = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}, "topologyKey": "zone"}
FAULT = '"Like" is not a valid label selector operator'


def terms_of(affinity: dict[str, Any]) -> PodTerms:
    return compile_terms(msgspec.convert(affinity, Affinity), "home")


def a_term(**written: Any) -> AffinityTerm:
    return terms_of({"podAffinity": {HARD: [{**WEB, **written}]}}).affinity[0]


MEANT = [
    pytest.param({}, "home", {}, True, id="its own namespace by default"),
    pytest.param({}, "away", {}, False, id="no other by default"),
    pytest.param({"namespaces": ["away"]}, "away", {}, True, id="a namespace that it lists"),
    pytest.param({"namespaces": ["away"]}, "home", {}, False, id="not its own once it lists others"),
    pytest.param({"namespaceSelector": {}}, "away", {}, True, id="an empty selector means every namespace"),
    pytest.param({"namespaceSelector": {"matchLabels": {"t": "1"}}}, "away", {"t": "1"}, True, id="labels that match"),
    pytest.param({"namespaceSelector": {"matchLabels": {"t": "1"}}}, "home", {}, False, id="labels that do not match"),
    pytest.param({"labelSelector": None}, "home", {}, False, id="a null selector means no pod"),
    pytest.param({"labelSelector": {}}, "home", {}, True, id="an empty selector means every pod"),
    pytest.param({"labelSelector": {"matchLabels": {"app": "db"}}}, "home", {}, False, id="other labels"),
]


@pytest.mark.parametrize(("written", "namespace", "namespace_labels", "is_meant"), MEANT)
def test_whom_a_term_speaks_of(
    written: dict[str, Any], namespace: str, namespace_labels: dict[str, str], is_meant: bool
) -> None:
    assert a_term(**written).speaks_of(namespace, {"app": "web"}, namespace_labels) is is_meant


def test_lists_are_kept_apart_and_preferred_ones_are_signed() -> None:
    soft = [{"weight": 5, "podAffinityTerm": WEB}]
    terms = terms_of({"podAffinity": {HARD: [WEB], SOFT: soft}, "podAntiAffinity": {HARD: [WEB, WEB], SOFT: soft}})
    assert (len(terms.affinity), len(terms.anti_affinity)) == (1, 2)
    assert [weighted.weight for weighted in terms.preferred] == [5, -5]
    assert [(carried.kind, carried.weight) for carried in terms.carried] == [
        ("anti", 0),
        ("anti", 0),
        ("affinity", 0),
        ("preferred", 5),
        ("preferred", -5),
    ]
    assert terms.fault is None


def test_a_faulty_list_is_left_empty_and_the_others_stay() -> None:
    terms = terms_of({"podAffinity": {HARD: [WEB, BROKEN]}, "podAntiAffinity": {HARD: [WEB]}})
    assert terms.affinity == ()
    assert len(terms.anti_affinity) == 1
    assert terms.fault == f"requiredAffinityTerms: {FAULT}"


def test_faults_of_several_lists_are_told_in_brackets() -> None:
    both = terms_of({"podAffinity": {HARD: [BROKEN]}, "podAntiAffinity": {HARD: [BROKEN]}}).fault
    assert both == f"[requiredAffinityTerms: {FAULT}, requiredAntiAffinityTerms: {FAULT}]"


def test_no_affinity_has_no_terms() -> None:
    terms = compile_terms(None, "home")
    assert (terms.affinity, terms.anti_affinity, terms.preferred, terms.fault) == ((), (), (), None)


NAMESPACES = {"home": {"team": "a"}, "away": {"team": "b"}, "bare": {}}
REACH = [
    pytest.param({}, {"home"}, id="its own namespace"),
    pytest.param({"namespaceSelector": {"matchLabels": {"team": "b"}}}, {"away"}, id="namespaces by label"),
    pytest.param(
        {"namespaces": ["bare"], "namespaceSelector": {"matchLabels": {"team": "b"}}}, {"away", "bare"}, id="both"
    ),
    pytest.param({"namespaceSelector": {}}, {"home", "away", "bare", "new"}, id="all, those yet unknown too"),
    pytest.param(
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}},
        {"away", "bare"},
        id="v1.37, 11.6: a purely negative selector does not reach what it excludes",
    ),
    pytest.param(
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
        {"bare"},
        id="v1.37, 11.6: namespaces without a label",
    ),
    pytest.param(
        {
            "namespaces": ["home"],
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b"]}]},
        },
        {"home", "bare"},
        id="v1.37, 11.6: a namespace that is listed counts beside a negative selector",
    ),
]


@pytest.mark.parametrize(("written", "reached"), REACH)
def test_namespaces_that_an_incoming_term_reaches(written: dict[str, Any], reached: set[str]) -> None:
    predicate = predicate_of(a_term(**written), NAMESPACES)
    assert {name for name in (*NAMESPACES, "new") if predicate.holds(name, {"app": "web"})} == reached
    assert not predicate.holds("home", {"app": "db"})


@given(st.lists(PREDICATES, min_size=1, max_size=3), NAMES, LABELS)
def test_several_predicates_are_one(predicates: list[PodPredicate], namespace: str, labels: dict[str, str]) -> None:
    expected = all(predicate.holds(namespace, labels) for predicate in predicates)
    assert all_of(predicates).holds(namespace, labels) == expected
