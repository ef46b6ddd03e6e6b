"""Indexes by trait overlook nothing that matches, and leave out what requires another label, key or namespace."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.model.label_set import LabelSetIndex, TraitIndex, label_set_of, required_traits
from mooring.model.selectors import EVERYTHING, NOTHING, LabelRule, Selector, as_difference
from some_selectors import LABELS, NAMESPACES
from some_selectors import SELECTORS as WRITTEN

SELECTORS = WRITTEN.flatmap(lambda selector: st.sampled_from((selector, *(as_difference(selector) or ()))))
"""Those that are written, and what they exclude."""
REACHES = st.none() | st.frozensets(NAMESPACES)
"""The namespaces in which a selector looks for pods; None: all."""


@given(
    st.lists(st.tuples(SELECTORS, REACHES), max_size=8),
    NAMESPACES,
    LABELS,
    st.sets(st.integers(0, 8)),
)
def test_every_selector_that_matches_is_a_candidate_once(
    asked: list[tuple[Selector, frozenset[str] | None]], namespace: str, labels: dict[str, str], removed: set[int]
) -> None:
    index: TraitIndex[int] = TraitIndex()
    for number, (selector, reach) in enumerate(asked):
        index.add(number, required_traits(selector, reach))
    for number in removed:
        index.remove(number)
    candidates = index.candidates(label_set_of(namespace, labels))
    assert len(candidates) == len(set(candidates))
    meant = {
        number
        for number, (selector, reach) in enumerate(asked)
        if selector.matches(labels) and (reach is None or namespace in reach)
    }
    assert meant - removed <= set(candidates)
    assert not removed & set(candidates)


@given(st.lists(st.tuples(NAMESPACES, LABELS), max_size=8), st.sets(st.integers(0, 7)), SELECTORS, REACHES)
def test_every_label_set_that_matches_is_found(
    there: list[tuple[str, dict[str, str]]], gone: set[int], selector: Selector, reach: frozenset[str] | None
) -> None:
    index, kept = LabelSetIndex(), set()
    for label_set in {label_set_of(*each) for each in there}:
        index.add(label_set)
        kept.add(label_set)
    for number, (namespace, labels) in enumerate(there):
        label_set = label_set_of(namespace, labels)
        if number in gone and label_set in kept:
            index.remove(label_set)
            kept.remove(label_set)
    required = required_traits(selector, reach)
    found = list(kept if required is None else index.having(required))
    meant = {each for each in kept if selector.matches(each.labels) and (reach is None or each.namespace in reach)}
    assert meant <= set(found) <= kept
    assert len(found) == len(set(found))
    copy = index.copy()
    for label_set in kept:
        index.remove(label_set)
    assert index.members == {}, "nothing is left of label sets that are gone"
    assert required is None or set(copy.having(required)) == set(found)


def test_label_sets_are_found_by_label_key_and_namespace() -> None:
    index = LabelSetIndex()
    red, blue, bare = (label_set_of("n", {"c": "red"}), label_set_of("n", {"c": "blue"}), label_set_of("other", {}))
    for label_set in (red, blue, bare):
        index.add(label_set)
    assert list(index.having([("c", "red")])) == [red]
    assert list(index.having([("c", None)])) == [red, blue]
    assert list(index.having([("", "other"), ("c", "blue")])) == [bare, blue]
    assert list(index.having([("c", "green"), ("d", None), ("", "none")])) == []


def test_nothing_is_left_of_items_that_are_removed() -> None:
    index: TraitIndex[str] = TraitIndex()
    index.add("one", [("a", "x"), ("a", None)])
    index.add("other", [("a", "x")])
    index.remove("one")
    assert list(index.by_trait) == [("a", "x")]
    index.remove("other")
    assert (index.by_trait, index.traits_of) == ({}, {})


def test_selectors_that_require_something_else_are_not_tried() -> None:
    index: TraitIndex[int] = TraitIndex()
    for number in range(1000):
        index.add(number, required_traits(Selector((LabelRule("app", "In", frozenset((str(number),))),))))
        index.add(1000 + number, required_traits(Selector((LabelRule(f"k{number}", "Exists"),))))
        index.add(2000 + number, required_traits(EVERYTHING, frozenset((f"n{number}",))))
    index.add(3000, required_traits(EVERYTHING))
    index.add(3001, required_traits(NOTHING))
    assert sorted(index.candidates(label_set_of("n5", {"app": "7", "k9": "x"}))) == [7, 1009, 2005, 3000]
    assert index.candidates(label_set_of("other", {})) == [3000]
