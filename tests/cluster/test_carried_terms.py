"""What the terms of pods on nodes say about a pod is the sum over those pods, also where terms are differences."""

from collections import Counter
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.tallies.carried_terms import KINDS, CarriedTerms, TermsAbout
from mooring.model.label_set import label_set_of
from mooring.model.pod import Pod
from pods_with_terms import NAMESPACES, PREFERRED, REQUIRED, STEPS, VALUES, PodsWithTerms, a_term


class World(PodsWithTerms):
    """Asks the lists of terms."""

    @property
    def terms(self) -> CarriedTerms:
        return self.table.tallies.terms

    def about(self, namespace: str, labels: dict[str, str], version: int = 0) -> TermsAbout:
        return self.terms.about(label_set_of(namespace, labels), NAMESPACES[namespace], version)

    def ask(self, asked: tuple[str, dict[str, str]], _: None = None) -> None:
        about = self.about(*asked)
        for kind in KINDS:
            assert +self.added_up(about, kind) == +self.expected(*asked, kind)
            assert -self.added_up(about, kind) == -self.expected(*asked, kind)
        for pod, _node in self.pods.values():
            numbers = self.terms.number_of_anti_terms(
                pod.shape.terms(pod.namespace), label_set_of(*asked), NAMESPACES[asked[0]], 0
            )
            anti = (each.term.topology_key for each in self.terms_about(pod, *asked) if each.kind == "anti")
            assert {key: number for key, number in numbers.items() if number} == Counter(anti)

    def added_up(self, about: TermsAbout, kind: str) -> Counter[tuple[str, str]]:
        """The lists, one by one, by topology key and value."""
        found: Counter[tuple[str, str]] = Counter()
        for concern, tally in self.terms.lists(about):
            for key, number in concern.among(self.table.labels).of(kind).items():
                column = self.table.labels.column(key)
                for value, count in zip(column.values[1:], tally.by_value(column)[1:].tolist(), strict=False):
                    assert value is not None
                    found[key, value] += number * count
        return found


@given(STEPS, st.sampled_from((2, 1000)))
def test_lists_say_what_a_loop_over_pods_says(steps: list[tuple[str, Any, Any]], remembered: int) -> None:
    with mock.patch.object(CarriedTerms, "MOST_REMEMBERED", remembered):
        world = World()
        for name, *what in steps:
            getattr(world, name)(*what)
        for app in VALUES:
            world.ask(("blue", {"app": app}))
    assert check_table(world.table) == []
    terms = world.terms
    assert terms.lists_of_kind == {kind: sum(kind in each.kinds for each in terms.carried.values()) for kind in KINDS}
    assert terms._remembered == sum(terms.LABEL_SET + len(about.concerns) for about in terms._about.values())


def keep_others_away(world: World, tenants: int, **more: Any) -> None:
    """A pod of each tenant on the first node."""
    for number in range(tenants):
        term = a_term("NotIn", f"t{number}", **more)
        world.place(number, ("n0", "red", {"podAntiAffinity": {REQUIRED: [term]}}))


def test_tenants_that_keep_all_others_away_share_a_list() -> None:
    """A pod of one of them is concerned by that list and by its own, however many tenants there are."""
    world = World()
    keep_others_away(world, 30)
    assert len(world.terms.carried) == 1 + 30
    for number in range(30):
        assert len(world.about("red", {"app": f"t{number}"}).concerns) == 2
        assert world.added_up(world.about("red", {"app": f"t{number}"}), "anti")["zone", "east"] == 29
    assert len(world.about("red", {"app": "other"}).concerns) == 1
    assert len(world.about("blue", {"app": "t0"}).concerns) == 0, "another namespace"


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_pods_that_each_list_namespaces_of_their_own_share_a_list_for_those_that_all_list(operator: str) -> None:
    world = World()
    for number in range(30):
        term = a_term(operator, "a", namespaces=["blue", f"own-{number}", f"more-{number}"])
        world.place(number, ("n0", "red", {"podAntiAffinity": {REQUIRED: [term]}}))
    for app in "ab":
        world.ask(("blue", {"app": app}))
        assert len(world.about("blue", {"app": app}).concerns) <= 2
        assert not world.about("red", {"app": app})


def test_a_pod_that_lists_thousands_of_namespaces_is_counted_in_one_list() -> None:
    world = World()
    term = a_term("In", "a", namespaces=["blue", *(f"n{i}" for i in range(5000))])
    world.place(0, ("n0", "red", {"podAntiAffinity": {REQUIRED: [term]}}))
    assert len(world.terms.carried) == 1
    world.ask(("blue", {"app": "a"}))


def test_other_terms_of_a_pod_are_not_in_the_list_that_it_shares() -> None:
    """Or else each pod with a term of its own would have a list that concerns all."""
    world = World()
    for number in range(30):
        terms = [a_term("In", f"t{number}"), a_term("NotIn", f"t{number}")]
        world.place(number, ("n0", "red", {"podAntiAffinity": {REQUIRED: terms}}))
    assert len(world.about("red", {"app": "t7"}).concerns) == 3
    assert world.expected("red", {"app": "t7"}, "anti") == {("zone", "east"): 30}
    world.ask(("red", {"app": "t7"}))


