"""What the terms of pods on nodes say about a pod is the sum over those pods, also where it is worked out as a difference."""

from collections import Counter
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes.check import check_table
from mooring.cluster.pods import carried_terms
from mooring.cluster.pods.carried_terms import CarriedTerms
from mooring.cluster.pods.carriers import KINDS
from mooring.model.label_set import label_set_of
from placed_pods import PlacedPods

NODES = {"n0": "east", "n1": "east", "n2": "west", "n3": None}
NAMESPACES = {"blue": {"team": "a"}, "red": {"team": "b"}}
VALUES = ("a", "b", "c")

TERMS = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(("zone", "nowhere")),
        "labelSelector": st.builds(
            lambda operator, value: {"matchExpressions": [{"key": "app", "operator": operator, "values": [value]}]},
            st.sampled_from(("In", "NotIn")),
            st.sampled_from(VALUES),
        ),
    },
    optional={
        "namespaces": st.just(["blue"]),
        "namespaceSelector": st.sampled_from(({}, {"matchLabels": {"team": "b"}})),
    },
)
WEIGHTED = st.fixed_dictionaries({"weight": st.integers(1, 3), "podAffinityTerm": TERMS})
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "podAffinity": st.fixed_dictionaries(
            {}, optional={REQUIRED: st.lists(TERMS, max_size=2), PREFERRED: st.lists(WEIGHTED, max_size=2)}
        ),
        "podAntiAffinity": st.fixed_dictionaries(
            {}, optional={REQUIRED: st.lists(TERMS, max_size=2), PREFERRED: st.lists(WEIGHTED, max_size=2)}
        ),
    },
)
NUMBERS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("place"),
            NUMBERS,
            st.tuples(st.sampled_from(tuple(NODES)), st.sampled_from(tuple(NAMESPACES)), AFFINITIES),
        ),
        st.tuples(st.just("remove"), NUMBERS, st.none()),
        st.tuples(st.just("relabel"), st.sampled_from(tuple(NODES)), st.sampled_from(("east", "west", "north"))),
        st.tuples(st.just("ask"), st.sampled_from(tuple(NAMESPACES)), st.sampled_from(VALUES)),
    ),
    max_size=25,
)


