"""Selectors that exclude pods, as differences of selectors that do not.

A selector such as `tenant NotIn (a)` selects nearly every pod, and each tenant has one of its own. If they were tried and
counted one by one, each pod would be counted hundreds of times. But few pods are excluded, and these are found by their
label; and all of the selectors share what is left without the exclusion.
"""

from collections.abc import Sequence
from itertools import combinations

from mooring.model.selectors import LabelRule, Selector

_OPPOSITES = {"NotIn": "In", "DoesNotExist": "Exists"}

_MOST_EXCLUSIONS = 3
"""So many rules that exclude pods make eight selectors. A selector with more of them stays as it is."""

SignedSelectors = Sequence[tuple[int, Selector]]
"""Selectors whose pods are to be added (1) or subtracted (-1). The first is added, and no other selects a pod that it does
not select."""


def as_difference(selector: Selector) -> SignedSelectors | None:
    """Selectors that together select each pod as often as this one does. None: it excludes no pods.

    | selector                | the same                                                    |
    | a NotIn (x)             | everything - (a In (x))                                     |
    | a NotIn (x), b exists   | (b exists) - (a In (x), b exists)                           |
    | a NotIn (x), no label b | everything - (a In (x)) - (b exists) + (a In (x), b exists) |
    """
    others, excluded = [], []
    for rule in selector.rules:
        opposite = _OPPOSITES.get(rule.operator)
        if opposite is None:
            others.append(rule)
        else:
            excluded.append(LabelRule(rule.key, opposite, rule.values))
    if not 0 < len(excluded) <= _MOST_EXCLUSIONS:
        return None
    # What is excluded comes first: it is less common than what all selectors of this kind require (`required_traits`).
    return [
        ((-1) ** count, Selector((*chosen, *others)))
        for count in range(len(excluded) + 1)
        for chosen in combinations(excluded, count)
    ]
