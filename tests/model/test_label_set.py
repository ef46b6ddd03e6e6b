"""Answers about pods that only some of their labels decide."""

from itertools import takewhile

from mooring.model.label_set import LabelSetCases, label_set_of
from mooring.model.selectors import LabelRule, Selector

APP = Selector((LabelRule("app", "Exists"),))


def test_labels_that_no_selector_asks_about_make_no_case_of_their_own() -> None:
    cases: LabelSetCases[str] = LabelSetCases([APP])
    asked = []

    def build() -> str:
        asked.append(1)
        return "answer"

    for i in range(50):
        assert cases.get(label_set_of("default", {"app": "web", "pod": f"web-{i}"}), build) == "answer"
    assert len(asked) == 1
    for labels in ({}, {"app": "db"}):
        cases.get(label_set_of("default", labels), build)
    cases.get(label_set_of("other", {"app": "web"}), build)
    cases.get(label_set_of("default", {"app": "web"}), build, version=1)
    assert len(asked) == 5


def test_selectors_with_more_keys_than_a_pod_has_labels() -> None:
    cases: LabelSetCases[int] = LabelSetCases([Selector(tuple(LabelRule(f"k{i}", "Exists") for i in range(10)))])
    assert cases.get(label_set_of("default", {"k1": "a"}), lambda: 1) == 1
    assert cases.get(label_set_of("default", {"k2": "a"}), lambda: 2) == 2
    assert cases.get(label_set_of("default", {"k1": "a", "z": "z"}), lambda: 3) == 1


def test_cases_are_bounded() -> None:
    cases: LabelSetCases[int] = LabelSetCases([APP])
    sets = [label_set_of("default", {"app": f"a{i}"}) for i in range(3 * LabelSetCases.LIMIT + 10)]
    for label_set in sets:
        cases.get(label_set, lambda: 0)
    known = list(takewhile(lambda each: cases.get(each, lambda: 1) == 0, reversed(sets)))
    assert 0 < len(known) <= LabelSetCases.LIMIT
