"""Tallies of pods that come and go are those of a loop over the pods, whichever tallies had to make room for others."""

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.tallies import tally
from mooring.cluster.tallies.tallies import PodTallies
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector, Requirement
from mooring.model.selectors import compile_selector
from placed_pods import PlacedPods

NODES = ("n0", "n1", "n2")
LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("a", "b")))
RULES = st.builds(
    lambda key, operator, values: Requirement(key, operator, values if "In" in operator else None),
    st.sampled_from(("app", "tier")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(("a", "b")), min_size=1),
)
NAMESPACES = ("default", "other")


def a_predicate(
    rules: list[Requirement], namespaces: tuple[str, ...] = ("default",), anywhere: bool = False
) -> PodPredicate:
    return PodPredicate(compile_selector(LabelSelector(match_expressions=rules)), frozenset(namespaces), anywhere)


IN, NOT_IN = Requirement("app", "In", ["a"]), Requirement("app", "NotIn", ["a"])
TIER, ANY_TIER = Requirement("tier", "NotIn", ["b"]), Requirement("tier", "Exists", None)
FEW = [[], [IN], [IN, ANY_TIER], [IN, TIER], [NOT_IN], [NOT_IN, TIER], [NOT_IN, ANY_TIER], [ANY_TIER]]
"""Of these some are asked for again after pods came and went."""
PREDICATES = st.one_of(
    st.builds(a_predicate, st.sampled_from(FEW)),
    st.builds(a_predicate, st.sampled_from(FEW), st.sampled_from((NAMESPACES, ())), st.booleans()),
    st.builds(a_predicate, st.lists(RULES, max_size=4)),
)
PODS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("place"),
            PODS,
            st.tuples(st.sampled_from(NODES), st.sampled_from(NAMESPACES), LABELS, st.booleans()),
        ),
        st.tuples(st.just("remove"), PODS, st.none()),
        st.tuples(st.just("ask"), st.lists(PREDICATES, min_size=1, max_size=2).map(tuple), st.booleans()),
    ),
    min_size=10,  # or else most runs are too short to ask for something twice
    max_size=40,
)


class World(PlacedPods):
    """The steps, on three nodes."""

    def __init__(self) -> None:
        super().__init__()
        for name in NODES:
            self.table.put_node(a_node(name, labels={"host": name}))

    def place(self, number: int, how: tuple[str, str, dict[str, str], bool]) -> None:
        node, namespace, labels, is_leaving = how
        metadata = {"deletionTimestamp": "2026-02-01T00:00:00Z"} if is_leaving else None
        self.put(number, a_pod(f"p{number}", namespace=namespace, labels=labels, metadata=metadata), node)

    def ask(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> None:
        self.expect(self.table.tallies, predicates, with_terminating)
        for kept in (self.table.tallies.kept(), self.table.tallies._differences):
            assert len(kept) <= PodTallies.LIMIT

    def expect(self, tallies: PodTallies, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> None:
        """The counts are those of a loop."""
        found = tallies.matching(predicates, with_terminating)
        expected = dict.fromkeys(NODES, 0)
        for pod, node in self.pods.values():
            is_meant = all(predicate.holds(pod.namespace, pod.labels) for predicate in predicates)
            expected[node] += is_meant and (with_terminating or not pod.is_terminating)
        assert {name: int(found.counts[self.table.row_book[name]]) for name in NODES} == expected
        column = self.table.labels.column("host")
        by_value = found.by_value(column)
        assert {name: int(by_value[column.value_book[name]]) for name in NODES} == expected
        assert found.total == sum(expected.values())
        assert (found.by_value_if_any(column) is None) == (not found.total)


def test_selectors_that_exclude_few_pods_share_a_tally_of_all() -> None:
    """Each pod is counted in the tally of all and in that of its own tenant, however many tenants exclude the others."""
    world = World()
    for number in range(50):
        world.place(number, ("n0", "default", {"tenant": f"t{number}"}, False))
    for number in range(50):
        rules = [Requirement("tenant", "Exists", None), Requirement("tenant", "NotIn", [f"t{number}"])]
        world.ask((a_predicate(rules),), True)
    assert len(world.table.tallies.kept()) == 1 + 50
    links = [where.tallies for where in world.table.tallies.label_sets().values()]
    assert [len(each or ()) for each in links] == [2] * 50


@given(STEPS, st.sampled_from((0, 64)))
def test_tallies_are_those_of_a_loop(steps: list[tuple[str, Any, Any]], few_rows: int) -> None:
    world = World()
    with mock.patch.object(PodTallies, "LIMIT", 2), mock.patch.object(tally, "FEW_ROWS", few_rows):
        for name, *what in steps:
            getattr(world, name)(*what)
        assert check_table(world.table) == []
        for number in list(world.pods):
            world.remove(number, None)
    assert world.table.tallies.label_sets() == {}, "label sets of the past"
    assert world.table.tallies._label_set_index.members == {}


@given(STEPS)
def test_a_copy_and_a_recount_say_the_same(steps: list[tuple[str, Any, Any]]) -> None:
    world = World()
    for name, *what in steps:
        getattr(world, name)(*what)
    asked = [(a_predicate(rules),) for rules in FEW]
    tallies, copy = world.table.tallies, world.table.tallies.fork()
    for predicates in asked:
        world.expect(copy, predicates, True)
    copy.add(a_pod("more", labels={"app": "a", "tier": "a"}), 0, 1)
    for predicates in asked:
        world.expect(tallies, predicates, True)
        assert copy.matching(predicates, True).total - tallies.matching(predicates, True).total == (
            predicates[0].holds("default", {"app": "a", "tier": "a"})
        )
    copy.count_anew(world.table.pods_on)
    for predicates in asked:
        world.expect(copy, predicates, False)
    assert copy.label_sets().keys() == tallies.label_sets().keys()