def test_a_node_that_moves_to_another_zone_takes_what_its_pods_say_along() -> None:
    world = World()
    keep_others_away(world, 30)
    for zone in ("east", "west", "north"):
        world.relabel("n0", zone)
        world.ask(("red", {"app": "t0"}))
        assert world.expected("red", {"app": "t0"}, "anti") == {("zone", zone): 29}


def test_what_is_said_follows_the_labels_of_namespaces() -> None:
    world = World()
    keep_others_away(world, 20, namespaceSelector={"matchLabels": {"team": "b"}})
    terms, label_set = world.terms, label_set_of("blue", {"app": "t0"})
    assert not terms.about(label_set, {"team": "a"}, 1)
    about = terms.about(label_set, {"team": "b"}, 2)
    assert +world.added_up(about, "anti") == {("zone", "east"): 19}
    assert not terms.about(label_set, {"team": "a"}, 3)


def test_lists_are_forgotten_with_their_last_pod() -> None:
    world = World()
    keep_others_away(world, 100)
    for number in range(100):
        world.remove(number, None)
        for app in ("t0", "t10", "t90"):  # lists that are left get other numbers on the way
            world.ask(("red", {"app": app}))
    assert world.terms.carried == {}
    assert set(world.terms.lists_of_kind.values()) == {0}


def test_a_long_list_says_what_its_terms_say() -> None:
    """Of its terms only those are tried that the labels of the pod may meet."""
    world = World()
    terms = [a_term("In", f"t{number}") for number in range(20)] + [
        a_term("NotIn", f"t{number}") for number in range(20)
    ]
    world.place(0, ("n0", "red", {"podAntiAffinity": {REQUIRED: terms}}))
    world.ask(("red", {"app": "t7"}))
    assert world.expected("red", {"app": "t7"}, "anti") == {("zone", "east"): 1 + 19}
    world.ask(("red", {}))
    assert world.expected("red", {}, "anti") == {("zone", "east"): 20}


def test_what_is_said_of_a_label_is_known_once_nodes_have_it() -> None:
    world = World()
    world.place(0, ("n0", "red", {"podAntiAffinity": {REQUIRED: [{**a_term("In", "t0"), "topologyKey": "rack"}]}}))
    assert world.added_up(world.about("red", {"app": "t0"}), "anti") == {}
    world.table.put_node(a_node("n0", labels={"rack": "r1"}))
    assert world.added_up(world.about("red", {"app": "t0"}), "anti") == {("rack", "r1"): 1}


def test_lists_of_the_past_take_no_room() -> None:
    world = World()
    for number in range(500):
        world.place(0, ("n0", "red", {"podAntiAffinity": {REQUIRED: [a_term("NotIn", f"t{number}")]}}))
        world.about("red", {"app": f"t{number}"})
        assert len(world.terms._arrivals) <= 2 + 2 * 65
        assert len(world.terms._about) <= 66


def test_what_is_remembered_follows_lists_and_namespaces() -> None:
    world = World()
    for version in range(4):
        world.place(
            version, ("n0", "red", {"podAntiAffinity": {REQUIRED: [a_term("In", "t0", topologyKey=f"k{version}")]}})
        )
        about = world.about("red", {"app": "t0"}, version // 2)
        assert len(about.concerns) == version + 1
        assert world.terms._remembered == world.terms.LABEL_SET + version + 1


@pytest.mark.parametrize("most", [1, 380])
def test_what_is_remembered_of_label_sets_is_bounded(most: int) -> None:
    world = World()
    away = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    for number in range(3):
        weighted = {"weight": number + 1, "podAffinityTerm": away}
        world.place(number, ("n0", "blue", {"podAntiAffinity": {PREFERRED: [weighted]}}))
    terms = world.terms
    terms.MOST_REMEMBERED = most
    for number in range(50):
        assert len(terms.about(label_set_of("blue", {"app": f"a{number}"}), {}, 0).concerns) == 3
    assert len(terms._about) == max(most // (terms.LABEL_SET + 3), 1)


def test_new_labels_of_a_pod_leave_its_terms_where_they_are() -> None:
    """A bind that is confirmed gives a pod the topology labels of its node, which change nothing about its terms."""
    cluster = Cluster()
    cluster.nodes.put_node(a_node("n"))
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host", "labelSelector": {}}]}
    pod = a_pod("p", affinity={"podAntiAffinity": anti}, labels={"app": "a"})
    cluster.nodes.place(pod.with_node("n"), "n")
    terms = cluster.nodes.tallies.terms
    version, carried = terms.version, dict(terms.carried)
    metadata = msgspec.structs.replace(pod.metadata, labels={"app": "a", "zone": "z"})
    seen = Pod(metadata=metadata, spec=pod.spec, status=pod.status).with_node("n")
    assert cluster.nodes.exchange(seen)
    assert (terms.version, terms.carried) == (version, carried) and len(carried) == 1
    assert [*cluster.nodes.tallies.label_sets()] == [seen.label_set]
    assert check_table(cluster.nodes) == []
