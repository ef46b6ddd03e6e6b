"""All lists of affinity terms that pods on nodes carry, and what they say about other pods together.

Pods with the same list of terms are counted together (`Carriers`). What all lists say about a pod is a sum over those that
concern it. Terms such as `tenant NotIn (a)`, one for each tenant, concern the pods of all other tenants. They are counted as
differences (`PodTerms.counted`): one list for all tenants, which concerns every pod, minus one list for each tenant, which
concerns its own pods.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

import msgspec

from mooring.cluster.columns.labels import LabelColumns
from mooring.cluster.tallies.tally import Tally
from mooring.kit.lazy import lazy
from mooring.model.affinity import AffinityTerm, CarriedTerm, Labels, PodTerms
from mooring.model.label_set import LabelSet, LabelSetCases, Trait, TraitIndex, required_traits
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod

# ---- One list of affinity terms that pods on nodes carry: where these pods are, and what the terms say about other
# pods.


KINDS = ("anti", "affinity", "preferred")
"""Kinds of terms, as in `CarriedTerm.kind`: required anti-affinity, required affinity, and preferred terms of both."""

_FEW_RULES = 16
"""Lists whose selectors have up to so many rules, each selector counting as one more, are tried each time. What larger ones
say is remembered, for as many cases as they have rules: thousands of pods may carry a list of their own."""


class Concern(msgspec.Struct):
    """Affinity terms of one list that match pods of one label set, summed by topology key. It is empty if no term matches."""

    anti: dict[str, int] = msgspec.field(default_factory=dict)
    """Required anti-affinity: how many terms."""
    affinity: dict[str, int] = msgspec.field(default_factory=dict)
    """Required affinity: how many terms."""
    preferred: dict[str, int] = msgspec.field(default_factory=dict)
    """Preferred affinity: the sum of the weights; anti-affinity has negative ones."""
    preferred_terms: dict[str, int] = msgspec.field(default_factory=dict)
    """Preferred affinity: how many terms."""

    _present: "tuple[int, Concern] | None" = None
    """Cache of `among`: the version of the label keys and the answer for this version."""

    def __bool__(self) -> bool:
        """Whether the terms say anything about these pods."""
        return bool(self.anti or self.affinity or self.preferred)

    def among(self, labels: LabelColumns) -> "Concern":
        """The part of the concern whose topology keys are labels of some node: terms may name thousands of keys that no node
        has. The caller must not write to it."""
        if self._present is None or self._present[0] != labels.keys_version:
            parts = (self.anti, self.affinity, self.preferred, self.preferred_terms)
            there = ({key: number for key, number in part.items() if labels.has(key)} for part in parts)
            anti, affinity, preferred, preferred_terms = there
            self._present = (labels.keys_version, Concern(anti, affinity, preferred, preferred_terms))
        return self._present[1]

    def of(self, kind: str) -> dict[str, int]:
        """The sums of one of the KINDS by topology key: the number of terms, or the sum of their weights for preferred
        terms."""
        found: dict[str, int] = getattr(self, kind)
        return found

    def terms_of(self, kind: str) -> dict[str, int]:
        """How many terms of a kind there are. A term that is subtracted (`CarriedTerm.sign`) counts as -1."""
        return self.preferred_terms if kind == "preferred" else self.of(kind)


NOTHING = Concern()


def concern_of(terms: Iterable[CarriedTerm], label_set: LabelSet, namespace_labels: Labels) -> Concern:
    """Add up what these terms say about pods of a label set, term by term."""
    namespace, labels = label_set.namespace, label_set.labels
    return _added_up(carried for carried in terms if carried.term.speaks_of(namespace, labels, namespace_labels))


def _added_up(terms: Iterable[CarriedTerm]) -> Concern:
    """Sum terms by kind and topology key. A required term counts 1 and a preferred term its weight; terms with the sign -1
    are subtracted."""
    sums: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in (*KINDS, "preferred_terms")}
    for carried in terms:
        key, sign = carried.term.topology_key, carried.sign
        if carried.kind != "preferred":
            sums[carried.kind][key] += sign
        elif carried.weight:
            sums["preferred"][key] += sign * carried.weight
            sums["preferred_terms"][key] += sign
    anti, affinity, preferred, preferred_terms = map(dict, sums.values())
    return Concern(anti, affinity, preferred, preferred_terms)


def _required_by(term: AffinityTerm) -> list[Trait] | None:
    return required_traits(term.selector, term.namespaces if term.namespace_selector.is_nothing else None)


class Carriers:
    """The pods on nodes that carry one list of terms: where they are, and which pods the terms concern.

    Of thousands of terms only those are tried whose labels the pod has, once for each case that its labels make.
    """

    def __init__(self, terms: tuple[CarriedTerm, ...], tally: Tally) -> None:
        self.terms = terms
        self.tally = tally
        self.is_gone = False
        """Whether the last of them has left."""
        self.selectors = [carried.term.selector for carried in terms]
        self.kinds = frozenset(carried.kind for carried in terms)
        self.excludes = any(carried.sign < 0 for carried in terms)
        """Whether the terms are subtracted from those of another list."""
        self._rules = sum(
            1 + len(each.term.selector.read_rules) + len(each.term.namespace_selector.rules) for each in terms
        )

    @lazy
    def is_of_hosts(self) -> bool:
        """Whether a required anti-affinity term is about the host of the pod that carries it."""
        return any(carried.kind == "anti" and carried.term.topology_key == HOSTNAME for carried in self.terms)

    @lazy
    def _full(self) -> Concern:
        """The concern for a pod that all terms of the list select."""
        return _added_up(self.terms)

    def concern(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> Concern:
        """Sum the terms of the list that match pods of this label set. The caller must not write to the result."""
        if self._rules > _FEW_RULES:
            return self._cases.get(label_set, lambda: self._concern_of(label_set, namespace_labels), namespaces_version)
        if len(self.terms) > 1:
            return concern_of(self.terms, label_set, namespace_labels)
        # Hot: as a rule there is one, and then one object for all pods that it selects.
        is_meant = self.terms[0].term.speaks_of(label_set.namespace, label_set.labels, namespace_labels)
        return self._full if is_meant else NOTHING

    @lazy
    def _cases(self) -> LabelSetCases[Concern]:
        return LabelSetCases(self.selectors, most=self._rules)

    @lazy
    def _index(self) -> TraitIndex[int]:
        index: TraitIndex[int] = TraitIndex()
        for number, required in enumerate(self._required):
            index.add(number, required)
        return index

    @lazy
    def _required(self) -> list[list[Trait] | None]:
        """By term: traits of which a pod must have at least one to be concerned; None: any pod may be."""
        return [_required_by(carried.term) for carried in self.terms]

    def _concern_of(self, label_set: LabelSet, namespace_labels: Labels) -> Concern:
        candidates = (self.terms[number] for number in sorted(self._index.candidates(label_set)))
        return concern_of(candidates, label_set, namespace_labels)

    def required(self) -> set[Trait] | None:
        """Traits of which a pod must have at least one to be concerned by a term; None: any pod may be."""
        found: set[Trait] = set()
        for required in self._required:
            if required is None:
                return None
            found.update(required)
        return found

    def fork(self) -> "Carriers":
        """Copy for a what-if: the tally is copied, and the answers about label sets are shared."""
        other: Carriers = object.__new__(Carriers)
        other.__dict__.update(
            self.__dict__
        )  # what terms say about other pods does not depend on where their carriers are
        other.tally = self.tally.fork()
        return other


_GONE = 64
"""Number of lists without carriers that is always tolerated. With more than this, and more than there are carried lists, the
lists without carriers are removed."""

_FEW_NEW = 4
"""Largest number of new lists that are matched one by one. With more, the index selects candidates."""


# ---- what all lists say about a pod


class TermsAbout(msgspec.Struct):
    """Terms of pods on nodes that match pods of one label set, list by list."""

    label_set: LabelSet
    namespace_labels: Labels
    namespaces_version: int
    seen: int = 0
    """How many of the lists are looked at, in the order in which they came."""
    concerns: dict[int, Concern] = msgspec.field(default_factory=dict)
    """By number of a list that says something. The last pod with it may have left."""
    has_exclusions: bool = False
    """Whether one of these lists is subtracted from another one: then all together may say nothing."""

    def __bool__(self) -> bool:
        return bool(self.concerns)


class CarriedTerms:
    """All lists of terms that pods on nodes carry."""

    MOST_REMEMBERED = 1 << 18
    """Lists that are remembered for the label sets that they concern: 60 bytes each, and a label set counts as LABEL_SET of
    them. With more, the label sets that nobody asked about for longest are forgotten."""
    LABEL_SET = 16

    def __init__(self) -> None:
        self._capacity = 0
        self.carried: dict[tuple[CarriedTerm, ...], Carriers] = {}
        """By their terms: the pods that carry them. Lists that no pod carries any more are forgotten."""
        self.lists_of_kind: dict[str, int] = dict.fromkeys(KINDS, 0)
        """How many of them have terms of a kind. Hot: as a rule no list has terms of two of the kinds."""
        self._carriers: WeakKeyDictionary[PodTerms, list[Carriers]] = WeakKeyDictionary()
        """The carried lists by the terms of a shape in a namespace, so that terms are compared once for these and not for
        each pod."""
        self._arrivals: list[Carriers] = []
        """In the order in which they came, those included that are gone since."""
        self._arrival_index: TraitIndex[int] = TraitIndex()
        """The positions in `_arrivals` by what their terms require of a pod: of hundreds of lists few concern a pod."""
        self.version = 0
        """Grows when pods come with terms that no pod on a node had."""
        self._gone = 0
        self._about: dict[LabelSet, TermsAbout] = {}
        """Least recently asked first."""
        self._remembered = 0
        """How much of MOST_REMEMBERED they take."""

    # ---- which pods carry them

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        terms = pod.shape.terms(pod.namespace)
        if not terms.carried:
            return
        lists = self._carriers.get(terms)
        if lists is None or any(carriers.is_gone for carriers in lists):
            lists = self._carriers[terms] = [self._carriers_of(each) for each in terms.counted]
        row_change = (row, change)
        for carriers in lists:
            carriers.tally.add(row_change)
            if not carriers.tally.total:
                self._forget(carriers)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for carriers in self.carried.values():
            carriers.tally.grow(capacity)

    def begin_recount(self) -> None:
        """Count nothing; pods are about to be added. Tallies that somebody holds stay the same objects."""
        for carriers in self.carried.values():
            carriers.tally.clear()

    def end_recount(self) -> None:
        """All pods are added."""
        for carriers in [carriers for carriers in self.carried.values() if not carriers.tally.total]:
            self._forget(carriers)

    def check(self, pods_on: Sequence[Sequence[Pod]]) -> list[str]:
        """Compare the counts of carried terms with a recount of these pods (by row). Returns a message if they differ."""
        found: Counter[tuple[object, int]] = Counter()
        for row, pods in enumerate(pods_on):
            for pod in pods:
                found.update((terms, row) for terms in pod.shape.terms(pod.namespace).counted)
        kept = {
            (terms, int(row)): int(carriers.tally.counts[row])
            for terms, carriers in self.carried.items()
            for row in carriers.tally.counts.nonzero()[0]
        }
        return [] if kept == dict(found) else ["carried terms differ from a recount"]

    def fork(self) -> "CarriedTerms":
        other = CarriedTerms()
        other._capacity = self._capacity
        other.carried = {terms: carriers.fork() for terms, carriers in self.carried.items()}
        other.lists_of_kind = dict(self.lists_of_kind)
        other._number_arrivals()
        return other

    def _carriers_of(self, terms: tuple[CarriedTerm, ...]) -> Carriers:
        """Pods of other shapes may carry the same terms."""
        carriers = self.carried.get(terms)
        if carriers is None:
            carriers = self.carried[terms] = Carriers(terms, Tally(self._capacity))
            self._arrive(carriers)
            for kind in carriers.kinds:
                self.lists_of_kind[kind] += 1
        return carriers

    def _forget(self, carriers: Carriers) -> None:
        """The last pod left that carried these terms."""
        del self.carried[carriers.terms]
        carriers.is_gone = True
        for kind in carriers.kinds:
            self.lists_of_kind[kind] -= 1
        self._gone += 1
        if self._gone > max(len(self.carried), _GONE):
            self._gone = self._remembered = 0
            self._about.clear()
            self._number_arrivals()

    def _number_arrivals(self) -> None:
        """Leave out those that are gone."""
        self._arrivals, self._arrival_index = [], TraitIndex()
        for carriers in self.carried.values():
            self._arrive(carriers)

    def _arrive(self, carriers: Carriers) -> None:
        self.version += 1
        self._arrival_index.add(len(self._arrivals), carriers.required())
        self._arrivals.append(carriers)

    # ---- what they say about a pod

    def about(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> TermsAbout:
        """Find the terms of pods on nodes that match a pod of this label set. The caller must not write to the result, which
        is valid until a pod comes or goes."""
        about = self._about.pop(label_set, None)
        if about is None or about.namespaces_version != namespaces_version:
            self._remembered += self.LABEL_SET if about is None else -len(about.concerns)
            about = TermsAbout(label_set, namespace_labels, namespaces_version)
        if about.seen < len(self._arrivals):
            self._remembered -= len(about.concerns)
            self._look_at_new(about)
            self._remembered += len(about.concerns)
        self._about[label_set] = about
        while self._remembered > self.MOST_REMEMBERED and len(self._about) > 1:
            self._remembered -= self.LABEL_SET + len(self._about.pop(next(iter(self._about))).concerns)
        return about

    def _look_at_new(self, about: TermsAbout) -> None:
        """Bring the answer up to date: drop lists that no pod carries any more, and match the lists that came since. If many
        came, the index selects those that can match the label set."""
        arrivals, label_set = self._arrivals, about.label_set
        about.concerns = {number: concern for number, concern in about.concerns.items() if not arrivals[number].is_gone}
        new: Iterable[int] = range(about.seen, len(arrivals))
        if len(arrivals) - about.seen > _FEW_NEW:
            candidates = self._arrival_index.candidates(label_set)
            new = sorted(number for number in candidates if number >= about.seen)
        for number in new:
            if not arrivals[number].is_gone:
                concern = arrivals[number].concern(label_set, about.namespace_labels, about.namespaces_version)
                if concern:
                    about.concerns[number] = concern
                    about.has_exclusions |= arrivals[number].excludes
        about.seen = len(arrivals)

    def lists(self, about: TermsAbout) -> Iterator[tuple[Concern, Tally]]:
        """Yield each list with terms that match, as its sums and the tally of the pods that carry it. The tally may be empty:
        the last pod left."""
        for number, concern in about.concerns.items():
            yield concern, self._arrivals[number].tally

    def of_hosts(self) -> Iterator[Tally]:
        """Yield the tally of the pods of each list with required anti-affinity to pods on the same host, whatever pods."""
        if self.lists_of_kind["anti"]:
            yield from (carriers.tally for carriers in self.carried.values() if carriers.is_of_hosts)

    def number_of_anti_terms(
        self, terms: PodTerms, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int
    ) -> dict[str, int]:
        """How many required anti-affinity terms of one pod, which may be on no node, are about pods of a label set, by
        topology key. Keys may have none."""
        lists = self._carriers.get(terms)
        if lists is None:
            return concern_of(terms.carried, label_set, namespace_labels).anti
        found: Counter[str] = Counter()
        for carriers in lists:
            found.update(carriers.concern(label_set, namespace_labels, namespaces_version).anti)
        return found
