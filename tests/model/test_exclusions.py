"""A selector that excludes pods is the difference of two that do not, for every pod."""

from hypothesis import given

from mooring.model.label_set import required_traits
from mooring.model.selectors import EVERYTHING, NOTHING, LabelRule, Selector, as_difference
from some_selectors import LABELS, SELECTORS

NOT_X = LabelRule("a", "NotIn", frozenset("x"))


@given(SELECTORS, LABELS)
def test_each_pod_is_selected_as_often(selector: Selector, labels: dict[str, str]) -> None:
    selectors = as_difference(selector)
    if selectors is None:
        excludes = any(rule.operator in ("NotIn", "DoesNotExist") for rule in selector.rules)
        assert selector.is_nothing or not excludes
        return
    wide, excluded = selectors
    assert wide.matches(labels) - excluded.matches(labels) == selector.matches(labels)
    assert not any(rule.operator in ("NotIn", "DoesNotExist") for rule in (*wide.rules, *excluded.read_rules))


def test_selectors_that_differ_in_what_they_exclude_share_the_rest() -> None:
    tier = LabelRule("tier", "In", frozenset(("web",)))
    not_y = LabelRule("a", "NotIn", frozenset("y"))
    one, other = as_difference(Selector((NOT_X, tier))), as_difference(Selector((tier, not_y)))
    assert one is not None and other is not None
    assert one[0] == other[0] == Selector((tier,))
    assert required_traits(one[1]) == [("a", "x")], "few pods have the label that is excluded"


def test_however_many_rules_exclude_pods_there_are_two_selectors() -> None:
    rules = tuple(LabelRule(f"k{number}", "DoesNotExist") for number in range(1000))
    selectors = as_difference(Selector(rules))
    assert selectors is not None
    assert selectors[0] == EVERYTHING
    assert required_traits(selectors[1]) == [(f"k{number}", None) for number in range(1000)]


def test_a_selector_without_exclusions_is_none() -> None:
    assert as_difference(EVERYTHING) is as_difference(NOTHING) is None
