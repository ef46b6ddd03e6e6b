"""Selectors that exclude pods, as differences of selectors that do not.

A selector such as `tenant NotIn (a)` selects nearly every pod, and each tenant has one of its own. If they were tried and
counted one by one, each pod would be counted hundreds of times. But few pods are excluded, and these are found by their
labels; and all of the selectors share what is left without the exclusion.
"""

from mooring.model.selectors import ExcludedPods, LabelRule, Selector

_OPPOSITES = {"NotIn": "In", "DoesNotExist": "Exists"}


def as_difference(selector: Selector) -> tuple[Selector, ExcludedPods] | None:
    """A selector without the exclusions of this one, and one of the pods that are excluded from it. None: there are none.

    | selector                        | without exclusions | excluded                        |
    | a NotIn (x)                     | everything         | a In (x)                        |
    | a NotIn (x), no label b, c In (y) | c In (y)           | c In (y), and a In (x) or b exists |
    """
    others, excluded = [], []
    for rule in selector.rules:
        opposite = _OPPOSITES.get(rule.operator)
        if opposite is None:
            others.append(rule)
        else:
            excluded.append(LabelRule(rule.key, opposite, rule.values))
    if not excluded:
        return None
    return Selector(tuple(others)), ExcludedPods(tuple(others), any_of=tuple(excluded))
