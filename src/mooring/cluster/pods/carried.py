"""The affinity terms that pods on nodes carry, list by list, and what such a list says about other pods."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from mooring.cluster.nodes.labels import LabelColumns
from mooring.cluster.pods.tally import Tally
from mooring.model.affinity import CarriedTerm, Labels
from mooring.model.label_set import LabelSet, LabelSetCases, SelectorIndex


@dataclass(slots=True)
class Concern:
    """What a list of terms says about pods of one label set, added up by topology key. It may say nothing."""

    anti: dict[str, int] = field(default_factory=dict)
    """Required anti-affinity: how many terms."""
    affinity: dict[str, int] = field(default_factory=dict)
    """Required affinity: how many terms."""
    preferred: dict[str, int] = field(default_factory=dict)
    """Preferred affinity: the sum of the weights; anti-affinity has negative ones."""

    _present: "tuple[int, Concern] | None" = None

    def __bool__(self) -> bool:
        return bool(self.anti or self.affinity or self.preferred)

    def among(self, labels: LabelColumns) -> "Concern":
        """What of it is about labels that nodes have: there may be thousands that none has. Do not write to it."""
        if self._present is None or self._present[0] != labels.keys_version:
            parts = (self.anti, self.affinity, self.preferred)
            anti, affinity, preferred = ({key: n for key, n in part.items() if labels.has(key)} for part in parts)
            self._present = (labels.keys_version, Concern(anti, affinity, preferred))
        return self._present[1]


class Carriers:
    """The pods on nodes that carry one list of terms: where they are, and whom it concerns.

    Of thousands of terms only those are tried whose labels the pod has, once for each case that its labels make.
    """

    def __init__(self, terms: tuple[CarriedTerm, ...], tally: Tally) -> None:
        self.terms = terms
        self.tally = tally
        self.is_gone = False
        """Whether the last of them has left."""
        selectors = [carried.term.selector for carried in terms]
        self._index = SelectorIndex(selectors)
        self._concerns: LabelSetCases[Concern] = LabelSetCases(selectors)

    def concern(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> Concern:
        """What the terms say about pods of this label set. Do not write to it."""
        return self._concerns.get(label_set, lambda: self._concern_of(label_set, namespace_labels), namespaces_version)

    def _concern_of(self, label_set: LabelSet, namespace_labels: Labels) -> Concern:
        candidates = (self.terms[number] for number in self._index.candidates(label_set.labels))
        return concern_of(candidates, label_set, namespace_labels)

    def fork(self) -> "Carriers":
        other: Carriers = object.__new__(Carriers)
        other.__dict__.update(self.__dict__)  # what is said of others does not depend on where pods are
        other.tally = self.tally.fork()
        return other


def concern_of(terms: Iterable[CarriedTerm], label_set: LabelSet, namespace_labels: Labels) -> Concern:
    """Goes through all terms."""
    sums: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in ("anti", "affinity", "preferred")}
    for carried in terms:
        weight = carried.weight if carried.kind == "preferred" else 1
        if weight and carried.term.speaks_of(label_set.namespace, label_set.labels, namespace_labels):
            sums[carried.kind][carried.term.topology_key] += weight
    return Concern(dict(sums["anti"]), dict(sums["affinity"]), dict(sums["preferred"]))
