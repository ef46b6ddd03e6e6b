"""Pods on nodes with affinity terms, and what a loop over their terms says about another pod: for tests that compare both."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.model.affinity import CarriedTerm
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace
from placed_pods import PlacedPods

NODES = {"n0": "east", "n1": "east", "n2": "west", "n3": None}
"""With their zones."""
NAMESPACES = {"blue": {"team": "a"}, "red": {"team": "b"}}
VALUES = ("a", "b", "c")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)

_RULES = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        **({"values": values} if "In" in operator else {}),
    },
    st.sampled_from(("app", "tier")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
)
_TERMS = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(("zone", "zone", "host", "nowhere")),
        "labelSelector": st.lists(_RULES, max_size=4).map(lambda rules: {"matchExpressions": rules}),
    },
    optional={
        "namespaces": st.sampled_from(
            (["blue"], ["red", "blue"], ["blue", "green", "blue"], ["red", *map(str, range(20))])
        ),
        "namespaceSelector": st.sampled_from(({}, {"matchLabels": {"team": "b"}})),
    },
)
_WEIGHTED = st.fixed_dictionaries({"weight": st.sampled_from((1, 2)), "podAffinityTerm": _TERMS})
_EITHER = st.fixed_dictionaries(
    {}, optional={REQUIRED: st.lists(_TERMS, max_size=2), PREFERRED: st.lists(_WEIGHTED, max_size=2)}
)
AFFINITIES = st.fixed_dictionaries({}, optional={"podAffinity": _EITHER, "podAntiAffinity": _EITHER})
_NUMBERS = st.integers(0, 5)
_PODS = st.tuples(st.sampled_from(tuple(NODES)), st.sampled_from(tuple(NAMESPACES)), AFFINITIES)
ASKED = st.sampled_from((("blue", {"app": "a"}), ("blue", {"app": "b", "tier": "b"}), ("red", {}))) | st.tuples(
    st.sampled_from(tuple(NAMESPACES)), st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(VALUES))
)
"""The namespace and the labels of a pod that terms may be about. Some are asked for again after pods came and went."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), _NUMBERS, _PODS),
        st.tuples(st.just("remove"), _NUMBERS, st.none()),
        st.tuples(st.just("relabel"), st.sampled_from(tuple(NODES)), st.sampled_from(("east", "west", "north"))),
        st.tuples(st.just("ask"), ASKED, st.none()),
    ),
    min_size=10,  # or else most runs are too short to ask for something twice
    max_size=30,
)


class PodsWithTerms(PlacedPods):
    """The steps, on nodes of two zones and one without, whose host label is their name. Tests say how to `ask`."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.table = self.cluster.nodes
        for name, labels in NAMESPACES.items():
            self.cluster.put(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace))
        self.zones: dict[str, str | None] = {}
        for name, zone in NODES.items():
            self.relabel(name, zone)

    def relabel(self, name: str, zone: str | None) -> None:
        self.zones[name] = zone
        self.table.put_node(a_node(name, labels={"host": name, **({"zone": zone} if zone else {})}))

    def place(self, number: int, how: tuple[str, str, dict[str, Any]]) -> None:
        node, namespace, affinity = how
        self.put(number, a_pod(f"p{number}", namespace=namespace, affinity=affinity), node)

    def said(self, namespace: str, labels: dict[str, str]) -> Iterator[tuple[CarriedTerm, str]]:
        """The terms that are about such a pod, each with the node of the pod that has it, by a loop."""
        for pod, node in self.pods.values():
            for carried in self.terms_about(pod, namespace, labels):
                yield carried, node

    def terms_about(self, pod: Pod, namespace: str, labels: dict[str, str]) -> list[CarriedTerm]:
        terms = pod.shape.terms(pod.namespace).carried
        return [each for each in terms if each.term.speaks_of(namespace, labels, NAMESPACES[namespace])]

    def expected(self, namespace: str, labels: dict[str, str], kind: str) -> Counter[tuple[str, str]]:
        """What terms of a kind say, by topology key and value; 0 where weights cancel out."""
        found: Counter[tuple[str, str]] = Counter()
        for carried, node in self.said(namespace, labels):
            key = carried.term.topology_key
            value = {"zone": self.zones[node], "host": node}.get(key)
            if carried.kind == kind and value is not None:
                found[key, value] += carried.weight if kind == "preferred" else 1
        return found


def a_term(operator: str, app: str, **more: Any) -> dict[str, Any]:
    rule = {"key": "app", "operator": operator, "values": [app]}
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": [rule]}, **more}
