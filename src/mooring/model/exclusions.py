"""Selectors that exclude pods, as the difference of two selectors that do not.

A selector such as `tenant NotIn (a)` selects nearly every pod, and each tenant has a selector of its own. If each of them had
a count of its own, each pod would be counted hundreds of times. But without their exclusions these selectors are all equal,
so one count serves all of them. And each of them excludes few pods, which can be found by their labels.
"""

from collections.abc import Mapping

from mooring.model.selectors import LabelRule, Selector

_OPPOSITES = {"NotIn": "In", "DoesNotExist": "Exists"}


class ExcludedPods(Selector, frozen=True, kw_only=True):
    """Selects the pods that another selector excludes: all `rules` must hold, and at least one of `any_of`."""

    any_of: tuple[LabelRule, ...]

    @property
    def read_rules(self) -> tuple[LabelRule, ...]:
        return self.rules + self.any_of

    def matches(self, labels: Mapping[str, str]) -> bool:
        return super().matches(labels) and any(rule.admits(labels.get(rule.key)) for rule in self.any_of)


def as_difference(selector: Selector) -> tuple[Selector, ExcludedPods] | None:
    """The selector without its exclusions, and a selector of the pods that it excludes. None: it excludes no pods, or it
    selects none at all.

    | selector                          | without exclusions | excluded                           |
    | a NotIn (x)                       | everything         | a In (x)                           |
    | a NotIn (x), no label b, c In (y) | c In (y)           | c In (y), and a In (x) or b exists |
    """
    if selector.is_nothing:
        return None
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