class World(PlacedPods):
    """The steps, on nodes of two zones and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.zones: dict[str, str | None] = {}
        self.differences = 0
        for name, zone in NODES.items():
            self.relabel(name, zone)

    def relabel(self, name: str, zone: str | None) -> None:
        self.zones[name] = zone
        self.table.put_node(a_node(name, labels={"zone": zone} if zone else {}))

    def place(self, number: int, how: tuple[str, str, dict[str, Any]]) -> None:
        node, namespace, affinity = how
        self.put(number, a_pod(f"p{number}", namespace=namespace, affinity=affinity), node)

    def ask(self, namespace: str, app: str) -> None:
        terms, labels = self.table.tallies.terms, self.table.labels
        about = terms.about(label_set_of(namespace, {"app": app}), NAMESPACES[namespace], 0)
        for kind in KINDS:
            sums = terms.sums(about, kind, labels)
            if sums is None:
                continue
            self.differences += 1
            expected = self.expected(namespace, app, kind)
            found = {
                column.values[code]: int(count)
                for column, counts in sums.values()
                for code, count in enumerate(counts)
                if count
            }
            assert found == {zone: count for zone, count in expected.items() if count}

    def expected(self, namespace: str, app: str, kind: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for pod, node in self.pods.values():
            for carried in pod.shape.terms(pod.namespace).carried:
                is_meant = carried.term.speaks_of(namespace, {"app": app}, NAMESPACES[namespace])
                zone = self.zones[node]
                if carried.kind == kind and carried.term.topology_key == "zone" and is_meant and zone is not None:
                    found[zone] += carried.weight if kind == "preferred" else 1
        return found


@given(STEPS, st.sampled_from((1, 32)), st.sampled_from((2, 1000)))
def test_sums_are_those_of_a_loop_over_pods(steps: list[tuple[str, Any, Any]], sums: int, remembered: int) -> None:
    with (
        mock.patch.object(carried_terms, "_MANY_LISTS", 0),
        mock.patch.object(CarriedTerms, "MOST_SUMS", sums),
        mock.patch.object(CarriedTerms, "MOST_REMEMBERED", remembered),
    ):
        world = World()
        for name, *what in steps:
            getattr(world, name)(*what)
        for app in VALUES:
            world.ask("blue", app)
    assert check_table(world.table) == []
    terms = world.table.tallies.terms
    assert terms.lists_of_kind == {kind: sum(kind in each.kinds for each in terms.carried.values()) for kind in KINDS}
    assert terms._remembered == sum(terms.LABEL_SET + len(about.concerns) for about in terms._about.values())


def test_tenants_that_keep_all_others_away_are_added_up_as_a_difference() -> None:
    """Also when pods and lists come and go between questions."""
    world = World()
    for number in range(60):
        away = {"podAntiAffinity": {REQUIRED: [a_term("NotIn", f"t{number % 30}")]}}
        world.place(number, ("n0" if number % 3 else "n2", "blue", away))
        world.ask("blue", f"t{number % 7}")
        if number % 5 == 4:
            world.remove(number - 2, None)
    assert world.differences > 40


def a_term(operator: str, app: str) -> dict[str, Any]:
    rule = {"key": "app", "operator": operator, "values": [app]}
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": [rule]}}


def keep_others_away(world: World, tenants: int) -> None:
    """A pod of each tenant on the first node."""
    for number in range(tenants):
        world.place(number, ("n0", "blue", {"podAntiAffinity": {REQUIRED: [a_term("NotIn", f"t{number}")]}}))


def test_a_node_that_moves_to_another_zone_takes_what_its_pods_say_along() -> None:
    world = World()
    keep_others_away(world, 30)
    for zone in ("east", "west", "north"):
        world.relabel("n0", zone)
        world.ask("blue", "t0")
        assert world.expected("blue", "t0", "anti") == {zone: 29}
    assert world.differences >= 3


def test_what_is_said_follows_the_labels_of_namespaces() -> None:
    world = World()
    for number in range(20):
        term = {**a_term("NotIn", f"t{number}"), "namespaceSelector": {"matchLabels": {"team": "b"}}}
        world.place(number, ("n0", "red", {"podAntiAffinity": {REQUIRED: [term]}}))
    terms, label_set = world.table.tallies.terms, label_set_of("blue", {"app": "t0"})
    assert len(terms.about(label_set, {"team": "a"}, 1).concerns) == 0
    about = terms.about(label_set, {"team": "b"}, 2)
    assert len(about.concerns) == 19
    sums = terms.sums(about, "anti", world.table.labels)
    assert sums is not None and sums["zone"][1].sum() == 19
    assert len(terms.about(label_set, {"team": "a"}, 3).concerns) == 0


def test_preferences_that_cancel_out_are_left_to_the_lists() -> None:
    """They say something, unlike those that no pod has: upstream then scores all nodes alike, and does not skip."""
    world = World()
    for number in range(20):
        weighted = {"weight": 7, "podAffinityTerm": a_term("NotIn", f"t{number}")}
        kind = "podAffinity" if number % 2 else "podAntiAffinity"
        world.place(number, ("n0", "blue", {kind: {PREFERRED: [weighted]}}))
    terms = world.table.tallies.terms
    about = terms.about(label_set_of("blue", {"app": "other"}), {}, 0)
    assert len(about.concerns) == 20
    assert terms.sums(about, "preferred", world.table.labels) is None
    assert terms.sums(about, "anti", world.table.labels) == {}


@pytest.mark.parametrize("most", [1, 380])
def test_what_is_remembered_of_label_sets_is_bounded(most: int) -> None:
    world = World()
    away = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    for number in range(3):
        weighted = {"weight": number + 1, "podAffinityTerm": away}
        world.place(number, ("n0", "blue", {"podAntiAffinity": {PREFERRED: [weighted]}}))
    terms = world.table.tallies.terms
    terms.MOST_REMEMBERED = most
    for number in range(50):
        assert len(terms.about(label_set_of("blue", {"app": f"a{number}"}), {}, 0).concerns) == 3
    assert len(terms._about) == max(most // (terms.LABEL_SET + 3), 1)
