"""An index of selectors overlooks none that matches, and does not try those that require another label."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.model.label_set import SelectorIndex
from mooring.model.selectors import EVERYTHING, NOTHING, LabelRule, Selector

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")


def rules() -> st.SearchStrategy[LabelRule]:
    with_values = st.builds(
        LabelRule, KEYS, st.sampled_from(["In", "NotIn"]), st.frozensets(VALUES, min_size=1, max_size=2)
    )
    return with_values | st.builds(LabelRule, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))


SELECTORS = st.lists(st.builds(Selector, st.lists(rules(), max_size=3).map(tuple)) | st.just(NOTHING), max_size=6)


def an_index(*groups: list[Selector]) -> SelectorIndex[int]:
    index: SelectorIndex[int] = SelectorIndex()
    for number, selectors in enumerate(groups):
        index.add(number, selectors)
    return index


@given(st.lists(SELECTORS, max_size=6), st.dictionaries(KEYS, VALUES), st.sets(st.integers(0, 6)))
def test_every_item_with_a_selector_that_matches_is_a_candidate_once(
    groups: list[list[Selector]], labels: dict[str, str], removed: set[int]
) -> None:
    index = an_index(*groups)
    for number in removed:
        index.remove(number)
    candidates = index.candidates(labels)
    assert len(candidates) == len(set(candidates))
    meant = {number for number, selectors in enumerate(groups) if any(each.matches(labels) for each in selectors)}
    assert meant - removed <= set(candidates)
    assert not removed & set(candidates)


def test_selectors_that_require_another_label_are_not_tried() -> None:
    selectors = [Selector((LabelRule("app", "In", frozenset((str(number),))),)) for number in range(1000)]
    index = an_index(*([selector] for selector in (*selectors, EVERYTHING, NOTHING)))
    assert sorted(index.candidates({"app": "7", "tier": "web"})) == [7, 1000]
    assert index.candidates({}) == [1000]
