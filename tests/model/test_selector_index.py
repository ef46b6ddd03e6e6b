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


@given(SELECTORS, st.dictionaries(KEYS, VALUES))
def test_every_selector_that_matches_is_a_candidate_once(selectors: list[Selector], labels: dict[str, str]) -> None:
    candidates = SelectorIndex(selectors).candidates(labels)
    assert candidates == sorted(set(candidates))
    assert {number for number, selector in enumerate(selectors) if selector.matches(labels)} <= set(candidates)


def test_selectors_that_require_another_label_are_not_tried() -> None:
    selectors = [Selector((LabelRule("app", "In", frozenset((str(number),))),)) for number in range(1000)]
    index = SelectorIndex([*selectors, EVERYTHING, NOTHING])
    assert index.candidates({"app": "7", "tier": "web"}) == [7, 1000]
    assert index.candidates({}) == [1000]
